"""Task ends read by compiled code: the path that the bulk of a large log takes.

Only lines in the very spelling that Spark 2 and later write for a successful task are read here;
any other line is refused, and :mod:`iqcar.eventlog.task_lines` decodes it. What both read is the
same, to the last bit; the tests hold them against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEYS: tuple[tuple[str, str], ...] = (
    ("Stage ID", "stage_id"),
    ("Stage Attempt ID", "stage_attempt"),
    ("Task ID", "task_id"),
    ("Index", "index"),
    ("Attempt", "attempt"),
    ("Launch Time", "launch_ms"),
    ("Getting Result Time", "getting_result_at"),
    ("Finish Time", "finish_ms"),
    ("Speculative", "speculative"),
    ("Failed", "failed"),
    ("Killed", "killed"),
    ("Executor Deserialize Time", "deserialize_ms"),
    ("Executor Deserialize CPU Time", "deserialize_cpu_ms"),
    ("Executor Run Time", "run_ms"),
    ("Executor CPU Time", "cpu_ms"),
    ("Peak Execution Memory", "peak_memory_bytes"),
    ("Result Size", "result_bytes"),
    ("JVM GC Time", "gc_ms"),
    ("Result Serialization Time", "result_serialize_ms"),
    ("Memory Bytes Spilled", "memory_spilled_bytes"),
    ("Disk Bytes Spilled", "disk_spilled_bytes"),
    ("Remote Blocks Fetched", "remote_blocks"),
    ("Local Blocks Fetched", "local_blocks"),
    ("Fetch Wait Time", "fetch_wait_ms"),
    ("Remote Bytes Read", "remote_bytes"),
    ("Local Bytes Read", "local_bytes"),
    ("Total Records Read", "shuffle_read_records"),
    ("Shuffle Bytes Written", "shuffle_write_bytes"),
    ("Shuffle Write Time", "shuffle_write_ms"),
    ("Shuffle Records Written", "shuffle_write_records"),
    ("Bytes Read", "input_bytes"),
    ("Records Read", "input_records"),
    ("Bytes Written", "output_bytes"),
    ("Records Written", "output_records"),
)
"""Keys of numbers and truth values, each unique in a task's end, and the columns they fill."""
TEXT_KEYS: tuple[tuple[str, str], ...] = (
    ("Executor ID", "executor_id"),
    ("Host", "host"),
    ("Locality", "locality"),
    ("Reason", "reason"),
)
_OBJECTS = (
    "Task End Reason",
    "Task Info",
    "Task Metrics",
    "Shuffle Read Metrics",
    "Push Based Shuffle",
    "Shuffle Write Metrics",
    "Input Metrics",
    "Output Metrics",
)
"""Objects whose keys are read; a line with any other is refused, unless accumulables hide it."""
_REFUSED = ("Host Name",)
"""Spark 1.x: what is absent there means zero, which is settled elsewhere."""

_REASON = 3
"""Place of the reason among the texts."""
_TEXT, _OBJECT, _LIST, _REFUSE = 100, 200, 300, 400
_PRIME, _OFFSET = 1099511628211, 14695981039346656037
_TABLE_BITS = 10
_MAX_DIGITS = 15
"""Longer integers are refused: a float does not hold them exactly."""


def hash_text(text: bytes) -> int:
    """Hash bytes as the compiled code does (FNV-1a, 64 bits)."""
    value = _OFFSET
    for byte in text:
        value = ((value ^ byte) * _PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


_SUCCESS = np.uint64(hash_text(b"Success"))


def _key_table(columns: tuple[str, ...]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Build the hash table of keys: hashes, and what each key means."""
    hashes = np.zeros(1 << _TABLE_BITS, np.uint64)
    meaning = np.full(1 << _TABLE_BITS, -1, np.int64)
    wanted = [(key, columns.index(column)) for key, column in KEYS]
    wanted += [(key, _TEXT + place) for place, (key, _) in enumerate(TEXT_KEYS)]
    wanted += [(key, _OBJECT) for key in _OBJECTS] + [(key, _REFUSE) for key in _REFUSED]
    wanted += [("Accumulables", _LIST), ("Updated Blocks", _LIST + 1)]
    for key, what in wanted:
        value = hash_text(key.encode())
        slot = value & ((1 << _TABLE_BITS) - 1)
        while meaning[slot] >= 0:
            slot = (slot + 1) & ((1 << _TABLE_BITS) - 1)
        hashes[slot], meaning[slot] = value, what
    return hashes, meaning


class Scanned(NamedTuple):
    """What was read of some lines; one row per line."""

    numbers: NDArray[np.float64]
    texts: NDArray[np.uint64]
    """Hashes of the texts, one column per entry of :data:`TEXT_KEYS`."""
    spans: NDArray[np.int64]
    """Where each text starts and ends, two columns per entry of :data:`TEXT_KEYS`."""
    accumulables: NDArray[np.int64]
    """Where the accumulables start and end."""
    refused: NDArray[np.bool_]


class TaskScanner:
    """Reads lines of task ends.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns of numbers, in order; those that no key fills stay NaN.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._width = len(columns)
        self._attempt = columns.index("stage_attempt")
        self._hashes, self._meaning = _key_table(columns)

    def scan(self, lines: list[bytes]) -> tuple[bytes, Scanned]:
        """Read lines; also return them joined, which is what the spans refer to."""
        n = len(lines)
        joined = b"\n".join([*lines, b""])
        ends = np.cumsum(np.fromiter(map(len, lines), np.int64, n) + 1) - 1
        scanned = Scanned(
            np.full((n, self._width), np.nan),
            np.zeros((n, len(TEXT_KEYS)), np.uint64),
            np.zeros((n, 2 * len(TEXT_KEYS)), np.int64),
            np.zeros((n, 2), np.int64),
            np.zeros(n, np.bool_),
        )
        buffer = np.frombuffer(joined, np.uint8)
        _scan_lines(buffer, ends, self._hashes, self._meaning, *scanned)
        attempt = scanned.numbers[:, self._attempt]
        attempt[np.isnan(attempt)] = 0.0
        scanned.refused[scanned.texts[:, _REASON] != _SUCCESS] = True
        return joined, scanned


_SCAN = np.frombuffer(b'"Name":"scan time', np.uint8)
_UPDATE = np.frombuffer(b'","Update":', np.uint8)
_SHIFTS = np.full(256, len(_SCAN), np.int64)
"""How far to go on after a byte that ended no match (Horspool): most of the text is never seen."""
for _place, _byte in enumerate(_SCAN[:-1].tolist()):
    _SHIFTS[_byte] = len(_SCAN) - 1 - _place


def sum_scan_times(text: bytes, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum the updates of all accumulators called scan time.

    Parameters
    ----------
    text : bytes
        Lines of task ends.
    places : (tasks, 2) array
        Where the accumulables of each task start and end.

    Returns
    -------
    (tasks,) array
        In the unit of the log; NaN where there is none.
    """
    sums = np.full(len(places), np.nan)
    _sum_scan_times(np.frombuffer(text, np.uint8), places, _SHIFTS, _SCAN, _UPDATE, sums)
    return sums


@njit(cache=True, nogil=True)
def _sum_scan_times(
    buffer: Any, places: Any, shifts: Any, pattern: Any, update: Any, sums: Any
) -> None:
    last = len(pattern) - 1
    for row in range(len(places)):
        at, end = places[row, 0] + last, places[row, 1]
        while at < end:
            byte = buffer[at]
            same = byte == pattern[last]
            if same:
                for offset in range(last):
                    if buffer[at - last + offset] != pattern[offset]:
                        same = False
                        break
            if not same:
                at += shifts[byte]
                continue
            at += 1
            while at < end and buffer[at] != 34:
                at += 1
            for offset in range(len(update)):
                if at >= end or buffer[at] != update[offset]:
                    break
                at += 1
            else:
                if buffer[at] == 34:
                    at += 1
                number, first = 0.0, at
                while at < end and 48 <= buffer[at] <= 57:
                    number = number * 10.0 + (buffer[at] - 48.0)
                    at += 1
                if at > first and (buffer[at] == 34 or buffer[at] == 44 or buffer[at] == 125):
                    sums[row] = number if np.isnan(sums[row]) else sums[row] + number
            at += last


_METRICS = np.frombuffer(b',"Task Metrics":{', np.uint8)
_SLACK = 48


@njit(cache=True, nogil=True)
def _scan_lines(
    buffer: Any,
    ends: Any,
    hashes: Any,
    meaning: Any,
    numbers: Any,
    texts: Any,
    spans: Any,
    accumulables: Any,
    refused: Any,
) -> None:
    start, tail = 0, 0
    mask = np.uint64(len(hashes) - 1)
    for row in range(len(ends)):
        end = ends[row]
        at = start + 1
        good = end - start > 2 and buffer[start] == 123 and buffer[end - 1] == 125
        done = False
        depth = 1
        while good and not done:
            # A key: its hash tells which.
            if buffer[at] != 34:
                good = False
                break
            at += 1
            value = np.uint64(14695981039346656037)
            while at < end and buffer[at] != 34:
                value = (value ^ np.uint64(buffer[at])) * np.uint64(1099511628211)
                at += 1
            at += 2
            if at >= end or buffer[at - 1] != 58:
                good = False
                break
            slot = value & mask
            what = -1
            while meaning[slot] >= 0:
                if hashes[slot] == value:
                    what = meaning[slot]
                    break
                slot = (slot + np.uint64(1)) & mask
            # Its value
            char = buffer[at]
            if 48 <= char <= 57:
                number = 0
                first = at
                while at < end and 48 <= buffer[at] <= 57:
                    number = number * 10 + (np.int64(buffer[at]) - 48)
                    at += 1
                if at - first > 15:
                    good = False
                    break
                if what >= 100:
                    good = False
                    break
                if what >= 0:
                    numbers[row, what] = number
            elif char == 34:
                at += 1
                first = at
                value = np.uint64(14695981039346656037)
                while at < end and buffer[at] != 34 and buffer[at] != 92:
                    value = (value ^ np.uint64(buffer[at])) * np.uint64(1099511628211)
                    at += 1
                if at >= end or buffer[at] == 92 or (what >= 0 and not 100 <= what < 200):
                    good = False
                    break
                if what >= 100:
                    texts[row, what - 100] = value
                    spans[row, 2 * (what - 100)] = first
                    spans[row, 2 * (what - 100) + 1] = at
                at += 1
            elif char == 123:
                if what != 200:
                    good = False
                    break
                if buffer[at + 1] == 125:
                    at += 2
                else:
                    depth += 1
                    at += 1
                    continue
            elif char == 116 or char == 102:
                if what >= 100:
                    good = False
                    break
                length = 4 if char == 116 else 5
                if what >= 0:
                    numbers[row, what] = 1.0 if char == 116 else 0.0
                at += length
            elif char == 91 and what == 300:
                # Accumulables: on to the metrics, which lie about as far from the end as before.
                found = -1
                place = max(end - tail - 48, at)
                for _ in range(2):
                    while place + 17 < end:
                        if buffer[place] == 44 and buffer[place + 1] == 34:
                            same = True
                            for offset in range(17):
                                if buffer[place + offset] != _METRICS[offset]:
                                    same = False
                                    break
                            if same:
                                found = place
                                break
                        place += 1
                    if found >= 0:
                        break
                    place = at
                if found < 0:
                    good = False
                    break
                accumulables[row, 0] = at
                accumulables[row, 1] = found
                tail = end - found
                at = found
                depth -= 1
            elif char == 91 and what == 301:
                # Updated blocks: the last of all, and nothing in them is needed.
                done = True
                break
            else:
                good = False
                break
            while at < end and buffer[at] == 125:
                depth -= 1
                at += 1
            if at >= end:
                done = True
                good = depth == 0
            elif buffer[at] == 44:
                at += 1
            else:
                good = False
        refused[row] = not good or accumulables[row, 1] == 0
        start = end + 1
