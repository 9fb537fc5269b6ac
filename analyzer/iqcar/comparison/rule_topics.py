"""Judges the topics of a rule: how many tasks of the queries it is to help have them in two runs.

A topic is known by its keywords, whatever topics either run has by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.causes.stragglers.features import TaskFeatures, build_features
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.causes.topics.topic_of_straggler import straggler_topics
from iqcar.causes.topics.topic_result import (
    MIXTURES,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    VALIDATION,
    Topics,
    TopicSettings,
)
from iqcar.enums import Kind
from iqcar.model.waits.measure import measure_waits
from iqcar.rules.rule import RuleTopic
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints

TIMES = 2.0
"""A topic is rarer if its share is by this factor smaller: stragglers come together, and two runs
of one query on an idle cluster differ by half."""
FEW = 5
"""Stragglers of either run, at least, from which on that is told."""


class TopicChange(Kind):
    """What became of a topic of a rule."""

    RARER = "rarer", "At most half as large a part of the tasks has it."
    AS_BEFORE = "as-before", "Neither half nor twice the part of the tasks has it."
    MORE = "more", "At least twice as large a part of the tasks has it."
    UNKNOWN = "unknown", "Too few stragglers have it, or its keywords are not recorded."


@dataclass(frozen=True)
class CheckedTopic:
    """A topic of a rule in both runs.

    weight: part of the stragglers that had it when the rule was proposed.
    before, after: part of the tasks of the queries it is to help that are stragglers and have it;
        None where none of their stages has enough tasks, or its keywords are not recorded.
    """

    topic: str
    name: str
    resource: str
    weight: float
    before: float | None
    after: float | None
    change: str


def in_words(topics: Sequence[CheckedTopic]) -> str:
    """Return what became of the heaviest topic that is told, as a clause; empty without any."""
    for one in topics:
        known = one.before is not None and one.after is not None
        if known and one.change != TopicChange.UNKNOWN.value:
            now, then = percent(one.after or 0.0), percent(one.before or 0.0)
            return f"; {now} of their tasks have the topic {one.name}, {then} had it"
    return ""


class TopicRun:
    """One run in which topics of rules are looked for."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    @cached_property
    def features(self) -> TaskFeatures:
        """Features of all tasks."""
        edge = StragglerSettings().edge_ms
        return build_features(self.tables, measure_waits(self.tables), edge)

    def having(self, topics: Sequence[RuleTopic], queries: Ints) -> tuple[list[int | None], int]:
        """Count the stragglers of some queries that have each topic, and all their tasks.

        None for a topic of which no keyword is recorded; only stages with 20 tasks count.
        """
        known = {one.name for one in self.features.features}
        words = [
            (number, word, word[:-3], 1 if word.endswith("(+)") else -1, weight)
            for number, topic in enumerate(topics)
            for word, weight in topic.words.items()
            if word[:-3] in known and word[-3:] in ("(+)", "(-)")
        ]
        tasks = self.tables.tasks
        stage = tasks["stage"].to_numpy(np.int64)
        mine = (tasks["query"].isin(queries) & (tasks["status"] == "success")).to_numpy(bool)
        count = np.bincount(stage[mine & (stage >= 0)], minlength=len(self.tables.stages))
        stages = np.flatnonzero(count >= TopicSettings().least_tasks)
        if not len(stages) or not words:
            return [None] * len(topics), int(count[stages].sum())
        columns = ("topic", "word", "feature", "sign", "weight")
        found = straggler_topics(
            Topics(
                topics=TOPICS.empty(),
                words=TOPIC_WORDS.frame(dict(zip(columns, zip(*words, strict=True), strict=True))),
                jobs=_jobs(stages),
                mixtures=_mixtures(len(stages), topics),
                validation=VALIDATION.empty(),
                sources=TOPIC_SOURCES.empty(),
                labels=self.features.labels,
                settings=TopicSettings(),
                reason="",
                doubts=(),
            ),
            self.features,
        )
        told = {number for number, *_ in words}
        having = np.bincount(found["topic"].to_numpy(np.int64), minlength=len(topics)).tolist()
        counts = [having[number] if number in told else None for number in range(len(topics))]
        return counts, int(count[stages].sum())


def _jobs(stages: Ints) -> pd.DataFrame:
    unknown = {name: np.full(len(stages), -1) for name in ("app", "query", "dominant")}
    counts = {name: np.zeros(len(stages)) for name in ("tasks", "stragglers", "delay_ms")}
    return TOPIC_JOBS.frame({"stage": stages, **unknown, **counts})


def _mixtures(jobs: int, topics: Sequence[RuleTopic]) -> pd.DataFrame:
    """Every job may have every topic, as often as when the rule was proposed."""
    return MIXTURES.frame(
        {
            "job": np.repeat(np.arange(jobs), len(topics)),
            "topic": np.tile(np.arange(len(topics)), jobs),
            "share": np.tile([max(topic.weight, 1e-9) for topic in topics], jobs),
        }
    )


def check_topics(
    topics: Sequence[RuleTopic], runs: tuple[TopicRun, TopicRun], fingerprints: Sequence[str]
) -> tuple[CheckedTopic, ...]:
    """Compare how many tasks of some queries have the topics of a rule, before and after.

    fingerprints: Of the queries that the rule is to help, in either run.
    """
    if not topics:
        return ()
    counted = [
        run.having(
            topics, np.flatnonzero(np.isin(texts(run.tables.queries, "fingerprint"), fingerprints))
        )
        for run in runs
    ]
    return tuple(
        _checked(topic, *((counts[number], tasks) for counts, tasks in counted))
        for number, topic in enumerate(topics)
    )


def _checked(
    topic: RuleTopic, before: tuple[int | None, int], after: tuple[int | None, int]
) -> CheckedTopic:
    parts = [
        having / tasks if having is not None and tasks else None
        for having, tasks in (before, after)
    ]
    old, new = parts
    change = TopicChange.UNKNOWN
    if old is not None and new is not None and max(before[0] or 0, after[0] or 0) >= FEW:
        rarer, more = new * TIMES <= old, old * TIMES <= new
        change = TopicChange.RARER if rarer else TopicChange.MORE if more else TopicChange.AS_BEFORE
    return CheckedTopic(
        topic=topic.topic, name=topic.name, resource=topic.resource, weight=topic.weight,
        before=old, after=new, change=change.value,
    )  # fmt: skip
