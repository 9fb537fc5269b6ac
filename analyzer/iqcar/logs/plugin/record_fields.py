"""What is read of the plugin's records: one line per field and per series of a profile.

A field or series that is added here is read by :mod:`iqcar.logs.plugin.record_columns` and by
:mod:`iqcar.logs.tasks.record_scanner`, and put into its column of ``task_records`` or
``intervals``.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from iqcar.enums import REQUESTS, Request, WaitClass

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
