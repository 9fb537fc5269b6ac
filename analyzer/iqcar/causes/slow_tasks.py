"""Tells why tasks of a stage took longer than they had to, by what the log has of each.

The task that ends a stage is held against the median of the others, part by part: more bytes or
rows are skew of the data; deserialising, and what only first tasks take, is a cold start; then
collections, stops by a CPU limit, locks, page faults, and time on the processor. What is left has
no part that anything recorded: it was spent outside of Spark.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, evidence_column, wait_column
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, positive_or_zero

MORE_DATA = 2.0
"""Bytes or rows of a task over the median's from which on its data differ."""
LEAST_BYTES, LEAST_ROWS = 256.0 * 2**10, 10_000.0
"""Data that count as so much at least: below that, tasks differ by what starting them costs."""
LATER_TASKS = 3
"""Tasks of a stage on warm executors from which on first ones are held against them."""
READS = 1e3
"""Bytes per ms of a task from which on unrecorded time may be reading them: a slow store's."""
YOUNG_MS = 10_000.0
"""Time since its first task in which an executor still compiles what it runs."""
NO_CPU = 0.15
"""Share of a stage's task time on the processor below which its tasks wait for something."""
MOSTLY = 0.5
"""Share of a stage's task time from which on the time has one reason."""
CAUSES = ("data", "cold", "gc", "throttled", "lock", "faults", "computing", "outside", "far")
"""What the tail of a stage is put down to; what is left is fetching, reading and writing."""
NEAR = ("PROCESS_LOCAL", "NO_PREF")
"""Levels of locality of tasks whose data is in their executor, or nowhere."""
_PARTS = ("deserialize", "gc", "throttled", "lock", "faults", "cpu", "outside")
_SHOWN = ("lasted", "bytes", "rows", "out_rows", "cpu", "deserialize", "young")


def slow_tasks(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Say of each stage why its tasks took long.

    tables: what was read
    waits: one row per row of ``tables.tasks``

    Returns frame by stage, of those with tasks that ended well:
    ``tail_X``: part of its tail, for each of :data:`CAUSES`
    ``cold``, ``outside``, ``lock``, ``run_queue``, ``ran``: task time in ms: what first tasks took
    longer than later ones, or deserialising; what nothing recorded; monitors; queues; all of it
    ``cpu_share``: on the processor and in collections
    ``fixed``: whether the time of its tasks is not that of their data: more of them do not help
    ``told``: whether the log tells what its tasks computed
    ``last_X``, ``usual_X``: of the task that ended it, and the median of the others, in ms, bytes
    or rows
    ``first_ms``, ``later_ms``: median of first tasks, and of later ones; NaN if they are few
    """
    frame = _tasks(tables, waits)
    of = frame.groupby("stage")
    ends = of["finish"].idxmax()
    last = frame.loc[ends].set_index("stage")
    # A stage of one task has nothing to hold it against, and is as usual.
    others = frame.drop(ends[(of.size() > 1).to_numpy()])
    columns = ["lasted", "bytes", "rows", "out_rows", "fresh", "young", "far", *_PARTS]
    usual = others.groupby("stage")[columns].median()
    later = frame[~frame["first"]].groupby("stage")["lasted"].agg(["median", "size"])
    later = later.reindex(usual.index)
    found = _tails(last, usual, later)
    first = frame[frame["first"]]
    found["cold"] = _cold(first, frame[~frame["first"]], usual, later)
    found["first_ms"] = first.groupby("stage")["lasted"].median()
    found["later_ms"] = later["median"].where(later["size"] >= LATER_TASKS)
    found = found.fillna({"cold": 0.0})
    sums = of[["lasted", "cpu", "gc", "outside", "lock", "run_queue", "bytes"]].sum()
    python = tables.stages["python"].to_numpy(bool)[sums.index.to_numpy()]
    told = of["told"].all().to_numpy() & (~python | of["measured"].all().to_numpy())
    waited = sums["outside"] + sums["lock"]
    reads = sums["bytes"] >= READS * waited
    has_data = (usual["bytes"] >= LEAST_BYTES) | (usual["rows"] >= LEAST_ROWS)
    share = (sums["cpu"] + sums["gc"]) / sums["lasted"].clip(lower=1.0)
    waits_only = (waited >= MOSTLY * sums["lasted"]) & ~reads & told
    return found.assign(
        ran=sums["lasted"], outside=sums["outside"], lock=sums["lock"],
        run_queue=sums["run_queue"], cpu_share=share, told=told,
        fixed=waits_only | ~(has_data | (share >= MOSTLY) | ~told),
    )  # fmt: skip


def _cold(
    first: pd.DataFrame, rest: pd.DataFrame, usual: pd.DataFrame, later: pd.DataFrame
) -> pd.Series:
    """Sum by stage what first tasks loaded, compiled and connected: what later ones did not.

    What they read, fetched or wrote is not part of it, nor is unrecorded time that may be that.
    """
    stage = first["stage"].to_numpy(np.int64)
    warm = rest.groupby("stage")[["lasted", "cpu", "outside"]].median()
    warm = warm[(later["size"] >= LATER_TASKS).reindex(warm.index)].reindex(stage)
    times = _more_data(first, usual.loc[stage].set_index(first.index))
    more = {
        name: np.maximum(first[name].to_numpy() - times * warm[name].to_numpy(), 0.0)
        for name in ("lasted", "cpu", "outside")
    }
    reads = first["bytes"].to_numpy() >= READS * first["outside"].to_numpy()
    unpacked = first["deserialize"].to_numpy(np.float64)
    longer = np.minimum(more["lasted"], more["cpu"] + np.where(reads, 0.0, more["outside"]))
    return pd.Series(np.fmax(unpacked, unpacked + longer)).groupby(stage).sum()


def _tasks(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Return what is needed of each task that ended well."""
    tasks = tables.tasks
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    good = (tasks["status"] == "success").to_numpy(bool) & (tasks["stage"] >= 0).to_numpy(bool)
    good &= finish >= launch

    def number(*names: str) -> Floats:
        found: Floats = np.zeros(len(tasks))
        for name in names:
            found += positive_or_zero(tasks[name].to_numpy(np.float64))
        return found

    def waited(name: str) -> Floats:
        return positive_or_zero(waits[name].to_numpy(np.float64))

    outside = waited("unattributed_ms") + waited("other_wait_ms")
    # What nothing explains is estimated to be these; where hardly anything computes it is not.
    for request in (Request.RUN_QUEUE, Request.EXECUTION_MEMORY, Request.NOTIFICATION_WAIT):
        guessed = waits[evidence_column(request)].to_numpy() == ESTIMATED
        outside += np.where(guessed, waited(wait_column(request)), 0.0)
    measured = np.zeros(len(tasks), bool)
    measured[tables.task_records["task"].to_numpy(np.int64)] = True
    stage, executor = (tasks[name].to_numpy(np.int64) for name in ("stage", "executor"))
    began = pd.Series(launch).groupby(executor).transform("min").to_numpy(np.float64)
    frame = pd.DataFrame(
        {
            "stage": stage, "executor": executor, "finish": finish, "lasted": finish - launch,
            "bytes": number("input_bytes", "remote_bytes", "local_bytes"),
            "rows": number("input_records", "shuffle_read_records"),
            "out_rows": number("output_records", "shuffle_write_records"),
            "deserialize": number("deserialize_ms"), "gc": number("gc_ms"),
            "throttled": waited(wait_column(Request.THROTTLED)),
            "lock": waited(wait_column(Request.MONITOR_BLOCKED)),
            "faults": waited(wait_column(Request.PAGE_FAULT)),
            "run_queue": waited(wait_column(Request.RUN_QUEUE)),
            "cpu": waited("compute_ms"), "outside": outside, "measured": measured,
            "young": launch <= began + YOUNG_MS,
            "far": ~tasks["locality"].isin(NEAR).to_numpy(bool),
            "told": np.isfinite(waits["compute_ms"].to_numpy(np.float64)),
            "first": _is_first(launch, finish, good, [stage, executor]),
            "fresh": _is_first(launch, finish, good, [executor]),
        }
    )  # fmt: skip
    return frame[good].reset_index(drop=True)


def _is_first(launch: Floats, finish: Floats, good: Flags, group: list[Ints]) -> Flags:
    """Tell which tasks began while the first one of their group ran."""
    times = pd.DataFrame({"launch": launch, "finish": np.where(good, finish, np.inf)})
    first = times.groupby(group).transform("min")
    # Schedulers hand out the next task before they write down the end of the last.
    half = 0.5 * (first["launch"] + first["finish"]).to_numpy(np.float64)
    return np.asarray(launch <= half)


def _more_data(task: pd.DataFrame, usual: pd.DataFrame) -> Floats:
    """Return how many times the usual data a task has; 1 where they are alike."""
    ratio = np.ones(len(task))
    for name, least in (("bytes", LEAST_BYTES), ("rows", LEAST_ROWS), ("out_rows", LEAST_ROWS)):
        times = task[name].to_numpy() / np.maximum(usual[name].to_numpy(), least)
        ratio = np.maximum(ratio, times)
    return np.where(ratio >= MORE_DATA, ratio, 1.0)


def _tails(last: pd.DataFrame, usual: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Divide what the last task of each stage took longer than usual among :data:`CAUSES`."""
    longer = (last["lasted"] - usual["lasted"]).to_numpy().clip(min=0.0)
    data = np.minimum(usual["lasted"].to_numpy() * (_more_data(last, usual) - 1.0), longer)
    left = longer - data
    more = {name: (last[name] - usual[name]).to_numpy().clip(min=0.0) for name in _PARTS}
    # First tasks load classes, compile and connect: later ones of the stage, or those of executors
    # that are not new, do not.
    is_cold = (later["size"] >= LATER_TASKS).to_numpy() & last["first"].to_numpy(bool)
    is_cold |= last["fresh"].to_numpy(bool) & (usual["fresh"] < MOSTLY).to_numpy()
    told = last["told"].to_numpy(bool)
    # What a task reads from elsewhere, such as cached blocks of another host, is waited for unseen.
    reads = last["bytes"].to_numpy() >= READS * np.maximum(more["outside"], 1.0)
    unseen = np.where(told, more["outside"], 0.0)
    far = last["far"].to_numpy(bool) & (usual["far"] < MOSTLY).to_numpy() & reads
    warms = more["cpu"] + np.where(reads, 0.0, unseen)
    parts = {
        "cold": more["deserialize"] + np.where(is_cold, warms, 0.0),
        **{name: more[name] for name in ("gc", "throttled", "lock", "faults")},
        "computing": np.where(is_cold, 0.0, more["cpu"]),
        "outside": np.where(is_cold | reads, 0.0, unseen),
        "far": np.where(far, unseen, 0.0),
    }
    known = np.maximum(np.sum(list(parts.values()), axis=0), np.maximum(left, 1e-9))
    each = left / np.maximum(longer, 1e-9) / known
    shares = {name: part * each for name, part in parts.items()}
    shares["data"] = data / np.maximum(longer, 1e-9)
    found = pd.DataFrame({f"tail_{name}": shares[name] for name in CAUSES}, index=usual.index)
    for name in _SHOWN:
        found[f"last_{name}"], found[f"usual_{name}"] = last[name], usual[name]
    return found
