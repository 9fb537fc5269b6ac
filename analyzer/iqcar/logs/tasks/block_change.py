"""A change of a block in storage memory; quick to import, as what decodes it must be."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Told(IntEnum):
    """Where a change of a block is told."""

    EVENT = 0
    TASK = 1
    UNPERSIST = 2


class BlockChange(NamedTuple):
    """A block's size in an executor's memory from a time on.

    time_ms: since the epoch; NaN where the log told no time yet.
    told: a Told.
    size: bytes; of UNPERSIST the number of the RDD, all of whose blocks go.
    """

    time_ms: float
    told: int
    executor: str
    block: str
    size: float
