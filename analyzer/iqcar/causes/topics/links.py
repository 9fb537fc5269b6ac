"""Links a query's stragglers to causes, causes to topics, and topics to blamed queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.causes.topics.topic_result import TOPIC_SOURCES, Topics

if TYPE_CHECKING:
    from iqcar.causes.stragglers import Stragglers

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
    whole: pd.DataFrame = counted.iloc[order].reset_index(drop=True)
    return whole


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
    whole: pd.DataFrame = total.iloc[order].reset_index(drop=True)
    return whole
