"""Counts topics: coverage by name (table 7), causes per job (table 6), mixtures per query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import TOPIC_SOURCES, Topics
from iqcar.tables.arrays import Floats


def mixture_matrix(found: Topics) -> Floats:
    """Mixtures as (jobs, topics); zeros where a job does not have a topic."""
    matrix = np.zeros((len(found.jobs), len(found.topics)))
    mixture = found.mixtures
    matrix[mixture["job"].to_numpy(np.int64), mixture["topic"].to_numpy(np.int64)] = mixture[
        "share"
    ]
    return matrix


def coverage(found: Topics, names: Sequence[str]) -> pd.DataFrame:
    """Sum the topics of one name: how many jobs they explain in part, and mostly (table 7).

    name, topics (list of rows), jobs, coverage, dominant_coverage, mean_share; the cause of the
    largest dominant coverage first.

    names: name of each topic; topics of one name count as one cause.
    """
    mixtures = mixture_matrix(found)
    jobs = max(len(mixtures), 1)
    some = max(int(mixtures.any(axis=1).sum()), 1)
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        topics = [topic for topic, topic_name in enumerate(names) if topic_name == name]
        share = mixtures[:, topics].sum(axis=1)
        rows.append(
            {
                "name": name,
                "topics": topics,
                "jobs": int((share > 0).sum()),
                "coverage": float((share > 0).sum()) / jobs,
                "dominant_coverage": float((share > 0.5).sum()) / jobs,
                "mean_share": float(share.sum()) / some,
            }
        )
    rows.sort(key=lambda row: (-row["dominant_coverage"], -row["coverage"], row["name"]))
    columns = ["name", "topics", "jobs", "coverage", "dominant_coverage", "mean_share"]
    return pd.DataFrame(rows, columns=columns)


def causes_per_job(found: Topics, names: Sequence[str]) -> dict[int, float]:
    """Share of the jobs by how many causes their mixture has (table 6); 0 for those without."""
    mixtures = mixture_matrix(found)
    numbers = {name: n for n, name in enumerate(dict.fromkeys(names))}
    has = np.zeros((len(mixtures), len(numbers)), bool)
    for topic, name in enumerate(names):
        has[:, numbers[name]] |= mixtures[:, topic] > 0
    counts = np.bincount(has.sum(axis=1)) if len(mixtures) else np.zeros(0, np.int64)
    return {n: int(c) / len(mixtures) for n, c in enumerate(counts) if c}


def query_mixtures(found: Topics) -> pd.DataFrame:
    """Mixture of every query: that of its jobs, each weighed by its stragglers.

    query, stragglers (in its jobs that have a mixture), topic, share; shares of a query sum to 1;
    the query with most stragglers first, then the largest share.
    """
    mixture = found.mixtures
    jobs = found.jobs
    job = mixture["job"].to_numpy(np.int64)
    weight = jobs["stragglers"].to_numpy(np.float64)[job]
    frame = pd.DataFrame(
        {
            "query": jobs["query"].to_numpy(np.int64)[job],
            "topic": mixture["topic"].to_numpy(np.int64),
            "share": mixture["share"].to_numpy(np.float64) * weight,
        }
    )
    frame = frame[(frame["query"] >= 0).to_numpy()]
    total = frame.groupby(["query", "topic"])["share"].sum().reset_index()
    stragglers = total.groupby("query")["share"].transform("sum")
    total = total.assign(stragglers=stragglers.round().astype(np.int64))
    total["share"] = total["share"] / stragglers
    order = np.lexsort((total["topic"], -total["share"], total["query"], -total["stragglers"]))
    whole: pd.DataFrame = total.iloc[order][["query", "stragglers", "topic", "share"]]
    return whole.reset_index(drop=True)


NO_CAUSE, NO_TOPIC = "", -1


def cause_topics(stragglers: Stragglers, found: Topics | None, query: int) -> pd.DataFrame:
    """Count a query's stragglers by cause and topic.

    cause (:data:`NO_CAUSE` for those without), topic (:data:`NO_TOPIC` for those without),
    stragglers, delay_ms; the cause with most delay first, and of it the topic with most. A
    straggler with two causes counts in both.

    found: of the same tables; None where nobody asked.
    query: row of the query.
    """
    rows = stragglers.stragglers[(stragglers.stragglers["query"] == query).to_numpy(bool)]
    causes = stragglers.causes[["straggler", "cause"]]
    joined = rows[["task", "delay_ms"]].join(causes.set_index("straggler"), how="left")
    joined = joined.assign(cause=joined["cause"].astype(object).where(joined["cause"].notna(), ""))
    topic = {} if found is None else dict(
        zip(found.stragglers["task"].tolist(), found.stragglers["topic"].tolist(), strict=True)
    )  # fmt: skip
    joined = joined.assign(topic=[topic.get(task, NO_TOPIC) for task in joined["task"].tolist()])
    counted = joined.groupby(["cause", "topic"], sort=True)["delay_ms"].agg(["size", "sum"])
    counted.columns = pd.Index(["stragglers", "delay_ms"])
    counted = counted.reset_index()
    of_cause = counted.groupby("cause")["delay_ms"].transform("sum").to_numpy(np.float64)
    order = np.lexsort(
        (counted["topic"], -counted["delay_ms"].to_numpy(np.float64), counted["cause"], -of_cause)
    )
    return counted.iloc[order].reset_index(drop=True)


def blamed_of_query(found: Topics, query: int) -> pd.DataFrame:
    """Sum whom iQCAR blames for what a query's stragglers lack, over its jobs.

    topic, resource, kind, query, lost_ms, share (those of a topic sum to 1); the topic first for
    which most was lost, and of it who took most.
    """
    jobs = found.jobs.index[(found.jobs["query"] == query).to_numpy(bool)]
    rows = found.sources[found.sources["job"].isin(jobs).to_numpy(bool)]
    keys = ["topic", "resource", "kind", "query"]
    if not len(rows):
        return TOPIC_SOURCES.empty()[[*keys, "lost_ms", "share"]]
    total = rows.groupby(keys, sort=True)["lost_ms"].sum().reset_index()
    of_topic = total.groupby("topic")["lost_ms"].transform("sum")
    total = total.assign(share=total["lost_ms"] / of_topic)
    order = np.lexsort((total["query"], -total["lost_ms"], total["topic"], -of_topic))
    return total.iloc[order].reset_index(drop=True)
