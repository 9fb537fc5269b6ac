"""Names, sentences and advice for causes of stragglers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from iqcar.rules.vocabulary.data_files import CauseAdvice, read_vocabulary

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
