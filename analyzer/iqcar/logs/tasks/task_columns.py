"""The columns of tasks, and the sizes of blocks in storage memory over time, in bounded memory.

Spark tells each change of a block in an event of its own, if it is asked to
(``spark.eventLog.logBlockUpdates.enabled``), and up to version 2.2 in the metrics of the task that
made it. Events of blocks have no time: the last time that a task started or ended before counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.base.kernels import plain_because
from iqcar.logs.events.task_structs import TaskEnd
from iqcar.logs.events.wait_metrics import DeclaredWaits, Wait
from iqcar.logs.plugin.record_columns import RecordColumns
from iqcar.logs.tasks.record_scanner import RecordScanner
from iqcar.logs.tasks.task_lines import (
    NUMBERS,
    TEXTS,
    BlockChange,
    TaskBlock,
    TaskDecoder,
    Told,
    record_at,
)
from iqcar.tables import LAST_PLAUSIBLE_MS, MOST_BYTES, NONE

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

    too_many: whether there were too many blocks to follow.
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


Numbers = NDArray[np.float64]

MOST_REASONS = 10_000
"""Distinct reasons for failure that are kept of one log, 400 characters each; others are empty."""
QUANTITIES = NUMBERS[NUMBERS.index("deserialize_ms") :]
"""Those among them that are durations, sizes or counts, and so never negative."""
_NANOSECONDS = ("deserialize_cpu_ms", "cpu_ms", "shuffle_write_ms")
"""Spark keeps CPU times and the shuffle write time in ns, everything else in ms."""
_NS_PER_MS = 1e6
_TASK_ID = NUMBERS.index("task_id")
_MOST_NS = 2.0**63
"""No time in ns reaches this: Spark counts in 64-bit integers."""
_TIMES = [NUMBERS.index("launch_ms"), NUMBERS.index("finish_ms")]


class Codes(dict[str, int]):
    """Numbers texts in the order of their first appearance."""

    def __missing__(self, text: str) -> int:
        """Give a new text the next number."""
        code = self[text] = len(self)
        return code


class TaskColumns:
    """Collects tasks as columns.

    rows: tasks so far.
    bad_numbers, bad_names: how many numbers made no sense, and names of their columns; known after
        :meth:`columns`.
    codes: codes of each column of TEXTS.
    failures: row of each task whose end is no success, and a position in ``reasons``.
    reasons: why, in a line, and the id of the executor from which could not be fetched.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.bad_numbers = 0
        self.bad_names: set[str] = set()
        self.codes = {name: Codes() for name in TEXTS}
        self.failures: list[tuple[int, int]] = []
        self.reasons: dict[tuple[str, str], int] = {("", ""): 0}
        self._codes_of: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._blocks: deque[tuple[Numbers, NDArray[np.int32]]] = deque()
        self._waits: list[Numbers] = []

    def add(self, block: TaskBlock) -> Numbers:
        """Append the tasks of a block; return their numbers."""
        self.bad_numbers += block.bad_numbers
        numbers = np.frombuffer(block.rows).reshape(-1, len(NUMBERS) + 1)
        if not len(numbers):
            return numbers
        table = np.array([self._codes_of.get(one) or self._number(one) for one in block.texts])
        self._blocks.append((numbers, table[numbers[:, -1].astype(np.intp)].astype(np.int32)))
        for row, *why in block.failures:
            self.failures.append((self.rows + row, self._reason(*why)))
        self.rows += len(numbers)
        return numbers

    def add_waits(self, waits: Numbers, first_row: int) -> None:
        """Append metrics of waits: row after the first one, kind, accumulator, update of each."""
        self._waits.append(waits + np.array([first_row, 0.0, 0.0, 0.0]))

    def since(self, time_ms: float) -> TaskColumns:
        """Return a copy without the tasks that ended before a time.

        The copy shares codes and reasons with this one; this one keeps its tasks.
        """
        part = TaskColumns()
        part.bad_numbers, part.codes, part._codes_of = self.bad_numbers, self.codes, self._codes_of
        part.reasons, part.bad_names = self.reasons, self.bad_names
        numbers = np.concatenate(
            [np.empty((0, len(NUMBERS) + 1)), *(one for one, _ in self._blocks)]
        )
        codes = np.concatenate(
            [np.empty((0, len(TEXTS)), np.int32), *(one for _, one in self._blocks)]
        )
        kept: NDArray[np.bool_] = np.any(numbers[:, _TIMES] >= time_ms, axis=1)
        part.rows = int(kept.sum())
        part._blocks.append((numbers[kept], codes[kept]))
        row = np.cumsum(kept) - 1
        part.failures = [(int(row[at]), why) for at, why in self.failures if kept[at]]
        waits = np.concatenate([np.empty((0, 4)), *self._waits])
        waits = waits[kept[waits[:, 0].astype(np.intp)]]
        waits[:, 0] = row[waits[:, 0].astype(np.intp)]
        part._waits = [waits]
        return part

    def task_ids(self) -> Numbers:
        """Return the ids of the tasks, in their order."""
        return np.concatenate([np.empty(0), *(one[:, _TASK_ID] for one, _ in self._blocks)])

    def _reason(self, why: str, source: str) -> int:
        if len(self.reasons) >= MOST_REASONS:
            return self.reasons.get((why, source), 0)
        return self.reasons.setdefault((why, source), len(self.reasons))

    def _number(self, texts: tuple[str, ...]) -> tuple[int, ...]:
        named = zip(TEXTS, texts, strict=True)
        codes = self._codes_of[texts] = tuple(self.codes[name][text] for name, text in named)
        return codes

    def columns(self, declared: DeclaredWaits | None = None) -> dict[str, NDArray[Any]]:
        """Return all columns: numbers as float64 (times in ms), texts as codes, metrics of waits.

        The collected tasks are used up, so that they are not in memory twice.

        declared: what the plans say of the metrics.
        """
        columns: dict[str, NDArray[Any]] = {name: np.empty(self.rows) for name in NUMBERS}
        columns.update({name: np.empty(self.rows, np.int32) for name in TEXTS})
        done = 0
        while self._blocks:
            block, codes = self._blocks.popleft()
            to = slice(done, done + len(block))
            for column, name in enumerate(NUMBERS):
                columns[name][to] = block[:, column]
            for column, name in enumerate(TEXTS):
                columns[name][to] = codes[:, column]
            done += len(block)
        found = np.concatenate([np.empty((0, 4)), *self._waits])
        self._waits = []
        waits = _wait_columns(found, self.rows, declared or DeclaredWaits())
        columns.update(waits)
        peak = columns.pop("peak_accumulable")
        np.copyto(columns["peak_memory_bytes"], peak, where=~np.isnan(peak))
        for name in (*QUANTITIES, *waits):
            values = columns[name]
            most = LAST_PLAUSIBLE_MS if name.endswith("_ms") else MOST_BYTES
            most = _MOST_NS if name in _NANOSECONDS else most
            wrong = (values < 0) | (values >= most)
            self.bad_numbers += int(wrong.sum())
            self.bad_names |= {name} if wrong.any() else set()
            values[wrong] = np.nan
        for name in _NANOSECONDS:
            columns[name] /= _NS_PER_MS
        # Photon writes shuffle files, spills and holds memory itself, and Spark counts 0.
        for name, vendor in _BY_VENDORS.items():
            own, vendors = columns[name], columns.pop(vendor)
            np.copyto(own, vendors, where=~(own > 0) & (vendors > 0))
        return columns


_BY_VENDORS = {
    "shuffle_write_ms": "vendor_write_ms",
    "disk_spilled_bytes": "vendor_spilled_bytes",
    "peak_memory_bytes": "vendor_peak_bytes",
}
"""Columns in which Spark counts 0 where a vendor's metric tells more."""


def _wait_columns(found: Numbers, rows: int, declared: DeclaredWaits) -> dict[str, Numbers]:
    """Sum the metrics of each task.

    found: ndarray of shape (n, 4); row, :class:`~iqcar.logs.events.wait_metrics.Wait`, accumulator
        id and update of each.
    rows: number of tasks.

    Returns (shape (rows,), ms) ``scan_ms``, ``storage_read_ms``, ``gpu_wait_ms``, ``native_ms`` and
    ``vendor_write_ms``, and in bytes ``vendor_peak_bytes`` and ``vendor_spilled_bytes``; NaN for a
    task that reports none. Whether Photon's time in an operator has that of those below it in it
    is not documented, and peaks of operators may be at different times: the largest is told of
    both, which is the least that it can be.
    """
    row, kind, ids, update = found.T
    in_ns = np.isin(ids, np.array([*declared.nanoseconds], np.float64))
    value = np.where(in_ns & (kind != Wait.GPU), update / _NS_PER_MS, update)
    of_scan = np.isin(ids, np.array([*declared.scans], np.float64))
    present = set(np.unique(kind).tolist())

    def total(wanted: Wait) -> Numbers:
        times = np.full(rows, np.nan)
        if wanted in present:
            here = (kind == wanted) & (of_scan if wanted is Wait.OPERATOR else True)
            at = row[here].astype(np.intp)
            times[at] = 0.0
            np.add.at(times, at, value[here])
        return times

    def largest(wanted: Wait) -> Numbers:
        here = kind == wanted
        most = np.full(rows, np.nan)
        np.fmax.at(most, row[here].astype(np.intp), value[here])
        return most

    scan = _first(total(Wait.SCAN), total(Wait.OPERATOR))
    buffering = _first(total(Wait.FILES), total(Wait.BUFFERING))
    # RAPIDS' scan time contains decoding on the GPU and the wait for it. Its time of buffering does
    # not, but several threads can spend it at once.
    scan = np.where(np.isnan(buffering), scan, np.minimum(scan, buffering))
    # The last two overlap: files are read by requests.
    storage = np.fmax(total(Wait.READING), total(Wait.REQUESTS))
    return {
        "scan_ms": _first(total(Wait.IO), scan),
        "storage_read_ms": _first(buffering, storage),
        "gpu_wait_ms": total(Wait.GPU),
        "native_ms": largest(Wait.OPERATOR),
        "vendor_write_ms": total(Wait.WRITE),
        "vendor_peak_bytes": largest(Wait.NATIVE_PEAK),
        "vendor_spilled_bytes": total(Wait.NATIVE_SPILL),
    }


def _first(values: Numbers, others: Numbers) -> Numbers:
    """Return the values, and others where they are NaN."""
    return np.where(np.isnan(values), others, values)


class TaskIntake:
    """Collects tasks.

    columns: the tasks that ended.
    running: lines of tasks that started and have not ended yet, by task id.
    records: what iqcar's own Spark plugin recorded of tasks.
    cached: what was in storage memory.
    scanner: reads most of the records; None where kernels are plain Python.
    starts, ends, block_events: events taken in.
    """

    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.running: dict[float, bytes] = {}
        self.records = RecordColumns()
        self.cached = CachedBlocks()
        self.starts = self.ends = self.block_events = 0
        self._decoder = TaskDecoder()
        self.scanner = None if plain_because() else RecordScanner()

    def take(self, text: bytes, block: TaskBlock) -> None:
        """Take in the tasks of a block of the log.

        text: the block.
        block: what was decoded of it.
        """
        first_row = self.columns.rows
        numbers = self.columns.add(block)
        task_ids = numbers[:, _TASK_ID]
        self.ends += len(task_ids)
        if block.waits:
            self.columns.add_waits(np.frombuffer(block.waits).reshape(-1, 4), first_row)
        self.starts += block.starts
        self.cached.take(block.blocks, block.now_ms)
        self.block_events += sum(change.told != Told.TASK for change in block.blocks)
        for task_id, start, end in block.started:
            self.running[task_id] = text[start:end]
        for task_id in self.running.keys() & set(task_ids.tolist()):
            del self.running[task_id]
        if block.records or block.listed:
            self._add_records(text, task_ids, block)

    def since(self, time_ms: float) -> TaskIntake:
        """Return a copy without the tasks that ended before a time, and without their records."""
        part = TaskIntake()
        part.columns = self.columns.since(time_ms)
        part.records = self.records.of_tasks(part.columns.task_ids())
        part.running = dict(self.running)
        part.cached = self.cached.since(time_ms)
        part.starts, part.ends, part.block_events = self.starts, self.ends, self.block_events
        return part

    def add_start(self, task_id: float, line: bytes) -> None:
        """Take in a task start in an unusual spelling."""
        self.starts += 1
        self.running[task_id] = line

    def add_end(self, task: TaskEnd) -> None:
        """Take in a task end in an unusual spelling."""
        self.take(b"", self._decoder.block_of([task]))

    def add_unfinished(self, tasks: Sequence[TaskEnd]) -> None:
        """Append tasks that never ended."""
        self.columns.add(self._decoder.block_of(list(tasks)))
        self.running.clear()

    def _add_records(self, text: bytes, task_ids: NDArray[np.float64], block: TaskBlock) -> None:
        rows, starts, ends = np.frombuffer(block.records, np.int64).reshape(-1, 3).T
        scanner = self.scanner if len(rows) else None
        read = np.zeros(len(rows), np.bool_)
        if scanner is not None:
            chunk, read = scanner.scan(text, starts, ends, self.records.texts)
        left = np.flatnonzero(~read)
        places = zip(rows[left].tolist(), starts[left].tolist(), ends[left].tolist(), strict=True)
        others = [(row, record_at(text, at, end)) for row, at, end in places] + block.listed
        others = sorted((row, record) for row, record in others if record)
        if scanner is None:
            self.records.add([(task_ids[row], record) for row, record in others])
        else:
            self.records.add_scanned(chunk, task_ids, rows[read], others)
