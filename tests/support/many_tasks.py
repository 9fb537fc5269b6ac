"""A diagnosis of any number of tasks: full slots on some hosts, several queries at once."""

from __future__ import annotations

import numpy as np

from iqcar import Diagnosis
from iqcar.enums import REQUESTS, Request
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, QUERIES, STAGES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame
from tests.support.plotted import diagnosis_of
from tests.support.random_tables import RandomInput


def many_tasks(
    tasks: int, hosts: int = 5, executors: int = 20, cores: int = 4, queries: int = 12
) -> Diagnosis:
    """Slots run one task after another; each task belongs to a query that is running then."""
    rng = np.random.default_rng(5)
    slots = executors * cores
    slot = np.arange(tasks) % slots
    span = rng.gamma(2.0, 400.0, tasks).round() + 1
    order = np.argsort(slot, kind="stable")
    ends = np.cumsum(span[order])
    begin = np.searchsorted(slot[order], np.arange(slots))
    before = np.concatenate([[0.0], ends])[begin]
    finish = np.empty(tasks)
    finish[order] = ends - before[slot[order]]
    launch = finish - span
    length = finish.max()
    start = np.sort(rng.uniform(0, 0.6, queries)) * length
    start[0] = 0.0
    running = start[None, :] <= launch[:, None]
    query = (rng.integers(0, 1 << 30, tasks) % running.sum(axis=1)).astype(np.int64)
    end = np.maximum.reduceat(finish[np.argsort(query, kind="stable")],
                              np.searchsorted(np.sort(query), np.arange(queries)))  # fmt: skip
    executor = slot // cores
    table = frame(
        TASKS, tasks, app=np.zeros(tasks), stage=query, query=query, host=executor % hosts,
        executor=executor, task_id=np.arange(tasks), status=["success"] * tasks,
        launch_ms=EPOCH_MS + launch, finish_ms=EPOCH_MS + finish, input_bytes=np.full(tasks, 1e6),
    )  # fmt: skip
    one = np.arange(queries)
    made = Tables.empty().with_(
        applications=frame(APPLICATIONS, 1, application_id=["app-1"], task_cpus=[1.0]),
        hosts=frame(HOSTS, hosts, host=[f"host-{h:02}" for h in range(hosts)]),
        executors=frame(
            EXECUTORS, executors, app=np.zeros(executors), host=np.arange(executors) % hosts,
            executor_id=[str(e) for e in range(executors)], cores=np.full(executors, float(cores)),
        ),
        queries=frame(
            QUERIES, queries, app=np.zeros(queries), query_id=[f"app-1/sql-{q}" for q in one],
            name=[f"query {q}" for q in one], fingerprint=[f"f{q}" for q in one],
            start_ms=EPOCH_MS + start, end_ms=EPOCH_MS + end, duration_ms=end - start,
            ended=np.ones(queries, bool),
        ),
        stages=frame(
            STAGES, queries, app=np.zeros(queries), stage_id=one, attempt=np.zeros(queries),
            query=one, submission_ms=EPOCH_MS + start, first_launch_ms=EPOCH_MS + start + 5,
            completion_ms=EPOCH_MS + end, completed=np.ones(queries, bool),
            critical=np.ones(queries, bool),
        ),
        tasks=table,
    )  # fmt: skip
    known = (Request.SLOT_WAIT, Request.RUN_QUEUE, Request.IO_READ, Request.SHUFFLE_FETCH)
    waits = {r: rng.choice([0.0, 0.05, 0.4], tasks) * span for r in known}
    assert set(waits) <= set(REQUESTS)
    frame_of_waits = waits_frame(table, waits, compute_ms=0.5 * span)
    return diagnosis_of(RandomInput(made, frame_of_waits, f"many_tasks({tasks})"))
