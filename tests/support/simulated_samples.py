"""What the plugin's samples say of the devices of simulated hosts."""

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
    """A sample a second of each host: bytes moved, evenly within a phase, and how busy its disk is.

    A disk is busy in the part of its capacity that is used; the page cache is none.
    """
    cluster, moved = run.cluster, moved_bytes(run)
    hosts, count = moved["disk_read_bytes"].shape
    speed = np.ones(hosts)
    speed[-1] = cluster.slow_host
    disk = moved["disk_read_bytes"] + moved["disk_write_bytes"]
    busy = disk / (cluster.disk * SAMPLE_MS * speed[:, None])
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
        disk_busy=np.minimum(busy, 1.0).ravel(),
        **{name: values.ravel() for name, values in moved.items()},
    )


def moved_bytes(run: Simulation) -> dict[str, np.ndarray]:
    """Bytes that tasks moved on each host in each second, by column of the samples."""
    shape = run.cluster.hosts, int(max(run.ended) // SAMPLE_MS) + 1
    moved = {name: np.zeros(shape) for name, _ in MOVES.values()}
    for task in run.tasks:
        stage = run.plans[task.query].stages[task.stage]
        for begin, end, request, *_ in task.history:
            if request not in MOVES or (request is Request.IO_READ and stage.cached):
                continue
            name, amount = MOVES[request]
            work = getattr(stage, amount) * task.scale / run.cluster.rounds
            first, last = int(begin // SAMPLE_MS), int(end // SAMPLE_MS)
            edges = np.clip(np.arange(first, last + 2) * SAMPLE_MS, begin, end)
            part = np.diff(edges) / max(end - begin, 1e-9)
            moved[name][task.host, first : last + 1] += work * part
    return moved
