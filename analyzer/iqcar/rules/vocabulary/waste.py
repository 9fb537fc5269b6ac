"""Names, sentences and advice for causes of wasted work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from iqcar.enums import WasteCause
from iqcar.logs.text.linear import compiled, encoded
from iqcar.rules.vocabulary.data_files import Advice, read_vocabulary

WASTED = "wasted.json"
"""Causes of wasted work: name, sentence, and what a Spark engineer would do about each."""

_LOST_FOR = (
    (
        "executor-lost-memory",
        # 52 is Spark's own exit code after an OutOfMemoryError.
        r"memory limit|out ?of ?memory|OOMKilled|(?:code|status)(?: is)?\W{1,3}52\b",
    ),
    (
        "executor-lost-killed",
        r"(?:code|status)(?: is)?\W{1,3}137\b|killed by external signal|SIGKILL",
    ),
    ("executor-lost-silent", r"heartbeat"),
)
"""What Spark says of a lost executor, in the words of its cluster managers, from sure to unsure."""


@cache
def waste_causes() -> Mapping[str, Advice]:
    """All causes of wasted work by key: those of ``WasteCause``, and kinds of lost executor."""
    return read_vocabulary(WASTED, "causes", Advice)


def waste_cause(cause: str, message: str) -> Advice:
    """Return what is known of one cause.

    Parameters
    ----------
    cause : str
        A value of :class:`iqcar.enums.WasteCause`.
    message : str
        What Spark said of it.
    """
    key = cause
    if cause == WasteCause.EXECUTOR_LOST:
        for kind, words in _LOST_FOR:
            if compiled(f"(?i){words}").search(encoded(message)) is not None:
                key = kind
                break
    return waste_causes()[key]
