"""Settings of the search for topics, each with its default and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from iqcar.enums import LearnerSet
from iqcar.errors import UsageError


@dataclass(frozen=True)
class TopicSettings:
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

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        bounds = {
            "seed": (0, 2**32 - 1), "straggler": (1, 1e6), "least_tasks": (4, 1e9),
            "least_topics": (1, 100), "most_topics": (1, 100), "coverage": (0, 1),
            "trim": (0, 0.5), "balance": (0, 1), "words": (1, 1e6),
            "prior": (0.01, 1e9),
        }  # fmt: skip
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{value} is not from {low} to {high:g}", f"settings: {name}")

    @classmethod
    def parse(cls, text: str, start: TopicSettings | None = None) -> TopicSettings:
        """Read ``name=value,name=value``; what is not named stays as in `start`.

        Raises
        ------
        UsageError
            If a name is unknown or a value does not fit it.
        """
        found = start or cls()
        types: dict[str, Any] = {f.name: type(f.default) for f in fields(cls)}
        for part in (one.strip() for one in text.split(",") if one.strip()):
            name, sign, value = (piece.strip() for piece in part.partition("="))
            if name not in types or not sign:
                raise UsageError(
                    f"{part!r} is no setting", "--settings", f"use NAME=VALUE of {', '.join(types)}"
                )
            found = replace(found, **{name: _read(name, value, types[name])})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "learners": str(self.learners)}


def _read(name: str, value: str, of: type) -> Any:
    try:
        return of(value)
    except ValueError:
        if of is LearnerSet:
            words = f"one of {', '.join(LearnerSet)}"
        else:
            words = "a whole number" if of is int else "a number"
        raise UsageError(f"{value!r} is not {words}", f"settings: {name}") from None
