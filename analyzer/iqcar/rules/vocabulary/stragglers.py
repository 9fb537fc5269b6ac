"""Names, sentences and advice for causes of stragglers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from iqcar.rules.vocabulary.data_files import Advice, read_vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

CAUSES = "causes.json"
"""Causes of stragglers: name, sentence, and what a Spark engineer would do about each."""


@cache
def straggler_causes() -> Mapping[str, Advice]:
    """All causes of stragglers by key."""
    return read_vocabulary(CAUSES, "causes", Advice)


def straggler_cause(key: str) -> Advice:
    """Return one cause; a metric of a trace is called by its own name and has no advice."""
    known = straggler_causes().get(key)
    return known or Advice(key, f"Its {key} is far above that of its peers.", "")
