"""Finds each straggler's topic: the one of its job's mixture that its features support best.

A mixture is a property of a job; a straggler has one of its topics, or none. Each keyword of a
topic is held against the job's normal tasks: how far is the straggler from their median, in the
keyword's direction, in robust standard deviations (median absolute deviation).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.find_stragglers import ON_HOSTS, blamed_during
from iqcar.causes.topics.topic_result import STRAGGLER_TOPICS, TOPIC_SOURCES, Topics
from iqcar.enums import Request, Resource
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints

BEARS_OUT = 3.0
"""Score from which on a topic is borne out. Of normal tasks one in 740 is as far off in a keyword,
were they spread normally; Iglewicz and Hoaglin advise 3.5 for single outliers."""
MOST_DEVIATIONS = 10.0
"""What one keyword counts at most: with a third of a topic's weight it can bear it out alone."""
NORMAL_SCALE = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
LEAST_SPREAD = 0.02
"""Spread of a keyword at least, as a share of its median, for times also of the job's latency:
tasks that differ by less did the same, however alike the others are."""


def straggler_topics(found: Topics, features: TaskFeatures) -> pd.DataFrame:
    """Find the topic of every straggler.

    Frame of `STRAGGLER_TOPICS`. By job and task; stragglers that bear out no topic of their job
    have no row. Of several topics that are borne out the one with the largest product of score and
    share of the mixture counts: whoever has more data waits longer for the processor too, and a
    topic of one keyword is borne out more easily than one of six.

    features: those that the topics were found from.
    """
    keywords = _keywords(found)
    rows_of = _rows_of(found, features)
    units = {item.name: item.unit for item in features.features}
    latency = features.column("duration_ms")
    task = features.frame["task"].to_numpy(np.int64)
    of_job = {int(str(job)): part for job, part in found.mixtures.groupby("job", sort=True)}
    parts: list[tuple[Ints, int, Ints, Floats]] = []
    for job, mixture in of_job.items():
        rows = rows_of.get(int(found.jobs["stage"].iloc[job]), np.zeros(0, np.int64))
        if not len(rows):
            continue
        median = float(np.median(latency[rows]))
        slow = latency[rows] > found.settings.straggler * median
        topics = mixture.sort_values("share", ascending=False, kind="stable")["topic"].tolist()
        scores = np.empty((len(topics), int(slow.sum())))
        for number, topic in enumerate(topics):
            scores[number] = score(
                {name: features.column(name)[rows] for name, _, _ in keywords.get(topic, ())},
                keywords.get(topic, []),
                slow,
                {name: median if unit == "ms" else 0.0 for name, unit in units.items()},
            )
        if not scores.size:
            continue
        shares = mixture["share"].sort_values(ascending=False, kind="stable").to_numpy(np.float64)
        best = np.where(scores >= BEARS_OUT, scores * shares[:, None], 0.0).argmax(axis=0)
        most = scores[best, np.arange(scores.shape[1])]
        kept = most >= BEARS_OUT
        parts.append(
            (task[rows[slow]][kept], job, np.array(topics, np.int64)[best[kept]], most[kept])
        )
    if not parts:
        return STRAGGLER_TOPICS.empty()
    tasks, jobs, chosen, scored = zip(*parts, strict=True)
    counts = [len(item) for item in tasks]
    return STRAGGLER_TOPICS.frame(
        {
            "task": np.concatenate(tasks),
            "job": np.repeat(jobs, counts),
            "topic": np.concatenate(chosen),
            "score": np.concatenate(scored),
        }
    )


def score(
    values: dict[str, Floats],
    keywords: list[tuple[str, int, float]],
    slow: Flags,
    latency_ms: dict[str, float],
) -> Floats:
    """How far the stragglers of a job bear out a topic.

    Shape (stragglers,). Mean of the keywords' deviations in their direction, by weight. What is
    unknown of a straggler, or of most normal tasks, speaks for nothing: it counts as no deviation.

    values: (tasks,) of each keyword's feature; NaN where unknown.
    keywords: (feature, sign, weight).
    slow: (tasks,) which of them are stragglers.
    latency_ms: of features that are times, the job's median latency; else 0.
    """
    total = np.zeros(int(slow.sum()))
    weights = sum(weight for _, _, weight in keywords)
    for name, sign, weight in keywords:
        off = sign * deviations(values[name], slow, LEAST_SPREAD * latency_ms.get(name, 0.0))
        total += weight * np.clip(np.nan_to_num(off), -MOST_DEVIATIONS, MOST_DEVIATIONS)
    return total / weights if weights > 0 else total


def deviations(values: Floats, slow: Flags, least: float) -> Floats:
    """Distance of the stragglers from the median of the normal tasks, in robust deviations.

    Shape (stragglers,). NaN where unknown, or where most of the normal tasks are; infinite where
    the normal tasks are all at 0 and the straggler is not.

    values: (tasks,) NaN where unknown.
    slow: (tasks,).
    least: smallest spread that counts, in the unit of `values`.
    """
    normal = values[~slow]
    known = normal[np.isfinite(normal)]
    if 2 * len(known) < max(len(normal), 1):
        return np.full(int(slow.sum()), np.nan)
    middle = float(np.median(known))
    spread = NORMAL_SCALE * float(np.median(np.abs(known - middle)))
    spread = max(spread, LEAST_SPREAD * abs(middle), least)
    off = values[slow] - middle
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(off == 0, 0.0, off / spread)
    return found


def _keywords(found: Topics) -> dict[int, list[tuple[str, int, float]]]:
    words = found.words
    listed: dict[int, list[tuple[str, int, float]]] = {}
    for topic, name, sign, weight in zip(
        words["topic"].tolist(), words["feature"].tolist(), words["sign"].tolist(),
        words["weight"].tolist(), strict=True,
    ):  # fmt: skip
        listed.setdefault(int(topic), []).append((str(name), int(sign), float(weight)))
    return listed


def _rows_of(found: Topics, features: TaskFeatures) -> dict[int, Ints]:
    """Rows of the tasks of each job's stage that topics are found from."""
    frame = features.frame
    latency = features.column("duration_ms")
    usable = frame["compared"].to_numpy(bool) & np.isfinite(latency) & (latency > 0)
    stage = frame["stage"].to_numpy(np.int64)
    usable &= np.isin(stage, found.jobs["stage"].to_numpy(np.int64))
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(stage[rows], kind="stable")]
    if not len(rows):
        return {}
    stages, first = np.unique(stage[rows], return_index=True)
    return dict(zip(stages.tolist(), np.split(rows, first[1:]), strict=True))


REQUESTS_OF_TOPICS = (
    *ON_HOSTS, Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY, Request.SLOT_WAIT,
)  # fmt: skip
"""Waits that are a lack of a resource; for locks and signals no topic lacks one."""


def blamed_for(
    found: Topics, resources: Mapping[int, str], tables: Tables, blame: Blame
) -> pd.DataFrame:
    """Link topics that are a lack of a resource to the queries blamed for it, there and then.

    A straggler waits for a slot from its stage's submission to its launch: who held slots of its
    host then was in its way. Frame of `TOPIC_SOURCES`. The largest share of each job and topic
    first; no rows where none of its stragglers lost time to the resource.

    found: of the same tables, with the topics of its stragglers.
    resources: mapping of topic to `Resource`, of those that lack one.
    """
    stragglers = found.stragglers
    resource = stragglers["topic"].map(resources)
    stragglers = stragglers[resource.notna().to_numpy(bool)].assign(resource=resource.dropna())
    if not len(stragglers):
        return TOPIC_SOURCES.empty()
    pairs = stragglers[["job", "topic"]].drop_duplicates().sort_values(["job", "topic"])
    number = {pair: n for n, pair in enumerate(pairs.itertuples(index=False, name=None))}
    tasks = tables.tasks.iloc[stragglers["task"].to_numpy(np.int64)]
    stage = tasks["stage"].to_numpy(np.int64)
    for_slots = (stragglers["resource"] == Resource.SLOTS.value).to_numpy(bool)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    submitted = tables.stages["submission_ms"].to_numpy(np.float64)[stage]
    moments = pd.DataFrame(
        {
            "what": [
                number[p] for p in stragglers[["job", "topic"]].itertuples(index=False, name=None)
            ],
            "resource": stragglers["resource"].to_numpy(object),
            "stage": stage,
            "host": tasks["host"].to_numpy(np.int64),
            "launch": np.where(for_slots, submitted, launch),
            "finish": np.where(for_slots, launch, tasks["finish_ms"].to_numpy(np.float64)),
        }
    )
    total = blamed_during(moments, tables, blame, REQUESTS_OF_TOPICS)
    if not len(total):
        return TOPIC_SOURCES.empty()
    what = total["what"].to_numpy(np.int64)
    job, topic = pairs["job"].to_numpy(np.int64)[what], pairs["topic"].to_numpy(np.int64)[what]
    return TOPIC_SOURCES.frame(
        {
            "job": job,
            "topic": topic,
            "resource": [str(resources[int(row)]) for row in topic],
            "kind": total["kind"].tolist(),
            "query": total["query"].to_numpy(np.int64),
            "lost_ms": total["lost_ms"].to_numpy(np.float64),
            "share": total["share"].to_numpy(np.float64),
        }
    )
