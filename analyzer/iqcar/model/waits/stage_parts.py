"""Divides the time of queries among their stages, and that of stages among what took it.

A query, from its end backwards: the stage that completed last before this instant held it up from
its submission on; what lies between is the driver's. The segments sum to its duration.

A stage: lack of slots, what its tasks did, and its tail. With P the number of its tasks that could
run at once, the time from the first launch to the last end is (task time) / P plus the integral of
1 − running / P: time with fewer tasks than possible. Before the last launch that is a lack of
slots, after it the tail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.enums import EVIDENCES, Request
from iqcar.model.waits.columns import (
    ESTIMATED,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    evidence_column,
    wait_column,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    share_of,
    sum_by,
)

SLACK_MS = 5.0
"""Time by which a completion may be recorded after what it made possible began: events carry whole
milliseconds of two threads."""
PARTS = (
    ("slots_ms", "Tasks were ready, but the application did not run as many as it could."),
    ("executors_ms", "The same, because other applications held the executors."),
    ("compute_ms", "Its tasks' threads computed."),
    ("gc_ms", "Garbage collection stopped its tasks."),
    *((f"{request}_ms", request.sentence) for request in IN_TASK_REQUESTS),
    ("tail_ms", "All tasks had started, and fewer were left than could have run."),
    ("rest_ms", "Anything else, such as deserialisation and what was not recorded."),
)
"""Parts of a stage's elapsed time on the chain that held its query up; they sum to it.

While tasks run, the time is divided by the tasks that could have run at once: what they did is
divided like their task time, and what is missing to that number is `slots_ms` or `executors_ms`
while tasks wait, and `tail_ms` after the last one started.
"""

PART_NAMES = tuple(name for name, _ in PARTS)
"""Names of the parts."""
TASK_PARTS = ("compute_ms", "gc_ms", *(wait_column(request) for request in IN_TASK_REQUESTS))
"""Columns of waits that are parts of a stage by the same name."""


class QueryPaths(NamedTuple):
    """Time on the chains that held the queries up."""

    stage_ms: Floats
    """(n_stages,), ms: time of each stage on its query's chain; 0 off it."""
    driver_ms: Floats
    """(n_queries,), ms: time in which no stage on the chain ran."""


def query_paths(tables: Tables, kept: Flags) -> QueryPaths:
    """Walk back through the stages of each query.

    ``tables``: their queries must be identified. ``kept``, (n_queries,): the queries to divide;
    others get 0.
    """
    stages, queries = tables.stages, tables.queries
    began, ended = stage_times(tables)
    first, last = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    query = stages["query"].to_numpy(np.int64)
    known = (query >= 0) & np.isfinite(began) & np.isfinite(ended)
    known[known] &= kept[query[known]]
    rows = np.flatnonzero(known)
    # Latest completion first; of equal ones, the one that began last.
    rows = rows[np.lexsort((-rows, -began[rows], -ended[rows], query[rows]))]
    stage_ms = np.zeros(len(stages))
    driver_ms = np.where(kept, last - first, 0.0)
    now = last.copy()
    for row, owner, begin, end in zip(
        rows.tolist(), query[rows].tolist(), began[rows].tolist(), ended[rows].tolist(), strict=True
    ):
        begin = max(begin, first[owner])
        time = min(end, now[owner]) - begin
        if time > 0 and not end > now[owner] + SLACK_MS:
            stage_ms[row] = time
            driver_ms[owner] -= time
            now[owner] = begin
    return QueryPaths(stage_ms, np.maximum(driver_ms, 0.0))


def stage_times(tables: Tables) -> tuple[Floats, Floats]:
    """Return submission and completion of each stage, in ms; NaN where nothing tells.

    A stage without a recorded submission began with its first task.
    """
    began, launched, ended = (
        tables.stages[name].to_numpy(np.float64)
        for name in ("submission_ms", "first_launch_ms", "completion_ms")
    )
    began = np.where(np.isnan(began), launched, began)
    return began, np.where(np.isnan(ended), np.nan, np.fmax(ended, began))


def stage_parts(tables: Tables, waits: pd.DataFrame) -> Floats:
    """Divide the elapsed time of every stage.

    ``waits``: one row per row of ``tables.tasks``. Returns (n_stages, n_parts), ms: columns as
    ``PARTS``; each row sums to completion less submission, 0 where one is unknown.
    """
    n = len(tables.stages)
    began, ended = stage_times(tables)
    known = np.isfinite(began) & np.isfinite(ended)
    began, ended = np.where(known, began, 0.0), np.where(known, ended, 0.0)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    launch, finish = (
        tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    rows = np.flatnonzero((stage >= 0) & np.isfinite(launch) & np.isfinite(finish))
    rows = rows[known[stage[rows]]]
    stage_of = stage[rows]
    start = np.clip(launch[rows], began[stage_of], ended[stage_of])
    end = np.clip(finish[rows], start, ended[stage_of])
    count = np.bincount(stage_of, minlength=n)

    first, last, over = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(first, stage_of, start)
    np.maximum.at(last, stage_of, start)
    np.maximum.at(over, stage_of, end)
    first, last, over = (np.where(count == 0, ended, time) for time in (first, last, over))
    at_once = _could_run_at_once(tables, stage_of, start, end, count)
    task_time = sum_by(stage_of, end - start, n)
    while_launching = sum_by(stage_of, np.minimum(end, last[stage_of]) - start, n)
    lacking = np.maximum((last - first) - while_launching / at_once, 0.0)
    tail = np.maximum((over - last) - (task_time - while_launching) / at_once, 0.0)

    parts = dict.fromkeys(PART_NAMES, np.zeros(n))
    before = lacking + (first - began)
    slots, executors = (
        sum_by(stage_of, known_or_zero(waits[wait_column(request)].to_numpy()[rows]), n)
        for request in (Request.SLOT_WAIT, Request.EXECUTOR_WAIT)
    )
    parts["executors_ms"] = before * share_of(executors, slots + executors)
    parts["slots_ms"] = before - parts["executors_ms"]
    parts["tail_ms"] = tail
    sums = np.array(
        [sum_by(stage_of, positive_or_zero(waits[name].to_numpy()[rows]), n) for name in TASK_PARTS]
    )
    shares = share_of(sums, np.maximum(task_time, sums.sum(axis=0)))
    for name, share in zip(TASK_PARTS, shares, strict=True):
        parts[name] = task_time / at_once * share
    parts["rest_ms"] = (ended - began) - sum(parts[name] for name in PART_NAMES[:-1])
    return np.column_stack([np.where(known, parts[name], 0.0) for name in PART_NAMES])


def python_cpu(tables: Tables) -> Floats:
    """Sum processor time of Python workers by stage, where it was measured: (n_stages,), ms."""
    task = tables.task_records["task"].to_numpy(np.int64)
    stage = tables.tasks["stage"].to_numpy(np.int64)[task]
    cpu = positive_or_zero(tables.task_records["python_cpu_ms"].to_numpy(np.float64))
    return sum_by(stage[stage >= 0], cpu[stage >= 0], len(tables.stages))


def _could_run_at_once(
    tables: Tables, stage_of: Ints, start: Floats, end: Floats, count: Ints
) -> Floats:
    """Return how many tasks of each stage could run at once: as many as it had, and slots were.

    Slots are the most that the application had at one time, by its executors, or by its tasks
    where a stage ran more than that.
    """
    app = tables.stages["app"].to_numpy(np.int64)
    ran = most_at_once(stage_of, start, end, np.ones(len(stage_of)), len(app))
    slots = np.zeros(len(tables.applications))
    np.maximum.at(slots, app, ran)
    could = np.minimum(np.maximum(slots, most_slots(tables))[app], count)
    at_once: Floats = np.maximum(np.maximum(ran, could), 1.0)
    return at_once


def most_slots(tables: Tables) -> Floats:
    """Return the most slots that each application had at one time; 0 where it is unknown."""
    executors, apps = tables.executors, tables.applications
    app = executors["app"].to_numpy(np.int64)
    start, end = (apps[name].to_numpy(np.float64)[app] for name in ("start_ms", "end_ms"))
    since, until = (executors[name].to_numpy(np.float64) for name in ("added_ms", "removed_ms"))
    since, until = np.fmax(since, start), np.fmin(until, end)
    cores = known_or_zero(executors["cores"].to_numpy(np.float64))
    usable = np.flatnonzero(until > since)
    most = most_at_once(app[usable], since[usable], until[usable], cores[usable], len(apps))
    per_task = np.maximum(positive_or_zero(apps["task_cpus"].to_numpy(np.float64)), 1.0)
    return np.asarray(np.floor(most / per_task))


def part_evidence(tables: Tables, waits: pd.DataFrame) -> NDArray[np.int8]:
    """Return how each task's parts are known.

    Returns (n_tasks, n_parts): codes of evidence, columns as :data:`TASK_PARTS`.
    """
    tasks, records = tables.tasks, tables.task_records
    recorded = np.zeros(len(tasks), bool)
    sampled = (records["sampler"] == "").to_numpy(bool)
    recorded[records["task"].to_numpy(np.int64)[sampled]] = True
    # Only the plugin sees what a Python worker computes; of other tasks Spark tells as much.
    python = np.append(tables.stages["python"].to_numpy(bool), False)
    python = python[tasks["stage"].to_numpy(np.int64)]
    known = (~np.isnan(waits["compute_ms"].to_numpy()), ~np.isnan(tasks["gc_ms"].to_numpy()))
    own = [
        np.where(seen, MEASURED, np.where(told, REPORTED, MISSING))
        for seen, told in zip((recorded & python, recorded), known, strict=True)
    ]
    codes = {request: waits[evidence_column(request)].to_numpy() for request in IN_TASK_REQUESTS}
    # What nothing else explains is divided between the processor and memory, of which it may have
    # no part.
    lacked = codes[Request.EXECUTION_MEMORY]
    divided = (lacked == MISSING) & (codes[Request.RUN_QUEUE] == ESTIMATED)
    codes[Request.EXECUTION_MEMORY] = np.where(divided, ESTIMATED, lacked)
    return np.column_stack([*own, *codes.values()]).astype(np.int8)


def node_evidence(
    tables: Tables, waits: pd.DataFrame, stage_node: Ints, query_of_node: Ints
) -> Floats:
    """Return the share of each node's task time by the evidence of each part.

    ``stage_node``, (n_stages,): node of each stage; −1 where it was left out. ``query_of_node``,
    (n_nodes,): node of the query of each node. Returns (n_nodes, n_parts, n_evidences): rounded to
    percent; 0 where there are no tasks. A query's is that of all its tasks.
    """
    n, levels = len(query_of_node), len(EVIDENCES)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    node = np.append(stage_node, -1)[stage]
    rows = np.flatnonzero(node >= 0)
    time = positive_or_zero(waits["duration_ms"].to_numpy(np.float64)[rows])
    codes = part_evidence(tables, waits)[rows].astype(np.int64)
    times = np.empty((n, len(TASK_PARTS), levels))
    for part in range(len(TASK_PARTS)):
        cell = node[rows] * levels + codes[:, part]
        times[:, part] = sum_by(cell, time, n * levels).reshape(n, levels)
    others = np.flatnonzero(query_of_node != np.arange(n))
    np.add.at(times, query_of_node[others], times[others])
    return np.round(share_of(times, times.sum(axis=2, keepdims=True)), 2)


def mean_known(group: Ints, values: Floats, weight: Floats, n: int) -> Floats:
    """Average the known values of each of ``n`` groups; NaN where none is known."""
    known = sum_by(group, weight * np.isfinite(values), n)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sum_by(group, known_or_zero(values) * weight, n) / known)
