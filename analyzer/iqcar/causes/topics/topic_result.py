"""Declares the tables of topics, of their words, of jobs with their mixtures, and of evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from iqcar.causes.stragglers.straggler_result import Labels, Thresholds
from iqcar.tables.declarations import TableSpec, declare

FEW_JOBS = 20
"""With fewer jobs, a topic of 5 % of them is one job: nothing is known to recur."""


@dataclass(frozen=True)
class TopicSettings(Thresholds):
    """What is a job, and what is a topic (Hound algorithms 3 and 4)."""

    straggler: float = 1.5
    """A straggler took more than this times its job's median (§1)."""
    least_tasks: int = 20
    """Jobs of fewer tasks say too little (§4.1)."""
    least_topics: int = 5
    """k_min: topics that the growing starts with (algorithm 3)."""
    most_topics: int = 30
    """Where the growing ends at the latest; the paper reports at most 15."""
    coverage: float = 0.05
    """ε: a topic that fewer of the jobs have is none, and ends the growing (algorithm 3)."""
    trim: float = 0.1
    """η: words of a topic and topics of a job that weigh less are dropped (algorithms 3, 4)."""
    balance: float = 2 / 3
    """λ: weight of likeness inside clusters against unlikeness between them (algorithm 4)."""
    words: int = 500
    """W: words of a job's document (algorithm 3); expected counts, nothing is drawn."""
    prior: float = 4.0
    """Stragglers that the model's mixtures count as, beside a job's own."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "straggler": (1, 1e6), "least_tasks": (4, 1e9), "least_topics": (1, 100),
        "most_topics": (1, 100), "coverage": (0, 1), "trim": (0, 0.5), "balance": (0, 1),
        "words": (1, 1e6), "prior": (0.01, 1e9),
    }  # fmt: skip


TOPICS = TableSpec(
    "topics",
    "One row per topic: a cause of stragglers that recurs in many jobs; the most frequent first.",
    declare(
        ("jobs", "int32", "count", "Jobs that have it in their mixture."),
        ("coverage", "float64", "", "Share of the jobs whose stragglers it explains in part."),
        ("dominant_coverage", "float64", "", "Share of the jobs most of whose stragglers it "
         "explains."),
        ("mean_share", "float64", "", "Its mean part of the mixtures of all jobs that have one."),
    ),
)  # fmt: skip

TOPIC_WORDS = TableSpec(
    "topic_words",
    "One row per keyword of a topic, the heaviest first.",
    declare(
        ("topic", "int32", "row", "The topic."),
        ("word", "str", "", "The metric, with (+) where stragglers have more, (-) less."),
        ("feature", "str", "", "The metric."),
        ("sign", "int8", "", "1 where stragglers have more of it, −1 less."),
        ("weight", "float64", "", "Its part of the topic; those of a topic sum to 1."),
    ),
)

TOPIC_JOBS = TableSpec(
    "topic_jobs",
    "One row per job: a stage attempt with enough tasks and a straggler.",
    declare(
        ("stage", "int32", "row", "The stage attempt; of a trace the job."),
        ("app", "int32", "row", "Its application."),
        ("query", "int32", "row", "Its query; −1 if none."),
        ("tasks", "int32", "count", "Tasks."),
        ("stragglers", "int32", "count", "Tasks that took more than 1.5 times the median."),
        ("delay_ms", "float64", "ms", "What the stragglers took over the median, in all."),
        ("dominant", "int32", "row", "The topic of most of its stragglers; −1 if there is none."),
    ),
)  # fmt: skip

MIXTURES = TableSpec(
    "mixtures",
    "One row per job and topic in its mixture.",
    declare(
        ("job", "int32", "row", "The job."),
        ("topic", "int32", "row", "The topic."),
        ("share", "float64", "", "Part of the job's stragglers; those of a job sum to 1."),
    ),
)

VALIDATION = TableSpec(
    "topic_validation",
    "One row per job and keyword of its topics: whether its stragglers differ there (§5.2).",
    declare(
        ("job", "int32", "row", "The job."),
        ("topic", "int32", "row", "The topic."),
        ("feature", "str", "", "The metric."),
        ("p_value", "float64", "", "Of the Wilcoxon rank-sum test of stragglers and others."),
        ("quartile_difference", "float64", "", "MQD: mean difference of the quartiles, in "
         "interquartile ranges of the job."),
        ("agrees", "bool", "", "Whether p < 0.05 and the difference has the keyword's sign."),
    ),
)  # fmt: skip

STRAGGLER_TOPICS = TableSpec(
    "straggler_topics",
    "One row per straggler whose own features bear out a topic of its job.",
    declare(
        ("task", "int32", "row", "The straggler."),
        ("job", "int32", "row", "Its job."),
        ("topic", "int32", "row", "The topic of the job's mixture that it bears out most."),
        ("score", "float64", "", "Mean distance of its keywords from the job's normal tasks, "
         "in the topic's direction, by weight; in robust standard deviations, each 10 at most."),
    ),
)  # fmt: skip

TOPIC_SOURCES = TableSpec(
    "topic_sources",
    "One row per job, topic that is a lack of a resource, and who iQCAR blames for that: on the "
    "hosts and during the stragglers of the job that have the topic.",
    declare(
        ("job", "int32", "row", "The job."),
        ("topic", "int32", "row", "The topic."),
        ("resource", "str", "", "The resource."),
        ("kind", "str", "", "query, own, known or unattributed."),
        ("query", "int32", "row", "The query blamed; −1 for the last two kinds."),
        ("lost_ms", "float64", "ms", "Task time lost to it there and then."),
        ("share", "float64", "", "Its part; those of a job and topic sum to 1."),
    ),
)


@dataclass(frozen=True)
class Topics:
    """Causes of stragglers that recur, and which job has which.

    topics: frame of `TOPICS`.
    words: frame of `TOPIC_WORDS`.
    jobs: frame of `TOPIC_JOBS`.
    mixtures: frame of `MIXTURES`.
    validation: frame of `VALIDATION`.
    sources: frame of `TOPIC_SOURCES`; empty until somebody is asked who is blamed.
    reason: why there are no topics; empty if there are.
    stragglers: frame of `STRAGGLER_TOPICS`; empty until each is analysed.
    """

    topics: pd.DataFrame
    words: pd.DataFrame
    jobs: pd.DataFrame
    mixtures: pd.DataFrame
    validation: pd.DataFrame
    sources: pd.DataFrame
    labels: Labels
    settings: TopicSettings
    reason: str
    doubts: tuple[str, ...]
    stragglers: pd.DataFrame = field(default_factory=STRAGGLER_TOPICS.empty)

    def words_of(self, topic: int) -> dict[str, float]:
        """Keywords of a topic with their weights, the heaviest first."""
        words = self.words[(self.words["topic"] == topic).to_numpy()]
        return dict(zip(words["word"].tolist(), words["weight"].tolist(), strict=True))

    def __repr__(self) -> str:
        """Count them."""
        return f"<Topics: {len(self.topics)} in {len(self.jobs)} jobs>"
