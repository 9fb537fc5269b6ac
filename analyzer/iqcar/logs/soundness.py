"""Whether the tables of one log keep what all later steps rely on.

Damage in a log never breaks it, as far as is known. If it ever does, that log fails when it is
read, where it harms no other.
"""

from __future__ import annotations

import numpy as np

from iqcar.logs.merge import POINTS_TO
from iqcar.tables import LAST_PLAUSIBLE_MS, NONE, SPECS, Tables

PROFILES = ("task_records", "intervals")
"""Tables whose times are sums of plausible ones."""


class UnsoundError(Exception):
    """A table breaks what later steps rely on: a bug of the reader."""


def check_tables(tables: Tables) -> None:
    """Check the tables of one log.

    Raises
    ------
    UnsoundError
        If a column names a row that is not there, a number is infinite, a time is none, or a task
        ends before it starts.
    """
    frames = dict(tables)
    for name, columns in POINTS_TO.items():
        for column, target in columns.items():
            rows = frames[name][column].to_numpy()
            if len(rows) and (rows.min() < NONE or rows.max() >= len(frames[target])):
                raise UnsoundError(f"{name}.{column} names a row that {target} has not")
    for spec in SPECS:
        name, frame = spec.name, frames[spec.name]
        for column in [one.name for one in spec.columns if one.dtype == "float64" and len(frame)]:
            values = frame[column].to_numpy()
            if np.isinf(values).any():
                raise UnsoundError(f"{name}.{column} is infinite")
            is_time = column.endswith("_ms") and name not in PROFILES
            if is_time and _largest(values) > LAST_PLAUSIBLE_MS:
                raise UnsoundError(f"{name}.{column} is no time")
    launch, finish = (tables.tasks[name].to_numpy() for name in ("launch_ms", "finish_ms"))
    if not (finish >= launch).all():
        raise UnsoundError("tasks.finish_ms is before tasks.launch_ms")


def _largest(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.fmax.reduce(np.abs(values)))
