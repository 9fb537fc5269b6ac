"""Time blame: CPU seconds for n, n/2 and n/4 tasks (linear?), in one run, after compiling.

scripts/bench blame           200,000 tasks
scripts/bench blame --full    1,000,000 tasks
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import Request
from iqcar.tables import (
    APPLICATIONS,
    EXECUTORS,
    HOSTS,
    QUERIES,
    STAGES,
    TASKS,
    Tables,
)
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame
from scripts.benchmarks import Goals, least_s, parser_of, sized

HOST_COUNT, SLOTS, QUERY_COUNT = 20, 48, 40
TASKS_PER_STAGE = 1000
TASK_MS = 2000.0
LINEAR = 2.5
"""Goal: times as long for twice the tasks; 4 is quadratic, and caches grow too small."""
SCAN, SHUFFLE = 1e8, 5e7


def synthetic(n: int, seed: int = 1) -> tuple[Tables, pd.DataFrame]:
    """40 queries side by side on 20 hosts × 48 slots, always full; 25 stages each at 1 M tasks."""
    rng = np.random.default_rng(seed)
    per_query = max(round(n / TASKS_PER_STAGE / QUERY_COUNT), 1)
    n_stages = QUERY_COUNT * per_query
    lane = np.arange(n) % (HOST_COUNT * SLOTS)
    span = np.maximum(rng.exponential(TASK_MS, n), 5.0).round()
    order = np.argsort(lane, kind="stable")
    ends = np.empty(n)
    ends[order] = np.cumsum(span[order])
    first = np.zeros(HOST_COUNT * SLOTS)
    first[1:] = np.cumsum(np.bincount(lane, span, len(first)))[:-1]
    launch = ends - span - first[lane]
    # All queries run throughout; each goes through its stages one after another.
    progress = np.minimum(launch / max(launch.max(), 1.0), 1 - 1e-9)
    query = rng.integers(QUERY_COUNT, size=n)
    stage = query * per_query + (progress * per_query).astype(np.int64)
    host = lane // SLOTS
    tasks = frame(
        TASKS,
        n,
        app=np.zeros(n),
        stage=stage,
        query=query,
        host=host,
        executor=host,
        launch_ms=EPOCH_MS + launch,
        finish_ms=EPOCH_MS + launch + span,
        input_bytes=SCAN * rng.random(n),
        remote_bytes=SHUFFLE * rng.random(n),
        shuffle_write_bytes=SHUFFLE * rng.random(n),
        output_bytes=np.zeros(n),
        disk_spilled_bytes=np.zeros(n),
        peak_memory_bytes=SCAN * rng.random(n),
    )
    part = rng.dirichlet(np.ones(6), n).T * span
    waits = waits_frame(
        tasks,
        {
            Request.SLOT_WAIT: rng.exponential(TASK_MS, n),
            Request.RUN_QUEUE: part[0],
            Request.SHUFFLE_FETCH: part[1],
            Request.IO_READ: part[2],
            Request.IO_WRITE: part[3],
        },
        compute_ms=part[4],
        gc_ms=part[5] / 4,
    )
    begin = np.full(n_stages, np.inf)
    end = np.zeros(n_stages)
    np.minimum.at(begin, stage, launch)
    np.maximum.at(end, stage, launch + span)
    ran = np.isfinite(begin)
    tables = Tables.empty().with_(
        applications=frame(APPLICATIONS, 1, task_cpus=[1.0]),
        hosts=frame(HOSTS, HOST_COUNT, host=[f"host-{h}" for h in range(HOST_COUNT)]),
        executors=frame(
            EXECUTORS,
            HOST_COUNT,
            app=np.zeros(HOST_COUNT),
            host=np.arange(HOST_COUNT),
            cores=np.full(HOST_COUNT, float(SLOTS)),
        ),
        queries=frame(
            QUERIES,
            QUERY_COUNT,
            start_ms=np.full(QUERY_COUNT, EPOCH_MS),
            end_ms=np.full(QUERY_COUNT, EPOCH_MS + end.max()),
        ),
        stages=frame(
            STAGES,
            n_stages,
            app=np.zeros(n_stages),
            query=np.arange(n_stages) // per_query,
            submission_ms=np.where(ran, EPOCH_MS + begin, np.nan),
            completion_ms=np.where(ran, EPOCH_MS + end, np.nan),
        ),
        tasks=tasks,
    )
    return tables, waits


def main() -> int:
    """Print times; return the exit code."""
    options = parser_of(__doc__, full="1 M tasks instead of 200,000").parse_args()
    n = sized(options, quick=2_000, usual=200_000, full=1_000_000)
    goals = Goals()
    attribute(*synthetic(2_000))
    took = {}
    for size in (n // 4, n // 2, n):
        data = synthetic(size)
        took[size] = least_s(lambda data=data: attribute(*data), 2)
        print(f"blame of {size:>9,} tasks: {took[size]:7.2f} s, {size / took[size]:,.0f}/s")
    goals.most("n tasks against n/2 (linear: 2)", took[n] / took[n // 2], LINEAR)
    goals.most("n/2 tasks against n/4 (linear: 2)", took[n // 2] / took[n // 4], LINEAR)
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
