"""Workloads of a simulated cluster, and changes planted in them with what a comparison should say.

A workload is what one run of a night consists of: recurring queries of two applications on shared
hosts. A change turns it into another, and names each query that it was planted in, the kind that
the difference is, and the causes that explain it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.support.simulated_work import Cluster, StagePlan

MB = 1e6
EVERY_QUERY = ""
"""Place of a plant that concerns every query."""
CONF = {
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

    def scaled(self, **factors: float) -> Step:
        """The step with some of its work multiplied."""
        work = {name: getattr(self.plan, name) * factor for name, factor in factors.items()}
        return replace(self, plan=replace(self.plan, **work))


@dataclass(frozen=True)
class Job:
    """One instance of a recurring query."""

    name: str
    steps: tuple[Step, ...]
    app: int = 0
    submit: float = 0.0


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
    conf: dict[str, str] = field(default_factory=lambda: dict(CONF))
    plants: dict[str, Plant] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def changed(
        self, name: str, change: Callable[[Job], Job], plant: Plant | None = None
    ) -> Workload:
        """The workload with every instance of a query changed."""
        jobs = tuple(change(job) if job.name == name else job for job in self.jobs)
        plants = self.plants if plant is None else self.plants | {name: plant}
        return replace(self, jobs=jobs, plants=plants)

    def taken_back(self, name: str, base: Workload) -> Workload:
        """The workload with one query as it is in another."""
        was = iter([job for job in base.jobs if job.name == name])
        jobs = tuple(next(was) if job.name == name else job for job in self.jobs)
        return replace(self, jobs=jobs)

    def names(self, app: int | None = None, least_stages: int = 1) -> list[str]:
        """Names of the queries, once each."""
        chosen = [
            job.name
            for job in self.jobs
            if len(job.steps) >= least_stages and app in (None, job.app)
        ]
        return list(dict.fromkeys(chosen))


def _sizes(rng: np.random.Generator, tasks: int, spread: float = 0.25) -> tuple[float, ...]:
    """Work of the tasks relative to their mean: the same every night."""
    drawn = np.exp(spread * rng.standard_normal(tasks))
    return tuple(drawn / drawn.mean())


def _stage(rng: np.random.Generator, label: str, tasks: int, **work: float) -> Step:
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
    return replace(work, conf=work.conf | {"spark.speculation": _some(rng, ["true", "false"])})


def renamed(work: Workload, rng: np.random.Generator) -> Workload:
    """Nothing changes but names: dates in some, others altogether."""
    names = {name: f"{name} 20261002" for name in work.names()}
    names[_some(rng, ["etl_load", "daily_sales"])] = "nightly facts"
    return replace(work, renamed=names)


def data_grew(work: Workload, rng: np.random.Generator, least: float = 1.5) -> Workload:
    """More data in all stages of a query; the scans read it in as many tasks, or in more."""
    factor, more_tasks = rng.uniform(least, 2.2), rng.random() < 0.5

    def grow(job: Job) -> Job:
        steps = []
        for step in job.steps:
            plan = step.plan
            if plan.read and more_tasks:
                n = round(plan.tasks * factor)
                steps.append(replace(step, plan=replace(plan, tasks=n, scales=_sizes(rng, n))))
            else:
                each = dict.fromkeys(("read", "fetch", "cpu", "write", "gc"), factor)
                steps.append(step.scaled(**each))
        return replace(job, steps=tuple(steps))

    return work.changed(_some(rng, work.names()), grow, _plant("data", "data:"))


def slower_code(work: Workload, rng: np.random.Generator) -> Workload:
    """One stage of a query computes longer over the same data."""
    name = _some(rng, work.names())
    factor, place = rng.uniform(1.6, 2.5), rng.random()

    def slow(job: Job) -> Job:
        at = int(place * len(job.steps))
        steps = list(job.steps)
        steps[at] = steps[at].scaled(cpu=factor)
        return replace(job, steps=tuple(steps))

    return work.changed(name, slow, _plant("rate", "metric:cpu"))


def partitions(work: Workload, rng: np.random.Generator) -> Workload:
    """Many more shuffle partitions, each with an overhead of its own."""
    after = int(rng.choice([96, 128]))
    key = "spark.sql.shuffle.partitions"
    plant = _plant("structure", "partitions", f"conf:{key}")

    def split(step: Step) -> Step:
        plan = step.plan
        if plan.read:
            return step
        share = plan.tasks / after
        work = {name: getattr(plan, name) * share for name in ("fetch", "write", "gc")}
        cpu = plan.cpu * share + 120
        finer = replace(plan, tasks=after, cpu=cpu, scales=_sizes(rng, after), **work)
        return replace(step, plan=finer)

    changed = replace(work, conf=work.conf | {key: str(after)})
    for name in work.names():
        changed = changed.changed(
            name, lambda job: replace(job, steps=tuple(map(split, job.steps))), plant
        )
    return changed


def plan_change(work: Workload, rng: np.random.Generator) -> Workload:
    """The join of one query is a sort-merge join no longer: its small side is too big to send."""
    key = "spark.sql.autoBroadcastJoinThreshold"
    name = _some(rng, work.names(least_stages=4))
    plant = _plant("structure", "plan:", f"conf:{key}")
    growth = rng.uniform(1.5, 2.2)

    def broadcast(job: Job) -> Job:
        big, small, join, last = job.steps
        tables = join.label.split()[1:3]
        send = replace(small, label=f"Scan parquet {tables[1]}; BroadcastExchange").scaled(write=0)
        both = Step(
            f"Scan parquet {tables[0]}; Filter; BroadcastHashJoin; Exchange",
            replace(big.plan, cpu=big.plan.cpu * growth * 2, parents=(0,)),
        )
        return replace(
            job, steps=(send, both, replace(last, plan=replace(last.plan, parents=(1,))))
        )

    changed = replace(work, conf=work.conf | {key: "512MB"})
    return changed.changed(name, broadcast, plant)


def skewed(work: Workload, rng: np.random.Generator) -> Workload:
    """One partition of a stage gets several times the data of the others; the sum is the same."""
    name, factor = _some(rng, work.names()), rng.uniform(5, 8)

    def skew(job: Job) -> Job:
        *rest, last = job.steps
        scales = np.array(last.plan.scales)
        scales[0] = factor
        scales[1:] *= (len(scales) - factor) / scales[1:].sum()
        return replace(
            job, steps=(*rest, replace(last, plan=replace(last.plan, scales=tuple(scales))))
        )

    return work.changed(name, skew, _plant("skew", "skew:"))


def spilling(work: Workload, rng: np.random.Generator) -> Workload:
    """Executors have less memory: the joins spill, and collect more garbage."""
    key = "spark.executor.memory"
    plant = _plant("memory", "spill", "gc", f"conf:{key}", "metric:spill", "metric:gc")
    size = rng.uniform(20, 40) * MB

    def spill(job: Job) -> Job:
        def one(step: Step) -> Step:
            if not step.label.startswith("SortMergeJoin"):
                return step
            plan = replace(step.plan, write=step.plan.write + size, gc=step.plan.gc * 3)
            return replace(step, plan=plan, spill=size)

        return replace(job, steps=tuple(map(one, job.steps)))

    changed = replace(work, conf=work.conf | {key: "4g"})
    for name in work.names(least_stages=4):
        changed = changed.changed(name, spill, plant)
    return changed


def slow_disk(work: Workload, rng: np.random.Generator) -> Workload:
    """All disks are slower."""
    cluster = replace(work.cluster, disk=work.cluster.disk * rng.uniform(0.35, 0.5))
    plants = {EVERY_QUERY: _plant("environment", "environment:")}
    return replace(work, cluster=cluster, plants=work.plants | plants)


def slow_host(work: Workload, rng: np.random.Generator) -> Workload:
    """The disk and the network of one host are slower."""
    cluster = replace(work.cluster, slow_host=rng.uniform(0.2, 0.35))
    plants = {EVERY_QUERY: _plant("host", f"host:host-{cluster.hosts - 1}")}
    return replace(work, cluster=cluster, plants=work.plants | plants)


def slow_processor(work: Workload, rng: np.random.Generator) -> Workload:
    """The same work takes longer on other cores."""
    factor = rng.uniform(1.4, 1.8)
    changed = work
    for name in work.names():
        changed = changed.changed(
            name, lambda j: replace(j, steps=tuple(s.scaled(cpu=factor) for s in j.steps))
        )
    plants = {EVERY_QUERY: _plant("environment", "environment:")}
    return replace(changed, plants=work.plants | plants)


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


def neighbour_same(work: Workload, rng: np.random.Generator) -> Workload:
    """A new query of an application that others wait in."""
    return _neighbour(work, rng, 0)


def neighbour_other(work: Workload, rng: np.random.Generator) -> Workload:
    """A new query of an application of its own, on the same hosts."""
    apps = work.cluster.apps
    return _neighbour(replace(work, cluster=replace(work.cluster, apps=apps + 1)), rng, apps)


def several(work: Workload, rng: np.random.Generator) -> Workload:
    """More data, slower code and a new neighbour at once, in different queries."""
    changed = _neighbour(work, rng, 0)
    taken = set(changed.plants)
    for change in (data_grew, slower_code):
        while True:
            tried = change(changed, rng)
            (new,) = [*set(tried.plants) - set(changed.plants)] or [""]
            if new and new not in taken:
                break
        changed = tried
        taken.add(new)
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
    "neighbour, same application": neighbour_same,
    "neighbour, other application": neighbour_other,
    "several": several,
}
"""Kinds of pairs; in the first two nothing changes."""
QUIET = ("quiet", "renamed")
