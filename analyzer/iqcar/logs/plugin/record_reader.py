"""Reading one of the plugin's records, whatever its version, order and spelling."""

from __future__ import annotations

from math import isfinite, nan
from typing import Any, NamedTuple

import msgspec

from iqcar.logs.plugin.record_fields import (
    COLUMN_OF,
    FIELDS,
    MAX_DIGITS,
    MOST_INTERVALS,
    NS_PER_MS,
    TEXTS,
    TOTALS,
    WAITS,
)
from iqcar.tables import LAST_PLAUSIBLE_MS

Run = tuple[int, int, int, float]
"""Column among VALUES, first interval, number of intervals, and what is in each; not 0."""


class Record(NamedTuple):
    """What a record says."""

    numbers: tuple[float, ...]
    """As :data:`~iqcar.logs.plugin.record_fields.NUMBERS`, NaN for what it lacks."""
    texts: tuple[str, ...]
    runs: list[Run]


_Fields = msgspec.defstruct(
    "_Fields",
    [
        *((key, float) for key in TOTALS),
        *((one.key, float, one.missing) for one in FIELDS if one.key not in TOTALS),
        *((key, str, "") for key in TEXTS),
        ("waits_ns", dict[str, float], msgspec.field(default_factory=dict)),
        ("profile", dict[str, Any] | None, None),
    ],
)
_NUMBERS = tuple(one.key for one in FIELDS)
_MISSING = {one.key: one.missing for one in FIELDS}
_WAITS = tuple((one.key, one.missing) for one in WAITS)
_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def read_record(text: bytes | str) -> Record | None:
    """Read one record; None if it is damaged: no object, no totals, or impossible numbers.

    Fields and classes that are not known are left out, whatever the record's version; so is a
    profile that is damaged.
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
        *[waits.get(name, missing) for name, missing in _WAITS],
        width,
        count,
    )
    return Record(numbers, tuple(getattr(found, name) for name in TEXTS), runs)


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
        **{name: text(name) for name in TEXTS},
        waits_ns={
            name: float(value)
            for name, value in (waits if isinstance(waits, dict) else {}).items()
            if isinstance(value, (int, float)) and abs(value) < 1e300
        },
        profile=profile if isinstance(profile, dict) else None,
    )


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
