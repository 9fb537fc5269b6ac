"""From task-end structs to numpy columns, some dozens at a time.

Raw accumulables keep their whole line alive, so tasks become numbers soon after they are decoded:
memory is bounded by the table, not by the log, and the structs stay in the processor's cache.
"""

from __future__ import annotations

import struct
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.eventlog.events.structs import (
    NO_INPUT,
    NO_OUTPUT,
    NO_SHUFFLE_READ,
    NO_SHUFFLE_WRITE,
    TaskEnd,
)
from iqcar.tables import LAST_PLAUSIBLE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_GROUPS: tuple[tuple[str, Callable[[Any], Any], tuple[str, ...]], ...] = (
    (
        "task",
        attrgetter("stage_id", "stage_attempt", "scan", "peak"),
        ("stage_id", "stage_attempt", "scan_ms", "peak_accumulable"),
    ),
    (
        "info",
        attrgetter(
            "task_id", "index", "attempt", "launch", "getting_result", "finish", "speculative",
            "failed", "killed",
        ),
        (
            "task_id", "index", "attempt", "launch_ms", "getting_result_at", "finish_ms",
            "speculative", "failed", "killed",
        ),
    ),
    (
        "metrics",
        attrgetter(
            "deserialize", "deserialize_cpu", "run", "cpu", "peak_memory", "result_bytes",
            "gc_time", "result_serialize", "memory_spilled", "disk_spilled",
        ),
        (
            "deserialize_ms", "deserialize_cpu_ms", "run_ms", "cpu_ms", "peak_memory_bytes",
            "result_bytes", "gc_ms", "result_serialize_ms", "memory_spilled_bytes",
            "disk_spilled_bytes",
        ),
    ),
    (
        "shuffle_read",
        attrgetter(
            "remote_blocks", "local_blocks", "fetch_wait", "remote_bytes", "local_bytes", "records"
        ),
        (
            "remote_blocks", "local_blocks", "fetch_wait_ms", "remote_bytes", "local_bytes",
            "shuffle_read_records",
        ),
    ),
    (
        "shuffle_write",
        attrgetter("bytes_written", "write_time", "records"),
        ("shuffle_write_bytes", "shuffle_write_ms", "shuffle_write_records"),
    ),
    ("input", attrgetter("bytes_read", "records"), ("input_bytes", "input_records")),
    ("output", attrgetter("bytes_written", "records"), ("output_bytes", "output_records")),
)  # fmt: skip
NUMBERS = tuple(name for _, _, names in _GROUPS for name in names)
"""Columns of numbers as they are collected, before units are settled."""
_PACK = tuple(struct.Struct(f"{len(names)}d").pack for _, _, names in _GROUPS)
QUANTITIES = tuple(name for _, _, names in _GROUPS[2:] for name in names)
"""Those among them that are durations, sizes or counts, and so never negative."""
_OPTIONAL = (
    ("shuffle_read", NO_SHUFFLE_READ, _GROUPS[3][2]),
    ("shuffle_write", NO_SHUFFLE_WRITE, _GROUPS[4][2]),
    ("input", NO_INPUT, _GROUPS[5][2]),
    ("output", NO_OUTPUT, _GROUPS[6][2]),
)
_NANOSECONDS = ("deserialize_cpu_ms", "cpu_ms", "shuffle_write_ms")
"""Spark keeps CPU times and the shuffle write time in ns, everything else in ms."""
_NS_PER_MS = 1e6
_IMPLAUSIBLE = 2.0**63
"""No size, and no time in ns, reaches this: Spark counts in 64-bit integers."""

_BLOCK_ROWS = 4096

TEXTS = ("executor_id", "host", "locality", "reason")
"""Columns of text, collected as codes."""
_INFO_TEXTS = (attrgetter("executor_id"), attrgetter("host"), attrgetter("locality"))
_REASON = attrgetter("reason.reason")
_INFO = attrgetter("info")
_METRICS = attrgetter("metrics")
_OF_METRICS = {
    name: attrgetter(name) for name in ("shuffle_read", "shuffle_write", "input", "output")
}
_HOST_NAME = attrgetter("host_name")


class Codes(dict[str, int]):
    """Numbers texts in the order of their first appearance."""

    def __missing__(self, text: str) -> int:
        """Give a new text the next number."""
        code = self[text] = len(self)
        return code


class TaskColumns:
    """Collects tasks as columns."""

    def __init__(self) -> None:
        self.rows = 0
        self.bad_numbers = 0
        self.codes = {name: Codes() for name in TEXTS}
        self._codes_of_hash: dict[int, tuple[int, ...]] = {}
        self._blocks: list[tuple[Numbers, NDArray[np.int32]]] = []
        self._free = 0

    def add(self, tasks: Sequence[TaskEnd]) -> None:
        """Append tasks; best some dozens at a time, while they are in the processor's cache."""
        n = len(tasks)
        if n == 0:
            return
        info = list(map(_INFO, tasks))
        metrics = list(map(_METRICS, tasks))
        parts = [tasks, info, metrics, *(map(get, metrics) for get in _OF_METRICS.values())]
        # Packing to bytes and reading those is faster than any way from objects to numpy.
        numbers = np.concatenate(
            [
                np.frombuffer(b"".join(starmap(pack, map(getter, part)))).reshape(n, -1)
                for part, (_, getter, _), pack in zip(parts, _GROUPS, _PACK, strict=True)
            ],
            axis=1,
        )
        self._settle_absent(numbers, metrics)
        codes = np.empty((n, len(TEXTS)), np.int32)
        texts = (*(map(get, info) for get in _INFO_TEXTS), map(_REASON, tasks))
        for column, (name, values) in enumerate(zip(TEXTS, texts, strict=True)):
            codes[:, column] = np.fromiter(map(self.codes[name].__getitem__, values), np.int32, n)
        self._append(numbers, codes)

    def add_scanned(
        self,
        text: bytes,
        numbers: Numbers,
        hashes: NDArray[np.uint64],
        spans: NDArray[np.int64],
    ) -> None:
        """Append tasks that compiled code has read, all of which went well.

        Parameters
        ----------
        text : bytes
            The lines of the tasks, which the spans refer to.
        numbers : (tasks, columns) array
            Values of NUMBERS.
        hashes : (tasks,) array
            One hash of all texts of a task: where it is the same, so are they.
        spans : (tasks, 2 · texts) array
            Where the texts start and end, in the order of TEXTS; the reason is not among them.
        """
        unique, row, place = np.unique(hashes, return_index=True, return_inverse=True)
        codes = [
            self._codes_of_hash.get(one) or self._number_texts(text, one, spans[first].tolist())
            for one, first in zip(unique.tolist(), row.tolist(), strict=True)
        ]
        self._append(numbers, np.array(codes, np.int32).reshape(-1, len(TEXTS))[place])

    def _number_texts(self, text: bytes, hash_: int, span: list[int]) -> tuple[int, ...]:
        texts = [text[span[i] : span[i + 1]].decode() for i in range(0, 2 * len(TEXTS) - 2, 2)]
        named = zip(TEXTS, (*texts, "Success"), strict=True)
        codes = self._codes_of_hash[hash_] = tuple(self.codes[name][one] for name, one in named)
        return codes

    def _append(self, numbers: Numbers, codes: NDArray[np.int32]) -> None:
        n = len(numbers)
        if n > self._free:
            self._close_block()
            size = max(n, _BLOCK_ROWS)
            self._blocks.append(
                (np.empty((size, len(NUMBERS))), np.empty((size, len(TEXTS)), np.int32))
            )
            self._free = size
        block, block_codes = self._blocks[-1]
        first = len(block) - self._free
        block[first : first + n] = numbers[:, : len(NUMBERS)]
        block_codes[first : first + n] = codes
        self._free -= n
        self.rows += n

    def _close_block(self) -> None:
        if self._blocks and self._free:
            block, codes = self._blocks[-1]
            used = len(block) - self._free
            self._blocks[-1] = (block[:used].copy(), codes[:used].copy())
        self._free = 0

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all columns: numbers as float64 (times in ms), texts as codes, scan time.

        The collected tasks are used up, so that they are not in memory twice.
        """
        self._close_block()
        columns: dict[str, NDArray[Any]] = {name: np.empty(self.rows) for name in NUMBERS}
        columns.update({name: np.empty(self.rows, np.int32) for name in TEXTS})
        done = 0
        while self._blocks:
            block, codes = self._blocks.pop(0)
            to = slice(done, done + len(block))
            for column, name in enumerate(NUMBERS):
                columns[name][to] = block[:, column]
            for column, name in enumerate(TEXTS):
                columns[name][to] = codes[:, column]
            done += len(block)
        peak = columns.pop("peak_accumulable")
        np.copyto(columns["peak_memory_bytes"], peak, where=~np.isnan(peak))
        for name in (*QUANTITIES, "scan_ms"):
            values = columns[name]
            in_ms = name.endswith("_ms") and name not in _NANOSECONDS
            wrong = (values < 0) | (values >= (LAST_PLAUSIBLE_MS if in_ms else _IMPLAUSIBLE))
            self.bad_numbers += int(wrong.sum())
            values[wrong] = np.nan
        for name in _NANOSECONDS:
            columns[name] /= _NS_PER_MS
        return columns

    @staticmethod
    def _settle_absent(numbers: Numbers, metrics: list[Any]) -> None:
        """Set absent groups of metrics to zero where Spark leaves out what was not used.

        Spark 1.x writes shuffle, input and output metrics only for tasks that had any, and it is
        the only one that writes ``Host Name``. Spark 2 and later always write them: absent there
        means unknown.
        """
        old = [bool(name) for name in map(_HOST_NAME, metrics)]
        if not any(old):
            return
        for part, nothing, names in _OPTIONAL:
            absent = [value is nothing for value in map(_OF_METRICS[part], metrics)]
            first = NUMBERS.index(names[0])
            numbers[np.array(absent) & np.array(old), first : first + len(names)] = 0.0
