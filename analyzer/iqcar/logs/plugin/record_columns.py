"""The plugin's records as columns: one line per field and per series of a profile.

A field or series that is added here is read by this file and by
:mod:`iqcar.logs.tasks.record_scanner`, and put into its column of ``task_records`` or
``intervals``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from iqcar.enums import REQUESTS, Request, WaitClass
from iqcar.tables import LAST_PLAUSIBLE_MS

NS_PER_MS = 1e6
HELD, BYTES_PER_KIB = "held_bytes", 1024
"""The column of memory held: a series that is absent holds nothing, unless nobody looked."""


class Field(NamedTuple):
    """A number of a record."""

    key: str
    column: str
    """Column of ``task_records``."""
    per_unit: float = 1.0
    """What one unit of the column is in the record."""
    missing: float = nan
    """What the column holds where the record has no number ≥ 0."""


class Series(NamedTuple):
    """A series of a profile; several may be added up in one column."""

    key: str
    column: str
    """Column of ``intervals``; empty where it is not kept."""


FIELDS = (
    Field("start_ms", "start_ms"),
    Field("wall_ns", "wall_ms", NS_PER_MS),
    Field("cpu_ns", "cpu_ms", NS_PER_MS),
    Field("run_queue_ns", "run_queue_ms", NS_PER_MS),
    Field("throttled_ns", "throttled_ms", NS_PER_MS),
    Field("off_cpu_ns", "off_cpu_ms", NS_PER_MS),
    Field("samples", "samples", missing=0.0),
    Field("off_samples", "off_samples", missing=0.0),
    Field("coverage_pct", "coverage", missing=100.0),
    Field("chars_read", "chars_read_bytes"),
    Field("chars_written", "chars_written_bytes"),
    Field("disk_bytes_read", "disk_read_bytes"),
    Field("disk_bytes_written", "disk_written_bytes"),
    Field("major_faults", "major_faults"),
    Field("disk_delay_ms", "disk_delay_ms"),
    Field("blocked_ms", "blocked_ms"),
    Field("waited_ms", "waited_ms"),
    Field("gc_ms", "gc_ms"),
    Field("store_requests", "store_requests"),
    Field("store_request_ms", "store_request_ms"),
    Field("store_retries", "store_retries"),
    Field("peak_held_bytes", "peak_held_bytes"),
    Field("mean_held_bytes", "mean_held_bytes"),
    Field("failures", "failures", missing=0.0),
)
"""Numbers of a record, in its order."""
TOTALS = ("wall_ns", "cpu_ns", "start_ms")
"""A record without them, or with other numbers than ≥ 0, is damaged."""
_ALWAYS_WRITTEN = (WaitClass.OBJECT_STORE, WaitClass.PAGE_FAULT)
"""Classes whose zeros a record has, too: one without them is of a plugin that did not know them."""
WAITS = tuple(
    Field(kind.value, f"{kind}_ms", NS_PER_MS, nan if kind in _ALWAYS_WRITTEN else 0.0)
    for kind in WaitClass
)
"""Numbers of ``waits_ns``; zeros of most classes are left out there."""
TEXTS = ("pool", "sampler")
"""Texts of a record, by the names of their columns."""
OWNERS = "lock_owners"
"""Text of a record: ``17:820,23:40`` says that for 820 ms task 17 held locks that it waited for."""


def _column_of(kind: WaitClass) -> str:
    if kind is WaitClass.PYTHON_CPU:
        return "cpu_ms"
    return "" if kind.request is None else f"{kind.request}_ms"


SERIES = (
    Series("cpu", "cpu_ms"),
    Series("run_queue", f"{Request.RUN_QUEUE}_ms"),
    *(Series(kind.value, _column_of(kind)) for kind in WaitClass),
    Series("held_kib", HELD),
)
"""Series of a profile, in its order."""
VALUES = (
    "cpu_ms",
    *(f"{request}_ms" for request in REQUESTS if not request.before_launch),
    HELD,
)
"""Columns of ``intervals`` that series are added up in; the number of a series' column is its
position here."""
COLUMN_OF = {series.key: VALUES.index(series.column) for series in SERIES if series.column}

NUMBERS = (*(one.key for one in FIELDS), *(one.key for one in WAITS), "bucket_ms", "buckets")
"""Numbers that are kept of each record, by position; the last two are NaN without a profile."""
WIDTH, COUNT = NUMBERS.index("bucket_ms"), NUMBERS.index("buckets")
START, WALL = NUMBERS.index("start_ms"), NUMBERS.index("wall_ns")
LOOKED = NUMBERS.index("mean_held_bytes")
"""NaN where nobody looked at the memory that was held."""

MOST_INTERVALS = 10_000
"""Intervals of one profile beyond which it is damage: the plugin writes some hundreds at most."""
MAX_DIGITS = 12
"""Digits of a number in a series beyond which it is damage: 31 years in ms, 1 PB in KiB."""
MOST_OWNERS = 16
"""Tasks that held locks, in one record, beyond which it is damage: the plugin writes four."""


Run = tuple[int, int, int, float]
"""Column among VALUES, first interval, number of intervals, and what is in each; not 0."""
Owner = tuple[float, float]
"""Id of a task, and how long it held locks that the record's task waited for, in ms."""


class Record(NamedTuple):
    """What a record says."""

    numbers: tuple[float, ...]
    """As :data:`~iqcar.logs.plugin.record_columns.NUMBERS`, NaN for what it lacks."""
    texts: tuple[str, ...]
    runs: list[Run]
    owners: list[Owner]


_Fields = msgspec.defstruct(
    "_Fields",
    [
        *((key, float) for key in TOTALS),
        *((one.key, float, one.missing) for one in FIELDS if one.key not in TOTALS),
        *((key, str, "") for key in TEXTS),
        (OWNERS, str, ""),
        ("waits_ns", dict[str, float], msgspec.field(default_factory=dict)),
        ("profile", dict[str, Any] | None, None),
    ],
)
_NUMBERS = tuple(one.key for one in FIELDS)
_MISSING = {one.key: one.missing for one in FIELDS}
_WAIT_KEYS = tuple((one.key, one.missing) for one in WAITS)
_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def read_record(text: bytes | str) -> Record | None:
    """Read one record; None if it is damaged: no object, no totals, or impossible numbers.

    Fields and classes that are not known are left out, whatever the record's version; so are a
    profile and owners of locks that are damaged.
    """
    found: Any
    try:
        found = _decode_fields(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        try:
            found = _fitting(_decode_object(text))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
    if not all(isfinite(number) and number >= 0 for number in (getattr(found, n) for n in TOTALS)):
        return None
    if found.start_ms > LAST_PLAUSIBLE_MS or found.wall_ns > LAST_PLAUSIBLE_MS * NS_PER_MS:
        return None
    profile = None if found.profile is None else read_profile(found.profile)
    width, count, runs = profile or (nan, nan, [])
    waits = found.waits_ns
    numbers = (
        *[getattr(found, name) for name in _NUMBERS],
        *[waits.get(name, missing) for name, missing in _WAIT_KEYS],
        width,
        count,
    )
    texts = tuple(getattr(found, name) for name in TEXTS)
    return Record(numbers, texts, runs, read_owners(getattr(found, OWNERS)))


def _fitting(fields: dict[str, Any]) -> Any:
    """Take the fields that have the expected type; later versions may change some."""

    def number(name: str, missing: float) -> float:
        value = fields.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number and abs(value) < 1e300 else missing  # type: ignore[arg-type]

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    waits, profile = fields.get("waits_ns"), fields.get("profile")
    return _Fields(
        **{name: number(name, missing) for name, missing in _MISSING.items()},
        **{name: text(name) for name in (*TEXTS, OWNERS)},
        waits_ns={
            name: float(value)
            for name, value in (waits if isinstance(waits, dict) else {}).items()
            if isinstance(value, (int, float)) and abs(value) < 1e300
        },
        profile=profile if isinstance(profile, dict) else None,
    )


def read_owners(text: str) -> list[Owner]:
    """Unpack who held the locks that a task waited for; nobody if that is damaged.

    >>> read_owners("17:820,23:40")
    [(17.0, 820.0), (23.0, 40.0)]
    """
    pairs = [part.partition(":") for part in text.split(",", MOST_OWNERS)] if text else []
    if len(pairs) > MOST_OWNERS:
        return []
    for task, _, ms in pairs:
        if not (task.isdecimal() and ms.isdecimal() and max(len(task), len(ms)) <= MAX_DIGITS):
            return []
    return [(float(task), float(ms)) for task, _, ms in pairs]


def read_profile(profile: dict[str, Any]) -> tuple[float, int, list[Run]] | None:
    """Unpack a profile.

    Returns width of its intervals in ms, their number, and its runs. Series that are not known are
    left out; None if the profile itself is damaged.
    """
    width, count = profile.get("bucket_ms"), profile.get("buckets")
    if not (isinstance(width, (int, float)) and 0 < width < LAST_PLAUSIBLE_MS):
        return None
    if not (isinstance(count, int) and 0 < count <= MOST_INTERVALS):
        return None
    found: list[Run] = []
    for name, text in profile.items():
        column = COLUMN_OF.get(name)
        if column is not None:
            runs = _runs(text, count, column)
            if runs is None:
                return None
            found += runs
    return float(width), count, found


def _runs(series: object, most: int, column: int) -> list[Run] | None:
    """``250*3,12`` is 250, 250, 250, 12; None if it is anything else, or too long."""
    if not isinstance(series, str):
        return None
    runs: list[Run] = []
    at = 0
    for run in series.split(",") if series else ():
        number, _, times = run.partition("*")
        if not (number.isdecimal() and (times.isdecimal() or not _)):
            return None
        if len(number) > MAX_DIGITS or len(times) > MAX_DIGITS:
            return None
        value, repeat = float(number), int(times) if times else 1
        if at + repeat > most:
            return None
        if value and repeat:
            runs.append((column, at, repeat, value))
        at += repeat
    return runs


class Chunk(NamedTuple):
    """Some records.

    numbers: (records, NUMBERS) array; in the units of the record; where it could not be read, all
        are NaN.
    texts: (records,) array; code of its texts.
    run_counts: (records,) array; how many of the runs are its own.
    runs: (runs, 3) array; of each run of a profile the column that it is added to (a position in
        :data:`~iqcar.logs.plugin.record_columns.VALUES`), its first interval, and how many there
        are.
    values: (runs,) array; the number that is in each interval of a run; never 0.
    owner_counts: (records,) array; how many of the owners are its own.
    owners: (owners, 2) array; of each task that held locks its id, and for how long, in ms.
    """

    numbers: NDArray[np.float64]
    texts: NDArray[np.int32]
    run_counts: NDArray[np.int64]
    runs: NDArray[np.uint16]
    values: NDArray[np.float64]
    owner_counts: NDArray[np.int64]
    owners: NDArray[np.float64]


class _Rows:
    """One array that rows are appended to; it grows in place, so no row is in memory twice."""

    def __init__(self, dtype: Any, *shape: int) -> None:
        self._shape = shape
        self._array: NDArray[Any] = np.empty((0, *shape), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: NDArray[Any]) -> None:
        end = self._count + len(rows)
        if end > len(self._array):
            self._resize(end + end // 8)
        self._array[self._count : end] = rows
        self._count = end

    def view(self) -> NDArray[Any]:
        """Return the rows, which stay; valid until more are appended."""
        return self._array[: self._count]

    def take(self) -> NDArray[Any]:
        """Return the rows; they are used up."""
        self._resize(self._count)
        array, self._array, self._count = self._array, self._array[:0].copy(), 0
        return array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._shape), refcheck=False)  # nobody else has it yet


class RecordColumns:
    """Collects records.

    texts: code of each combination of :data:`TEXTS`; 0 if all are
        empty.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, ...], int] = {("",) * len(TEXTS): 0}
        self._columns: tuple[_Rows, ...] = (
            _Rows(np.float64, len(NUMBERS)), _Rows(np.int32), _Rows(np.int64),
            _Rows(np.uint16, 3), _Rows(np.float64), _Rows(np.int64), _Rows(np.float64, 2),
        )  # fmt: skip
        self._task_ids, self._orders = _Rows(np.float64), _Rows(np.int64)
        self._next = 0

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._task_ids)

    def add(self, found: Sequence[tuple[float, bytes | str]]) -> None:
        """Take in task ids and the JSON of their records, in the order of the log."""
        order = np.arange(self._next, self._next + len(found))
        self._next += len(found)
        self._add_texts(found, order)

    def add_scanned(
        self,
        chunk: Chunk,
        task_ids: NDArray[np.float64],
        scanned: NDArray[np.int64],
        others: Sequence[tuple[int, bytes | str]],
    ) -> None:
        """Take in records some of which compiled code has read.

        chunk: those that it has read.
        task_ids: of all records, in the order of the log.
        scanned: which of them are in the chunk.
        others: positions and JSON of those that it has not read.
        """
        if len(scanned):
            self._add(chunk, task_ids[scanned], self._next + scanned)
        order = self._next + np.array([row for row, _ in others], np.int64)
        self._add_texts([(float(task_ids[row]), text) for row, text in others], order)
        self._next += len(task_ids)

    def _add_texts(
        self, found: Sequence[tuple[float, bytes | str]], order: NDArray[np.int64]
    ) -> None:
        if not found:
            return
        numbers = np.full((len(found), len(NUMBERS)), np.nan)
        texts, counts = np.zeros(len(found), np.int32), np.zeros(len(found), np.int64)
        owner_counts = counts.copy()
        runs: list[tuple[int, int, int]] = []
        values: list[float] = []
        owners: list[Owner] = []
        for row, (_, text) in enumerate(found):
            record = read_record(text)
            if record is not None:
                numbers[row] = record.numbers
                texts[row] = self.texts.setdefault(record.texts, len(self.texts))
                counts[row] = len(record.runs)
                runs += [run[:3] for run in record.runs]
                values += [run[3] for run in record.runs]
                owner_counts[row] = len(record.owners)
                owners += record.owners
        chunk = Chunk(
            numbers, texts, run_counts=counts, runs=np.array(runs, np.uint16).reshape(-1, 3),
            values=np.array(values, np.float64), owner_counts=owner_counts,
            owners=owner_array(owners),
        )  # fmt: skip
        self._add(chunk, np.array([task for task, _ in found], np.float64), order)

    def _add(self, chunk: Chunk, task_ids: NDArray[np.float64], order: NDArray[np.int64]) -> None:
        parts: tuple[Any, ...] = chunk
        for column, rows in zip(self._columns, parts, strict=True):
            column.append(rows)
        self._task_ids.append(task_ids)
        self._orders.append(order)

    def of_tasks(self, task_ids: NDArray[np.float64]) -> RecordColumns:
        """Return a copy with only the records of some tasks; it shares the texts."""
        part = RecordColumns()
        part.texts, part._next = self.texts, self._next
        rows = np.flatnonzero(np.isin(self._task_ids.view(), task_ids))
        chunk = pick(Chunk(*(column.view() for column in self._columns)), rows)
        part._add(chunk, self._task_ids.view()[rows], self._orders.view()[rows])
        return part

    def columns(self) -> tuple[NDArray[np.float64], Chunk]:
        """Return task ids and records in the order of the log; they are used up."""
        tasks, orders = self._task_ids.take(), self._orders.take()
        whole = Chunk(*(column.take() for column in self._columns))
        self._next = 0
        if (np.diff(orders) > 0).all():
            return tasks, whole
        order = np.argsort(orders)
        return tasks[order], pick(whole, order)


def pick(chunk: Chunk, rows: NDArray[np.int64]) -> Chunk:
    """Return some records of a chunk, in the order that is asked for."""
    runs, owners = (_own(counts, rows) for counts in (chunk.run_counts, chunk.owner_counts))
    return Chunk(
        chunk.numbers[rows], chunk.texts[rows], run_counts=chunk.run_counts[rows],
        runs=chunk.runs[runs], values=chunk.values[runs], owner_counts=chunk.owner_counts[rows],
        owners=chunk.owners[owners],
    )  # fmt: skip


def _own(counts: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the elements of some rows are, of which each row has so many."""
    return spread((np.cumsum(counts) - counts)[rows], counts[rows])


def owner_array(owners: list[Owner]) -> NDArray[np.float64]:
    """Return owners as in a :class:`Chunk`."""
    return np.array(owners, np.float64).reshape(-1, 2)


def spread(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its count says, one after the other.

    >>> spread(np.array([7, 1]), np.array([2, 3])).tolist()
    [7, 8, 1, 2, 3]
    """
    ends = np.cumsum(counts)
    shifts: NDArray[np.int64] = np.repeat(starts - ends + counts, counts)
    return shifts + np.arange(len(shifts))
