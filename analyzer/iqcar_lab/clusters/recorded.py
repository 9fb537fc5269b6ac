"""What logs say of a simulated run: tables that can be replayed, and samples of its hosts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.execution_memory import with_memory_waits
from iqcar.model.waits.executor_memory import FRACTION, RESERVED_BYTES
from iqcar.model.waits.measure import with_python_waits
from iqcar.tables import CONF, JOBS, POOLS, SAMPLES, STAGE_PARENTS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame
from iqcar_lab.clusters.simulation import Simulation

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


def replayable(
    run: Simulation, *, plain: bool = False, sampled: bool = False
) -> tuple[Tables, pd.DataFrame]:
    """Tables and waits with jobs, parents of stages, pools and, unless plain, the hosts' cores.

    ``sampled``: with samples of the hosts' devices, too.
    Of a plain log waits for execution memory are estimated.
    """
    tables, waits = run.emit(plain=plain)
    keys = sorted(run.stage_end)
    row_of = {key: row for row, key in enumerate(keys)}
    query = np.array([q for q, _ in keys])
    edges = [
        (row_of[q, s], row_of[q, parent])
        for q, s in keys
        for parent in run.plans[q].stages[s].parents
    ]
    stage_of_task = tables.tasks["stage"].to_numpy()
    launch = tables.tasks["launch_ms"].to_numpy()
    first = np.full(len(keys), np.inf)
    np.minimum.at(first, stage_of_task, launch)
    n, m = len(run.plans), len(keys)
    index = np.zeros(len(launch), int)
    for stage in range(m):
        mine = np.flatnonzero(stage_of_task == stage)
        index[mine] = np.arange(len(mine))
    pools = [plan.pool or f"pool-{q:03d}" for q, plan in enumerate(run.plans)]
    jobs = frame(
        JOBS,
        n,
        app=[plan.app for plan in run.plans],
        job_id=run.cluster.first_id + np.arange(n),
        query=np.arange(n),
        pool=pools,
        submission_ms=tables.queries["start_ms"],
        completion_ms=tables.queries["end_ms"],
        succeeded=np.ones(n, bool),
    )
    c = run.cluster
    samples = frame(
        SAMPLES,
        c.hosts,
        app=np.zeros(c.hosts, int),
        host=np.arange(c.hosts),
        time_ms=np.full(c.hosts, EPOCH_MS + 1000.0),
        duration_ms=np.full(c.hosts, 1000.0),
        cores=np.full(c.hosts, c.cores),
    )
    tables = tables.with_(
        applications=tables.applications.assign(
            application_id=[f"app-{a}" for a in range(c.apps)],
            scheduler_mode="FAIR" if c.fair else "FIFO",
        ),
        queries=tables.queries.assign(
            ended=True, tasks=np.bincount(tables.tasks["query"], minlength=n)
        ),
        jobs=jobs,
        conf=_settings(run),
        pools=_declared_pools(run),
        stages=tables.stages.assign(
            stage_id=_stage_ids(run, keys),
            attempt=0,
            job=query,
            pool=[pools[q] for q in query],
            first_launch_ms=first,
            python=[run.plans[q].stages[s].python > 0 for q, s in keys],
            completed=True,
        ),
        stage_parents=STAGE_PARENTS.frame(
            {
                "stage": [a for a, _ in edges],
                "parent": [b for _, b in edges],
                "side_bytes": np.full(len(edges), np.nan),
            }
        ),
        tasks=tables.tasks.assign(
            index=index, task_id=c.first_id + np.arange(len(launch)), attempt=0, status="success"
        ),
        **({} if plain else {"samples": host_samples(run) if sampled else samples}),
    )
    return tables, with_memory_waits(tables, waits) if plain else with_python_waits(tables, waits)


def _stage_ids(run: Simulation, keys: list[tuple[int, int]]) -> np.ndarray:
    """Ids of stages; their names have the order in which the simulator takes ties."""
    if not run.cluster.as_spark:
        return run.cluster.first_id + np.arange(len(keys))
    order = sorted(range(len(keys)), key=lambda row: (run.plans[keys[row][0]].name, keys[row][1]))
    ids = np.empty(len(keys), np.int64)
    ids[order] = 10_000 + run.cluster.first_id + np.arange(len(keys))
    return ids


def _settings(run: Simulation) -> pd.DataFrame:
    """The heap that leaves each application its execution memory on a host."""
    apps, memory = range(run.cluster.apps), run.cluster.memory
    if not np.isfinite(memory):
        return CONF.empty()
    heap = f"{round((memory / FRACTION + RESERVED_BYTES) / 1024)}k"
    return frame(
        CONF,
        len(apps),
        app=list(apps),
        key=["spark.executor.memory"] * len(apps),
        value=[heap] * len(apps),
    )


def _declared_pools(run: Simulation) -> pd.DataFrame:
    """Pools that several queries share, as the plugin saw them."""
    rows = [(app, *pool) for app in range(run.cluster.apps) for pool in run.cluster.pools]
    return frame(
        POOLS,
        len(rows),
        app=[app for app, *_ in rows],
        time_ms=np.full(len(rows), EPOCH_MS),
        name=[name for _, name, _, _ in rows],
        mode=["FAIR" if fair else "FIFO" for *_, fair in rows],
        weight=[weight for _, _, weight, _ in rows],
        min_share=np.zeros(len(rows)),
    )
