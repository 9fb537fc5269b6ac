"""Tables of a simulated run that are complete enough to be replayed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.model.waits.execution_memory import with_memory_waits
from iqcar.model.waits.executor_memory import FRACTION, RESERVED_BYTES
from iqcar.model.waits.measure import with_python_waits
from iqcar.tables import CONF, JOBS, POOLS, SAMPLES, STAGE_PARENTS, Tables
from tests.support.cluster_simulator import Simulation
from tests.support.random_tables import EPOCH_MS, frame
from tests.support.simulated_samples import host_samples


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
