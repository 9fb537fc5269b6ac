"""What the plugin recorded: one record per task, with its profile, and the scheduler's pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct, field

from iqcar import tables as tb
from iqcar.columns import as_dtype
from iqcar.eventlog.redact import redact_text
from iqcar.kinds import REQUESTS, Request, WaitClass

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.eventlog.collect import Collector

NS_PER_MS = 1e6
BYTES_PER_KIB = 1024
MAX_NAME = 500
"""Characters kept of a pool's name."""
MOST_INTERVALS = 10_000
"""Intervals of one profile beyond which it is damage: the plugin writes some hundreds at most."""
LAST_PLAUSIBLE_MS = 1e14
"""A time beyond it (the year 5138) is damage, not a time; so is a longer duration."""
SCHEDULER_EVENT = "org.iqcar.spark.IqcarEventScheduler"

TaskRecord = tuple[float, float, float, "bytes | str"]
"""Task id, stage id and stage attempt, and the JSON that rode in the task's end."""

_CLASSES = {str(kind): kind for kind in WaitClass}
_HELD_SERIES, _HELD_VALUE = "held_kib", "held_bytes"
_VALUES = ["cpu_ms", *(f"{r}_ms" for r in REQUESTS if r is not Request.SLOT_WAIT), _HELD_VALUE]
_SERIES: dict[str, int] = {
    "cpu": _VALUES.index("cpu_ms"),
    "run_queue": _VALUES.index(f"{Request.RUN_QUEUE}_ms"),
    WaitClass.PYTHON_CPU.value: _VALUES.index("cpu_ms"),
    **{
        kind.value: _VALUES.index(f"{kind.request}_ms")
        for kind in WaitClass
        if kind.request is not None
    },
    _HELD_SERIES: _VALUES.index(_HELD_VALUE),
}
"""Series of a profile → column of ``intervals`` that it is added to."""


class _Record(Struct):
    """The record as docs/listener.md has it; numbers that are absent are NaN."""

    wall_ns: float
    cpu_ns: float
    start_ms: float
    run_queue_ns: float = nan
    off_cpu_ns: float = nan
    waits_ns: dict[str, float] = field(default_factory=dict)
    samples: float = 0.0
    off_samples: float = 0.0
    chars_read: float = nan
    chars_written: float = nan
    disk_bytes_read: float = nan
    disk_bytes_written: float = nan
    blocked_ms: float = nan
    waited_ms: float = nan
    gc_ms: float = nan
    peak_held_bytes: float = nan
    mean_held_bytes: float = nan
    pool: str = ""
    sampler: str = ""
    failures: float = 0.0
    profile: dict[str, Any] | None = None


class _Pool(Struct):
    name: str = ""
    mode: str = ""
    weight: float = nan
    min_share: float = field(default=nan, name="minShare")


class _Scheduler(Struct):
    event: str = field(name="Event")
    time: float = field(default=nan, name="timeMs")
    pools: list[_Pool] = field(default_factory=list)


_NUMBERS = tuple(
    f.name for f in msgspec.structs.fields(_Record) if f.type is float and not f.required
)
_decode_record = msgspec.json.Decoder(_Record).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_scheduler = msgspec.json.Decoder(_Scheduler).decode


@dataclass
class Records:
    """The records of one log's tasks.

    Attributes
    ----------
    records : DataFrame of :data:`iqcar.tables.TASK_RECORDS`
    intervals : DataFrame of :data:`iqcar.tables.INTERVALS`
    damaged : int
        Records that could not be read, or belong to no task: missing, not zero.
    """

    records: pd.DataFrame
    intervals: pd.DataFrame
    damaged: int


def decode_records(found: Iterable[TaskRecord], task_id: pd.Series[int]) -> Records:
    """Read the records of tasks.

    Parameters
    ----------
    found : iterable of TaskRecord
        As collected from the log; of several for one task the first that can be read counts.
    task_id : Series of int64
        Column of the ``tasks`` table; unique where ≥ 0.

    Returns
    -------
    Records
        In the order of tasks. Fields and classes that are not known are left out, whatever the
        record's version.
    """
    row_of = {number: row for row, number in enumerate(task_id.tolist()) if number >= 0}
    read: dict[int, _Record] = {}
    damaged = 0
    for number, _, _, text in found:
        row = row_of.get(number, tb.NONE) if isfinite(number) else tb.NONE
        record = None if row == tb.NONE or row in read else read_record(text)
        if record is None:
            damaged += row not in read
        else:
            read[row] = record
    rows = sorted(read)
    records = [read[row] for row in rows]
    return Records(_record_table(rows, records), _interval_table(rows, records), damaged)


def read_record(text: bytes | str) -> _Record | None:
    """Decode one record; None if it is damaged: no object, no totals, or impossible numbers."""
    try:
        record = _decode_record(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        try:
            record = _fitting(_decode_object(text))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
    totals = (record.wall_ns, record.cpu_ns, record.start_ms)
    if not all(isfinite(number) and number >= 0 for number in totals):
        return None
    if record.start_ms > LAST_PLAUSIBLE_MS or record.wall_ns > LAST_PLAUSIBLE_MS * NS_PER_MS:
        return None
    return record


def _fitting(fields: dict[str, Any]) -> _Record:
    """Take the fields that have the expected type; later versions may change some."""

    def number(name: str, missing: float) -> float:
        value = fields.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number and abs(value) < 1e300 else missing  # type: ignore[arg-type]

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    waits, profile = fields.get("waits_ns"), fields.get("profile")
    record = _Record(
        wall_ns=number("wall_ns", nan),
        cpu_ns=number("cpu_ns", nan),
        start_ms=number("start_ms", nan),
        waits_ns={
            name: float(value)
            for name, value in (waits if isinstance(waits, dict) else {}).items()
            if isinstance(value, (int, float)) and abs(value) < 1e300
        },
        pool=text("pool"),
        sampler=text("sampler"),
        profile=profile if isinstance(profile, dict) else None,
    )
    for name in _NUMBERS:
        setattr(record, name, number(name, getattr(record, name)))
    return record


def _record_table(rows: list[int], records: list[_Record]) -> pd.DataFrame:
    def ms(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return _positive([getattr(r, name) for r in records]) / NS_PER_MS

    wall, cpu, run_queue, off = (ms(n) for n in ("wall_ns", "cpu_ns", "run_queue_ns", "off_cpu_ns"))
    rest = np.maximum(wall - cpu - np.nan_to_num(run_queue), 0.0)
    classes = {
        f"{kind}_ms": np.nan_to_num(_positive([r.waits_ns.get(name, 0.0) for r in records]))
        / NS_PER_MS
        for name, kind in _CLASSES.items()
    }
    plain = {
        "chars_read_bytes": "chars_read",
        "chars_written_bytes": "chars_written",
        "disk_read_bytes": "disk_bytes_read",
        "disk_written_bytes": "disk_bytes_written",
        "blocked_ms": "blocked_ms",
        "waited_ms": "waited_ms",
        "gc_ms": "gc_ms",
        "peak_held_bytes": "peak_held_bytes",
        "mean_held_bytes": "mean_held_bytes",
    }
    counts = ("samples", "off_samples", "failures")
    return tb.TASK_RECORDS.frame(
        {
            "task": rows,
            "start_ms": [r.start_ms for r in records],
            "wall_ms": wall,
            "cpu_ms": cpu,
            "run_queue_ms": run_queue,
            "off_cpu_ms": np.where(np.isnan(off), rest, off),
            **classes,
            **{to: _positive([getattr(r, name) for r in records]) for to, name in plain.items()},
            **{name: _count([getattr(r, name) for r in records]) for name in counts},
            "pool": [redact_text(r.pool, MAX_NAME) for r in records],
            "sampler": [redact_text(r.sampler, MAX_NAME) for r in records],
        }
    )


def _interval_table(rows: list[int], records: list[_Record]) -> pd.DataFrame:
    """One row per interval; a profile that is damaged is left out, its record is kept."""
    tasks, counts, widths, starts, walls, looked = [], [], [], [], [], []
    series: list[tuple[int, int, list[float]]] = []
    total = 0
    for row, record in zip(rows, records, strict=True):
        profile = None if record.profile is None else read_profile(record.profile)
        if profile is None:
            continue
        width, count, found = profile
        series += [(column, total, values) for column, values in found]
        total += count
        tasks.append(row)
        counts.append(count)
        widths.append(width)
        starts.append(record.start_ms)
        walls.append(record.wall_ns / NS_PER_MS)
        looked.append(record.mean_held_bytes >= 0)
    spent = np.zeros((len(_VALUES), total))
    for column, first, values in series:
        spent[column, first : first + len(values)] += values
    # Without a series a task held nothing, unless nobody looked.
    held = spent[_VALUES.index(_HELD_VALUE)]
    held *= BYTES_PER_KIB
    held[~np.repeat(np.array(looked, bool), counts)] = np.nan
    number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    step, start, wall = (np.repeat(column, counts) for column in (widths, starts, walls))
    since, until = number * step, np.minimum((number + 1) * step, wall)
    keep = until > since
    return tb.INTERVALS.frame(
        {
            "task": np.repeat(tasks, counts)[keep],
            "start_ms": (start + since)[keep],
            "end_ms": (start + until)[keep],
            **{name: values[keep] for name, values in zip(_VALUES, spent, strict=True)},
        }
    )


def read_profile(
    profile: dict[str, Any],
) -> tuple[float, int, list[tuple[int, list[float]]]] | None:
    """Unpack a profile.

    Returns
    -------
    tuple or None
        Width of its intervals in ms, their number, and its series: position of the column among
        the value columns of ``intervals``, and values in ms (memory in KiB) without the zeros at
        the end. Series that are not known are left out; None if the profile itself is damaged.
    """
    width, count = profile.get("bucket_ms"), profile.get("buckets")
    if not (isinstance(width, (int, float)) and 0 < width < LAST_PLAUSIBLE_MS):
        return None
    if not (isinstance(count, int) and 0 < count <= MOST_INTERVALS):
        return None
    found = []
    for name, text in profile.items():
        column = _SERIES.get(name)
        if column is not None:
            values = _unpack(text, count)
            if values is None:
                return None
            found.append((column, values))
    return float(width), count, found


def _unpack(series: object, most: int) -> list[float] | None:
    """``250*3,12`` is 250, 250, 250, 12; None if it is anything else, or too long."""
    if not isinstance(series, str):
        return None
    values: list[float] = []
    for run in series.split(",") if series else ():
        number, _, times = run.partition("*")
        if not (number.isdecimal() and (times.isdecimal() or not _)):
            return None
        if len(number) > 15 or len(times) > 15:
            return None
        repeat = int(times) if times else 1
        if len(values) + repeat > most:
            return None
        values += [float(number)] * repeat
    return values


def _positive(numbers: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers as an array; NaN for what is no number ≥ 0."""
    array = np.array(numbers, np.float64)
    good = np.isfinite(array) & (array >= 0)
    return np.where(good, array, np.nan)


def _count(numbers: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.minimum(np.nan_to_num(_positive(numbers)), 2.0**53)


def decode_pools(lines: Iterable[bytes]) -> pd.DataFrame:
    """Read the scheduler's pools from the plugin's raw events; others are passed over.

    Returns
    -------
    DataFrame of :data:`iqcar.tables.POOLS`, for application row 0; pools without a name or with a
    weight that is no number above 0 are left out.
    """
    found: list[tuple[float, _Pool]] = []
    for line in lines:
        try:
            event = _decode_scheduler(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if event.event == SCHEDULER_EVENT:
            found += [(event.time, pool) for pool in event.pools if pool.name and pool.weight > 0]
    return tb.POOLS.frame(
        {
            "app": np.zeros(len(found)),
            "time_ms": [time for time, _ in found],
            "name": [redact_text(pool.name, MAX_NAME) for _, pool in found],
            "mode": [redact_text(pool.mode, MAX_NAME).upper() for _, pool in found],
            "weight": [pool.weight for _, pool in found],
            "min_share": [pool.min_share for _, pool in found],
        }
    )


def add_records(log: Collector, frames: dict[str, pd.DataFrame]) -> int:
    """Add ``task_records``, ``intervals`` and ``pools`` to the frames of one log.

    A pool that a task's record names fills the pool of its stage and job where the log has none.

    Returns
    -------
    int
        Records that were damaged.
    """
    tasks, stages, jobs = frames["tasks"], frames["stages"], frames["jobs"]
    read = decode_records(log.task_records, tasks["task_id"])
    frames["task_records"], frames["intervals"] = read.records, read.intervals
    frames["pools"] = decode_pools(log.plugin_events)
    pools = tb.texts(read.records, "pool")
    if any(pools):
        of_stage, of_job = tb.texts(stages, "pool"), tb.texts(jobs, "pool")
        stage_of, job_of = tasks["stage"].tolist(), stages["job"].tolist()
        for row, pool in zip(read.records["task"].tolist(), pools, strict=True):
            stage = stage_of[row]
            if pool and stage >= 0:
                of_stage[stage] = of_stage[stage] or pool
                if job_of[stage] >= 0:
                    of_job[job_of[stage]] = of_job[job_of[stage]] or pool
        frames["stages"] = stages.assign(pool=as_dtype(of_stage, "str"))
        frames["jobs"] = jobs.assign(pool=as_dtype(of_job, "str"))
    return read.damaged
