"""Reads the plugin's records of a large log by compiled code, in place.

Only records in the plugin's own spelling are read here; any other is left to
:mod:`iqcar.logs.plugin.record_columns`, which reads them all where compiled code cannot be loaded
or is not worth it. What both read is the same; the tests hold them against each other. Without
this one a log of 100 MB, each of whose tasks has a record, takes 2.2 times as long to read
(``scripts/bench ingest --recorded``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

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
_WORDS = 4
"""Words of eight letters in a key at most; a word is compared at once."""
_ALL_KEYS = [key for level in _LEVELS for key in level]
_SPELLED = [f'\\"{key}\\":'.encode() for key, _, _ in _ALL_KEYS]


def _words(texts: list[bytes]) -> NDArray[np.uint64]:
    """Return one row per text, filled up with zeros."""
    filled = b"".join(text.ljust(8 * _WORDS, b"\0") for text in texts)
    return np.frombuffer(filled, np.uint64).reshape(len(texts), _WORDS)


_KEYS = (
    _words(_SPELLED),
    _words([b"\xff" * len(key) for key in _SPELLED]),
    np.array(
        [(len(key), *what) for key, (_, *what) in zip(_SPELLED, _ALL_KEYS, strict=True)], np.int64
    ),
    np.cumsum([0, *map(len, _LEVELS)], dtype=np.int64),
)
"""Keys, which of their bytes count, their lengths with what they have, and where levels start."""
_MISSING = np.array([*(one.missing for one in (*FIELDS, *WAITS)), np.nan, np.nan, np.nan])
_TOTALS = np.array([NUMBERS.index(key) for key in TOTALS], np.int64)
_LIMITS = np.array([START, LAST_PLAUSIBLE_MS, WIDTH, COUNT, MOST_INTERVALS, MAX_DIGITS], np.int64)
"""Handed over, because compiled code that is kept would not notice that another file changed."""


class RecordScanner:
    """Reads records within lines.

    Its buffers are kept from call to call: fresh ones would cost more than the reading.
    """

    def __init__(self) -> None:
        self._numbers = np.empty((0, len(_MISSING)))
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

        Parameters
        ----------
        text : lines of task ends.
        starts, ends : (records,) array; where :data:`~iqcar.logs.tasks.task_lines.RECORD` of each
            record starts, and where the accumulables that it is among end.
        codes : as ``texts`` of :class:`~iqcar.logs.plugin.record_columns.RecordColumns`; may grow.

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
        words = np.frombuffer(text, np.uint64, 1)
        used = _scan(
            np.frombuffer(text, np.uint8),
            as_strided(words, (len(text) - 7,), (1,), writeable=False),
            # Both arrays fresh: of a slice, or one that may not be written, numba compiles a second
            # version of the kernel.
            starts + len(RECORD), np.array(ends), *_KEYS, _MISSING, _TOTALS, _LIMITS,
            self._numbers, self._spans, run_counts, self._runs, self._values, read,
        )  # fmt: skip
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


@njit(cache=True, nogil=True)
def _scan(
    buffer: Any,
    words: Any,
    starts: Any,
    ends: Any,
    keys: Any,
    masks: Any,
    kinds: Any,
    levels: Any,
    missing: Any,
    totals: Any,
    limits: Any,
    numbers: Any,
    spans: Any,
    run_counts: Any,
    runs: Any,
    values: Any,
    read: Any,
) -> int:
    """Read records; return the number of runs. No step goes beyond the end of a line."""
    used = 0
    start_column, last_ms, width_column, count_column, most_intervals, max_digits = (
        limits[0], limits[1], limits[2], limits[3], limits[4], limits[5],
    )  # fmt: skip
    seen = np.full(len(kinds), -1)
    for row in range(len(starts)):
        for column in range(len(missing)):
            numbers[row, column] = missing[column]
        for column in range(spans.shape[1]):
            spans[row, column] = 0
        at, first_run, level, key, after = starts[row], used, 0, 0, 0
        if buffer[at] != 123:
            continue
        at += 1
        while True:
            if at + 8 * _WORDS > len(words):
                break
            found, tries = False, levels[level + 1] - levels[level]
            while tries > 0:
                if key == levels[level + 1]:
                    key = levels[level]
                word = 0
                while (
                    word < _WORDS
                    and (words[at + 8 * word] ^ keys[key, word]) & masks[key, word] == 0
                ):
                    word += 1
                if word == _WORDS:
                    found = True
                    break
                key += 1
                tries -= 1
            if not found or seen[key] == row:
                break
            seen[key] = row
            at += kinds[key, 0]
            what, column = kinds[key, 1], kinds[key, 2]
            key += 1
            if what == _NUMBER:
                number, digits = 0, at
                while 48 <= buffer[at] <= 57:
                    number = number * 10 + (np.int64(buffer[at]) - 48)
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
                    most = numbers[row, count_column]
                    if not 1 <= most <= most_intervals:
                        break
                    interval, more = 0, buffer[at] != 92
                    while more:
                        number, digits = 0, at
                        while 48 <= buffer[at] <= 57:
                            number = number * 10 + (np.int64(buffer[at]) - 48)
                            at += 1
                        if not 1 <= at - digits <= max_digits:
                            break
                        times = 1
                        if buffer[at] == 42:
                            at += 1
                            times, digits = 0, at
                            while 48 <= buffer[at] <= 57:
                                times = times * 10 + (np.int64(buffer[at]) - 48)
                                at += 1
                            if not 1 <= at - digits <= max_digits:
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
                    0 < numbers[row, width_column] < last_ms
                    and 1 <= numbers[row, count_column] <= most_intervals
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
                    and at + 4 <= ends[row]
                )
                break
        for total in totals:
            read[row] &= numbers[row, total] >= 0
        read[row] &= numbers[row, start_column] <= last_ms
        if read[row]:
            run_counts[row] = used - first_run
        else:
            used = first_run
    return used
