"""Random tables and waits for property tests: small, crowded, with everything that goes wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from iqcar.causes.blame.ratp import BYTES_REQUESTS
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.device import AT_MOST, Device, Grid
from iqcar.model.waits.columns import ESTIMATED, MEASURED, evidence_column
from iqcar.tables import (
    APPLICATIONS,
    CACHED,
    EXECUTORS,
    HOSTS,
    LOCK_OWNERS,
    QUERIES,
    STAGES,
    TASKS,
    Tables,
)
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame

BYTE_COLUMNS = (
    "input_bytes",
    "output_bytes",
    "remote_bytes",
    "local_bytes",
    "shuffle_write_bytes",
    "disk_spilled_bytes",
    "peak_memory_bytes",
)


class RandomInput(NamedTuple):
    """Tables and waits made from a seed; printing it says how to make them again."""

    tables: Tables
    waits: pd.DataFrame
    recipe: str

    def __repr__(self) -> str:
        return self.recipe


def tables_and_waits(max_tasks: int = 14) -> st.SearchStrategy[RandomInput]:
    """Several applications on shared hosts whose tasks overlap, touch, and take no time at all."""
    sizes = [st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 4)]
    stages = st.integers(1, 6)
    return st.builds(random_input, st.integers(0, max_tasks), *sizes, stages, st.integers(0, 2**32))


def random_input(
    n: int, n_apps: int, n_hosts: int, n_executors: int, n_queries: int, n_stages: int, seed: int
) -> RandomInput:
    """Make the tables and waits that a seed stands for."""
    rng = np.random.default_rng(seed)
    query_app = rng.integers(n_apps, size=n_queries)
    stage_query = rng.integers(n_queries, size=n_stages)
    stage_app = query_app[stage_query]
    stage_query = np.where(rng.random(n_stages) < 0.1, -1, stage_query)
    executor_app = rng.integers(n_apps, size=n_executors)
    executor_host = rng.integers(n_hosts, size=n_executors)
    stage = rng.integers(n_stages, size=n)
    executor = rng.integers(n_executors, size=n)
    launch = EPOCH_MS + rng.integers(0, 40, size=n)
    span = rng.integers(0, 30, size=n) * (rng.random(n) < 0.9)
    damage = rng.integers(0, 16, size=n)
    tasks = frame(
        TASKS,
        n,
        app=stage_app[stage],
        stage=np.where(damage == 0, -1, stage),
        query=stage_query[stage],
        host=np.where(damage == 1, -1, executor_host[executor]),
        executor=np.where(damage == 2, -1, executor),
        task_id=seed % 7 * 1_000_000 + np.arange(n),
        launch_ms=launch,
        finish_ms=np.where(damage == 3, np.nan, launch + span),
        **{name: rng.choice(_BYTES, n) for name in BYTE_COLUMNS},
        input_records=rng.choice(_ROWS, n),
    )
    # Waits for executors need applications of several seconds: `random_shared_cluster` has them.
    requests = [r for r in REQUESTS if r is not Request.EXECUTOR_WAIT]
    waits = {r: rng.choice(_SHARES, n) * span for r in requests}
    waits[Request.SLOT_WAIT] = rng.choice([np.nan, 0.0, 1.0, 7.0, 25.0], n)
    compute = rng.choice(_SHARES, n) * span
    waits[Request.RUN_QUEUE] = np.where(np.isnan(compute), np.nan, waits[Request.RUN_QUEUE])
    gc = np.nan_to_num(rng.choice(_SHARES, n)) * span

    def epoch(*offsets: float) -> Any:
        return EPOCH_MS + rng.choice(offsets, n_executors)

    tables = Tables.empty().with_(
        applications=frame(
            APPLICATIONS,
            n_apps,
            application_id=[f"app-{a}" for a in range(n_apps)],
            task_cpus=rng.choice([1.0, 2.0], n_apps),
        ),
        hosts=frame(HOSTS, n_hosts, host=[f"{seed}-host-{h}" for h in range(n_hosts)]),
        executors=frame(
            EXECUTORS,
            n_executors,
            app=executor_app,
            host=executor_host,
            cores=rng.choice([np.nan, 1.0, 4.0], n_executors),
            added_ms=epoch(np.nan, -30, 10),
            removed_ms=epoch(np.nan, 20, 90),
        ),
        queries=frame(
            QUERIES,
            n_queries,
            app=query_app,
            query_id=[f"q{q}" for q in range(n_queries)],
            start_ms=np.full(n_queries, EPOCH_MS - 5),
            end_ms=np.full(n_queries, EPOCH_MS + 60),
        ),
        stages=frame(
            STAGES,
            n_stages,
            app=stage_app,
            query=stage_query,
            submission_ms=EPOCH_MS + rng.integers(-20, 20, size=n_stages),
            completion_ms=EPOCH_MS + rng.integers(0, 70, size=n_stages),
            critical=rng.random(n_stages) < 0.5,
        ),
        tasks=tasks,
        cached=_cached(executor_app, stage_app, seed),
    )
    recipe = (
        f"random_input({n}, {n_apps}, {n_hosts}, {n_executors}, {n_queries}, {n_stages}, {seed})"
    )
    found = waits_frame(tasks, waits, compute, gc)
    for request in (Request.RUN_QUEUE, Request.EXECUTION_MEMORY):
        column = evidence_column(request)
        told = (found[column] == MEASURED) & (rng.random(n) < 0.4)
        found[column] = np.where(told, ESTIMATED, found[column]).astype(found[column].dtype)
    return RandomInput(tables, found, recipe)


def with_lock_owners(random: RandomInput, seed: int) -> RandomInput:
    """Let tasks name who held locks they waited for: some rightly, some as no task could have."""
    n = len(random.tables.tasks)
    rng = np.random.default_rng([seed, 9])
    named = 3 * n
    owners = LOCK_OWNERS.frame(
        {
            "task": rng.integers(n, size=named) if n else [],
            "owner": rng.integers(-1, n, size=named),
            "wait_ms": rng.choice([-5.0, 0.0, 0.5, 2.0, 9.0, 1e300, np.nan], named),
        }
    )
    return random._replace(tables=random.tables.with_(lock_owners=owners))


def _cached(executor_app: Any, stage_app: Any, seed: int) -> pd.DataFrame:
    """Spans in which executors held cached blocks; some of no known stage, some of no task."""
    rng = np.random.default_rng([seed, 9])
    n = int(rng.integers(0, 8))
    executor, stage = rng.integers(len(executor_app), size=n), rng.integers(len(stage_app), size=n)
    stage = np.where(stage_app[stage] == executor_app[executor], stage, -1)
    since = EPOCH_MS + rng.integers(-5, 60, size=n)
    return frame(
        CACHED,
        n,
        app=executor_app[executor],
        executor=executor,
        stage=stage,
        rdd=np.arange(n),
        since_ms=since,
        until_ms=since + rng.integers(1, 30, size=n),
        bytes=rng.choice([1.0, 70_000.0, 1e6, 5e9], n),
    )


def random_devices(n_hosts: int, seed: int) -> dict[Request, Device]:
    """Devices whose capacity lies within the speeds of random input, some hosts of them slow."""
    rng = np.random.default_rng([seed, 5])
    found = {}
    for request in (*BYTES_REQUESTS, Request.RUN_QUEUE):
        processor = request is Request.RUN_QUEUE
        low, high = (-3.0, 0.0) if processor else (np.log(2e3), np.log(5e6))
        grid = Grid.over(low, high, AT_MOST if processor else 0.0)
        capacity = float(rng.uniform(-0.7, 1.5) if processor else np.log(rng.uniform(5e3, 2e6)))
        found[request] = Device(
            log_capacity=capacity,
            log_fastest=high - 1.0,
            contended=float(rng.choice([0.3, 0.9, 1.0])),
            noise=float(rng.choice([0.2, 0.6])),
            grid=grid,
            slower=rng.choice([0.0, 0.0, 0.3, -0.9], n_hosts),
            tasks=40,
            evidence=0.0,
        )
        if rng.random() < 0.1:
            del found[request]
    return found


_BYTES = (np.nan, 0.0, 1.0, 70_000.0, 1e6, 5e6)
_ROWS = (np.nan, 0.0, 3.0, 9_000.0, 4e5)
_SHARES = (np.nan, 0.0, 0.05, 0.2, 0.5)
