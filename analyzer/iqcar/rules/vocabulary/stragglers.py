"""Causes of stragglers in plain words, with advice; none of it ever becomes a scheduler pool."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

import msgspec

from iqcar.rules.vocabulary.data_files import read_data
from iqcar.rules.vocabulary.lost_time import Advice

if TYPE_CHECKING:
    from collections.abc import Mapping

CAUSES = "causes.json"
"""Causes of stragglers: name, sentence, and what a Spark engineer would do about each."""


class _Vocabulary(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: str
    acts_on: Literal["advice"]
    causes: dict[str, Advice]


@cache
def straggler_causes() -> Mapping[str, Advice]:
    """All causes of stragglers by key."""
    return msgspec.json.decode(read_data(CAUSES), type=_Vocabulary).causes


def straggler_cause(key: str) -> Advice:
    """Return one cause; a metric of a trace is called by its own name and has no advice."""
    known = straggler_causes().get(key)
    return known or Advice(key, f"Its {key} is far above that of its peers.", "")
