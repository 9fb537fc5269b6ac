"""Estimates what stages would save: by partitions, memory, broadcasts, sound hosts, warm executors.

The large side is then neither written, fetched nor sorted, and its rows are joined where they are
made. What that took cannot be told from what else the two stages did, so the range is of what the
rows and bytes of a shuffle take of a processor, as a share of the processor time of both stages.

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

The ranges hold what was saved in simulated clusters (docs/evaluation.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.executors_used import uneven_executors
from iqcar.causes.slow_tasks import MOSTLY, NO_CPU, slow_tasks
from iqcar.enums import FindingKind, Request
from iqcar.model.waits.executor_memory import memory_of_executor
from iqcar.model.waits.stage_parts import (
    PART_NAMES,
    TASK_PARTS,
    most_slots,
    query_paths,
    stage_parts,
    stage_times,
)
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, positive_or_zero, sum_by

PER_RECORD_MS, PER_BYTE_MS = (0.12e-3, 1.5e-3), (1e-6, 5e-6)
"""Processor time of writing, reading and sorting a row, and a byte of its shuffle: from and to."""
AT_MOST = 0.95
"""Share of both stages that is saved at most: something made the rows."""
SEND_RATE = 1e5
"""Bytes per ms at which the driver collects what is broadcast, and executors fetch it, at least."""
MEMORY_SHARE, LARGEST_BYTES = 1 / 8, 256 * 2.0**20
"""What is broadcast takes at most this share of an executor's memory, and is at most this large."""
TIMES = 3.0
"""How much more the large side's shuffle holds at least; sides alike are better left shuffled."""


def broadcasts(facts: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return the facts of the stages that joined two sides of which one could be broadcast.

    Parameters
    ----------
    facts : by stage, of those that held a query up.

    Returns them with their savings; ``bytes`` is the size of the small side.
    """
    edges = tables.stage_parents
    edges = edges[edges["stage"].isin(edges["stage"][edges["side_bytes"].notna()]).to_numpy(bool)]
    small = edges.sort_values("side_bytes", kind="stable").drop_duplicates("stage")
    large = edges.drop(small.index).set_index("stage")["parent"]
    joins = small.set_index("stage").join(large.rename("large"), how="inner")
    found = facts.drop(columns="bytes").join(
        joins.rename(columns={"parent": "small", "side_bytes": "bytes"}), on="stage", how="inner"
    )
    memory = np.array([memory_of_executor(tables, row) for row in range(len(tables.applications))])
    app = tables.stages["app"].to_numpy(np.int64)[found["stage"].to_numpy(np.int64)]
    most = np.minimum(MEMORY_SHARE * memory[app], LARGEST_BYTES)
    stage = tables.tasks["stage"].to_numpy(np.int64)

    def of_tasks(name: str) -> Floats:
        each = positive_or_zero(tables.tasks[name].to_numpy(np.float64))
        return sum_by(stage[stage >= 0], each[stage >= 0], len(tables.stages))

    ran, cpu = of_tasks("run_ms"), of_tasks("cpu_ms") + of_tasks("gc_ms")
    worked = np.where(cpu > 0, cpu, ran)
    rows, written = of_tasks("shuffle_write_records"), of_tasks("shuffle_write_bytes")
    large_bytes, small_bytes = (
        written[found[name].to_numpy(np.int64)] for name in ("large", "small")
    )
    is_small = (found["bytes"].to_numpy(np.float64) <= most) & (large_bytes >= TIMES * small_bytes)
    found = found[is_small]
    held = np.zeros(len(tables.stages))
    held[facts["stage"].to_numpy(np.int64)] = facts["held_ms"].to_numpy(np.float64)
    join, small_side, large_side = (
        found[name].to_numpy(np.int64) for name in ("stage", "small", "large")
    )
    # Both sides are often written at once: of that time the large one has its part of the work.
    both = np.maximum(ran[large_side] + ran[small_side], 1.0)
    time = held[join] + (held[large_side] + held[small_side]) * ran[large_side] / both
    work = np.maximum(worked[join] + worked[large_side], 1.0)
    low, high = (
        time * np.minimum((rows[large_side] * row + written[large_side] * byte) / work, AT_MOST)
        for row, byte in zip(PER_RECORD_MS, PER_BYTE_MS, strict=True)
    )
    low = np.maximum(low - found["bytes"].to_numpy(np.float64) / SEND_RATE, 0.0)
    return found.assign(
        kind=FindingKind.BROADCAST, low_ms=low, high_ms=high, saves_ms=(low + high) / 2.0
    )


SLOWER = 1.5
"""Median task of a host over that of the next slowest host from which on it is slow: what makes a
straggler."""
LEAST_TASKS, LEAST_STAGES = 2, 2
"""Tasks of a stage on the host, and stages in which it is slow: once is chance."""
LEAST_SHARE = 0.5
"""Part of the stages with as many tasks there in which the host is slow."""
LEAST_TASK_MS = 500.0
"""Tasks shorter than that differ by what starting them costs."""
MORE_BYTES = 1.25
"""Bytes of its tasks over those of the others from which on it has more to do, and is not slow."""


def slow_hosts(tables: Tables) -> pd.DataFrame:
    """Name the slow host of each stage that has one.

    Returns frame by stage: ``host`` (row), and ``host_ms``: task time that its tasks took longer
    than as many of the other hosts.
    """
    tasks = tables.tasks
    lasted = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    columns = ("input_bytes", "remote_bytes", "local_bytes")
    moved = sum(positive_or_zero(tasks[name].to_numpy(np.float64)) for name in columns)
    frame = pd.DataFrame({"lasted": lasted, "bytes": moved})
    frame["stage"], frame["host"] = tasks["stage"].to_numpy(), tasks["host"].to_numpy()
    done = (tasks["status"] == "success").to_numpy(bool) & np.isfinite(lasted)
    frame = frame[done & (frame["stage"] >= 0).to_numpy() & (frame["host"] >= 0).to_numpy()]
    of = frame.groupby(["stage", "host"], sort=False)
    each = of[["lasted", "bytes"]].median().assign(tasks=of.size()).reset_index()
    each = each.sort_values(["stage", "lasted"], ascending=[True, False], kind="stable")
    each = each[each.duplicated("stage", keep=False)]
    of_stage = each.groupby("stage", sort=False)
    slowest = of_stage.nth(0).set_index("stage")
    second = of_stage.nth(1).set_index("stage")
    more_to_do = slowest["bytes"] > MORE_BYTES * second["bytes"].clip(lower=1.0)
    enough = (slowest["tasks"] >= LEAST_TASKS) & (slowest["lasted"] >= LEAST_TASK_MS)
    slow = slowest[enough & (slowest["lasted"] >= SLOWER * second["lasted"]) & ~more_to_do]
    usual = of_stage["lasted"].median().reindex(slow.index)
    slow = slow.assign(host_ms=slow["tasks"] * (slow["lasted"] - usual))
    could = each[(each["tasks"] >= LEAST_TASKS) & (each["lasted"] >= LEAST_TASK_MS)]
    stages = could["host"].value_counts().reindex(slow["host"]).to_numpy(np.float64)
    times = slow.groupby("host")["tasks"].transform("size").to_numpy(np.float64)
    return slow.loc[(times >= LEAST_STAGES) & (times >= LEAST_SHARE * stages), ["host", "host_ms"]]


LONG_TASK_MS = 1_000.0
"""Median from which on splitting tasks is worth what starting them costs (up to 20 ms each)."""
WARMED_MS = 2_000.0
"""Time in which a first small task loads what later ones have."""
WARM_UP_MS = 5_000.0
"""Tasks up to that long on new executors may only load classes and compile."""
SKEWED = 1.5
"""Longest over median task from which on a tail is uneven: what makes a straggler."""
GC_SHARE = 0.1
"""Share of a stage's work from which on garbage collection, page faults, locks or stops by a CPU
limit are worth naming."""
TINY_MS, MANY, MANY_TASKS, SMALL_BYTES = 250.0, 4.0, 100, 4.0 * 2**20
"""Tasks this short (median), this many times the slots and in all, with this few bytes are tiny."""
LOOSER = 1.25
"""Upper end of what a higher CPU limit saves: drivers and compilers stand still, too."""
DISPATCH_MS = 20.0
"""Time at most that a driver takes to start one task."""
FEW_SURE = 0.3
"""Lower end of what equal tasks save where there are not twice as many as slots."""
ALONE_SHARE = 0.9
"""Part of the slots that other stages left to one from which on it ran alone."""
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


def stage_savings(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Estimate savings stage by stage.

    Returns one row per stage and kind of remedy that saves something: ``kind``, ``saves_ms``,
    ``low_ms``, ``high_ms``, and the facts of the stage that tell (:func:`_stage_facts`). Query,
    stage and host (−1 if none) are rows, times elapsed ms of the query, bytes what a
    task read (median), what the stage spilled or the small side of its join.
    """
    facts = _stage_facts(tables, waits)
    at = {name: facts[name].to_numpy() for name in facts}
    found = []
    for kind, find in _FINDERS.items():
        low, saves, high = find(at)
        rows = np.flatnonzero(saves > 0)
        ends = {"saves_ms": saves[rows], "low_ms": low[rows], "high_ms": high[rows]}
        if len(rows):
            found.append(facts.iloc[rows].assign(kind=kind, **ends))
    others = [uneven_executors(facts, tables), broadcasts(facts, tables)]
    found += [one[(one["saves_ms"] > 0).to_numpy()] for one in others]
    return pd.concat([one for one in found if len(one)] or others[:1], ignore_index=True)


def _stage_facts(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Sum up what is needed of every stage that held a query up; times are elapsed ms of that.

    ``each`` turns task time of the stage into such time.
    """
    n = len(tables.stages)
    parts = stage_parts(tables, waits)
    whole = parts.sum(axis=1)
    held = query_paths(tables, np.ones(len(tables.queries), bool)).stage_ms
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(whole > 0, np.minimum(held / whole, 1.0), 0.0)
    share = dict(zip(PART_NAMES, (parts * factor[:, None]).T, strict=True))
    frame = _ended_well(tables)
    of = frame.groupby("stage")
    facts = pd.DataFrame(
        {
            "query": tables.stages["query"].to_numpy(np.int64),
            "stage": np.arange(n),
            "tasks": _task_count(tables, np.bincount(frame["stage"], minlength=n)),
            "slots": most_slots(tables)[tables.stages["app"].to_numpy(np.int64)],
            "free": _free_slots(tables),
            "alone_ms": share["compute_ms"] + share["gc_ms"] + np.maximum(share["rest_ms"], 0.0),
            "work_ms": sum(share[name] for name in TASK_PARTS) + np.maximum(share["rest_ms"], 0.0),
            "tail_ms": share["tail_ms"],
            "slots_ms": share["slots_ms"],
            "lost_ms": _lost(tables),
            "gc_ms": share["gc_ms"],
            "throttled_ms": share["throttled_ms"],
            "page_fault_ms": share["page_fault_ms"],
            "monitor_ms": share["monitor_blocked_ms"],
            "held_ms": held,
            "loose_ms": sum(share[f"{name}_ms"] for name in LOOSE)
            + np.maximum(share["rest_ms"], 0.0),
            "median_ms": _of_stages(of["lasted"].median(), n),
            "longest_ms": _of_stages(of["lasted"].max(), n),
            "bytes": _of_stages(of["bytes"].median(), n),
            "fetches": np.isin(np.arange(n), tables.stage_parents["stage"].to_numpy()),
            "needed": _of_stages((of["held"].max() + of["unheld"].max()), n),
            "had": _of_stages(of["held"].max(), n),
            "unheld": _of_stages(of["unheld"].sum(), n),
            "cpu_ms": _of_stages(of["cpu"].sum(), n),
            "spilled": sum_by(
                frame["stage"].to_numpy(np.int64), frame["spilled"].to_numpy(np.float64), n
            ),
        }
    )
    at_once = np.maximum(np.minimum(facts["tasks"], facts["slots"]), 1.0)
    facts["each"] = factor / at_once
    facts["stopped"] = facts["throttled_ms"] / np.maximum(facts["work_ms"], 1.0)
    facts["faulted"] = facts["page_fault_ms"] / np.maximum(facts["work_ms"], 1.0)
    facts["schema"] = _reads_schema(tables)
    facts = facts.join(slow_hosts(tables), on="stage").fillna({"host": -1, "host_ms": 0.0})
    facts = facts.join(slow_tasks(tables, waits), on="stage", how="inner")
    kept = ((facts["query"] >= 0) & (facts["held_ms"] > 0) & (facts["tasks"] > 0)).to_numpy()
    return facts[kept].reset_index(drop=True)


def _ended_well(tables: Tables) -> pd.DataFrame:
    """Return what is summed up of each task that ended well."""
    tasks = tables.tasks
    done = (tasks["status"] == "success").to_numpy(bool) & (tasks["stage"] >= 0).to_numpy(bool)

    def number(name: str) -> Floats:
        return positive_or_zero(tasks[name].to_numpy(np.float64)[done])

    return pd.DataFrame(
        {
            "stage": tasks["stage"].to_numpy(np.int64)[done],
            "lasted": (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)[done],
            "bytes": sum(number(name) for name in ("input_bytes", "remote_bytes", "local_bytes")),
            "cpu": number("cpu_ms") + number("gc_ms"),
            "held": number("peak_memory_bytes"),
            "unheld": number("memory_spilled_bytes"),
            "spilled": number("disk_spilled_bytes"),
        }
    )


def _task_count(tables: Tables, ended: Ints) -> Ints:
    """Return the tasks of each stage: those planned, where it completed and ends are missing."""
    planned = np.maximum(tables.stages["declared_tasks"].to_numpy(np.int64), 0)
    whole = tables.stages["completed"].to_numpy(bool) & (ended > 0)
    return np.where(whole, np.maximum(planned, ended), ended)


_READS_SCHEMA = re.compile(r"(parquet|orc|load|table|json|csv|text|textFile|option|format) at ")
_OF_FOOTERS = {"parallelize", "mapPartitions"}
_OF_ROWS = ("Scan text", "Scan json", "Scan csv")


def _reads_schema(tables: Tables) -> Flags:
    """Tell which stages read files to learn their schema: footers, or rows of text.

    Spark runs them when a reader is asked for a table without a schema, outside of what is run.
    """
    stages = tables.stages
    found = np.zeros(len(stages), bool)
    jobs = tables.jobs["sql_execution"].to_numpy(np.int64)
    job = stages["job"].to_numpy(np.int64)
    for row, (name, label) in enumerate(
        zip(texts(stages, "name"), texts(stages, "label"), strict=True)
    ):
        if _READS_SCHEMA.match(name) is None:
            continue
        of_footers = set(label.split("; ")) <= _OF_FOOTERS and "parallelize" in label
        of_rows = job[row] >= 0 and jobs[job[row]] < 0 and any(one in label for one in _OF_ROWS)
        found[row] = of_footers or of_rows
    return found


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


Facts = Mapping[str, Any]
"""Columns of :func:`_stage_facts`, as arrays of shape (n_stages,)."""
Savings = tuple[Floats, Floats, Floats]
"""Of each stage: what is saved at least, about, and at most; in ms."""


def _is_uneven(facts: Facts) -> Flags:
    longer = facts["longest_ms"] - facts["median_ms"]
    found: Flags = (longer >= LONG_TASK_MS / 2) & (
        facts["longest_ms"] >= SKEWED * facts["median_ms"]
    )
    return found


def _tail(facts: Facts, cause: str) -> Floats:
    """The part of an uneven tail that is put down to a cause."""
    return np.where(_is_uneven(facts), facts["tail_ms"] * facts[f"tail_{cause}"], 0.0)


def _much(facts: Facts, name: str) -> Floats:
    """A part of the stage's work, where it is a good part of it."""
    return np.where(facts[name] >= GC_SHARE * facts["work_ms"], facts[name], 0.0)


def _ranged(saves: Floats, low: float, high: float) -> Savings:
    return saves * low, saves * (low + high) / 2.0, saves * high


def _between(low: Floats, high: Floats) -> Savings:
    return low, (low + high) / 2.0, high


def _partitions(facts: Facts) -> Savings:
    """More partitions than slots: all slots work, and the last wave is short."""
    # Where there are twice as many tasks as slots there are enough.
    few = facts["tasks"] < 2.0 * np.maximum(facts["slots"], 1.0)
    long = (facts["median_ms"] >= LONG_TASK_MS) & few & ~facts["fixed"] & ~facts["schema"]
    long &= (facts["usual_young"] < MOSTLY) | (facts["median_ms"] >= WARM_UP_MS)
    idle = np.maximum(1.0 - facts["tasks"] / np.maximum(facts["free"], 1.0), 0.0) * long
    # Attempts that were lost make a tail that other partitions do not mend.
    again = facts["lost_ms"] >= LONG_TASK_MS
    tail = np.where(long & ~again & ~_is_uneven(facts), facts["tail_ms"], 0.0)
    alone = facts["alone_ms"] / np.maximum(facts["work_ms"], 1.0)
    # What each task takes to begin, or waits for, it takes however small its part is.
    divided = np.maximum(facts["work_ms"] - facts["each"] * facts["cold"], 0.0)
    surely = np.maximum(divided - facts["each"] * (facts["outside"] + facts["lock"]), 0.0)
    high = divided * idle + tail
    return _between(0.5 * np.minimum((surely * idle + tail) * alone, high), high)


def _skew(facts: Facts) -> Savings:
    """Tasks of equal data: no tail."""
    saves = np.where(facts["host"] < 0, _tail(facts, "data"), 0.0)
    low, middle, high = _ranged(saves, 0.5, 1.15)
    # Few equal tasks end in an uneven wave again.
    few = facts["tasks"] < 2.0 * facts["slots"]
    return np.where(few, FEW_SURE * saves, low), middle, high


def _cold(facts: Facts) -> Savings:
    """Executors that have run such tasks before."""
    saves = np.minimum(_tail(facts, "cold") + facts["each"] * facts["cold"], facts["held_ms"])
    return _ranged(np.where(facts["schema"] | (facts["host"] >= 0), 0.0, saves), 0.5, 1.1)


def _far(facts: Facts) -> Savings:
    """Tasks that find their data where they run."""
    return _ranged(_tail(facts, "far"), 0.5, 1.1)


def _outside(facts: Facts) -> Savings:
    """What tasks wait for, answering at once; neither the log nor a record names it."""
    hardly = facts["told"] & (facts["cpu_share"] < NO_CPU) & facts["fixed"] & ~facts["schema"]
    body = np.where(hardly, facts["each"] * facts["outside"], 0.0)
    tail = np.where(facts["tail_outside"] >= MOSTLY, _tail(facts, "outside"), 0.0)
    return _between(0.5 * np.maximum(body, tail), body + tail)


def _locks(facts: Facts) -> Savings:
    """Nobody holds what the tasks have to lock.

    Who has it last ends last, and what is not recorded beside may be such waits.
    """
    locked = _much(facts, "monitor_ms") + _tail(facts, "lock")
    beside = np.where(locked > 0, facts["each"] * facts["outside"] + facts["tail_ms"], 0.0)
    return _between(0.5 * locked, np.minimum(1.1 * (locked + beside), facts["held_ms"]))


def _tiny(facts: Facts) -> Savings:
    """As many tasks as slots: what each costs to start is paid once a slot.

    Where nothing else ran, slots that stood free meanwhile waited for the driver to start tasks.
    """
    slots = np.maximum(facts["slots"], 1.0)
    tiny = (facts["median_ms"] < TINY_MS) & (facts["bytes"] < SMALL_BYTES) & ~facts["schema"]
    tiny &= (facts["tasks"] >= np.maximum(MANY * slots, MANY_TASKS)) & (facts["host"] < 0)
    started = np.maximum(facts["ran"] - facts["cold"] - facts["cpu_ms"], 0.0)
    driver = np.where(facts["free"] >= ALONE_SHARE * slots, facts["slots_ms"], 0.0)
    driver = np.minimum(driver, DISPATCH_MS * facts["tasks"])
    once = facts["median_ms"] * np.ceil(slots * facts["each"])
    saves = np.maximum(started * facts["each"] + driver - once, 0.0)
    return _ranged(np.where(tiny, saves, 0.0), 0.4, 1.2)


def _schema(facts: Facts) -> Savings:
    """A schema that is given: nothing is read to learn it."""
    high = np.where(facts["schema"], facts["held_ms"], 0.0)
    # Who waits for executors there waits for them in the next stage, where there are none yet, and
    # what warms up new ones there warms them up in the next stage.
    ran = np.minimum(facts["work_ms"] + facts["tail_ms"], facts["held_ms"])
    warms = np.where(facts["usual_young"] < MOSTLY, 0.0, WARMED_MS)
    sure = 0.6 * np.maximum(ran - warms, 0.0)
    return _between(np.where(facts["schema"], sure, 0.0), high)


def _slow_hosts(facts: Facts) -> Savings:
    """Tasks of a slow host as long as the others': less work, and no tail."""
    tail = np.where(_is_uneven(facts), facts["tail_ms"], 0.0)
    saves = np.minimum(tail + facts["host_ms"] * facts["each"], facts["held_ms"])
    return _ranged(np.where(facts["host"] >= 0, saves, 0.0), 0.5, 1.1)


def _collection(facts: Facts) -> Savings:
    """Enough memory that hardly anything is collected."""
    return _ranged(_much(facts, "gc_ms") + _tail(facts, "gc"), 0.5, 1.0)


def _limit(facts: Facts) -> Savings:
    """A CPU limit that stops nobody; beyond it others may have the processors.

    All tasks of a stopped executor stand still, and its threads queue for what is left to it.
    """
    stopped = _much(facts, "throttled_ms") + _tail(facts, "throttled")
    queued = np.where(stopped > 0, facts["each"] * facts["run_queue"], 0.0)
    return _between(0.5 * stopped, np.minimum(LOOSER * (stopped + queued), facts["held_ms"]))


def _faults(facts: Facts) -> Savings:
    """Memory enough that pages stay in it; those of files are read once all the same."""
    return _ranged(_much(facts, "page_fault_ms"), 0.3, 1.1)


def _spill(facts: Facts) -> Savings:
    """Enough memory, or small enough partitions, that nothing is spilled."""
    slow, fast = (
        np.minimum(2.0 * facts["spilled"] / rate * facts["each"], facts["work_ms"])
        for rate in SPILL_RATES
    )
    loose = np.minimum(facts["loose_ms"], slow)
    low = np.maximum(fast, LOOSE_SHARE * loose)
    tail = np.where(_is_uneven(facts), 0.0, facts["tail_ms"])
    share = SPILL_CPU_MS * facts["unheld"] / np.maximum(facts["cpu_ms"], 1.0)
    waited = 1.1 * loose + tail
    both = np.minimum(share * facts["held_ms"] + waited, SPILL_SHARE * facts["held_ms"])
    high = np.maximum(np.maximum(1.5 * low, waited), both)
    return _between(low, np.where(facts["spilled"] > 0, high, 0.0))


_FINDERS = {
    FindingKind.PARTITIONS: _partitions,
    FindingKind.SKEW: _skew,
    FindingKind.COLD: _cold,
    FindingKind.LOCALITY: _far,
    FindingKind.OUTSIDE: _outside,
    FindingKind.LOCK: _locks,
    FindingKind.TINY_TASKS: _tiny,
    FindingKind.SCHEMA: _schema,
    FindingKind.SLOW_HOST: _slow_hosts,
    FindingKind.GC: _collection,
    FindingKind.THROTTLED: _limit,
    FindingKind.PAGE_FAULTS: _faults,
    FindingKind.MEMORY: _spill,
}
