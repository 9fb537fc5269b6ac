"""Declares the settings of the search for topics, each with its default and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from iqcar.causes.stragglers.thresholds import Thresholds
from iqcar.enums import LearnerSet


@dataclass(frozen=True)
class TopicSettings(Thresholds):
    """What is a job, what is a topic, and who looks for it (Hound algorithms 1 to 4)."""

    learners: LearnerSet = LearnerSet.RECOMMENDED
    """Which base learners look at each job."""
    seed: int = 0
    """Of the bootstrap replicates; the same seed gives the same topics."""
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
    """Stragglers that the models' mixtures count as, beside a job's own; of `recommended` only."""

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "seed": (0, 2**32 - 1), "straggler": (1, 1e6), "least_tasks": (4, 1e9),
        "least_topics": (1, 100), "most_topics": (1, 100), "coverage": (0, 1),
        "trim": (0, 0.5), "balance": (0, 1), "words": (1, 1e6),
        "prior": (0.01, 1e9),
    }  # fmt: skip
