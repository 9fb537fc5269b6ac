"""A simulated cluster whose stragglers have known causes, as tables: tasks, records and samples.

Five hosts with four slots each run stages of equal tasks. Some tasks get more input, some collect
garbage for long, some run several threads and so are their host's load themselves. At random times
something outside Spark takes processors of a host away: tasks that compute run at half speed then,
tasks that do not are not delayed by it. So every millisecond over a task's plain duration has one
known cause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.enums import WaitClass
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, QUERIES, STAGES, TASKS, Tables
from iqcar.tables.specs import SAMPLES, TASK_RECORDS
from iqcar_lab.clusters.frames import EPOCH_MS, frame

N_HOSTS, SLOTS = 5, 4
PLAIN_MS = 3000.0
INPUT_BYTES = 64e6
SHARES = {"input-skew": 0.03, "gc": 0.03, "computation-skew": 0.02}
"""Shares of tasks with a cause of their own."""
COMPUTING = 0.8
"""Share of tasks that compute; the others wait for a service and need no processor."""
INJECTED_MS = (6_000.0, 14_000.0)
EVERY_MS = 40_000.0
"""About how often each host's processors are taken away, and for how long."""


@dataclass
class Truth:
    """The tables, and what delayed each task."""

    tables: Tables
    extra_ms: pd.DataFrame
    """One row per task, one column per cause: time it added."""
    touched: np.ndarray
    """Whether an injection overlapped the task, delayed or not."""


def simulate(seed: int, stages: int = 6, tasks_per_stage: int = 120) -> Truth:
    rng = np.random.default_rng(seed)
    length = stages * tasks_per_stage / (N_HOSTS * SLOTS) * PLAIN_MS * 2
    windows = [_injections(rng, length) for _ in range(N_HOSTS)]
    rows, clock = [], 0.0
    for stage in range(stages):
        free = [(clock, host) for host in range(N_HOSTS) for _ in range(SLOTS)]
        for _ in range(tasks_per_stage):
            begin, host = min(free)
            free.remove((begin, host))
            row = _run(rng, stage, host, begin, windows[host])
            rows.append(row)
            free.append((row["finish"], host))
        clock = max(row["finish"] for row in rows) + 500.0
    table = pd.DataFrame(rows)
    extra = table[["input-skew", "gc", "computation-skew", "host-cpu"]]
    return Truth(_tables(rng, table, windows, clock + 10_000.0), extra, table["touched"].to_numpy())


def _injections(rng: np.random.Generator, length: float) -> list[tuple[float, float]]:
    found, at = [], float(rng.exponential(EVERY_MS))
    while at < length:
        end = at + float(rng.uniform(*INJECTED_MS))
        found.append((at, end))
        at = end + float(rng.exponential(EVERY_MS))
    return found


def _run(
    rng: np.random.Generator, stage: int, host: int, begin: float, windows: list
) -> dict[str, float]:
    plain = PLAIN_MS * float(rng.lognormal(0, 0.12))
    cause = rng.choice([*SHARES, ""], p=[*SHARES.values(), 1 - sum(SHARES.values())])
    extra = dict.fromkeys(SHARES, 0.0)
    times = float(rng.uniform(2.2, 5.0)) if cause else 1.0
    if cause:
        extra[cause] = plain * (times - 1)
    computes = bool(rng.random() < COMPUTING) or cause == "computation-skew"
    work = plain + sum(extra.values())
    done, at, delayed, touched = 0.0, begin, 0.0, False
    for start, end in [*windows, (np.inf, np.inf)]:
        if end <= at:
            continue
        before = min(max(start - at, 0.0), work - done)
        done, at = done + before, at + before
        if done >= work:
            break
        touched = True
        speed = 0.5 if computes else 1.0
        inside = min(end - at, (work - done) / speed)
        done, at = done + inside * speed, at + inside
        delayed += inside * (1 - speed)
        if done >= work - 1e-9:
            break
    gc = extra["gc"] + 0.03 * plain
    return {
        "stage": stage, "host": host, "launch": begin, "finish": at, "plain": plain,
        "input": INPUT_BYTES * (times if cause == "input-skew" else 1) * rng.lognormal(0, 0.1),
        "cpu": (work - gc) * 0.9 if computes else 0.05 * work, "gc": gc, "run_queue": delayed,
        "threads": 4.0 if cause == "computation-skew" else 1.0, "computes": computes,
        "touched": touched, "host-cpu": delayed, **extra,
    }  # fmt: skip


def _tables(rng: np.random.Generator, t: pd.DataFrame, windows: list, end: float) -> Tables:
    n, stages = len(t), int(t["stage"].max()) + 1
    duration = (t["finish"] - t["launch"]).to_numpy()
    tasks = frame(
        TASKS, n,
        app=np.zeros(n), stage=t["stage"], query=np.zeros(n), host=t["host"], executor=t["host"],
        task_id=np.arange(n), index=np.arange(n), attempt=np.zeros(n),
        status=["success"] * n, locality=["PROCESS_LOCAL"] * n,
        launch_ms=EPOCH_MS + t["launch"], finish_ms=EPOCH_MS + t["finish"],
        getting_result_ms=np.zeros(n), deserialize_ms=np.full(n, 5.0),
        deserialize_cpu_ms=np.full(n, 3.0), run_ms=duration - 10, cpu_ms=t["cpu"], gc_ms=t["gc"],
        result_serialize_ms=np.zeros(n), input_bytes=t["input"], output_bytes=np.zeros(n),
    )  # fmt: skip
    known = {f"{kind}_ms": np.zeros(n) for kind in WaitClass}
    wall = duration - 10
    known["gc_safepoint_ms"] = t["gc"].to_numpy()
    known["other_ms"] = np.maximum(wall - t["cpu"] - t["run_queue"] - t["gc"], 0.0)
    records = frame(
        TASK_RECORDS, n,
        task=np.arange(n), start_ms=EPOCH_MS + t["launch"] + 5, wall_ms=wall, cpu_ms=t["cpu"],
        run_queue_ms=t["run_queue"], off_cpu_ms=np.maximum(wall - t["cpu"] - t["run_queue"], 0.0),
        samples=np.full(n, 100), off_samples=np.full(n, 50), failures=np.zeros(n), **known,
    )  # fmt: skip
    ids = np.arange(N_HOSTS)
    return Tables.empty().with_(
        applications=frame(
            APPLICATIONS, 1, application_id=["app"], start_ms=[EPOCH_MS], end_ms=[EPOCH_MS + end]
        ),
        hosts=frame(HOSTS, N_HOSTS, host=[f"host-{h}" for h in ids]),
        executors=frame(
            EXECUTORS, N_HOSTS, app=np.zeros(N_HOSTS), executor_id=[str(h) for h in ids], host=ids,
            cores=np.full(N_HOSTS, float(SLOTS)),
        ),
        queries=frame(QUERIES, 1, app=[0], query_id=["app/sql-0"], name=["truth"]),
        stages=frame(
            STAGES, stages, app=np.zeros(stages), stage_id=np.arange(stages),
            query=np.zeros(stages), submission_ms=np.full(stages, EPOCH_MS),
        ),
        tasks=tasks, task_records=records, samples=_samples(rng, t, windows, end),
    )  # fmt: skip


def _samples(rng: np.random.Generator, t: pd.DataFrame, windows: list, end: float) -> pd.DataFrame:
    """One sample a second and host: what tasks and injections used, with some noise."""
    parts = []
    for host in range(N_HOSTS):
        edge = np.arange(0.0, end, 1000.0)
        used = np.zeros(len(edge) - 1)
        mine = t[t["host"] == host]
        for row in mine.itertuples():
            share = np.clip(
                np.minimum(edge[1:], row.finish) - np.maximum(edge[:-1], row.launch), 0, None
            )
            used += share / 1000 * (row.threads if row.computes else 0.05) / (2 * SLOTS)
        for start, stop in windows[host]:
            share = np.clip(np.minimum(edge[1:], stop) - np.maximum(edge[:-1], start), 0, None)
            used += share / 1000 * 0.6
        busy = np.clip(used + rng.normal(0, 0.02, len(used)), 0.0, 1.0)
        parts.append(pd.DataFrame({"host": host, "time": edge[1:], "busy": busy}))
    all_ = pd.concat(parts, ignore_index=True)
    n = len(all_)
    return frame(
        SAMPLES, n, app=np.zeros(n), host=all_["host"], executor=all_["host"],
        time_ms=EPOCH_MS + all_["time"], duration_ms=np.full(n, 1000.0), dropped=np.zeros(n),
        cpu_idle=100 * (1 - all_["busy"]), cpu_iowait=np.zeros(n),
    )  # fmt: skip
