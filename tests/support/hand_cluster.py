"""One host written by hand, and what is blamed on it: tasks whose arithmetic fits on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.device import Device, Grid
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, QUERIES, STAGES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame


def cluster(
    waits: dict[Request, Any],
    *,
    launch: list[float],
    finish: list[float],
    cores: float = 2.0,
    added: float = 0.0,
    compute_ms: Any = np.nan,
    gc_ms: Any = 0.0,
    apps: int = 1,
    **columns: Any,
) -> tuple[Tables, pd.DataFrame]:
    """One host; task k belongs to stage k, which belongs to query k."""
    n = len(launch)
    app = np.arange(n) % apps
    zeros = {name: np.zeros(n) for name in _BYTES if name not in columns}
    tasks = frame(
        TASKS,
        n,
        app=app,
        stage=np.arange(n),
        query=np.arange(n),
        host=np.zeros(n),
        executor=app,
        launch_ms=EPOCH_MS + np.array(launch, dtype=float),
        finish_ms=EPOCH_MS + np.array(finish, dtype=float),
        **zeros,
        **columns,
    )
    tables = Tables.empty().with_(
        applications=frame(APPLICATIONS, apps, task_cpus=np.ones(apps)),
        hosts=frame(HOSTS, 1, host=["localhost"]),
        executors=frame(
            EXECUTORS,
            apps,
            app=np.arange(apps),
            host=np.zeros(apps),
            cores=np.full(apps, cores),
            added_ms=np.full(apps, EPOCH_MS + added),
        ),
        queries=frame(QUERIES, n, start_ms=tasks["launch_ms"], end_ms=tasks["finish_ms"]),
        stages=frame(STAGES, n, app=app, query=np.arange(n)),
        tasks=tasks,
    )
    return tables, waits_frame(tasks, waits, compute_ms, gc_ms)


_BYTES = (
    "input_bytes",
    "output_bytes",
    "remote_bytes",
    "local_bytes",
    "shuffle_write_bytes",
    "disk_spilled_bytes",
    "peak_memory_bytes",
)


def known_device(capacity: float, *, contended: float = 1.0) -> Device:
    """A device of one host in which the own rate of every stage is at least the capacity."""
    high = float(np.log(capacity))
    grid = Grid(high, 1.0, np.array([high]), np.ones(1))
    return Device(high, high, contended, 0.2, grid, np.zeros(1), 40, 0.0)


def parts(
    tables: Tables, waits: pd.DataFrame, stage: int, request: Request, **options: Any
) -> dict[tuple[int, int], tuple[float, float]]:
    """β and lost ms of one demand, by (kind, source stage)."""
    blame = attribute(tables, waits, **options)
    demands = blame.demands
    row = demands.index[
        (demands["stage"] == stage) & (demands["request"] == REQUESTS.index(request))
    ]
    mine = blame.sources[blame.sources["demand"] == row[0]]
    keys = zip(mine["kind"].tolist(), mine["source_stage"].tolist(), strict=True)
    return dict(zip(keys, zip(mine["beta"], mine["lost_ms"], strict=True), strict=True))
