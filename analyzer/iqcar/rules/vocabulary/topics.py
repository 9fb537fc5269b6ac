"""Names of topics in plain words, with advice; none of it ever becomes a scheduler pool."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from iqcar.errors import IqcarError
from iqcar.rules.vocabulary.data_files import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC_NAMES = "topics.json"
"""Names of topics: keywords they are known by, sentence, and what to do about each."""
LEAST_MATCH = 0.5
"""A name fits a topic if its keywords have at least this part of the topic's weight."""
MOST_BYTES = 1_000_000
"""A vocabulary larger than this is none."""


class TopicAdvice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One name: what it is called, what it means, what to do, and by which words it is known."""

    name: str
    sentence: str
    advice: str
    keywords: tuple[str, ...]
    resource: Literal["", "slots", "cpu", "memory", "network", "io"] = ""


class _Vocabulary(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: Literal["1"]
    acts_on: Literal["advice"]
    topics: Annotated[dict[str, TopicAdvice], msgspec.Meta(min_length=1)]


@dataclass(frozen=True)
class TopicName:
    """What a topic is called.

    Attributes
    ----------
    key : key in the vocabulary; empty if no name fits alone
    name, sentence, advice : words; two names where only two together fit, and the keywords
        without advice where not even those do
    resource : what is lacking, of :class:`iqcar.enums.Resource`; empty if the topic is no lack
    """

    key: str
    name: str
    sentence: str
    advice: str
    resource: str


@cache
def topic_vocabulary(path: str = "") -> Mapping[str, TopicAdvice]:
    """Read the names of topics: ours, or those of a file in the same format.

    Raises
    ------
    IqcarError
        If the file cannot be read or is no such vocabulary.
    """
    if not path:
        return msgspec.json.decode(read_data(TOPIC_NAMES), type=_Vocabulary).topics
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise IqcarError(f"cannot be read: {error.strerror or error}", path) from error
    if len(data) > MOST_BYTES:
        raise IqcarError("is too large for names of topics", path)
    try:
        return msgspec.json.decode(data, type=_Vocabulary).topics
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        advice = "see rules/topics.json for the format"
        raise IqcarError(f"is no vocabulary of topics: {error}", path, advice) from error


def topic_name(words: Mapping[str, float], names: str = "") -> TopicName:
    """Name a topic after its words: the name whose keywords have most of its weight.

    Parameters
    ----------
    words : weights by word, the heaviest first
    names : path of a vocabulary; ours by default
    """
    vocabulary = topic_vocabulary(names)
    weights = {
        key: sum(share for word, share in words.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    best = max(weights, key=lambda key: round(weights[key], 9), default="")
    if best and weights[best] >= LEAST_MATCH:
        known = vocabulary[best]
        return TopicName(best, known.name, known.sentence, known.advice, known.resource)
    listed = ", ".join(words)
    sentence = f"Stragglers stand out by {listed}."
    rest = {word: share for word, share in words.items() if not _fits(word, vocabulary[best])}
    beside = {
        key: sum(share for word, share in rest.items() if _fits(word, known))
        for key, known in vocabulary.items()
    }
    second = max(beside, key=lambda key: round(beside[key], 9))
    if weights[best] + beside[second] >= LEAST_MATCH and beside[second] > 0:
        two = (vocabulary[best], vocabulary[second])
        both = " and ".join(one.name for one in two)
        return TopicName("", both, sentence, " ".join(one.advice for one in two), "")
    return TopicName("", listed, sentence, "", "")


def _fits(word: str, known: TopicAdvice) -> bool:
    return any(fnmatchcase(word.lower(), pattern) for pattern in known.keywords)
