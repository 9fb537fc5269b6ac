"""Estimates what each query saves if a stage has other partitions, or no spill or collection.

Time counts only where a stage held its query up (``query_paths`` in iqcar.model.waits.stage_parts).
With S slots and a stage of k tasks whose work is W (task time over the k tasks that could run at
once):

- k < S and long tasks: partitions as many as slots take W · k / S, so W · (1 − k / S) is saved, and
  the tail; S are the slots that other stages left free meanwhile, and of W what waited for devices
  may not shrink;
- the tail, in which the last tasks run beside free slots, is skew where the longest task is much
  longer than the median, else uneven waves;
- where the tasks of one host are slow in several stages, the tail and what they take longer than
  the others' is the host's, no skew;
- what garbage collection took of W, or stops by the CPU limit of executors, or page faults;
- what writing and reading spilled data took: by the bytes, at a range of speeds, and at most what
  nothing else explains of the tasks' time.

The ranges hold what was saved in simulated clusters (docs/evaluation/planted_findings.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from iqcar.causes.savings.broadcasts import broadcasts
from iqcar.causes.savings.slow_hosts import slow_hosts
from iqcar.enums import FindingKind, Request
from iqcar.model.waits.stage_parts import (
    PART_NAMES,
    TASK_PARTS,
    most_slots,
    query_paths,
    stage_parts,
    stage_times,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, known_or_zero, positive_or_zero, sum_by

LONG_TASK_MS = 1_000.0
"""Median from which on splitting tasks is worth what starting them costs (up to 20 ms each)."""
SKEWED = 1.5
"""Longest over median task from which on a tail is skew: what makes a straggler."""
GC_SHARE = 0.1
"""Share of a stage's work from which on garbage collection or page faults are worth more memory,
and stops by a CPU limit a larger one."""
SPILL_RATES = (50e3, 1_000e3)
"""Bytes per ms at which a task writes or reads what it spills: from a page cache, from a shared
disk. What is spilled is written once and read once."""
SPILL_CPU_MS = 16e-6
"""Processor time that a spilled byte of memory costs at most, on a slow processor: it is sorted,
written and read in parts, and aggregated by sorting where no hash table fits. Measured: 4e-6 to
13e-6."""
LOOSE = (Request.RUN_QUEUE, Request.IO_WRITE)
"""Waits that Spark does not measure apart from spilling."""
SPILL_SHARE = 0.85
"""Share of a stage's time that is due to spilling at most, where that is told by processor time."""
LOOSE_SHARE = 0.3
"""Part of what nothing else explains of a spilling stage's time that is due to it at least."""
COLUMNS = (
    "kind", "query", "stage", "host", "saves_ms", "low_ms", "high_ms",
    "tasks", "slots", "median_ms", "longest_ms", "bytes", "fetches", "needed", "had", "stopped",
    "faulted",
)  # fmt: skip


def stage_savings(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Estimate savings stage by stage.

    Returns one row per stage and kind of remedy that saves something: :data:`COLUMNS`; query,
    stage and host (−1 if none) are rows, times elapsed ms of the query, bytes what a
    task read (median), what the stage spilled or the small side of its join; ``fetches`` whether it
    reads what other stages wrote; of memory a task needed and had so many bytes at most; a CPU
    limit stopped that share of its work, and pages were waited for in that.
    """
    facts = _stage_facts(tables, waits)
    rows = [
        _partitions(facts),
        _skew(facts),
        _slow_hosts(facts),
        _collection(facts),
        _limit(facts),
        _faults(facts),
        _spill(facts),
        broadcasts(facts, tables),
    ]
    found = pd.concat(rows, ignore_index=True)
    return found[(found["saves_ms"] > 0).to_numpy()][list(COLUMNS)]


def _stage_facts(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Sum up what is needed of every stage that held a query up; times are elapsed ms of that."""
    n, tasks = len(tables.stages), tables.tasks
    parts = stage_parts(tables, waits)
    whole = parts.sum(axis=1)
    held = query_paths(tables, np.ones(len(tables.queries), bool)).stage_ms
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(whole > 0, np.minimum(held / whole, 1.0), 0.0)
    share = dict(zip(PART_NAMES, (parts * factor[:, None]).T, strict=True))
    done = (tasks["status"] == "success").to_numpy(bool) & (tasks["stage"] >= 0).to_numpy(bool)

    def number(name: str) -> Floats:
        return positive_or_zero(tasks[name].to_numpy(np.float64)[done])

    frame = pd.DataFrame(
        {
            "stage": tasks["stage"].to_numpy(np.int64)[done],
            "lasted": (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)[done],
            "bytes": sum(number(name) for name in ("input_bytes", "remote_bytes", "local_bytes")),
            "cpu": number("cpu_ms") + number("gc_ms"),
            "held": number("peak_memory_bytes"),
            "unheld": number("memory_spilled_bytes"),
        }
    )
    of = frame.groupby("stage")
    facts = pd.DataFrame(
        {
            "query": tables.stages["query"].to_numpy(np.int64),
            "stage": np.arange(n),
            "tasks": np.bincount(frame["stage"], minlength=n),
            "slots": most_slots(tables)[tables.stages["app"].to_numpy(np.int64)],
            "free": _free_slots(tables),
            "alone_ms": share["compute_ms"] + share["gc_ms"] + np.maximum(share["rest_ms"], 0.0),
            "work_ms": sum(share[name] for name in TASK_PARTS) + np.maximum(share["rest_ms"], 0.0),
            "tail_ms": share["tail_ms"],
            "lost_ms": _lost(tables),
            "gc_ms": share["gc_ms"],
            "throttled_ms": share["throttled_ms"],
            "page_fault_ms": share["page_fault_ms"],
            "held_ms": held,
            "loose_ms": sum(share[f"{name}_ms"] for name in LOOSE)
            + np.maximum(share["rest_ms"], 0.0),
            "factor": factor,
            "median_ms": _of_stages(of["lasted"].median(), n),
            "longest_ms": _of_stages(of["lasted"].max(), n),
            "bytes": _of_stages(of["bytes"].median(), n),
            "fetches": np.isin(np.arange(n), tables.stage_parents["stage"].to_numpy()),
            "needed": _of_stages((of["held"].max() + of["unheld"].max()), n),
            "had": _of_stages(of["held"].max(), n),
            "unheld": _of_stages(of["unheld"].sum(), n),
            "cpu_ms": _of_stages(of["cpu"].sum(), n),
            "spilled": sum_by(
                frame["stage"].to_numpy(np.int64),
                number("disk_spilled_bytes"),
                n,
            ),
        }
    )
    facts["stopped"] = facts["throttled_ms"] / np.maximum(facts["work_ms"], 1.0)
    facts["faulted"] = facts["page_fault_ms"] / np.maximum(facts["work_ms"], 1.0)
    facts = facts.join(slow_hosts(tables), on="stage").fillna({"host": -1, "host_ms": 0.0})
    return facts[((facts["query"] >= 0) & (facts["held_ms"] > 0) & (facts["tasks"] > 0)).to_numpy()]


def _free_slots(tables: Tables) -> Floats:
    """Return how many slots the tasks of other stages left to each stage while it ran, on average.

    Returns (n_stages,): of those that its application had at its most; 1 at least.
    """
    tasks, stages = tables.tasks, tables.stages
    began, ended = stage_times(tables)
    slots = most_slots(tables)[stages["app"].to_numpy(np.int64)]
    held = np.zeros(len(stages))
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    known = np.isfinite(launch) & (finish > launch) & (tasks["stage"] >= 0).to_numpy(bool)
    task_app = tasks["app"].to_numpy(np.int64)
    for app in range(len(tables.applications)):
        mine = known & (task_app == app)
        rows = np.flatnonzero((stages["app"] == app).to_numpy(bool) & (ended > began))
        if len(rows) == 0 or not mine.any():
            continue
        own = sum_by(tasks["stage"].to_numpy(np.int64)[mine], (finish - launch)[mine], len(stages))
        until = _slot_time(launch[mine], finish[mine])
        whole = until(ended[rows]) - until(began[rows])
        held[rows] = np.maximum(whole - own[rows], 0.0) / (ended[rows] - began[rows])
    free: Floats = np.maximum(slots - held, 1.0)
    return free


def _slot_time(launch: Floats, finish: Floats) -> Callable[[Floats], Floats]:
    """Return the task time up to a moment, as a function of it: O(log tasks) each."""
    start, end = np.sort(launch), np.sort(finish)
    starts, ends = (np.append(0.0, np.cumsum(times)) for times in (start, end))

    def until(moment: Floats) -> Floats:
        begun, done = np.searchsorted(start, moment), np.searchsorted(end, moment)
        ran: Floats = (begun * moment - starts[begun]) - (done * moment - ends[done])
        return ran

    return until


def _lost(tables: Tables) -> Floats:
    """Task time of attempts that failed or were killed, by stage."""
    tasks = tables.tasks
    lasted = known_or_zero((tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64))
    stage = tasks["stage"].to_numpy(np.int64)
    lost = (tasks["status"] != "success").to_numpy(bool) & (stage >= 0)
    return sum_by(stage[lost], np.maximum(lasted[lost], 0.0), len(tables.stages))


def _of_stages(values: pd.Series, n: int) -> Floats:
    found: Floats = values.reindex(range(n)).to_numpy(np.float64)
    return found


def _is_skewed(facts: pd.DataFrame) -> pd.Series:
    return (facts["host"] < 0) & _is_uneven(facts)


def _is_uneven(facts: pd.DataFrame) -> pd.Series:
    longer = facts["longest_ms"] - facts["median_ms"]
    return (facts["longest_ms"] >= SKEWED * facts["median_ms"]) & (longer >= LONG_TASK_MS / 2)


def _partitions(facts: pd.DataFrame) -> pd.DataFrame:
    """More partitions than slots: all slots work, and the last wave is short."""
    # Where there are twice as many tasks as slots there are enough.
    few = facts["tasks"] < 2.0 * np.maximum(facts["slots"], 1.0)
    long = (facts["median_ms"] >= LONG_TASK_MS) & few
    idle = np.where(
        long, np.maximum(1.0 - facts["tasks"] / np.maximum(facts["free"], 1.0), 0.0), 0.0
    )
    # Attempts that were lost make a tail that other partitions do not mend.
    again = facts["lost_ms"] >= LONG_TASK_MS
    tail = np.where(long & ~again & ~_is_uneven(facts), facts["tail_ms"], 0.0)
    alone = facts["alone_ms"] / np.maximum(facts["work_ms"], 1.0)
    low, high = (facts["work_ms"] * idle + tail) * alone, facts["work_ms"] * idle + tail
    found = _ranged(facts, FindingKind.PARTITIONS, high, low=0.5, high=1.0)
    low = 0.5 * np.minimum(low, high)
    return found.assign(low_ms=low, saves_ms=(low + high) / 2.0)


def _skew(facts: pd.DataFrame) -> pd.DataFrame:
    """Tasks of equal length: no tail."""
    saves = np.where(_is_skewed(facts), facts["tail_ms"], 0.0)
    return _ranged(facts, FindingKind.SKEW, saves, low=0.5, high=1.15)


def _slow_hosts(facts: pd.DataFrame) -> pd.DataFrame:
    """Tasks of a slow host as long as the others': less work, and no tail."""
    at_once = np.maximum(np.minimum(facts["tasks"], facts["slots"]), 1.0)
    tail = np.where(_is_uneven(facts), facts["tail_ms"], 0.0)
    saves = np.where(facts["host"] >= 0, tail + facts["host_ms"] / at_once * facts["factor"], 0.0)
    saves = np.minimum(saves, facts["held_ms"])
    return _ranged(facts, FindingKind.SLOW_HOST, saves, low=0.5, high=1.1)


def _collection(facts: pd.DataFrame) -> pd.DataFrame:
    """Enough memory that hardly anything is collected."""
    much = facts["gc_ms"] >= GC_SHARE * facts["work_ms"]
    return _ranged(facts, FindingKind.GC, np.where(much, facts["gc_ms"], 0.0), low=0.5, high=1.2)


def _limit(facts: pd.DataFrame) -> pd.DataFrame:
    """A CPU limit that stops nobody; beyond it others may have the processors."""
    much = facts["throttled_ms"] >= GC_SHARE * facts["work_ms"]
    saves = np.where(much, facts["throttled_ms"], 0.0)
    return _ranged(facts, FindingKind.CPU_LIMIT, saves, low=0.5, high=1.1)


def _faults(facts: pd.DataFrame) -> pd.DataFrame:
    """Memory enough that pages stay in it; those of files are read once all the same."""
    much = facts["page_fault_ms"] >= GC_SHARE * facts["work_ms"]
    saves = np.where(much, facts["page_fault_ms"], 0.0)
    return _ranged(facts, FindingKind.PAGE_FAULTS, saves, low=0.3, high=1.1)


def _spill(facts: pd.DataFrame) -> pd.DataFrame:
    """Enough memory, or small enough partitions, that nothing is spilled."""
    at_once = np.maximum(np.minimum(facts["tasks"], facts["slots"]), 1.0)
    slow, fast = (
        np.minimum(2.0 * facts["spilled"] / rate / at_once * facts["factor"], facts["work_ms"])
        for rate in SPILL_RATES
    )
    loose = np.minimum(facts["loose_ms"], slow)
    low = np.maximum(fast, LOOSE_SHARE * loose)
    tail = np.where(_is_uneven(facts), 0.0, facts["tail_ms"])
    share = SPILL_CPU_MS * facts["unheld"] / np.maximum(facts["cpu_ms"], 1.0)
    waited = 1.1 * loose + tail
    both = np.minimum(share * facts["held_ms"] + waited, SPILL_SHARE * facts["held_ms"])
    high = np.maximum(np.maximum(1.5 * low, waited), both)
    high = np.where(facts["spilled"] > 0, high, 0.0)
    found = _ranged(facts, FindingKind.MEMORY, high, low=0.5, high=1.0)
    return found.assign(low_ms=low, saves_ms=(low + high) / 2.0, bytes=facts["spilled"])


def _ranged(
    facts: pd.DataFrame, kind: FindingKind, saves: object, *, low: float, high: float
) -> pd.DataFrame:
    most = np.asarray(saves, np.float64)
    middle = most * (low + high) / 2.0
    ends = {"low_ms": most * low, "high_ms": most * high}
    return facts.assign(kind=kind, saves_ms=middle, **ends)
