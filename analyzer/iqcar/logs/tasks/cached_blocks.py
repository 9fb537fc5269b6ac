"""Keeps the sizes of blocks in storage memory over time, by executor and RDD, in bounded memory.

Spark tells each change of a block in an event of its own, if it is asked to
(``spark.eventLog.logBlockUpdates.enabled``), and up to version 2.2 in the metrics of the task that
made it. Events of blocks have no time: the last time that a task started or ended before counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.logs.tasks.block_change import BlockChange, Told
from iqcar.tables import LAST_PLAUSIBLE_MS, NONE

MOST_BLOCKS = 1_000_000
"""Blocks in memory at one time that are followed; with more, nothing is known of any."""
MOST_SERIES = 100_000
"""Pairs of executor and RDD that are told apart; blocks of further RDDs are of no known RDD."""
MOST_CHANGES = 1_000_000
"""Changes that are kept of a log; with more, neighbouring ones are joined, with their mean."""
LONGEST_NAME = 200
"""Characters of the longest name of a block or an executor; longer ones are damage."""
_RDD = "rdd_"


class Held(NamedTuple):
    """What an executor held of an RDD: ``sizes[i]`` bytes from ``times[i]`` to the next."""

    executor: str
    rdd: int
    times: NDArray[np.float64]
    sizes: NDArray[np.float64]


class _Series:
    """Blocks of one RDD in one executor, and their size over time."""

    def __init__(self) -> None:
        self.blocks: dict[str, float] = {}
        self.total = 0.0
        self.times: list[float] = []
        self.sizes: list[float] = []

    def copy(self, time_ms: float) -> _Series:
        """Return a copy that begins at a time."""
        part = _Series()
        part.blocks, part.total = dict(self.blocks), self.total
        first = max(int(np.searchsorted(self.times, time_ms, side="right")) - 1, 0)
        part.times, part.sizes = self.times[first:], self.sizes[first:]
        return part

    def put(self, time_ms: float, block: str, size: float) -> int:
        """Set a block's size; return by how many the changes grew."""
        self.total += size - self.blocks.pop(block, 0.0)
        if size > 0:
            self.blocks[block] = size
        return self._change(time_ms)

    def clear(self, time_ms: float) -> int:
        """Drop all blocks; return by how many the changes grew."""
        self.blocks.clear()
        return self._change(time_ms)

    def _change(self, time_ms: float) -> int:
        if not self.blocks:
            self.total = 0.0  # no rounding error is left
        if self.times and self.sizes[-1] == self.total:
            return 0
        if self.times and time_ms <= self.times[-1]:
            self.sizes[-1] = self.total
            return 0
        self.times.append(time_ms)
        self.sizes.append(self.total)
        return 1

    def thin(self) -> int:
        """Join each two neighbouring spans into one with their mean; return the changes left."""
        spans = (len(self.times) - 1) // 2 * 2
        if spans:
            times, sizes = np.array(self.times), np.array(self.sizes)
            held = (np.diff(times[: spans + 1]) * sizes[:spans]).reshape(-1, 2).sum(axis=1)
            joined = held / (times[2 : spans + 1 : 2] - times[:spans:2])
            self.times = [*times[:spans:2].tolist(), *times[spans:].tolist()]
            self.sizes = [*joined.tolist(), *sizes[spans:].tolist()]
        return len(self.times)


class CachedBlocks:
    """Follows the blocks of one log.

    Attributes
    ----------
    too_many : whether there were too many blocks to follow.
    """

    def __init__(self) -> None:
        self.too_many = False
        self._now = nan
        self._in_events = False
        self._early: list[BlockChange] = []
        self._series: dict[tuple[str, int], _Series] = {}
        self._of_rdd: dict[float, list[_Series]] = {}
        self._blocks = self._changes = 0

    def take(self, changes: list[BlockChange], now_ms: float) -> None:
        """Take in changes, in the order of the log, and the time that it had reached after them."""
        for change in changes:
            if not self.too_many:
                self._take(change)
        self._see(now_ms)

    def since(self, time_ms: float) -> CachedBlocks:
        """Return a copy without what had left memory before a time."""
        part = CachedBlocks()
        part.too_many, part._now = self.too_many, self._now
        part._in_events, part._early, part._blocks = self._in_events, [*self._early], self._blocks
        for key, series in self._series.items():
            if series.blocks or not series.times or series.times[-1] >= time_ms:
                part._add(key, series.copy(time_ms))
        part._changes = sum(len(series.times) for series in part._series.values())
        return part

    def held(self) -> Iterator[Held]:
        """Return what executors held of each RDD; −1 stands for all blocks that are of none."""
        for (executor, rdd), series in self._series.items():
            yield Held(executor, rdd, np.array(series.times), np.array(series.sizes))

    def _see(self, time_ms: float) -> None:
        if not 0 <= time_ms < LAST_PLAUSIBLE_MS:
            return
        self._now = time_ms
        early, self._early = self._early, []
        for change in early:
            self._apply(change, time_ms)

    def _take(self, change: BlockChange) -> None:
        self._see(change.time_ms)
        self._in_events |= change.told == Told.EVENT
        if change.told == Told.TASK and self._in_events:
            return  # its event was there before, and the block may have left memory since
        if self._now == self._now:
            self._apply(change, self._now)
        elif len(self._early) < MOST_BLOCKS:
            self._early.append(change)
        else:
            self._give_up()

    def _apply(self, change: BlockChange, time_ms: float) -> None:
        if not change.size >= 0:
            return
        if change.told == Told.UNPERSIST:
            for series in self._of_rdd.get(change.size, ()):
                self._blocks -= len(series.blocks)
                self._changes += series.clear(time_ms)
        elif max(len(change.executor), len(change.block)) <= LONGEST_NAME:
            series = self._find(change.executor, rdd_of(change.block))
            before = len(series.blocks)
            self._changes += series.put(time_ms, change.block, change.size)
            self._blocks += len(series.blocks) - before
        if self._changes > MOST_CHANGES:
            self._changes = sum(series.thin() for series in self._series.values())
        if self._blocks > MOST_BLOCKS:
            self._give_up()

    def _find(self, executor: str, rdd: int) -> _Series:
        found = self._series.get((executor, rdd))
        if found is None and rdd != NONE and len(self._series) >= MOST_SERIES:
            return self._find(executor, NONE)
        return found or self._add((executor, rdd), _Series())

    def _add(self, key: tuple[str, int], series: _Series) -> _Series:
        self._series[key] = series
        self._of_rdd.setdefault(key[1], []).append(series)
        return series

    def _give_up(self) -> None:
        self.too_many = True
        self._early, self._series, self._of_rdd = [], {}, {}
        self._blocks = self._changes = 0


def rdd_of(block: str) -> int:
    """Return the number of a block's RDD; −1 for a block of none.

    >>> rdd_of("rdd_12_0"), rdd_of("broadcast_3_piece0")
    (12, -1)
    """
    number = block[len(_RDD) :].partition("_")[0]
    is_one = block.startswith(_RDD) and number.isascii() and number.isdigit() and len(number) <= 10
    return int(number) if is_one else NONE
