"""Plant what findings are about, and hold them against the same run with the action taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind
from iqcar.logs.merge import merge
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.pipeline import diagnose
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar.tables import TASK_FAILURES, Tables
from iqcar_lab.clusters.changes import MB, Job, Night, Step, Variety, Workload, durations, raw_side
from iqcar_lab.clusters.quiet import QUIET
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan, drawn_scales

TARGET = "target"
RATE = 1e5
"""Bytes per ms that one task gets of an ample device."""


@dataclass(frozen=True)
class World:
    """One run: its workload, and what the simulator does not run."""

    work: Workload
    driver_ms: float = 0.0
    failing: tuple[int, ...] = ()
    """Tasks of the target's first stage whose first attempt fails after half of their time."""

    def with_step(self, place: int, change: Callable[[Step], Step]) -> World:
        """The world with another stage of the target."""
        work = self.work.changed(TARGET, lambda job: job.at(place, change))
        return replace(self, work=work)

    def with_cluster(self, **values: Any) -> World:
        """The world on another cluster."""
        return replace(self, work=self.work.with_cluster(**values))

    def with_jobs(self, jobs: Iterable[Job]) -> World:
        """The world with other queries."""
        return replace(self, work=replace(self.work, jobs=tuple(jobs)))


class Planted(NamedTuple):
    """A world with its cause, and the one with the action taken."""

    kind: str
    was: World
    mended: World


class Draw:
    """What all kinds draw alike."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 44, *kind.encode()])
        self.hosts = int(self.rng.choice([1, 2, 3, 4, 6]))
        self.apps = int(self.rng.integers(1, 5))
        self.slots = int(self.rng.choice([2, 4, 6, 10]))
        self.beside = bool(self.rng.random() < 0.6)

    @property
    def all_slots(self) -> int:
        """Slots of an application."""
        return self.hosts * self.slots

    def between(self, low: float, high: float) -> float:
        """Draw evenly."""
        return float(self.rng.uniform(low, high))

    def cluster(self, **changes: Any) -> Cluster:
        """Ample devices: each task has its own rate."""
        wide = self.slots * self.apps
        ample = Cluster(
            hosts=self.hosts, cores=wide, disk=2 * RATE * wide, disk_each=RATE,
            network=2 * RATE * wide, slots=self.slots, apps=self.apps, fair=self.rng.random() < 0.5,
        )  # fmt: skip
        return replace(ample, **changes)

    def sizes(self, tasks: int, spread: float = 0.12) -> tuple[float, ...]:
        """Work of tasks relative to their mean."""
        drawn = np.exp(spread * self.rng.standard_normal(tasks))
        return tuple(drawn / drawn.mean())

    def stage(self, label: str, tasks: int, *, parents: tuple[int, ...] = (), **work: Any) -> Step:
        """A stage whose tasks are nearly alike; they spend a little on garbage collection."""
        work.setdefault("gc", 0.02 * work.get("cpu", 0.0))
        return Step(label, StagePlan(tasks, parents=parents, scales=self.sizes(tasks), **work))

    def query(self, middle: Step, name: str = TARGET, app: int = 0) -> Job:
        """A scan, a stage of this kind, and an aggregate, one after another."""
        n = 2 * self.all_slots
        steps = (
            self.stage("Scan parquet big; Exchange", n, cpu=self.between(200, 600), read=30 * MB),
            middle.with_plan(parents=(0,)),
            self.stage("HashAggregate big", self.all_slots, cpu=300, fetch=5 * MB, parents=(1,)),
        )
        return Job(name, steps, app, self.between(1_000, 3_000))

    def others(self, most: int = 3) -> tuple[Job, ...]:
        """Light queries: in the same application and in others."""
        if not self.beside:
            return ()
        return tuple(
            Job(
                f"light_{k}",
                (self.stage(f"Scan parquet t{k}", max(self.all_slots // 4, 1), cpu=300,
                            read=10 * MB),),
                int(self.rng.integers(self.apps)), self.between(0, 20_000),
            )
            for k in range(int(self.rng.integers(1, most + 1)))
        )  # fmt: skip

    def world(self, *jobs: Job, **cluster: Any) -> World:
        """A run of these and other queries."""
        return World(Workload(self.cluster(**cluster), (*jobs, *self.others())))

    def middle(self, tasks: int, ms: float) -> Step:
        """A join whose tasks last so long, a third of it to fetch."""
        return self.stage("SortMergeJoin big small; Exchange", tasks, cpu=0.65 * ms,
                          fetch=0.3 * ms * RATE, write=0.05 * ms * RATE)  # fmt: skip


def _few_partitions(draw: Draw) -> tuple[World, World]:
    draw.slots = max(draw.slots, 4)
    slots = draw.all_slots
    tasks = max(int(slots * draw.between(0.1, 0.5)), 1)
    was = draw.world(draw.query(draw.middle(tasks, draw.between(8_000, 30_000))))
    return was, _split(was, draw, tasks, 2 * slots)


def _uneven_waves(draw: Draw) -> tuple[World, World]:
    slots = draw.all_slots
    tasks = slots + max(int(slots * draw.between(0.05, 0.4)), 1)
    was = draw.world(draw.query(draw.middle(tasks, draw.between(6_000, 20_000))))
    return was, _split(was, draw, tasks, 2 * slots)


def _split(was: World, draw: Draw, tasks: int, into: int) -> World:
    sizes = draw.sizes(into)
    return was.with_step(1, lambda step: _divided(step, tasks / into, into, sizes))


def _divided(step: Step, share: float, into: int, sizes: tuple[float, ...]) -> Step:
    return replace(step, plan=replace(step.plan.scaled(share), tasks=into, scales=sizes))


def _skew(draw: Draw) -> tuple[World, World]:
    tasks = 2 * draw.all_slots
    even = draw.world(draw.query(draw.middle(tasks, draw.between(1_500, 4_000))))
    large, at = draw.between(6, 20), int(draw.rng.integers(tasks))

    def skewed(step: Step) -> Step:
        scales = np.array(step.plan.scales)
        scales[at] = large
        return step.with_plan(scales=tuple(scales * tasks / scales.sum()))

    return even.with_step(1, skewed), even


def _collection(draw: Draw) -> tuple[World, World]:
    calm = draw.world(draw.query(draw.middle(3 * draw.all_slots, draw.between(2_000, 5_000))))
    share = draw.between(0.4, 1.5)
    left = share * draw.between(0.0, 0.2)
    was, mended = (
        calm.with_step(1, lambda step, part=part: step.with_plan(gc=part * step.plan.cpu))
        for part in (share, left)
    )
    return was, mended


def _spill(draw: Draw) -> tuple[World, World]:
    fine = draw.world(draw.query(draw.middle(2 * draw.all_slots, draw.between(2_000, 5_000))))
    each = draw.between(200, 900) * MB

    def spilled(step: Step) -> Step:
        return replace(step.with_plan(write=step.plan.write + 2 * each), spill=each)

    return fine.with_step(1, spilled), fine


def _executors(draw: Draw) -> tuple[World, World]:
    draw.hosts, draw.apps = 2, 1
    draw.slots = int(draw.rng.choice([1, 2, 4, 8]))
    was = draw.world(draw.query(draw.middle(20 * draw.all_slots, draw.between(800, 2_000))))
    return was, was.with_cluster(hosts=3)


def _start_up(draw: Draw) -> tuple[World, World]:
    draw.apps = 1
    late = draw.between(3_000, 8_000)
    some = draw.rng.random() < 0.5 and draw.hosts > 1
    there = tuple(0.0 if some and h == 0 else late for h in range(draw.hosts))
    job = replace(
        draw.query(draw.middle(4 * draw.all_slots, draw.between(1_000, 3_000))), submit=500.0
    )
    was = draw.world(job, there_from=there)
    return was, was.with_cluster(there_from=())


def _slow_host(draw: Draw) -> tuple[World, World]:
    draw.hosts, draw.slots = max(draw.hosts, 3), min(draw.slots, 4)
    middle = draw.stage("SortMergeJoin big small; Exchange", 2 * draw.all_slots, cpu=400,
                        fetch=150 * MB, write=50 * MB)  # fmt: skip
    job = draw.query(middle)
    scan = draw.stage("Scan parquet big; Exchange", 3 * draw.all_slots, cpu=300, read=200 * MB)
    was = draw.world(job.at(0, lambda _: scan), slow_host=draw.between(0.2, 0.4))
    return was, was.with_cluster(slow_host=1.0)


def _driver(draw: Draw) -> tuple[World, World]:
    mended = draw.world(draw.query(draw.middle(draw.all_slots, draw.between(1_000, 4_000))))
    usual = draw.between(0, 1_000)
    mended = replace(mended, driver_ms=usual)
    return replace(mended, driver_ms=usual + draw.between(5_000, 30_000)), mended


def _wasted(draw: Draw) -> tuple[World, World]:
    mended = draw.world(draw.query(draw.middle(draw.all_slots, draw.between(1_000, 3_000))))
    (job,) = (job for job in mended.work.jobs if job.name == TARGET)
    tasks, longer = job.steps[0].plan.tasks, draw.between(6_000, 15_000)
    failing = tuple(range(0, tasks, int(draw.rng.integers(2, 6))))
    mended = mended.with_step(0, lambda step: step.scaled(cpu=longer / step.plan.cpu))
    was = mended.with_step(0, lambda step: _times_as_long(step, failing, 2.0))
    return replace(was, failing=failing), mended


def _times_as_long(step: Step, tasks: tuple[int, ...], factor: float) -> Step:
    scales = np.array(step.plan.scales)
    scales[list(tasks)] *= factor
    return step.with_plan(scales=tuple(scales))


def _slots(draw: Draw) -> tuple[World, World]:
    hog = draw.stage("Scan parquet archive", 6 * draw.all_slots, cpu=draw.between(2_000, 5_000))
    return _beside(draw, Job("hog", (hog,), 0, 0.0), fair=False)


def _disk(draw: Draw) -> tuple[World, World]:
    draw.apps, draw.hosts = max(draw.apps, 2), max(draw.hosts, 2)
    hog = draw.stage("Scan parquet archive; Exchange", 4 * draw.all_slots, cpu=100,
                     read=draw.between(400, 800) * MB)  # fmt: skip
    narrow = RATE * draw.slots
    reader = Job("hog", (hog,), 1, 0.0)
    return _beside(draw, reader, disk=narrow, disk_each=np.inf, network=1e9)


def _beside(draw: Draw, hog: Job, **cluster: Any) -> tuple[World, World]:
    job = draw.query(draw.middle(2 * draw.all_slots, draw.between(1_000, 3_000)))
    scan = draw.stage("Scan parquet big; Exchange", 2 * draw.all_slots, cpu=300, read=150 * MB)
    world = draw.world(job.at(0, lambda _: scan), **cluster)
    return world.with_jobs((hog, *world.work.jobs)), world


KINDS: dict[str, tuple[FindingKind, Callable[[Draw], tuple[World, World]]]] = {
    "contention, slots": (FindingKind.CONTENTION, _slots),
    "contention, disk": (FindingKind.CONTENTION, _disk),
    "executors": (FindingKind.EXECUTORS, _executors),
    "start-up": (FindingKind.START_UP, _start_up),
    "partitions, few": (FindingKind.PARTITIONS, _few_partitions),
    "partitions, uneven": (FindingKind.PARTITIONS, _uneven_waves),
    "skew": (FindingKind.SKEW, _skew),
    "memory": (FindingKind.MEMORY, _spill),
    "gc": (FindingKind.GC, _collection),
    "wasted": (FindingKind.WASTED, _wasted),
    "slow host": (FindingKind.SLOW_HOST, _slow_host),
    "driver": (FindingKind.DRIVER, _driver),
}


def plant(kind: str, seed: int) -> Planted:
    """Plant a kind in a cluster that depends on the seed."""
    return Planted(kind, *KINDS[kind][1](Draw(kind, seed)))


def first_id(seed: int) -> int:
    """Where ids of a run begin."""
    return int(np.random.default_rng(seed).integers(2_000_000))


def recorded(world: World, seed: int) -> Tables:
    """The tables that the reader would make of the world's logs."""
    variety = Variety(named="run", first_id=first_id(seed))
    night = Night(world.work, (seed, 44))
    tables = raw_side([night], {}, variety, seed)
    tables = _failed(_spilled(tables), world.failing, variety.first_id)
    names = tables.sql_executions["description"].astype(str)
    early = tables.sql_executions["start_ms"] - np.where(names == TARGET, world.driver_ms, 0.0)
    mode = "FAIR" if world.work.cluster.fair else "FIFO"
    tables = tables.with_(
        sql_executions=tables.sql_executions.assign(start_ms=early),
        applications=tables.applications.assign(scheduler_mode=mode),
    )
    return add_critical_path(identify(merge([tables])))


def _spilled(tables: Tables) -> Tables:
    """What was spilled was written and read, and is no shuffle."""
    tasks = tables.tasks
    spilled = tasks["disk_spilled_bytes"].to_numpy()
    written = np.maximum(tasks["shuffle_write_bytes"].to_numpy() - spilled, 0.0)
    moved = np.maximum(written + 2 * spilled, 1.0)
    wrote = tasks["shuffle_write_ms"].to_numpy() * written / moved
    return tables.with_(tasks=tasks.assign(shuffle_write_bytes=written, shuffle_write_ms=wrote))


def _failed(tables: Tables, failing: tuple[int, ...], first_id: int) -> Tables:
    """Some tasks of the target's first stage are two attempts, the first of which failed."""
    if not failing:
        return tables
    tasks = tables.tasks
    names = tables.sql_executions["description"].astype(str).to_numpy()
    stage = first_id * 1 + 100 * int(np.flatnonzero(names == TARGET)[0])
    of_stage = tables.stages["stage_id"].to_numpy()[tasks["stage"].to_numpy()] == stage
    rows = np.flatnonzero(of_stage & tasks["index"].isin(failing).to_numpy())
    half = (tasks["launch_ms"] + tasks["finish_ms"]).to_numpy()[rows] / 2
    lost, again = tasks.iloc[rows].copy(), tasks.copy()
    lost = lost.assign(finish_ms=half, status="failed", run_ms=half - lost["launch_ms"])
    launch = again["launch_ms"].to_numpy().copy()
    launch[rows] = half
    again = again.assign(launch_ms=launch, run_ms=again["finish_ms"] - launch)
    for frame, mine in ((lost, np.arange(len(rows))), (again, rows)):
        for name in ("cpu_ms", "gc_ms", "fetch_wait_ms", "shuffle_write_ms", "scan_ms"):
            values = frame[name].to_numpy().copy()
            values[mine] /= 2
            frame[name] = values
    attempt = again["attempt"].to_numpy().copy()
    attempt[rows] = 1
    again = again.assign(attempt=attempt)
    lost = lost.assign(task_id=tasks["task_id"].max() + 1 + np.arange(len(rows)))
    both = pd.concat([again, lost], ignore_index=True)
    both["status"] = both["status"].astype("category")
    failures = TASK_FAILURES.frame(
        {
            "task": len(tasks) + np.arange(len(rows)),
            "reason": ["ExceptionFailure"] * len(rows),
            "message": ["java.io.IOException: no"] * len(rows),
            "source": np.full(len(rows), -1),
        }
    )
    return tables.with_(tasks=both.astype(tasks.dtypes.to_dict() | {"status": "category"}),
                        task_failures=failures)  # fmt: skip


def took(world: World, seed: int) -> dict[str, float]:
    """Duration of each query, by name."""
    found = durations([Night(world.work, (seed, 44))])
    if TARGET in found:
        found[TARGET] += world.driver_ms
    return found


def quiet(family: str, seed: int) -> World:
    """A cluster on which nothing is short (:mod:`iqcar_lab.clusters.quiet`)."""
    cluster, plans = QUIET[family](np.random.default_rng([seed, 7, len(family), False]))

    def step(plan: QueryPlan, number: int) -> Step:
        stage = plan.stages[number]
        sizes = tuple(drawn_scales(seed, plan, number))
        return Step(f"Scan parquet {plan.name}_{number}", replace(stage, scales=sizes))

    jobs = (
        Job(p.name, tuple(step(p, k) for k in range(len(p.stages))), p.app, p.submit) for p in plans
    )
    return World(Workload(cluster, tuple(jobs)))


FIRST = 3
"""Findings among which the planted one should be."""
NOT_AT_ALL = 1.0 / 3.0
"""Part of ``low_ms`` below which what was saved makes the finding a false alarm."""
TOLD_SHARE = 0.05
"""Share of the run from which a finding is counted."""


class Checked(NamedTuple):
    """A finding, and what its action saved."""

    kind: str
    seed: int
    rank: int
    """Place of the finding; 0 where there is none."""
    finding: Finding | None
    saved_ms: float
    ran_ms: float

    @property
    def within(self) -> bool:
        """Whether what was saved lies in the range."""
        one = self.finding
        return one is not None and one.low_ms <= self.saved_ms <= one.high_ms

    @property
    def false(self) -> bool:
        """Whether the action saved nothing of what was said."""
        one = self.finding
        return one is not None and self.saved_ms < NOT_AT_ALL * one.low_ms


def check(kind: str, seed: int, replay: bool = True) -> tuple[Checked, list[Checked]]:
    """Plant a kind, ask for findings, and take the action; then that of every other finding."""
    planted = plant(kind, seed)
    was, mended = took(planted.was, seed), took(planted.mended, seed)
    diagnosis = diagnose(recorded(planted.was, seed))
    findings = find_findings(diagnosis, replay=replay)
    names = diagnosis.tables.queries["name"].astype(str).tolist()
    wanted = KINDS[kind][0]
    place = next(
        (at for at, one in enumerate(findings, 1) if one.kind is wanted
         and (TARGET in {names[row] for row in one.queries} or one.sentence.startswith("hog was"))),
        0,
    )  # fmt: skip
    one = findings[place - 1] if place else None
    about = [names[row] for row in one.queries] if one else [TARGET]
    saved = sum(was[name] - mended[name] for name in about)
    others = [other for other in findings if other is not one]
    checked = Checked(kind, seed, place, one, saved, was[TARGET])
    return checked, list(_checked(planted.was, seed, diagnosis, others))


def check_quiet(family: str, seed: int) -> list[Checked]:
    """Ask for findings where nothing is short, and take the action of each."""
    world = quiet(family, seed)
    diagnosis = diagnose(recorded(world, seed))
    return list(_checked(world, seed, diagnosis, find_findings(diagnosis)))


def _checked(
    world: World, seed: int, diagnosis: Diagnosis, findings: Iterable[Finding]
) -> Iterator[Checked]:
    """Take the action of each finding that counts; the best of them where it leaves a choice."""
    names = diagnosis.tables.queries["name"].astype(str).tolist()
    was = took(world, seed)
    for place, one in enumerate(findings, 1):
        about = {names[row] for row in one.queries}
        if one.kind is FindingKind.UNKNOWN or one.share < TOLD_SHARE:
            continue
        saved = max(
            sum(was[name] - then[name] for name in about)
            for then in (took(mended, seed) for mended in _actions(world, one, about))
        )
        yield Checked(str(one.kind), seed, place, one, saved, sum(was[name] for name in about))


def _actions(world: World, one: Finding, about: set[str]) -> Iterator[World]:
    """The world with the action taken; of contention, one for each query that is taken away."""
    work, cluster = world.work, world.work.cluster
    if one.kind is FindingKind.CONTENTION:
        for job in work.jobs:
            if job.name not in about:
                yield world.with_jobs(other for other in work.jobs if other is not job)
    elif one.kind is FindingKind.DRIVER:
        yield replace(world, driver_ms=0.0)
    elif one.kind is FindingKind.EXECUTORS:
        name = "slots" if cluster.hosts % 2 or cluster.there_from else "hosts"
        yield world.with_cluster(**{name: round(1.5 * getattr(cluster, name))})
    elif one.kind is FindingKind.START_UP:
        yield world.with_cluster(there_from=())
    elif one.kind is FindingKind.SLOW_HOST:
        yield world.with_cluster(slow_host=1.0)
    elif one.kind is FindingKind.WASTED:
        halved = world.with_step(0, lambda step: _times_as_long(step, world.failing, 0.5))
        yield replace(halved, failing=())
    elif one.kind not in _OF_STEPS:  # nothing like it is in the simulator
        yield world
    else:
        found = re.search(r"→ (\d+)\)", one.action)
        into = int(found[1]) if found else 0
        yield world.with_jobs(
            job.each(lambda step: _other_step(step, one.kind, into)) if job.name in about else job
            for job in work.jobs
        )


_OF_STEPS = (FindingKind.PARTITIONS, FindingKind.SKEW, FindingKind.GC, FindingKind.MEMORY)


def _other_step(step: Step, kind: FindingKind, into: int) -> Step:
    plan = step.plan
    mean = float(np.mean(plan.scales))
    if kind is FindingKind.GC:
        return step.with_plan(gc=0.0)
    if kind is FindingKind.MEMORY:
        return replace(step.with_plan(write=plan.write - 2 * step.spill), spill=0.0)
    if kind is FindingKind.SKEW:
        return step.with_plan(scales=(mean,) * plan.tasks)
    # New tasks differ in size as the old ones do.
    like = np.quantile(plan.scales, np.arange(into) / max(into - 1, 1))
    sizes = np.random.default_rng(into).permutation(like * mean / like.mean())
    return _divided(step, plan.tasks / into, into, tuple(sizes))
