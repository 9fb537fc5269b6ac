"""Holds the ten questions, easy to hard; what is true and what a program believes answer alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

BINS = (0.1, 0.3, 0.5)
"""Bounds of the answers to "how much": under 10 %, 10 to 30 %, 30 to 50 %, more."""
ANSWERS = ("under 10 %", "10 to 30 %", "30 to 50 %", "over 50 %")
NOBODY = "cannot tell"
VICTIMS = 3
"""Queries about which it is asked who delayed them: those that lost most."""


class Facts(Protocol):
    """What a program knows of the run; NaN or nothing where it does not."""

    @property
    def lost(self) -> Mapping[str, float]:
        """Share of its run that each query lost to others."""

    def cost(self, victim: str) -> Mapping[str, float]:
        """By how much the victim's run would be shorter without each other query, as a share."""

    def gain_of_others(self, source: str) -> float:
        """Seconds that all others would gain together without a query."""


@dataclass(frozen=True)
class Truth:
    """What runs without each query, and of each alone, took: seconds."""

    ran_s: Mapping[str, float]
    alone_s: Mapping[str, float]
    without_s: Mapping[tuple[str, str], float]

    @property
    def lost(self) -> dict[str, float]:
        return {name: 1.0 - self.alone_s[name] / ran for name, ran in self.ran_s.items()}

    def cost(self, victim: str) -> dict[str, float]:
        ran = self.ran_s[victim]
        return {
            other: 1.0 - self.without_s[victim, other] / ran
            for other in self.ran_s
            if other != victim
        }

    def gain_of_others(self, source: str) -> float:
        return sum(
            ran - self.without_s[name, source] for name, ran in self.ran_s.items() if name != source
        )


@dataclass(frozen=True)
class Question:
    """A question, and how facts answer it."""

    level: str
    text: str
    right: Callable[[Facts], str]


def questions(truth: Truth) -> list[Question]:
    """Ask about the run whose truth this is: three easy, four medium, three hard questions."""
    names = list(truth.ran_s)
    victims = sorted(names, key=lambda name: -truth.lost[name])[:VICTIMS]
    worst, least = victims[0], min(names, key=lambda name: truth.lost[name])
    culprit = _most(truth.cost(worst))
    return [
        Question("easy", "Which query lost the largest part of its run?", _worst),
        Question("easy", f"How much of its run did {worst} lose?", _lost(worst)),
        Question("easy", f"How much of its run did {least} lose?", _lost(least)),
        *(
            Question("medium", f"Which query delayed {name} most?", _culprit(name))
            for name in victims
        ),
        Question("medium", "Which of them lost the smallest part of its run?", _best),
        Question(
            "hard", f"By how much is {worst} shorter without {culprit}?", _without(worst, culprit)
        ),
        Question("hard", "Without which query do all others gain most?", _aggressor(names)),
        Question(
            "hard", f"Which query delayed {worst} most after {culprit}?", _second(worst, culprit)
        ),
    ]


def _most(shares: Mapping[str, float]) -> str:
    known = {name: share for name, share in shares.items() if share == share}
    return max(known, key=lambda name: known[name]) if known else NOBODY


def _worst(facts: Facts) -> str:
    return _most(facts.lost)


def _best(facts: Facts) -> str:
    return _most({name: -share for name, share in facts.lost.items()})


def _lost(name: str) -> Callable[[Facts], str]:
    return lambda facts: _bin(facts.lost.get(name, float("nan")))


def _culprit(name: str) -> Callable[[Facts], str]:
    return lambda facts: _most(facts.cost(name))


def _second(name: str, first: str) -> Callable[[Facts], str]:
    def answer(facts: Facts) -> str:
        cost = facts.cost(name)
        return _most({other: share for other, share in cost.items() if other != first})

    return answer


def _without(name: str, other: str) -> Callable[[Facts], str]:
    return lambda facts: _bin(facts.cost(name).get(other, float("nan")))


def _aggressor(names: list[str]) -> Callable[[Facts], str]:
    return lambda facts: _most({name: facts.gain_of_others(name) for name in names})


def _bin(share: float) -> str:
    if share != share:
        return NOBODY
    return ANSWERS[sum(share >= bound for bound in BINS)]
