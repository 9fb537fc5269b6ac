"""Workloads of a simulated cluster, changes planted in them, and pairs of sets of runs to compare.

A workload is what one run of a night consists of: recurring queries of two applications on shared
hosts. A change turns it into another, and names each query that it was planted in, the kind that
the difference is, and the causes that explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from iqcar.enums import QueryBy, Request
from iqcar.logs.merge import merge
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.waits.columns import wait_column
from iqcar.tables import APPLICATIONS, CONF, JOBS, SQL_EXECUTIONS, STAGE_PARENTS, Tables
from iqcar_lab.clusters.frames import frame
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

MB = 1e6
EVERY_QUERY = ""
"""Place of a plant that concerns every query."""
SETTINGS = {
    "spark.executor.memory": "12g",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.autoBroadcastJoinThreshold": "64MB",
    "spark.speculation": "false",
}


@dataclass(frozen=True)
class Step:
    """One stage: its label, its work, and the bytes that each task spills."""

    label: str
    plan: StagePlan
    spill: float = 0.0

    @property
    def operators(self) -> str:
        """Operators of the plan, without the tables."""
        words = (part.replace("Scan parquet", "Scan_parquet").split()[0]
                 for part in self.label.split("; "))  # fmt: skip
        return "; ".join(word.replace("_", " ") for word in words)

    def with_plan(self, **values: Any) -> Step:
        """The step with other values of its plan."""
        return replace(self, plan=replace(self.plan, **values))

    def scaled(self, **factors: float) -> Step:
        """The step with some of its work multiplied."""
        return self.with_plan(**{n: getattr(self.plan, n) * by for n, by in factors.items()})


@dataclass(frozen=True)
class Job:
    """One instance of a recurring query."""

    name: str
    steps: tuple[Step, ...]
    app: int = 0
    submit: float = 0.0

    def each(self, change: Callable[[Step], Step]) -> Job:
        """The job with every step changed."""
        return replace(self, steps=tuple(map(change, self.steps)))

    def at(self, place: int, change: Callable[[Step], Step]) -> Job:
        """The job with one step changed."""
        steps = list(self.steps)
        steps[place] = change(steps[place])
        return replace(self, steps=tuple(steps))

    def plan(self, **values: Any) -> QueryPlan:
        """What the simulator runs."""
        stages = tuple(step.plan for step in self.steps)
        return QueryPlan(self.name, stages, self.app, self.submit, **values)


@dataclass(frozen=True)
class Plant:
    """What a comparison should say of a query: any of these kinds, any of these causes."""

    kinds: frozenset[str]
    causes: tuple[str, ...]

    def with_cause(self, old: str, new: str) -> Plant:
        """The same with another name in its causes."""
        return replace(self, causes=tuple(new if one == old else one for one in self.causes))


@dataclass(frozen=True)
class Workload:
    """One run's cluster, queries and settings, and what was planted."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    conf: dict[str, str] = field(default_factory=lambda: dict(SETTINGS))
    plants: dict[str, Plant] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def changed(
        self, name: str, change: Callable[[Job], Job], plant: Plant | None = None
    ) -> Workload:
        """The workload with every instance of a query changed."""
        jobs = tuple(change(job) if job.name == name else job for job in self.jobs)
        plants = self.plants if plant is None else self.plants | {name: plant}
        return replace(self, jobs=jobs, plants=plants)

    def everywhere(
        self, change: Callable[[Job], Job], plant: Plant | None = None, least_stages: int = 1
    ) -> Workload:
        """The workload with every query of so many stages changed."""
        found = self
        for name in self.names(least_stages):
            found = found.changed(name, change, plant)
        return found

    def with_conf(self, key: str, value: str) -> Workload:
        """The workload with another setting."""
        return replace(self, conf=self.conf | {key: value})

    def with_cluster(self, plant: Plant | None = None, **values: Any) -> Workload:
        """The workload on another cluster, which the plant tells of every query."""
        plants = self.plants if plant is None else self.plants | {EVERY_QUERY: plant}
        return replace(self, cluster=replace(self.cluster, **values), plants=plants)

    def taken_back(self, name: str, base: Workload) -> Workload:
        """The workload with one query as it is in another."""
        was = iter([job for job in base.jobs if job.name == name])
        jobs = tuple(next(was) if job.name == name else job for job in self.jobs)
        return replace(self, jobs=jobs)

    def names(self, least_stages: int = 1) -> list[str]:
        """Names of the queries of so many stages, once each."""
        return list(dict.fromkeys(j.name for j in self.jobs if len(j.steps) >= least_stages))


def _sizes(rng: np.random.Generator, tasks: int, spread: float = 0.25) -> tuple[float, ...]:
    """Work of the tasks relative to their mean: the same every night."""
    drawn = np.exp(spread * rng.standard_normal(tasks))
    return tuple(drawn / drawn.mean())


def _stage(rng: np.random.Generator, label: str, tasks: int, **work: Any) -> Step:
    parents = work.pop("parents", ())
    size = rng.uniform(0.8, 1.25)
    scaled = {name: value * size for name, value in work.items()}
    plan = StagePlan(tasks, parents=parents, scales=_sizes(rng, tasks), **scaled)
    return Step(label, plan)


def _join_query(
    rng: np.random.Generator, name: str, tables: tuple[str, str], app: int, submit: float
) -> Job:
    """Two scans, a sort-merge join of 16 partitions, and an aggregate."""
    big, small = tables
    n = int(rng.integers(14, 24))
    return Job(
        name,
        (
            _stage(rng, f"Scan parquet {big}; Filter; Exchange", n, read=70 * MB, cpu=500,
                   write=12 * MB),
            _stage(rng, f"Scan parquet {small}; Exchange", n // 2, read=30 * MB, cpu=250,
                   write=6 * MB),
            _stage(rng, f"SortMergeJoin {big} {small}; Exchange", 16, fetch=18 * MB, cpu=600,
                   gc=40, write=8 * MB, parents=(0, 1)),
            _stage(rng, f"HashAggregate {big} {small}", 16, fetch=6 * MB, cpu=250, parents=(2,)),
        ),
        app,
        submit,
    )  # fmt: skip


def _scan_query(
    rng: np.random.Generator, name: str, table: str, app: int, submit: float, cpu: float
) -> Job:
    """One scan and an aggregate."""
    n = int(rng.integers(10, 20))
    return Job(
        name,
        (
            _stage(rng, f"Scan parquet {table}; Project; Exchange", n, read=40 * MB, cpu=cpu,
                   write=5 * MB),
            _stage(rng, f"HashAggregate {table}", 16, fetch=5 * MB, cpu=cpu / 2, parents=(0,)),
        ),
        app,
        submit,
    )  # fmt: skip


def nightly(rng: np.random.Generator) -> Workload:
    """Six recurring queries of two applications, one of them twice a night."""
    at = np.sort(rng.uniform(0, 9000, 7))
    dashboard = _scan_query(rng, "dashboard", "clicks", 0, at[2], 300)
    jobs = (
        _join_query(rng, "etl_load", ("orders", "items"), 0, at[0]),
        _join_query(rng, "sessions", ("events", "users"), 1, at[1]),
        dashboard,
        replace(dashboard, submit=at[3] + 4000),
        _scan_query(rng, "score_model", "features", 1, at[4], 1200),
        _join_query(rng, "daily_sales", ("sales", "stores"), 0, at[5]),
        _scan_query(rng, "report", "totals", 1, at[6], 500),
    )
    return Workload(Cluster(hosts=4, cores=6, disk=2.5e5, slots=4, apps=2, rounds=2), jobs)


# --- changes


def _plant(kinds: str, *causes: str) -> Plant:
    return Plant(frozenset(kinds.split()), causes)


def _some(rng: np.random.Generator, among: list[str]) -> str:
    return among[int(rng.integers(len(among)))]


def quiet(work: Workload, rng: np.random.Generator) -> Workload:
    """Nothing changes but a setting without effect."""
    return work.with_conf("spark.speculation", _some(rng, ["true", "false"]))


def renamed(work: Workload, rng: np.random.Generator) -> Workload:
    """Nothing changes but names: dates in some, others altogether."""
    names = {name: f"{name} 20261002" for name in work.names()}
    names[_some(rng, ["etl_load", "daily_sales"])] = "nightly facts"
    return replace(work, renamed=names)


def data_grew(work: Workload, rng: np.random.Generator) -> Workload:
    """More data in all stages of a query; the scans read it in as many tasks, or in more."""
    factor, more_tasks = rng.uniform(1.5, 2.2), rng.random() < 0.5

    def grow(step: Step) -> Step:
        if step.plan.read and more_tasks:
            n = round(step.plan.tasks * factor)
            return step.with_plan(tasks=n, scales=_sizes(rng, n))
        return step.scaled(**dict.fromkeys(("read", "fetch", "cpu", "write", "gc"), factor))

    name = _some(rng, work.names())
    return work.changed(name, lambda job: job.each(grow), _plant("data", "data:"))


def slower_code(work: Workload, rng: np.random.Generator) -> Workload:
    """One stage of a query computes longer over the same data."""
    name = _some(rng, work.names())
    factor, place = rng.uniform(1.6, 2.5), rng.random()

    def slow(job: Job) -> Job:
        return job.at(int(place * len(job.steps)), lambda step: step.scaled(cpu=factor))

    return work.changed(name, slow, _plant("rate", "metric:cpu"))


def partitions(work: Workload, rng: np.random.Generator) -> Workload:
    """Many more shuffle partitions, each with an overhead of its own."""
    after = int(rng.choice([96, 128]))
    key = "spark.sql.shuffle.partitions"

    def split(step: Step) -> Step:
        if step.plan.read:
            return step
        share = step.plan.tasks / after
        finer = step.scaled(fetch=share, write=share, gc=share, cpu=share)
        return finer.with_plan(tasks=after, cpu=finer.plan.cpu + 120, scales=_sizes(rng, after))

    plant = _plant("structure", "partitions", f"conf:{key}")
    return work.with_conf(key, str(after)).everywhere(lambda job: job.each(split), plant)


def plan_change(work: Workload, rng: np.random.Generator) -> Workload:
    """The join of one query is a sort-merge join no longer: its small side is too big to send."""
    key = "spark.sql.autoBroadcastJoinThreshold"
    name = _some(rng, work.names(least_stages=4))
    growth = rng.uniform(1.5, 2.2)

    def broadcast(job: Job) -> Job:
        big, small, join, last = job.steps
        tables = join.label.split()[1:3]
        send = replace(small, label=f"Scan parquet {tables[1]}; BroadcastExchange").scaled(write=0)
        label = f"Scan parquet {tables[0]}; Filter; BroadcastHashJoin; Exchange"
        both = Step(label, replace(big.plan, cpu=big.plan.cpu * growth * 2, parents=(0,)))
        return replace(job, steps=(send, both, last.with_plan(parents=(1,))))

    plant = _plant("structure", "plan:", f"conf:{key}")
    return work.with_conf(key, "512MB").changed(name, broadcast, plant)


def skewed(work: Workload, rng: np.random.Generator) -> Workload:
    """One partition of a stage gets several times the data of the others; the sum is the same."""
    name, factor = _some(rng, work.names()), rng.uniform(5, 8)

    def skew(step: Step) -> Step:
        scales = np.array(step.plan.scales)
        scales[0] = factor
        scales[1:] *= (len(scales) - factor) / scales[1:].sum()
        return step.with_plan(scales=tuple(scales))

    return work.changed(name, lambda job: job.at(-1, skew), _plant("skew", "skew:"))


def spilling(work: Workload, rng: np.random.Generator) -> Workload:
    """Executors have less memory: the joins spill, and collect more garbage."""
    key = "spark.executor.memory"
    size = rng.uniform(20, 40) * MB

    def spill(step: Step) -> Step:
        if not step.label.startswith("SortMergeJoin"):
            return step
        more = step.with_plan(write=step.plan.write + size, gc=step.plan.gc * 3)
        return replace(more, spill=size)

    plant = _plant("memory", "spill", "gc", f"conf:{key}", "metric:spill", "metric:gc")
    return work.with_conf(key, "4g").everywhere(lambda job: job.each(spill), plant, 4)


def slow_disk(work: Workload, rng: np.random.Generator) -> Workload:
    """All disks are slower."""
    disk = work.cluster.disk * rng.uniform(0.35, 0.5)
    return work.with_cluster(_plant("environment", "environment:"), disk=disk)


def slow_host(work: Workload, rng: np.random.Generator) -> Workload:
    """The disk and the network of one host are slower."""
    plant = _plant("host", f"host:host-{work.cluster.hosts - 1}")
    return work.with_cluster(plant, slow_host=rng.uniform(0.2, 0.35))


def slow_processor(work: Workload, rng: np.random.Generator) -> Workload:
    """The same work takes longer on other cores."""
    factor = rng.uniform(1.4, 1.8)
    slower = work.everywhere(lambda job: job.each(lambda step: step.scaled(cpu=factor)))
    return slower.with_cluster(_plant("environment", "environment:"))


def _neighbour(work: Workload, rng: np.random.Generator, app: int) -> Workload:
    """A new query that takes most of one resource."""
    name = f"backfill_{app}"
    heavy = [
        {"read": 260 * MB, "cpu": 200.0},
        {"cpu": 2500.0, "read": 5 * MB},
        {"read": 120 * MB, "cpu": 600.0, "write": 120 * MB},
    ][int(rng.integers(3))]
    steps = (
        _stage(rng, "Scan parquet archive; Exchange", 32, **heavy),
        _stage(rng, "HashAggregate archive", 32, **heavy, parents=(0,)),
    )
    job = Job(name, steps, app, rng.uniform(0, 2500))
    plants = work.plants | {name: _plant("added", "")}
    return replace(work, jobs=(*work.jobs, job), plants=plants)


def neighbour_other(work: Workload, rng: np.random.Generator) -> Workload:
    """A new query of an application of its own, on the same hosts."""
    apps = work.cluster.apps
    return _neighbour(work.with_cluster(apps=apps + 1), rng, apps)


def several(work: Workload, rng: np.random.Generator) -> Workload:
    """More data, slower code and a new neighbour at once, in different queries."""
    changed = _neighbour(work, rng, 0)
    for change in (data_grew, slower_code):
        while len((tried := change(changed, rng)).plants) == len(changed.plants):
            continue
        changed = tried
    return changed


CHANGES: dict[str, Callable[[Workload, np.random.Generator], Workload]] = {
    "quiet": quiet,
    "renamed": renamed,
    "data": data_grew,
    "slower code": slower_code,
    "partitions": partitions,
    "plan": plan_change,
    "skew": skewed,
    "spill": spilling,
    "slow disk": slow_disk,
    "slow host": slow_host,
    "slow processor": slow_processor,
    "neighbour, same application": lambda work, rng: _neighbour(work, rng, 0),
    "neighbour, other application": neighbour_other,
    "several": several,
}
"""Kinds of pairs; in the first two nothing changes."""
QUIET = ("quiet", "renamed")


CPU_NOISE, BYTES_NOISE = 0.04, 0.01
"""Standard deviations over runs of the log of a stage's processor time and bytes."""
LATE_MS = 400.0
"""Queries are submitted up to this much later than planned."""
BETWEEN_RUNS_MS = 24 * 3_600_000.0
RUNS = (1, 2, 3, 5, 8)
"""Runs a side, by turns."""


@dataclass(frozen=True)
class Pair:
    """Two sets of runs, and the truth about their difference.

    ``effect_ms`` and ``before_ms`` hold mean durations by name after. A query that is new has the
    effect of its whole duration. ``own_effect_ms`` is the part of a query's effect that goes if its
    own change alone is taken back.
    """

    kind: str
    runs: int
    before: Tables
    after: Tables
    plants: dict[str, Plant]
    effect_ms: dict[str, float]
    own_effect_ms: dict[str, float]
    before_ms: dict[str, float]
    renamed: dict[str, str]


class Variety(NamedTuple):
    """What two clusters can differ in without a change.

    Attributes
    ----------
    hosts : int
    fair : bool
    named : "same", "side" or "run"
        How long hosts keep their names: for ever, on one side, or in one run.
    first_id : int
        Ids of stages, jobs, SQL executions and executors of a run begin there.
    """

    hosts: int = 4
    fair: bool = True
    named: str = "same"
    first_id: int = 0


PLAIN = Variety()


def drawn_variety(seed: int) -> Variety:
    """A cluster of other size, scheduling, names and ids for each seed."""
    rng = np.random.default_rng([seed, 42])
    return Variety(
        int(rng.choice([2, 3, 4, 6])),
        bool(rng.random() < 0.5),
        ("same", "side", "run")[int(rng.integers(3))],
        int(rng.choice([0, 1, 1000, 2_000_000])),
    )


@cache
def pair_of(kind: str, seed: int, runs: int | None = None, variety: Variety = PLAIN) -> Pair:
    """Simulate a pair."""
    place = list(CHANGES).index(kind)
    rng = np.random.default_rng([seed, 15, place])
    n = RUNS[(seed + place) % len(RUNS)] if runs is None else runs
    base = nightly(rng)
    if variety is not PLAIN:
        base = base.with_cluster(hosts=variety.hosts, fair=variety.fair)
    if kind == "slow host" and variety.named == "run":
        variety = variety._replace(named="side")  # else no host is slow in two runs
    changed = CHANGES[kind](base, rng)
    changed = replace(changed, plants=_named_plants(changed.plants, variety, n))
    nights = [(seed, place, night) for night in range(2 * n)]
    before = [Night(base, night) for night in nights[:n]]
    after = [Night(changed, night) for night in nights[n:]]
    without = [Night(base, night) for night in nights[n:]]
    took, would = durations(after), durations(without)
    own = {
        name: took[name]
        - durations([Night(changed.taken_back(name, base), night) for night in nights[n:]])[name]
        for name in changed.plants
        if name in would and len(changed.plants) > 1
    }
    new = changed.renamed
    return Pair(
        kind,
        n,
        side_of(before, {}, variety, 0),
        side_of(after, new, variety, n),
        {new.get(name, name): plant for name, plant in changed.plants.items()},
        {new.get(q, q): took[q] - would.get(q, 0.0) for q in took},
        own,
        {new.get(q, q): value for q, value in durations(before).items()},
        {name: new.get(name, name) for name in base.names()},
    )


class Night:
    """One run of a workload."""

    def __init__(self, work: Workload, seed: tuple[int, ...]) -> None:
        self.work, self.seed = work, seed
        self.jobs = [_tonight(job, number, seed) for number, job in enumerate(work.jobs)]
        self.simulation = Simulation(work.cluster, [job.plan() for job in self.jobs], 0)


def _tonight(job: Job, number: int, seed: tuple[int, ...]) -> Job:
    """The job with this run's noise, which is the same whatever changed elsewhere."""
    own = (*seed, number)
    late = np.random.default_rng(own).uniform(0, LATE_MS)
    steps = []
    for step in job.steps:
        rng = np.random.default_rng((*own, *step.label.encode()))
        cpu, size = np.exp(rng.standard_normal(2) * (CPU_NOISE, BYTES_NOISE))
        steps.append(step.scaled(cpu=cpu, read=size, fetch=size, write=size))
    return replace(job, steps=tuple(steps), submit=job.submit + late)


def durations(nights: Sequence[Night]) -> dict[str, float]:
    """Mean duration of each query over the runs, its instances in a run averaged first."""
    by_name: dict[str, list[float]] = {}
    for night in nights:
        for query, job in enumerate(night.jobs):
            by_name.setdefault(job.name, []).append(night.simulation.ended[query] - job.submit)
    return {name: float(np.mean(took)) for name, took in by_name.items()}


def _host_name(host: int, run: int, first_run: int, named: str) -> str:
    """Name of a host in a run of a side that begins with a run."""
    prefix = {"same": "", "side": f"s{first_run}-", "run": f"r{run}-"}[named]
    return f"{prefix}host-{host}"


def _named_plants(plants: dict[str, Plant], variety: Variety, first_run: int) -> dict[str, Plant]:
    """Plants whose causes name hosts as they are called after the change."""
    old = f"host:host-{variety.hosts - 1}"
    new = f"host:{_host_name(variety.hosts - 1, first_run, first_run, variety.named)}"
    return {query: plant.with_cause(old, new) for query, plant in plants.items()}


def side_of(
    nights: Sequence[Night], renamed: dict[str, str], variety: Variety, first_run: int
) -> Tables:
    """The tables of some runs as the reader returns them for plain logs."""
    tables = raw_side(nights, renamed, variety, first_run)
    return add_critical_path(identify(tables, QueryBy.SQL))


def raw_side(
    nights: Sequence[Night], renamed: dict[str, str], variety: Variety, first_run: int
) -> Tables:
    """The same before jobs are grouped into queries."""
    runs = []
    for number, night in enumerate(nights):
        tables = _emitted(night, number, renamed)
        names = [
            _host_name(host, first_run + number, first_run, variety.named)
            for host in range(len(tables.hosts))
        ]
        first = variety.first_id * (1 + number)
        runs.append(
            tables.with_(
                hosts=tables.hosts.assign(host=names),
                stages=tables.stages.assign(stage_id=tables.stages["stage_id"] + first),
                jobs=tables.jobs.assign(job_id=tables.jobs["job_id"] + first),
                tasks=tables.tasks.assign(task_id=tables.tasks["task_id"] + first),
            )
        )
    return merge(runs)


def _emitted(night: Night, number: int, renamed: dict[str, str]) -> Tables:
    """The tables of one run: metrics as Spark reports them, and what its plans say."""
    run, jobs = night.simulation, night.jobs
    tables, waits = run.emit(plain=True)
    shift = number * BETWEEN_RUNS_MS
    keys = sorted(run.stage_end)
    steps: list[Step] = [jobs[q].steps[s] for q, s in keys]
    apps, n = run.cluster.apps, len(jobs)
    starts = tables.queries["start_ms"].to_numpy() + shift
    ends = tables.queries["end_ms"].to_numpy() + shift
    of_app = np.array([job.app for job in jobs])
    tasks, stages = tables.tasks, tables.stages
    stage = tasks["stage"].to_numpy()
    first = np.full(len(stages), np.inf)
    launch = tasks["launch_ms"].to_numpy() + shift
    finish = tasks["finish_ms"].to_numpy() + shift
    np.minimum.at(first, stage, launch)
    spill = np.array([step.spill for step in steps])[stage]
    written = tasks["shuffle_write_bytes"].to_numpy()
    zero = np.zeros(len(tasks))
    order = np.argsort(stage, kind="stable")
    index = np.empty(len(tasks), np.int64)
    index[order] = np.arange(len(tasks)) - np.searchsorted(stage[order], stage[order])
    tasks = tasks.assign(
        launch_ms=launch, finish_ms=finish, run_ms=finish - launch,
        task_id=np.arange(len(tasks)), index=index.astype(np.int32),
        attempt=np.zeros(len(tasks), np.int32),
        cpu_ms=waits["compute_ms"].to_numpy(), gc_ms=waits["gc_ms"].to_numpy(),
        deserialize_ms=zero, deserialize_cpu_ms=zero, result_serialize_ms=zero,
        getting_result_ms=zero,
        fetch_wait_ms=waits[wait_column(Request.SHUFFLE_FETCH)].to_numpy(),
        shuffle_write_ms=waits[wait_column(Request.IO_WRITE)].to_numpy(),
        scan_ms=waits[wait_column(Request.IO_READ)].to_numpy(),
        disk_spilled_bytes=np.minimum(spill, written), memory_spilled_bytes=2 * spill,
        shuffle_write_bytes=np.maximum(written - spill, 0.0),
        input_records=tasks["input_bytes"].to_numpy() / 100,
        status=tasks["status"].cat.set_categories(["success"]).fillna("success"),
    )  # fmt: skip
    label = [step.label for step in steps]
    stages = stages.assign(
        stage_id=[100 * q + s for q, s in keys],
        attempt=0,
        name="save at Nightly.scala:42",
        job=[q for q, _ in keys],
        query=-1,
        declared_tasks=[step.plan.tasks for step in steps],
        first_launch_ms=first,
        completed=True,
        label=label,
        operators=[step.operators for step in steps],
        submission_ms=stages["submission_ms"].to_numpy() + shift,
        completion_ms=stages["completion_ms"].to_numpy() + shift,
    )
    plan = ["; ".join(sorted(step.label for step in job.steps)) for job in jobs]
    scanned = [
        sorted(
            word
            for step in job.steps
            for word in step.label.split("Scan parquet ")[1:]
            for word in [word.split(";")[0]]
        )
        for job in jobs
    ]
    settings = {**night.work.conf, "spark.driver.port": str(40_000 + sum(night.seed))}
    names = [renamed.get(job.name, job.name) for job in jobs]
    row_of = {key: row for row, key in enumerate(keys)}
    edges = [
        (row_of[q, s], row_of[q, p])
        for q, s in keys
        for p in jobs[q].steps[s].plan.parents
    ]  # fmt: skip
    return tables.with_(
        applications=frame(
            APPLICATIONS, apps, task_cpus=np.ones(apps),
            application_id=[f"app-{night.seed[-1]}-{a}" for a in range(apps)],
            name=[f"nightly-{a}" for a in range(apps)], spark_version=["3.5.3"] * apps,
            start_ms=np.full(apps, starts.min()), end_ms=np.full(apps, ends.max()),
            ended=[True] * apps,
            most_slots=np.full(apps, float(run.cluster.slots * run.cluster.hosts)),
        ),
        queries=Tables.empty().queries,
        sql_executions=frame(
            SQL_EXECUTIONS, n, app=of_app, execution_id=np.arange(n),
            root_execution_id=np.arange(n), description=names, user_named=[True] * n,
            plan_hash=[str(hash(p)) for p in plan], start_ms=starts, end_ms=ends,
            operators=plan, tables=["; ".join(t) for t in scanned],
        ),
        jobs=frame(
            JOBS, n, app=of_app, job_id=np.arange(n), sql_execution=np.arange(n),
            description=names, submission_ms=starts, completion_ms=ends, succeeded=[True] * n,
        ),
        stages=stages,
        conf=frame(
            CONF, apps * len(settings), app=np.repeat(np.arange(apps), len(settings)),
            key=list(settings) * apps, value=list(settings.values()) * apps,
        ),
        stage_parents=frame(
            STAGE_PARENTS, len(edges), stage=[s for s, _ in edges], parent=[p for _, p in edges]
        ),
        tasks=tasks,
    )  # fmt: skip
