"""What the plugin's samples say of simulated hosts: their devices, and who computed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.tables import SAMPLES
from tests.support.cluster_simulator import Simulation
from tests.support.random_tables import EPOCH_MS, frame

SAMPLE_MS = 1000.0
"""How often the plugin samples a host."""
MOVES = {
    Request.IO_READ: ("disk_read_bytes", "read"),
    Request.IO_WRITE: ("disk_write_bytes", "write"),
    Request.SHUFFLE_FETCH: ("net_in_bytes", "fetch"),
}
"""The column that counts what tasks move in a phase, and the work of a stage that it is."""


def host_samples(run: Simulation) -> pd.DataFrame:
    """A sample a second of each host: what it moved and computed, and how busy its disk is.

    A disk is busy in the part of its capacity that is used; the page cache is none. The processes
    are those of the first application.
    """
    cluster, count = run.cluster, int(max(run.ended) // SAMPLE_MS) + 1
    moved, (jvm, python) = moved_bytes(run, count), computed_ms(run, count)
    hosts = cluster.hosts
    speed = np.ones(hosts)
    speed[-1] = cluster.slow_host
    disk = moved["disk_read_bytes"] + moved["disk_write_bytes"]
    busy = disk / (cluster.disk * SAMPLE_MS * speed[:, None])
    cores_used = 100.0 * (jvm + python).sum(axis=0) / (SAMPLE_MS * cluster.cores)
    host = np.repeat(np.arange(hosts), count)
    return frame(
        SAMPLES,
        hosts * count,
        app=np.zeros(hosts * count, int),
        host=host,
        executor=host,
        time_ms=EPOCH_MS + SAMPLE_MS * (1 + np.tile(np.arange(count), hosts)),
        duration_ms=np.full(hosts * count, SAMPLE_MS),
        cores=np.full(hosts * count, cluster.cores),
        cpu_user=cores_used.ravel(),
        cpu_system=np.zeros(hosts * count),
        jvm_cpu_ms=jvm[0].ravel(),
        python_cpu_ms=python[0].ravel(),
        disk_busy=np.minimum(busy, 1.0).ravel(),
        **{name: values.ravel() for name, values in moved.items()},
    )


def moved_bytes(run: Simulation, count: int) -> dict[str, np.ndarray]:
    """Bytes that tasks moved on each host in each second, by column of the samples."""
    moved = {name: np.zeros((run.cluster.hosts, count)) for name, _ in MOVES.values()}
    for task in run.tasks:
        stage = run.plans[task.query].stages[task.stage]
        for begin, end, request, *_ in task.history:
            if request not in MOVES or (request is Request.IO_READ and stage.cached):
                continue
            name, amount = MOVES[request]
            work = getattr(stage, amount) * task.scale / run.cluster.rounds
            _spread(moved[name][task.host], begin, end, work)
    return moved


def computed_ms(run: Simulation, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Processor time of JVMs and of Python workers of each application on each host."""
    jvm, python = (np.zeros((run.cluster.apps, run.cluster.hosts, count)) for _ in range(2))
    for task in run.tasks:
        at = run.plans[task.query].app, task.host
        for begin, end, request, computed, _ in task.history:
            if request is Request.RUN_QUEUE:
                _spread(jvm[at], begin, end, computed)
        for begin, end, computed in task.python:
            _spread(python[at], begin, end, computed)
    return jvm, python


def _spread(seconds: np.ndarray, begin: float, end: float, amount: float) -> None:
    """Add an amount to the seconds from begin to end, evenly."""
    first, last = int(begin // SAMPLE_MS), int(end // SAMPLE_MS)
    edges = np.clip(np.arange(first, last + 2) * SAMPLE_MS, begin, end)
    seconds[first : last + 1] += amount * np.diff(edges) / max(end - begin, 1e-9)
