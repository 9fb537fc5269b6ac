"""Profiles for random tables: what each task did, in intervals that tile a part of its life."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS
from iqcar.tables import INTERVALS, TASK_RECORDS, Tables
from iqcar_lab.clusters.frames import frame

HELD = (np.nan, 0.0, 70_000.0, 1e6, 5e6)
"""Bytes that a task may hold."""
SERIES = ("cpu_ms", *(f"{r}_ms" for r in REQUESTS if not r.before_launch))
"""The columns of ``intervals`` that hold times spent."""


def intervals_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The table of intervals; series that a row does not name are zero, memory is unknown."""
    missing = {**dict.fromkeys(SERIES, 0.0), "held_bytes": np.nan}
    return INTERVALS.frame(
        {c.name: [{**missing, **row}[c.name] for row in rows] for c in INTERVALS.columns}
    )


def random_records(tables: Tables, seed: int) -> Tables:
    """Give about half of the tasks a record of the memory they held, and of the measured time."""
    rng = np.random.default_rng(seed)
    task = np.flatnonzero(rng.random(len(tables.tasks)) < 0.5)
    span = (tables.tasks["finish_ms"] - tables.tasks["launch_ms"]).to_numpy()[task]
    records = frame(
        TASK_RECORDS,
        len(task),
        task=task,
        wall_ms=span * rng.choice([0.0, 0.5, 1.0, 1.5], len(task)),
        mean_held_bytes=rng.choice(HELD, len(task)),
    )
    return tables.with_(task_records=records)


def random_profiles(tables: Tables, seed: int) -> Tables:
    """Give about two thirds of the tasks a profile, some of them by a clock that is off."""
    rng = np.random.default_rng(seed)
    rows = []
    for task, (launch, finish) in enumerate(
        zip(tables.tasks["launch_ms"], tables.tasks["finish_ms"], strict=True)
    ):
        life = finish - launch
        if not life >= 2 or rng.random() < 0.3:
            continue
        begin, end = sorted(rng.choice(int(life) + 1, 2, replace=False))
        width = int(rng.integers(1, 6))
        skew = rng.choice([0.0, 0.0, -7.0, 12.0])
        levels = rng.choice(HELD, 3) if rng.random() < 0.7 else [np.nan]
        for at in range(int(begin), int(end), width):
            spent = {name: float(rng.choice([0, 0, 1, 3])) for name in SERIES}
            spent["held_bytes"] = float(rng.choice(levels))
            edges = {"start_ms": launch + at, "end_ms": launch + min(at + width, int(end))}
            rows.append(
                {"task": task, **{name: when + skew for name, when in edges.items()}, **spent}
            )
    return tables.with_(intervals=intervals_of(rows))


def even_profiles(tables: Tables, waits: pd.DataFrame, width: int = 3) -> Tables:
    """Profiles of tasks that did and waited for everything evenly over their lives."""
    rows = []
    for task, (launch, finish) in enumerate(
        zip(tables.tasks["launch_ms"], tables.tasks["finish_ms"], strict=True)
    ):
        life = finish - launch
        if not life > 0:
            continue
        totals = {"cpu_ms": waits["compute_ms"][task]}
        totals |= {name: waits[name][task] for name in SERIES if name != "cpu_ms"}
        had = 1.0 - min(max(np.nan_to_num(totals["execution_memory_ms"]), 0.0) / life, 1.0)
        for at in range(0, int(life), width):
            length = min(width, life - at)
            rows.append(
                {
                    "task": task,
                    "start_ms": launch + at,
                    "end_ms": launch + at + length,
                    **{n: max(np.nan_to_num(t), 0.0) * length / life for n, t in totals.items()},
                    "held_bytes": tables.tasks["peak_memory_bytes"][task] * had,
                }
            )
    return tables.with_(intervals=intervals_of(rows))
