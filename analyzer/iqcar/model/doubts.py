"""Lists reasons to doubt a diagnosis: damaged inputs, lost events, unknown and estimated waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from iqcar.base.kernels import plain_because
from iqcar.base.limits import LEAST_DOUBT
from iqcar.base.units import percent, size
from iqcar.enums import InputStatus, Request
from iqcar.logs.attach.spark_conf import LISTENER, PLUGIN
from iqcar.model.demand.host_samples import outside_load
from iqcar.model.waits.columns import ESTIMATED, MISSING, evidence_column
from iqcar.model.waits.execution_memory import Holders, memory_of_apps
from iqcar.tables import NONE, Tables, recorded_applications, texts
from iqcar.tables.arrays import Flags, Floats, Ints

CAPACITY = "spark.scheduler.listenerbus.eventqueue"
"""Beginning of the settings that bound Spark's queues of events."""
MUCH = 0.1
"""Missing part of the ends of tasks from which on nothing that is computed means much."""


def lost_events(tables: Tables) -> Iterator[str]:
    """List what is missing because a queue of Spark was full, the gravest first.

    One sentence each; none if nothing is known to be missing.
    """
    missing = _missing_task_ends(tables)
    lost = int(missing.sum())
    if lost:
        yield (
            f"{lost} task ends are missing from {int((missing > 0).sum())} completed stages (Spark "
            f"drops events when its listener queue is full; raise {CAPACITY}.capacity): waits and "
            "blame are too low by that much"
        )
    yield from _without_end(tables)
    dropped = tables.applications["dropped_events"].to_numpy(np.float64)
    if np.nansum(dropped) > 0:
        yield (
            f"Spark dropped {np.nansum(dropped):,.0f} events of "
            f"{int((dropped > 0).sum())} applications instead of logging them (raise "
            f"{CAPACITY}.eventLog.capacity): tasks, stages, jobs and queries may be missing whole"
        )
    unseen = tables.applications["dropped_for_rules"].to_numpy(np.float64)
    if np.nansum(unseen) > 0:
        yield (
            f"Spark dropped {np.nansum(unseen):,.0f} events by which rules recognise jobs (raise "
            f"{CAPACITY}.iqcar.capacity): a job whose start is among them ran in the pool that it "
            "asked for"
        )


def much_lost(tables: Tables) -> str:
    """Say how much is missing, if it is so much that no figure means anything; else empty."""
    missing, done = _missing_task_ends(tables), _completed(tables)
    declared = np.maximum(tables.stages["declared_tasks"].to_numpy(np.int64)[done], 0).sum()
    if missing.sum() < MUCH * max(declared, 1):
        return ""
    return (
        f"Do not trust the figures: Spark dropped events, {percent(missing.sum() / declared)} of "
        "the ends of tasks are missing."
    )


def has_lost_end(tables: Tables) -> Flags:
    """Tell which tasks seem to run because their end is missing: ndarray of shape (n_tasks,), bool.

    Their stage completed, which it does not before each of its tasks has succeeded, and no other
    attempt of theirs did.
    """
    tasks = tables.tasks[["stage", "index"]]
    good = tasks[(tables.tasks["status"] == "success").to_numpy(bool)]
    stage = tasks["stage"].to_numpy(np.int64)
    done = np.append(_completed(tables), False)[stage]
    running = (tables.tasks["status"] == "running").to_numpy(bool) & done
    lost: Flags = running.copy()
    if running.any():
        known = pd.MultiIndex.from_frame(good)
        lost[running] = ~pd.MultiIndex.from_frame(tasks[running]).isin(known)
    return lost


def _completed(tables: Tables) -> Flags:
    """Tell which stages completed without a failure."""
    stages = tables.stages
    done: Flags = stages["completed"].to_numpy(bool) & (stages["failure_reason"] == "").to_numpy()
    return done


def _missing_task_ends(tables: Tables) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Count by how many the successful tasks of each completed stage are fewer than declared."""
    stages, tasks = tables.stages, tables.tasks
    good = ((tasks["status"] == "success") & (tasks["stage"] >= 0)).to_numpy()
    distinct = tasks.loc[good, ["stage", "index"]].drop_duplicates()
    seen = np.bincount(distinct["stage"].to_numpy(np.int64), minlength=len(stages))
    missing = np.where(_completed(tables), stages["declared_tasks"].to_numpy() - seen, 0)
    return np.maximum(missing, 0).astype(np.int64)


def _without_end(tables: Tables) -> Iterator[str]:
    """Say what has no end though its application has: Spark ends all, unless the end is dropped.

    Logs of which lines are damaged do not count.

    A SQL execution that ``SparkContext.stop`` cuts off has none either: it counts where all of its
    jobs succeeded.
    """
    ended = np.append(tables.applications["ended"].to_numpy(bool), False)
    inputs = tables.inputs
    damaged = (inputs["status"] != InputStatus.COMPLETE).to_numpy(bool)
    ended[inputs["app"].to_numpy()[damaged]] = False
    jobs, stages, sql = tables.jobs, tables.stages, tables.sql_executions
    no_end = jobs["completion_ms"].isna()
    # Before 1.3, Spark logged ends of jobs without times: that one succeeded its end has told.
    untimed = jobs.loc[no_end & jobs["succeeded"], "app"]
    of_jobs = ended[jobs["app"].to_numpy()] & (no_end & ~jobs["app"].isin(untimed)).to_numpy()
    of_stages = (
        ended[stages["app"].to_numpy()]
        & ~stages["completed"].to_numpy(bool)
        & stages["submission_ms"].notna().to_numpy()
    )
    execution = jobs["sql_execution"].to_numpy(np.int64)
    well, other = (
        np.bincount(execution[(execution >= 0) & which], minlength=len(sql))
        for which in (jobs["succeeded"].to_numpy(bool), ~jobs["succeeded"].to_numpy(bool))
    )
    of_sql = (
        ended[sql["app"].to_numpy()] & sql["end_ms"].isna().to_numpy() & (well > 0) & (other == 0)
    )
    counts = (
        (int(of_jobs.sum()), "jobs"),
        (int(of_stages.sum()), "stages"),
        (int(of_sql.sum()), "SQL executions"),
    )
    found = [f"{count} {what}" for count, what in counts if count]
    if found:
        yield (
            f"the ends of {', '.join(found)} are missing though their applications ended (Spark "
            f"drops events when its listener queue is full; raise {CAPACITY}.capacity): they seem "
            "to last longer than they did"
        )


GONE_MS = 10_000.0
"""A task was lost with its executor if the executor was removed within this time of its end: Spark
notices a lost executor by a missed heartbeat, and heartbeats come every 10 s."""

OUTSIDE_SHARE = 0.1
"""Share of a host's processors used by programs other than the executors above which they are
mentioned: a tenth of two cores delays a task that needs one core noticeably."""

LOW_COVERAGE = 50.0
"""Percent of the wanted samples of a waiting task: below it, more were left out than taken."""

MANY_TASKS = 10_000
"""Tasks from which an analysis with plain kernels takes a minute and more."""

_SAMPLERS = {
    "off": "the sampler was switched off (spark.iqcar.sample.period = 0)",
    "dead": "the sampler had stopped",
}


def has_record(tables: Tables) -> Flags:
    """Return whether the plugin measured each task: ndarray of shape (n_tasks,), bool."""
    has = np.zeros(len(tables.tasks), bool)
    has[tables.task_records["task"].to_numpy(np.int64)] = True
    return has


def record_doubts(tables: Tables, waits: pd.DataFrame) -> Iterator[str]:
    """List what is missing from the records of applications that ran with the plugin.

    One sentence each; none if no task has a record.

    waits: frame of WAITS.
    """
    if len(tables.task_records) == 0:
        return
    has = has_record(tables)
    duration = waits["duration_ms"].to_numpy(np.float64)
    app = tables.tasks["app"].to_numpy(np.int64)
    running = (tables.tasks["status"] == "running").to_numpy(bool)
    with_plugin = np.append(recorded_applications(tables), False)
    recorded = with_plugin[app] & ~running
    lacking = recorded & ~has
    if lacking.any():
        share = float(duration[lacking].sum()) / max(float(duration[recorded].sum()), 1.0)
        reasons = ", ".join(f"{count} {why}" for why, count in _reasons(tables, lacking))
        yield (
            f"{int(lacking.sum())} of {int(recorded.sum())} task ends have no record of the plugin "
            f"({reasons}): {percent(share)} of the task time there is not measured"
        )
    yield from _sampler_doubts(tables, waits)
    failures = int(tables.task_records["failures"].max())
    if failures:
        yield (
            f"the plugin counted up to {failures} failures of its own code in one executor (see "
            "the executor's log): records may be missing"
        )
    share = _time_share(waits, _is_missing(waits, Request.EXECUTION_MEMORY) & ~running)
    if share >= LEAST_DOUBT:
        yield (
            f"waits for memory and locks were not measured for {percent(share)} of all task time: "
            "they are missing there, not zero"
        )


def _sampler_doubts(tables: Tables, waits: pd.DataFrame) -> Iterator[str]:
    sampler = np.array(texts(tables.task_records, "sampler"), dtype=object)
    rows = tables.task_records["task"].to_numpy(np.int64)
    for state in sorted({state for state in sampler if state}):
        mine = rows[sampler == state]
        share = _time_share(waits, mine)
        why = _SAMPLERS.get(state, f"the sampler was {state}")
        yield (
            f"{why} for {len(mine)} tasks ({percent(share)} of all task time): their waits for "
            "locks and memory are unknown"
        )

    low = rows[(_coverage(tables) < LOW_COVERAGE) & (sampler == "")]
    share, taken = _time_share(waits, low), percent(coverage(tables))
    if share >= LEAST_DOUBT:
        yield (
            f"to keep its cost below spark.iqcar.overhead, the plugin took {taken} of the wanted "
            f"samples of waiting tasks, and less than half for {len(low)} tasks ({percent(share)} "
            "of all task time): trust the split of their waits over many tasks, not within one"
        )


def _coverage(tables: Tables) -> Floats:
    percents: Floats = tables.task_records["coverage"].to_numpy(np.float64)
    return np.where(np.isnan(percents), 100.0, percents)


def coverage(tables: Tables) -> float:
    """Return the share of the wanted samples of waiting tasks that the plugin took.

    Tasks count by the time they were off the processor; 1 where none was left out.
    """
    off = np.nan_to_num(tables.task_records["off_cpu_ms"].to_numpy(np.float64))
    total = float(off.sum())
    return float((off * np.minimum(_coverage(tables), 100.0)).sum()) / total / 100 if total else 1.0


def outside_doubts(tables: Tables) -> Iterator[str]:
    """List the hosts on which processes other than the executors used the processors.

    One sentence per sampled host where they used more than :data:`OUTSIDE_SHARE`: CPU waits that
    those processes caused stay unattributed.

    tables: ``samples`` and ``hosts`` are used.
    """
    load = outside_load(tables)
    names = texts(tables.hosts, "host")
    for row in np.flatnonzero(load.outside_ms > OUTSIDE_SHARE * load.capacity_ms).tolist():
        cores = load.outside_ms[row] / load.sampled_ms[row]
        processors = load.capacity_ms[row] / load.sampled_ms[row]
        yield (
            f"on {names[row]} processes other than its executors (other programs, and workers of "
            f"other hosts' names on the same machine) used {cores:.1f} of {processors:.0f} "
            f"processors over the {load.sampled_ms[row] / 1e3:,.0f} s that were sampled: waits for "
            "the processor that they caused stay unattributed"
        )


def _reasons(tables: Tables, lacking: Flags) -> list[tuple[str, int]]:
    """Count the tasks without a record by likely reason."""
    tasks, rows = tables.tasks, np.flatnonzero(lacking)
    status = tasks["status"].astype(object).to_numpy()[rows]
    executor, stage = (tasks[name].to_numpy(np.int64)[rows] for name in ("executor", "stage"))
    finish = tasks["finish_ms"].to_numpy(np.float64)[rows]
    gone = np.zeros(len(rows), bool)
    if len(tables.executors):
        removed = tables.executors["removed_ms"].to_numpy(np.float64)[np.maximum(executor, 0)]
        gone = (executor >= 0) & (np.abs(removed - finish) <= GONE_MS)
    failure = texts(tables.stages, "failure_reason")
    fetch = np.array([s >= 0 and "FetchFailed" in failure[s] for s in stage.tolist()], bool)
    aborted = np.array([s >= 0 and bool(failure[s]) for s in stage.tolist()], bool)
    failed, killed, good = (status == name for name in ("failed", "killed", "success"))
    kinds = (
        ("lost with their executor", failed & gone),
        ("in stages that could not fetch their shuffle blocks", failed & ~gone & fetch),
        ("failed", failed & ~gone & ~fetch),
        ("killed", killed),
        ("succeeded after their stage was aborted", good & aborted),
        ("succeeded, where the plugin was missing or failed", good & ~aborted),
    )
    return [(why, int(which.sum())) for why, which in kinds if which.any()]


def listener_alone(tables: Tables) -> str:
    """Say which applications the listener recorded without the plugin on executors; else empty.

    The settings name the listener and not the plugin, and no task has a record. In local mode the
    listener measures tasks by itself: they have records.
    """
    names = {
        setting: _set_for_all(tables, setting)
        for setting in ("spark.extraListeners", "spark.plugins", "spark.iqcar.enabled")
    }
    ran = set(tables.tasks["app"].tolist())
    recorded = recorded_applications(tables).tolist()
    alone = [
        app
        for app, listeners in names["spark.extraListeners"].items()
        if LISTENER in listeners
        and PLUGIN not in names["spark.plugins"].get(app, "")
        and names["spark.iqcar.enabled"].get(app, "").lower() != "false"
        and app in ran
        and not recorded[app]
    ]
    if not alone:
        return ""
    which = f"{len(alone)} of {len(ran)} applications were " if len(ran) > 1 else ""
    return (
        f"{which}recorded with the listener alone: waits of executors are not measured; add "
        f"spark.plugins={PLUGIN}"
    )


def _set_for_all(tables: Tables, setting: str) -> dict[int, str]:
    """Return the value of a setting by application, where it is set for all of it."""
    conf = tables.conf
    rows = conf[((conf["key"] == setting) & (conf["sql_execution"] == NONE)).to_numpy(bool)]
    return dict(zip(rows["app"].tolist(), texts(rows, "value"), strict=True))


def find_doubts(tables: Tables, waits: pd.DataFrame) -> tuple[str, ...]:
    """List what limits the trust in a diagnosis.

    One sentence each, the gravest first; empty if there is nothing to doubt.
    """
    doubts = [*_input_doubts(tables), *lost_events(tables)]
    if len(tables.tasks):
        doubts += [
            *filter(None, [listener_alone(tables)]),
            *record_doubts(tables, waits),
            *outside_doubts(tables),
            *_unknown_waits(tables, waits),
            *_loneliness(tables),
        ]
    if len(tables.tasks) >= MANY_TASKS and plain_because():
        doubts.append(f"this took longer than it can: kernels are plain Python: {plain_because()}")
    return tuple(doubts)


def grave_doubts(tables: Tables, waits: pd.DataFrame) -> list[str]:
    """Say in a clause each what could change the answer, the gravest first; none if nothing could.

    Logs that are damaged or unfinished, events that Spark dropped, and waits that are unknown for
    :data:`MUCH` of all task time.
    """
    status = [one for one in texts(tables.inputs, "status") if one != InputStatus.COMPLETE]
    logs = "the log" if len(tables.inputs) == 1 else f"{len(status)} of {len(tables.inputs)} logs"
    kinds = " or ".join(one.replace("_", " ") for one in dict.fromkeys(status))
    found = [f"{logs} {_are(len(status))} {kinds}"] if status else []
    if (lost := int(_missing_task_ends(tables).sum())) and not much_lost(tables):
        found.append(f"the ends of {lost:,} of {lost + len(tables.tasks):,} tasks are missing")
    if (dropped := np.nansum(tables.applications["dropped_events"].to_numpy(np.float64))) > 0:
        found.append(f"Spark dropped {dropped:,.0f} events")
    ran = (tables.tasks["status"] != "running").to_numpy(bool)
    shares = {
        what: _time_share(waits, _is_missing(waits, request) & ran)
        for request, what in (
            (Request.RUN_QUEUE, "the wait for CPU"),
            (Request.IO_READ, "the wait for reading"),
            (Request.IO_WRITE, "the wait for writing"),
            (Request.SLOT_WAIT, "the wait for slots"),
        )
    }
    for what, share in sorted(shares.items(), key=lambda one: -one[1]):
        if share >= MUCH:
            found.append(f"{what} is unknown for {percent(share)} of all task time")
    return found


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _input_doubts(tables: Tables) -> list[str]:
    inputs = tables.inputs
    return [
        f"{path}: {status.replace('_', ' ')}: {message}"
        for path, status, message in zip(
            texts(inputs, "path"), texts(inputs, "status"), texts(inputs, "message"), strict=True
        )
        if status != InputStatus.COMPLETE or message
    ]


def _unknown_waits(tables: Tables, waits: pd.DataFrame) -> list[str]:
    running = (tables.tasks["status"] == "running").to_numpy(bool)
    still = running & ~has_lost_end(tables)
    doubts = []
    if still.any():
        doubts.append(
            f"{int(still.sum())} tasks have no end in the log: "
            "what they waited for while running is unknown"
        )
    doubts += _memory_doubts(tables, waits)
    doubts += _cpu_doubts(tables, waits, running)
    doubts += _native_doubts(tables, waits)
    for request, what in (
        (Request.IO_READ, "reading input: its scans report no scan time"),
        (Request.IO_WRITE, "writing output: Spark records no time for it"),
    ):
        share = _time_share(waits, _is_missing(waits, request) & ~running)
        if share >= LEAST_DOUBT:
            doubts.append(f"IO wait is unknown for {percent(share)} of all task time spent {what}")
    share = _time_share(waits, _is_missing(waits, Request.SLOT_WAIT))
    if share >= LEAST_DOUBT:
        doubts.append(
            f"slot wait is unknown for {percent(share)} of all task time: speculative copies, "
            "or stages whose submission is not in the log"
        )
    return doubts


def _memory_doubts(tables: Tables, waits: pd.DataFrame) -> Iterator[str]:
    """Say where waits for execution memory are unknown or estimated, and who spilled meanwhile."""
    known = memory_of_apps(tables)
    estimated = (waits[evidence_column(Request.EXECUTION_MEMORY)] == ESTIMATED).to_numpy(bool)
    if len(tables.task_records) == 0 and _is_missing(waits, Request.EXECUTION_MEMORY).all():
        yield (
            "waits for memory are in no event log: memory is missing here, not zero, "
            "and some of it may hide in the estimated CPU wait"
            + ("; no setting tells how much there was" if len(known.untold) else "")
        )
    if estimated.any():
        share = percent(_time_share(waits, estimated))
        yield (
            f"waits for execution memory are estimated for {share} "
            "of all task time, as unexplained time in which others held, by their peaks, what "
            "settings leave an executor: when they held it is not recorded"
        )
    if len(known.exceeded):
        yield (
            f"tasks of {len(known.exceeded)} applications held more execution memory than their "
            "settings leave an executor: waits for it are not estimated there"
        )
    spilled = tables.tasks["memory_spilled_bytes"].to_numpy(np.float64)
    beside = Holders(tables).spilled_beside_others() if (spilled > 0).any() else np.zeros(0)
    if len(beside):
        yield (
            f"{len(beside)} tasks spilled {size(float(spilled[beside].sum()))} of memory though "
            "they held less than half of what their executor has, of which its tasks wanted more "
            "than there is: what spilling cost them is in no wait for memory"
        )


def _cpu_doubts(tables: Tables, waits: pd.DataFrame, running: Flags) -> Iterator[str]:
    """Say for how much of the task time the wait for the processor is unknown or estimated."""
    tasks = tables.tasks
    stage = np.maximum(tasks["stage"].to_numpy(), 0)
    python = tables.stages["python"].to_numpy(bool)[stage] if len(tables.stages) else running
    measured, on_gpu = has_record(tables), tasks["gpu_wait_ms"].notna().to_numpy()
    unknown = _is_missing(waits, Request.RUN_QUEUE) & ~running
    in_log = unknown & ~measured
    for who, why in (
        (unknown & measured, "the kernel there does not tell it"),
        (in_log & python, "its tasks feed Python workers, whose work looks like a wait in a log"),
        (
            in_log & on_gpu & ~python,
            "its tasks compute on a GPU, whose work looks like a wait in a log",
        ),
        (
            in_log & ~on_gpu & ~python,
            "the log has no CPU time (Spark before 2.1, or the executor was lost)",
        ),
    ):
        share = _time_share(waits, who)
        if share >= LEAST_DOUBT:
            yield f"CPU wait is unknown for {percent(share)} of all task time: {why}"
    estimated = (waits[evidence_column(Request.RUN_QUEUE)] == ESTIMATED).to_numpy(bool)
    share = _time_share(waits, estimated)
    if estimated.any() and (not measured.any() or share >= LEAST_DOUBT):
        where = f" for {percent(share)} of all task time" if measured.any() else ""
        yield (
            f"CPU wait is estimated{where} as run time less CPU time and every known wait: "
            "locks, driver calls and unrecorded IO are in it too"
        )


def _native_doubts(tables: Tables, waits: pd.DataFrame) -> Iterator[str]:
    """Say what is not known of tasks that ran in Photon."""
    stage = tables.tasks["stage"].to_numpy(np.int64)
    named = np.array(["Photon" in one for one in texts(tables.stages, "operators")] + [False], bool)
    timed = tables.tasks["native_ms"].notna().to_numpy(bool)
    share = _time_share(waits, timed)
    if share >= LEAST_DOUBT:
        yield (
            f"{percent(share)} of all task time ran in Photon, whose native code goes on while the "
            "JVM collects garbage: such time counts there only as far as no other wait explains it"
        )
    share = _time_share(waits, named[stage] & ~timed)
    if share >= LEAST_DOUBT:
        yield (
            f"{percent(share)} of all task time is of stages with operators of Photon whose tasks "
            "log no time in them: what ran in native code, and what it spilled, is not known, and "
            "garbage collection there may be no wait"
        )


def _is_missing(waits: pd.DataFrame, request: Request) -> Flags:
    missing: Flags = (waits[evidence_column(request)] == MISSING).to_numpy(bool)
    return missing


def _time_share(waits: pd.DataFrame, which: Flags | Ints) -> float:
    """Return the share of all task time that some tasks have."""
    duration = waits["duration_ms"].to_numpy(np.float64)
    return float(duration[which].sum()) / max(float(duration.sum()), 1.0)


def _loneliness(tables: Tables) -> list[str]:
    queries = tables.queries[(tables.queries["tasks"] > 0).to_numpy()]
    start = queries["start_ms"].to_numpy()
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(queries["end_ms"].to_numpy()[order])
    if (start[order][1:] < ends[:-1]).any():
        return []
    if tables.applications["gone_until_ms"].notna().any():
        return [
            "no two queries of which events are kept ran at the same time: whom to blame may be "
            "among the jobs that compaction dropped"
        ]
    return ["no two queries ran at the same time: nothing here can be blamed on another query"]
