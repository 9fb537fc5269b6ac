"""Reads the plugin's records by compiled code, in place.

Only records in the plugin's own spelling are read here; any other is left to
:mod:`iqcar.logs.plugin.record_columns`, which reads them all where kernels are plain Python. What
both read is the same; the tests hold them against each other. Without this one a log of 100 MB,
each of whose tasks has a record, takes 2.2 times as long to read
(``scripts/bench ingest --recorded``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.base.kernels import compiled
from iqcar.logs.plugin.record_columns import (
    COLUMN_OF,
    COUNT,
    FIELDS,
    MAX_DIGITS,
    MOST_INTERVALS,
    NUMBERS,
    OWNERS,
    SERIES,
    START,
    TEXTS,
    TOTALS,
    WAITS,
    WIDTH,
    Chunk,
    Owner,
    owner_array,
    read_owners,
)
from iqcar.logs.tasks.task_lines import RECORD
from iqcar.tables import LAST_PLAUSIBLE_MS
from iqcar.tables.arrays import Bytes, Flags, Floats, FloatTable, Ints, IntTable, ShortTable

_NUMBER, _TEXT, _SERIES, _WAITS, _PROFILE = range(5)
"""What a key may have; the last two are objects of their own."""
_UNUSED = len(NUMBERS)
"""Column of numbers that are not kept."""
_OWNERS, _UNREAD = len(TEXTS), len(TEXTS) + 1
"""Columns of texts: the owners of locks, and those that are not kept."""
_Keys = list[tuple[str, int, int]]
"""Key, what it has, and the column for it."""


def _top_keys() -> _Keys:
    numbers = [(one.key, _NUMBER, NUMBERS.index(one.key)) for one in FIELDS]
    waits = 1 + [key for key, _, _ in numbers].index("off_cpu_ns")  # where the plugin has them
    return [
        ("v", _NUMBER, _UNUSED),
        ("host", _TEXT, _UNREAD),
        ("executor", _TEXT, _UNREAD),
        *numbers[:waits],
        ("waits_ns", _WAITS, 0),
        *numbers[waits:],
        *((key, _TEXT, column) for column, key in enumerate(TEXTS)),
        (OWNERS, _TEXT, _OWNERS),
        ("profile", _PROFILE, 0),
    ]


_LEVELS: tuple[_Keys, _Keys, _Keys] = (
    _top_keys(),
    [(one.key, _NUMBER, len(FIELDS) + column) for column, one in enumerate(WAITS)],
    [
        ("bucket_ms", _NUMBER, WIDTH),
        ("buckets", _NUMBER, COUNT),
        *(
            (key, _SERIES, COLUMN_OF[key]) if column else (key, _TEXT, _UNREAD)
            for key, column in SERIES
        ),
    ],
)
"""Keys of a record, of its waits and of its profile, in the plugin's order: the next one is looked
for first."""
_ALL_KEYS = [key for level in _LEVELS for key in level]
_SPELLED = [f'\\"{key}\\":'.encode() for key, _, _ in _ALL_KEYS]


class Keys(NamedTuple):
    """Keys as they are spelled, one after the other, and what they have.

    first: where each is spelled; one more.
    kinds: (n_keys, 2) what each has, and its column.
    levels: the first key of each level; one more.
    missing: value of each column of numbers that a record does not tell.
    totals: columns that a record must tell.
    start, width, buckets: columns of the record's start, and of width and number of its intervals.
    longest: letters of the longest key.
    """

    spelled: Bytes
    first: Ints
    kinds: IntTable
    levels: Ints
    missing: Floats
    totals: Ints
    start: int
    width: int
    buckets: int
    longest: int


_KEYS = Keys(
    spelled=np.frombuffer(b"".join(_SPELLED), np.uint8),
    first=np.cumsum([0, *map(len, _SPELLED)], dtype=np.int64),
    kinds=np.array([what for _, *what in _ALL_KEYS], np.int64),
    levels=np.cumsum([0, *map(len, _LEVELS)], dtype=np.int64),
    missing=np.array([*(one.missing for one in (*FIELDS, *WAITS)), np.nan, np.nan, np.nan]),
    totals=np.array([NUMBERS.index(key) for key in TOTALS], np.int64),
    start=START,
    width=WIDTH,
    buckets=COUNT,
    longest=max(map(len, _SPELLED)),
)


class Records(NamedTuple):
    """A text, where records start in it, and where what they are among ends."""

    text: Bytes
    starts: Ints
    ends: Ints


class Scanned(NamedTuple):
    """What is read, in rows of records or of runs; ``seen``: the record a key was last in."""

    numbers: FloatTable
    spans: IntTable
    run_counts: Ints
    runs: ShortTable
    values: Floats
    read: Flags
    seen: Ints


class RecordScanner:
    """Reads records within lines.

    Its buffers are kept from call to call: fresh ones would cost more than the reading.
    """

    def __init__(self) -> None:
        self._numbers = np.empty((0, len(_KEYS.missing)))
        self._spans = np.empty((0, 2 * _UNREAD + 2), np.int64)
        self._runs, self._values = np.empty((0, 3), np.uint16), np.empty(0)

    def scan(
        self,
        text: bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        codes: dict[tuple[str, ...], int],
    ) -> tuple[Chunk, NDArray[np.bool_]]:
        """Read records.

        text: lines of task ends.
        starts, ends: (records,) array; where :data:`~iqcar.logs.tasks.task_lines.RECORD` of each
            record starts, and where the accumulables that it is among end.
        codes: as ``texts`` of :class:`~iqcar.logs.plugin.record_columns.RecordColumns`; may grow.

        Returns
        -------
        Chunk
            The records that could be read; valid until the next call.
        (records,) array of bool
            Which those are.
        """
        count = len(starts)
        self._make_room(count, int((ends - starts).sum()) // 2)  # a run takes two letters at least
        run_counts, read = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        records = Records(np.frombuffer(text, np.uint8), starts + len(RECORD), ends)
        seen = np.full(len(_ALL_KEYS), -1, np.int64)
        into = Scanned(
            numbers=self._numbers, spans=self._spans, run_counts=run_counts, runs=self._runs,
            values=self._values, read=read, seen=seen,
        )  # fmt: skip
        used = compiled(scan_records)(records, _KEYS, into)
        spans = self._spans[:count][read]
        owner_counts, owners = _owners(text, spans[:, 2 * _OWNERS : 2 * _UNREAD])
        spans = spans[:, : 2 * len(TEXTS)]
        texts = np.zeros(len(spans), np.int32)
        for row in np.flatnonzero(spans.any(axis=1)).tolist():
            bounds = spans[row].reshape(-1, 2).tolist()
            found = tuple(text[first:last].decode() for first, last in bounds)
            texts[row] = codes.setdefault(found, len(codes))
        numbers = self._numbers[:count, : len(NUMBERS)]
        if not read.all():
            numbers, run_counts = numbers[read], run_counts[read]
        chunk = Chunk(
            numbers, texts, run_counts=run_counts, runs=self._runs[:used],
            values=self._values[:used], owner_counts=owner_counts, owners=owners,
        )  # fmt: skip
        return chunk, read

    def _make_room(self, records: int, runs: int) -> None:
        if records > len(self._numbers):
            self._numbers = np.empty((records, self._numbers.shape[1]))
            self._spans = np.empty((records, self._spans.shape[1]), np.int64)
        if runs > len(self._values):
            self._runs, self._values = np.empty((runs, 3), np.uint16), np.empty(runs)


def _owners(text: bytes, spans: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Unpack the owners of locks, which few tasks wait for; where their texts are is given."""
    counts = np.zeros(len(spans), np.int64)
    owners: list[Owner] = []
    for row in np.flatnonzero(spans.any(axis=1)).tolist():
        first, last = spans[row].tolist()
        found = read_owners(text[first:last].decode())
        counts[row] = len(found)
        owners += found
    return counts, owner_array(owners)


def scan_records(records: Records, keys: Keys, into: Scanned) -> int:
    """Read records; return the number of runs. No step goes beyond the end of a line."""
    used, buffer = 0, records.text
    spelled, first, kinds, levels = keys.spelled, keys.first, keys.kinds, keys.levels
    missing, totals, seen = keys.missing, keys.totals, into.seen
    numbers, spans, run_counts = into.numbers, into.spans, into.run_counts
    runs, values, read = into.runs, into.values, into.read
    for row in range(len(records.starts)):
        for column in range(len(keys.missing)):
            numbers[row, column] = missing[column]
        for column in range(spans.shape[1]):
            spans[row, column] = 0
        at, first_run, level, key, after = records.starts[row], used, 0, 0, 0
        if buffer[at] != 123:
            continue
        at += 1
        while True:
            if at + keys.longest > len(records.text):
                break
            found, tries = False, levels[level + 1] - levels[level]
            while tries > 0:
                if key == levels[level + 1]:
                    key = levels[level]
                long, same = first[key + 1] - first[key], 0
                while same < long and buffer[at + same] == spelled[first[key] + same]:
                    same += 1
                if same == long:
                    found = True
                    break
                key += 1
                tries -= 1
            if not found or seen[key] == row:
                break
            seen[key] = row
            at += first[key + 1] - first[key]
            what, column = kinds[key, 0], kinds[key, 1]
            key += 1
            if what == _NUMBER:
                number, digits = 0, at
                while 48 <= buffer[at] <= 57:
                    number = number * 10 + int(buffer[at]) - 48
                    at += 1
                digits = at - digits
                if not 1 <= digits <= 18 or (digits > 1 and buffer[at - digits] == 48):
                    break
                numbers[row, column] = number
            elif what >= _WAITS:
                if buffer[at] != 123:
                    break
                at += 1
                level, after, key = what - _WAITS + 1, key, levels[what - _WAITS + 1]
                if buffer[at] != 125:
                    continue
            else:
                if buffer[at] != 92 or buffer[at + 1] != 34:
                    break
                at += 2
                if what == _TEXT:
                    spans[row, 2 * column] = at
                    while 32 <= buffer[at] < 128 and buffer[at] != 34 and buffer[at] != 92:
                        at += 1
                    spans[row, 2 * column + 1] = at
                else:
                    most = numbers[row, keys.buckets]
                    if not 1 <= most <= MOST_INTERVALS:
                        break
                    interval, more = 0, buffer[at] != 92
                    while more:
                        number, digits = 0, at
                        while 48 <= buffer[at] <= 57:
                            number = number * 10 + int(buffer[at]) - 48
                            at += 1
                        if not 1 <= at - digits <= MAX_DIGITS:
                            break
                        times = 1
                        if buffer[at] == 42:
                            at += 1
                            times, digits = 0, at
                            while 48 <= buffer[at] <= 57:
                                times = times * 10 + int(buffer[at]) - 48
                                at += 1
                            if not 1 <= at - digits <= MAX_DIGITS:
                                break
                        if interval + times > most:
                            break
                        if number > 0 and times > 0:
                            runs[used, 0], runs[used, 1], runs[used, 2] = column, interval, times
                            values[used] = number
                            used += 1
                        interval += times
                        more = buffer[at] == 44
                        at += more
                    if more:
                        break
                if buffer[at] != 92 or buffer[at + 1] != 34:
                    break
                at += 2
            if level > 0 and buffer[at] == 125:
                if level == 2 and not (
                    0 < numbers[row, keys.width] < LAST_PLAUSIBLE_MS
                    and 1 <= numbers[row, keys.buckets] <= MOST_INTERVALS
                ):
                    break
                level, key = 0, after
                at += 1
            if buffer[at] == 44:
                at += 1
            else:
                read[row] = (
                    level == 0
                    and buffer[at] == 125
                    and buffer[at + 1] == 34
                    and buffer[at + 2] == 44
                    and buffer[at + 3] == 34
                    and at + 4 <= records.ends[row]
                )
                break
        for k in range(len(keys.totals)):
            if not numbers[row, totals[k]] >= 0:
                read[row] = False
        if not numbers[row, keys.start] <= LAST_PLAUSIBLE_MS:
            read[row] = False
        if read[row]:
            run_counts[row] = used - first_run
        else:
            used = first_run
    return used
