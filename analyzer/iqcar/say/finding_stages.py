"""Finds stages that other partitions, memory or less skew would shorten, and waits for drivers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from iqcar.base.units import count_of, duration, percent, printable, short, size
from iqcar.causes.savings import SKEWED, stage_savings
from iqcar.causes.slow_tasks import MOSTLY
from iqcar.enums import BlameKind, FindingKind, Resource
from iqcar.model.waits.executor_memory import memory_for_tasks
from iqcar.replay.whatif.question import Question
from iqcar.rules.actions import Remedy
from iqcar.rules.vocabulary import advice_kinds
from iqcar.say.finding import About, Finding

_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_BROADCAST = (
    "Broadcast the small side: broadcast(...) or the hint /*+ BROADCAST(name) */; a larger "
    f"{_THRESHOLD} does so where Spark knows the size before it plans the join."
)


def stage_findings(about: About) -> Iterator[Finding]:
    """Findings on what the tasks of stages took, one per recurring query and kind.

    Of slow hosts, one per host: on the query that it delayed most.
    """
    found = stage_savings(about.tables, about.diagnosis.waits)
    of_host = found["kind"] == FindingKind.SLOW_HOST
    for _, mine in found[of_host].groupby("host"):
        yield _of_host(about, mine)
    found = _less_own_queues(about, found[~of_host])
    recurring = about.recurring[found["query"].to_numpy(np.int64)]
    for (kind, _), mine in found.groupby([found["kind"].astype(str), recurring], sort=True):
        if kind == FindingKind.LOCALITY.value and not _may_wait(about, mine):
            continue
        yield _of_stages(about, FindingKind(str(kind)), mine)


def _may_wait(about: About, mine: pd.DataFrame) -> bool:
    """Whether tasks may wait for executors near their data: a setting takes that away."""
    by_waiting = mine["empty"].notna() if "empty" in mine else pd.Series(False, mine.index)
    return not by_waiting.all() or "waits" in about.place(int(mine["query"].iloc[0])).holds


def _of_stages(about: About, kind: FindingKind, mine: pd.DataFrame) -> Finding:
    high = mine["high_ms"].to_numpy(np.float64)
    (runs,) = about.grouped(mine["query"].astype(int).tolist(), high)
    worst = mine.iloc[int(high.argmax())]
    query = max(runs, key=lambda row: runs[row])
    stage = about.diagnosis.stragglers.labels.stage(int(worst["stage"]))
    most = float(high.sum())
    finding = about.finding(
        kind,
        runs,
        sentence=_SAY[kind](about.called(query), f"stage {short(stage, 60)}", worst),
        action=_action(about, kind, mine, worst, query),
        ranged=(float(mine["low_ms"].sum()) / most, 1.0),
        where=f"stage {stage}",
        section="stragglers" if kind is FindingKind.SKEW else "stages",
        question=_question(about, kind, mine, list(runs)),
    )
    return about.saving(finding, min(float(mine["saves_ms"].sum()), finding.high_ms))


def _action(
    about: About, kind: FindingKind, mine: pd.DataFrame, worst: pd.Series, query: int
) -> Remedy:
    """What to do, and settings for it."""
    place = about.place(query)
    if kind is FindingKind.MEMORY:
        app = int(about.tables.queries["app"].iloc[query])
        each = float(mine["needed"].max())
        settings = tuple(memory_for_tasks(about.tables, app, each))
        return Remedy(_more_memory(worst, each, "local" in place.holds), settings)
    if kind is FindingKind.BROADCAST:
        side = float(mine["bytes"].max())
        why = f"more than the {size(side)} of the small side"
        return Remedy(_BROADCAST, ((_THRESHOLD, f"{_threshold_mb(side)}m", why),))
    if kind is FindingKind.PAGE_FAULTS:
        return _advised("host-memory")
    if kind is FindingKind.SLOW_HOST:
        return _advised("exclude-host")
    holds = {about.api_of(query, int(worst["stage"])), *_holds(about, worst)}
    count = _tasks_wanted(kind, worst)
    data = float(worst["last_bytes"]) / 2 if kind is FindingKind.SKEW else _all_bytes(worst) / count
    values = {"from": int(worst["tasks"]), "count": count, "mb": max(int(data / 2**20), 1)}
    return place.action(kind.value, holds, values)


def _advised(name: str) -> Remedy:
    advice = advice_kinds()[name]
    return Remedy(advice.do, tuple((one.name, one.value, one.why) for one in advice.settings[:2]))


def _holds(about: About, worst: pd.Series) -> Iterator[str]:
    """Conditions of a stage on which actions depend."""
    stage = about.tables.stages.iloc[int(worst["stage"])]
    if worst["fetches"]:
        yield "reads-shuffle"
    elif _all_bytes(worst) >= 2**20 * worst["slots"]:  # less makes no smaller pieces
        yield "reads-files"
    if "Join" in stage["operators"] or "Join" in stage["label"]:
        yield "join"
    if any(one in stage["label"] for one in ("Scan text", "Scan csv", "Scan json")):
        yield "text"
    if worst["tail_far"] > 0:
        yield "far"
    if not worst["fetches"] and worst["bytes"] > 0 and "Scan" not in stage["label"]:
        yield "cached"
    if not worst["fetches"]:
        yield "input"
    if len(about.tables.task_records):
        yield "recorded"


def _all_bytes(worst: pd.Series) -> float:
    return float(worst["bytes"] * worst["tasks"])


_TASK_BYTES = 64.0 * 2**20
"""Bytes that one task reads where tasks are made fewer."""


def _tasks_wanted(kind: FindingKind, worst: pd.Series) -> int:
    """As many as all slots take twice; of tiny ones as many as slots, or as their data is."""
    slots = max(int(worst["slots"]), 1)
    if kind is FindingKind.TINY_TASKS:
        return max(slots, int(_all_bytes(worst) / _TASK_BYTES))
    return 2 * slots


def _more_memory(worst: pd.Series, each: float, local: bool) -> str:
    """How much memory per task, and when partitions help instead."""
    count = int(np.ceil(worst["tasks"] * worst["needed"] / max(worst["had"], 1.0)))
    more = (
        f" Fewer than {count} partitions there would still spill, and each takes time to start."
        if worst["fetches"] and worst["had"] > 0
        else ""
    )
    how = "a larger heap" if local else "larger executors"
    fewer = "fewer tasks at once (local[N])" if local else "fewer cores per executor"
    return (
        f"Give each task {size(each)} of execution memory: {how}, a larger "
        f"spark.memory.fraction, or {fewer}.{more}"
    )


def _threshold_mb(side: float) -> int:
    """A power of two, a quarter above the size of a side at least."""
    return 1 << max(int(np.ceil(np.log2(1.25 * side / 2**20))), 0)


def _less_own_queues(about: About, found: pd.DataFrame) -> pd.DataFrame:
    """Leave out of what partitions save the time in which a query's own tasks filled a device."""
    own = np.zeros(len(about.ran))
    for resource in (Resource.IO, Resource.NETWORK, Resource.CPU):
        hurts = about.diagnosis.graph.who_hurts_whom(resource)
        hurts = hurts[(hurts["kind"] == BlameKind.OWN.value).to_numpy()]
        np.add.at(own, hurts["target_query"].to_numpy(np.int64), hurts["lost_ms"].to_numpy())
    high = found["high_ms"].where(found["kind"] == FindingKind.PARTITIONS, 0.0).to_numpy()
    query = found["query"].to_numpy(np.int64)
    most = np.bincount(query, high, len(own))[query]
    left = np.where(high > 0, np.maximum(1.0 - own[query] / np.maximum(most, 1.0), 0.0), 1.0)
    names = ["low_ms", "saves_ms", "high_ms"]
    found = found.assign(**{name: found[name] * left for name in names})
    return found[(found["high_ms"] > 0).to_numpy()]


def _question(
    about: About, kind: FindingKind, mine: pd.DataFrame, runs: list[int]
) -> Question | None:
    """Ask the replay; it divides only what is read from a shuffle among other partitions."""
    ids = about.tables.queries["query_id"].astype(str).iloc[runs].tolist()
    if kind is FindingKind.PARTITIONS and mine["fetches"].all():
        worst = mine.iloc[int(mine["high_ms"].to_numpy(np.float64).argmax())]
        return Question(partitions=dict.fromkeys(ids, _tasks_wanted(kind, worst)))
    # As many equal tasks as slots and some more would end in an uneven wave instead.
    if kind is FindingKind.SKEW and (mine["tasks"] >= 2.0 * mine["slots"]).all():
        return Question(no_skew=tuple(ids))
    return Question(no_gc=True) if kind is FindingKind.GC else None


def _of_host(about: About, mine: pd.DataFrame) -> Finding:
    """A slow host, on the recurring query that it delayed most."""
    recurring = about.recurring[mine["query"].to_numpy(np.int64)]
    worst = int(np.bincount(recurring, mine["high_ms"].to_numpy(np.float64)).argmax())
    others = len(np.unique(recurring)) - 1
    host = printable(about.tables.hosts["host"].astype(str).iloc[int(mine["host"].iloc[0])])
    finding = _of_stages(about, FindingKind.SLOW_HOST, mine[recurring == worst])
    more = f" It is slow in {others} more quer{'y' if others == 1 else 'ies'}." if others else ""
    return replace(
        finding, subject=host, where=host, section="hosts",
        sentence=f"The host {host} is slow: {finding.sentence}{more}",
        action=finding.action.replace("$host", host),
        settings=tuple((name, value.replace("$host", host), why)
                       for name, value, why in finding.settings),
    )  # fmt: skip


def _say_partitions(called: str, place: str, worst: pd.Series) -> str:
    tasks, slots = int(worst["tasks"]), int(worst["slots"])
    each = f", {size(worst['bytes'])} each" if worst["bytes"] > 0 else ""
    what = f"{count_of(tasks, 'task')} of {duration(worst['median_ms'])}{each}, for {slots} slots"
    if tasks < slots:
        return f"{called} left slots idle: {place} has {what}."
    return f"{called} ended its waves of tasks unevenly: {place} has {what}."


def _say_skew(called: str, place: str, worst: pd.Series) -> str:
    took = f"took {duration(worst['last_lasted'])}, the median {duration(worst['usual_lasted'])}"
    times = {
        name: worst[f"last_{name}"] / max(worst[f"usual_{name}"], 1.0)
        for name in ("bytes", "rows", "out_rows")
    }
    most = max(times, key=lambda name: times[name])
    if most == "bytes":
        had, usual = size(worst["last_bytes"]), size(worst["usual_bytes"])
    else:
        had, usual = (f"{worst[f'{which}_{most}']:,.0f}" for which in ("last", "usual"))
        had = f"{had} {'rows' if most == 'rows' else 'rows to write'}"
    return (
        f"{called} waited for one task with more data: in {place} it had {had}, the median "
        f"{usual}; it {took}."
    )


def _say_cold(called: str, place: str, worst: pd.Series) -> str:
    longer = worst["last_lasted"] >= SKEWED * worst["usual_lasted"]
    if longer and worst["tail_ms"] * worst["tail_cold"] > worst["each"] * worst["cold"]:
        return (
            f"{called} waited for a cold executor: in {place} its first task took "
            f"{duration(worst['last_lasted'])} ({duration(worst['last_deserialize'])} "
            f"deserialising, {duration(worst['last_cpu'])} on the processor), the median "
            f"{duration(worst['usual_lasted'])} over as much data."
        )
    elapsed = duration(worst["each"] * worst["cold"])
    if np.isfinite(worst["later_ms"]):
        return (
            f"{called} began cold: in {place} first tasks took {duration(worst['first_ms'])}, "
            f"later ones {duration(worst['later_ms'])}; that held it up for {elapsed}."
        )
    return (
        f"{called} began cold: in {place} tasks were unpacked and classes loaded for "
        f"{duration(worst['cold'])} of {duration(worst['ran'])}; that held it up for {elapsed}."
    )


def _say_far(called: str, place: str, worst: pd.Series) -> str:
    if worst["tail_far"] > 0 and not worst.get("empty", 0) > 0:
        return (
            f"{called} waited for a task that read {size(worst['last_bytes'])} from another host: "
            f"in {place} it took {duration(worst['last_lasted'])}, those with their data near "
            f"{duration(worst['usual_lasted'])}."
        )
    empty = int(worst["empty"])
    return (
        f"{called} waited for full executors beside empty ones: in {place} "
        f"{percent(worst['busiest'])} of the task time was spent on some, while {empty} "
        f"{'was' if empty == 1 else 'were'} hardly used and tasks waited for "
        f"{duration(worst['slots_ms'])}."
    )


def _say_outside(called: str, place: str, worst: pd.Series) -> str:
    longer = worst["last_lasted"] >= SKEWED * worst["usual_lasted"]
    if longer and worst["tail_outside"] >= MOSTLY:
        return (
            f"{called} waited for a task that waited for something: in {place} it took "
            f"{duration(worst['last_lasted'])}, {duration(worst['last_cpu'])} of it on the "
            f"processor, the median {duration(worst['usual_lasted'])} over as much data."
        )
    return (
        f"{called} waited for something outside of Spark: {count_of(int(worst['tasks']), 'task')} "
        f"of {place} took {duration(worst['ran'])} in all, {percent(worst['cpu_share'])} of it on "
        "the processor, and nothing recorded says what the rest was."
    )


def _say_lock(called: str, place: str, worst: pd.Series) -> str:
    return (
        f"{called} waited for locks that other tasks held: in {place} its tasks were blocked for "
        f"{duration(worst['lock'])} of {duration(worst['ran'])}."
    )


def _say_tiny(called: str, place: str, worst: pd.Series) -> str:
    each = f" with {size(worst['bytes'])}" if worst["bytes"] > 0 else ""
    return (
        f"{called} was divided too finely: {place} has {int(worst['tasks']):,} tasks of "
        f"{duration(worst['median_ms'])}{each}, for {int(worst['slots'])} slots; they computed for "
        f"{duration(worst['cpu_ms'])} of {duration(worst['ran'])}."
    )


def _say_schema(called: str, place: str, worst: pd.Series) -> str:
    tasks = count_of(int(worst["tasks"]), "task")
    return f"{called} read files only to learn their schema: {place}, {tasks}."


def _say_slow_host(called: str, place: str, worst: pd.Series) -> str:
    return (
        f"{called} waited for its tasks, which took up to {duration(worst['longest_ms'])} there in "
        f"{place}, the median {duration(worst['median_ms'])}."
    )


def _say_gc(called: str, place: str, worst: pd.Series) -> str:
    share = percent(worst["gc_ms"] / max(worst["work_ms"], 1.0))
    return (
        f"Garbage collection stopped the tasks of {called}, in {place} for {share} of their time."
    )


def _say_throttled(called: str, place: str, worst: pd.Series) -> str:
    return (
        f"The CPU limit of the executors stopped the tasks of {called}, in {place} for "
        f"{percent(worst['stopped'])} of their time."
    )


def _say_faults(called: str, place: str, worst: pd.Series) -> str:
    return (
        f"{called} waited for pages of memory that were read from mapped files or swap, in "
        f"{place} for {percent(worst['faulted'])} of its tasks' time."
    )


def _say_broadcast(called: str, place: str, worst: pd.Series) -> str:
    return (
        f"{called} shuffled both sides of the join in {place}, though one is "
        f"{size(worst['bytes'])} only."
    )


def _say_spill(called: str, place: str, worst: pd.Series) -> str:
    needed = f"had {size(worst['had'])} of memory at most, and needed {size(worst['needed'])}"
    return f"{called} spilled {size(worst['spilled'])} to disk in {place}: a task {needed}."


_SAY = {
    FindingKind.PARTITIONS: _say_partitions,
    FindingKind.SKEW: _say_skew,
    FindingKind.COLD: _say_cold,
    FindingKind.LOCALITY: _say_far,
    FindingKind.OUTSIDE: _say_outside,
    FindingKind.LOCK: _say_lock,
    FindingKind.TINY_TASKS: _say_tiny,
    FindingKind.SCHEMA: _say_schema,
    FindingKind.SLOW_HOST: _say_slow_host,
    FindingKind.GC: _say_gc,
    FindingKind.THROTTLED: _say_throttled,
    FindingKind.PAGE_FAULTS: _say_faults,
    FindingKind.BROADCAST: _say_broadcast,
    FindingKind.MEMORY: _say_spill,
}
