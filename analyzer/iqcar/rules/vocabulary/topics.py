"""Reads names, sentences and advice for topics and for causes of stragglers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Literal

from iqcar.rules.vocabulary.data_files import Advice, CauseAdvice, read_vocabulary

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Stragglers


CAUSES = "causes.json"
"""Causes of stragglers: name, sentence, and what a Spark engineer would do about each."""


@cache
def straggler_causes() -> Mapping[str, CauseAdvice]:
    """All causes of stragglers by key."""
    return read_vocabulary(CAUSES, "causes", CauseAdvice)


UNEXPLAINED = CauseAdvice("unexplained", "Nothing recorded sets them apart.", "")


def straggler_cause(key: str) -> CauseAdvice:
    """Return one cause; a metric of a trace is called by its own name and has no advice.

    An empty key stands for stragglers that nothing explains.
    """
    if not key:
        return UNEXPLAINED
    known = straggler_causes().get(key)
    return known or CauseAdvice(key, f"Its {key} is far above that of its peers.", "")


def what_helps(key: str, found: Stragglers) -> str:
    """Return the advice against a cause of some stragglers; empty where there is none."""
    return straggler_cause(key).told(found.recorded(key))


TOPIC_NAMES = "topics.json"
"""Names of topics: keywords they are known by, sentence, and what to do about each."""
LEAST_MATCH = 0.5
"""A name fits a topic if its keywords have at least this part of the topic's weight."""


class TopicAdvice(Advice, frozen=True, forbid_unknown_fields=True):
    """One name of a topic, with the words by which it is known."""

    keywords: tuple[str, ...]
    resource: Literal["", "slots", "cpu", "memory", "network", "io"] = ""


@dataclass(frozen=True)
class TopicName:
    """What a topic is called.

    key: key in the vocabulary; empty if no name fits alone
    name, sentence, advice: words; two names where only two together fit, and the keywords without
        advice where not even those do
    resource: what is lacking, of :class:`iqcar.enums.Resource`; empty if the topic is no lack
    """

    key: str
    name: str
    sentence: str
    advice: str
    resource: str


@cache
def topic_vocabulary(path: str = "") -> Mapping[str, TopicAdvice]:
    """Read the names of topics: ours, or those of a file in the same format.

    Raises IqcarError if the file cannot be read or is no such vocabulary.
    """
    return read_vocabulary(TOPIC_NAMES, "topics", TopicAdvice, path, "topics")


RESTS = {"off_cpu_ms(+)": 0.5}
"""Words that tell less than others: this time follows from any cause that nothing else explains."""


def topic_name(words: Mapping[str, float], names: str = "") -> TopicName:
    """Name a topic after its words: the name whose keywords have most of its weight.

    words: weights by word, the heaviest first
    names: path of a vocabulary; ours by default.
    """
    vocabulary = topic_vocabulary(names)
    told = {word: RESTS.get(word, 1.0) * share for word, share in words.items()}
    words = {word: share / sum(told.values()) for word, share in told.items()}
    weights = {
        key: sum(share for word, share in words.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    best = max(weights, key=lambda key: round(weights[key], 9), default="")
    if best and weights[best] >= LEAST_MATCH:
        known = vocabulary[best]
        return TopicName(best, known.name, known.sentence, known.advice, known.resource)
    listed = ", ".join(words) or "no keyword"
    sentence = f"Stragglers stand out by {listed}."
    rest = {word: share for word, share in words.items() if not _fits(word, vocabulary[best])}
    beside = {
        key: sum(share for word, share in rest.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    second = max(beside, key=lambda key: round(beside[key], 9))
    if weights[best] + beside[second] >= LEAST_MATCH and beside[second] > 0:
        two = (vocabulary[best], vocabulary[second])
        both = " and ".join(entry.name for entry in two)
        return TopicName("", both, sentence, " ".join(entry.advice for entry in two), "")
    return TopicName("", listed, sentence, "", "")


def _fits(word: str, known: TopicAdvice) -> bool:
    return any(fnmatchcase(word.lower(), pattern) for pattern in known.keywords)
