"""Simulated runs of many queries with one trouble that recurs, and the next run under rules.

A culprit takes a little, or a lot, of what many queries need; or the queries are slow for what
nobody else does to them: skew, collection. One family is quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.pool_plan import PoolPlan
from iqcar.rules.recorded_setup import DEFAULT_POOL, recorded_scheduler
from iqcar.rules.rule import Rule, scheduler_rules
from iqcar.tables import texts
from tests.support.cluster_simulator import Simulation
from tests.support.compare_pairs import Night
from tests.support.planted_changes import MB, Job, Step, Workload
from tests.support.planted_findings import World
from tests.support.simulated_work import Cluster, QueryPlan, StagePlan, drawn_scales

RATE = 1e5
"""Bytes per ms that one task moves when it is alone."""
AMPLE = 1e7
EVEN = 0.06
"""Log-normal spread of tasks that do the same."""
CULPRIT = "culprit"


class Draw:
    """What the families draw alike: hosts, those with trouble, and how many queries there are."""

    def __init__(self, family: str, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 83, *family.encode()])
        self.hosts = int(self.rng.integers(4, 8))
        self.slots = int(self.rng.integers(24, 33))
        self.queries = int(self.rng.integers(24, 37))
        self.at_once = float(self.rng.uniform(2.5, 4.0))
        """Short queries at once, about."""
        self.tasks = int(self.rng.integers(4, 7))
        """Tasks of a short query on each host."""

    def between(self, low: float, high: float) -> float:
        """Draw evenly."""
        return float(self.rng.uniform(low, high))

    def cluster(self, **short: float) -> Cluster:
        """Ample devices but for those that are short."""
        ample = Cluster(
            hosts=self.hosts, cores=512, disk=AMPLE, network=AMPLE, slots=self.slots, fair=False
        )
        return replace(ample, **short)  # type: ignore[arg-type]

    def short_queries(
        self, work: Callable[[], dict[str, float]], lasts: float, uneven: float = 0.0
    ) -> list[Job]:
        """Queries of one stage that last about so long in ms, some at once.

        ``uneven``: share of those of which some tasks have two or three times as much to do.
        """
        jobs, at = [], 500.0
        for k in range(self.queries):
            tasks = self.tasks * self.hosts
            scales = self.skewed(tasks) if self.rng.random() < uneven else self.even(tasks)
            stage = StagePlan(tasks, scales=scales, **work())
            jobs.append(Job(f"dash_{k}", (Step(f"Scan parquet t{k}", stage),), 0, at))
            at += self.between(0.7, 1.3) * lasts / self.at_once
        return jobs

    def even(self, tasks: int) -> tuple[float, ...]:
        """Tasks that do the same."""
        return tuple(np.exp(EVEN * self.rng.standard_normal(tasks)).tolist())

    def skewed(self, tasks: int) -> tuple[float, ...]:
        """Tasks of which two have two or three times as much to do."""
        sizes = np.array(self.even(tasks))
        sizes[self.rng.integers(tasks, size=2)] *= self.between(2.0, 3.0)
        return tuple(sizes.tolist())

    def culprit(self, each: int, stages: int, **work: float) -> Job:
        """A long query that works hard on one or two of the hosts, with so many tasks there."""
        busy = 1 if self.hosts < 6 else 2
        sizes = np.where(np.arange(each * self.hosts) % self.hosts < busy, 1.0, 0.02)
        stage = StagePlan(len(sizes), scales=tuple(sizes.tolist()), **work)
        steps = tuple(
            Step(f"Scan parquet archive{k}", replace(stage, parents=(k - 1,) if k else ()))
            for k in range(stages)
        )
        return Job(CULPRIT, steps, 0, 0.0)


def _reader(draw: Draw, share: float) -> World:
    """One query reads on some of the hosts; the short ones read there, too."""
    jobs = draw.short_queries(
        lambda: {"read": draw.between(40, 80) * MB, "read_rate": RATE, "cpu": draw.between(60, 200)},
        800.0,
    )
    wanted = draw.tasks * draw.at_once * RATE
    hog = draw.culprit(max(int(draw.tasks * draw.at_once * share), 1), 8, read=250 * MB, cpu=50)
    return World(Workload(draw.cluster(disk=1.1 * wanted), (hog, *jobs)))


def _computer(draw: Draw, share: float) -> World:
    """One query computes on some of the hosts; the short ones compute, too."""
    jobs = draw.short_queries(
        lambda: {"cpu": draw.between(500, 900), "read": 2 * MB, "read_rate": RATE}, 750.0
    )
    wanted = draw.tasks * draw.at_once
    hog = draw.culprit(max(int(wanted * share), 1), 8, cpu=3_000)
    return World(Workload(draw.cluster(cores=max(int(1.1 * wanted), 1)), (hog, *jobs)))


def _fetcher(draw: Draw, share: float) -> World:
    """One query fetches on some of the hosts; the short ones fetch, too."""
    jobs = draw.short_queries(
        lambda: {"fetch": draw.between(40, 80) * MB, "fetch_rate": RATE, "cpu": 150}, 800.0
    )
    wanted = draw.tasks * draw.at_once * RATE
    hog = draw.culprit(max(int(draw.tasks * draw.at_once * share), 1), 8, fetch=250 * MB, cpu=50)
    return World(Workload(draw.cluster(network=1.1 * wanted), (hog, *jobs)))


def _slots(draw: Draw) -> World:
    """One query's long tasks hold the slots."""
    draw.slots = 10
    jobs = draw.short_queries(
        lambda: {"cpu": draw.between(200, 500), "read": 5 * MB, "read_rate": RATE}, 800.0, 0.9
    )
    stage = StagePlan(3 * draw.hosts * draw.slots, cpu=4_000)
    hog = Job(CULPRIT, (Step("Scan parquet archive", stage),), 0, 0.0)
    return World(Workload(draw.cluster(), (hog, *jobs)))


def _skew(draw: Draw, share: float = 0.0) -> World:
    """Short queries with skewed input; with a share a reader takes from them beside that."""
    jobs = draw.short_queries(
        lambda: {"read": draw.between(40, 80) * MB, "read_rate": RATE, "cpu": 150}, 1_500.0, 0.9
    )
    each = max(int(draw.tasks * draw.at_once * share), 1)
    hog = draw.culprit(each, 8, read=250 * MB, cpu=50)
    wanted = draw.tasks * draw.at_once * RATE
    return World(Workload(draw.cluster(**({"disk": 1.1 * wanted} if share else {})), (hog, *jobs)))


FAMILIES: dict[str, Callable[[Draw], World]] = {
    "a reader takes a little from many": lambda draw: _reader(draw, 0.25),
    "a reader takes a lot from many": lambda draw: _reader(draw, 1.5),
    "computing takes a little from many": lambda draw: _computer(draw, 0.3),
    "computing takes a lot from many": lambda draw: _computer(draw, 1.5),
    "fetching takes a little from many": lambda draw: _fetcher(draw, 0.25),
    "fetching takes a lot from many": lambda draw: _fetcher(draw, 1.5),
    "long tasks hold the slots": _slots,
    "skew beside a reader": lambda draw: _skew(draw, 0.5),
    "quiet, with skew": _skew,
}


def trouble(family: str, seed: int) -> World:
    """The run of a family that a seed stands for."""
    return FAMILIES[family](Draw(family, seed))


@dataclass(frozen=True)
class RuledRun:
    """Pools of rules, as the simulator takes them."""

    plan: PoolPlan
    pool_of: dict[str, str]
    """By query name."""


def compiled(found: Diagnosis, rules: Sequence[Rule]) -> RuledRun:
    """Compile the rules that a diagnosis recommends."""
    acting = scheduler_rules(rules)
    known = recorded_scheduler(found.tables, acting)
    plan = compile_rules(acting, known.slots, known.running, known.pools)
    prints = dict(
        zip(texts(found.tables.queries, "fingerprint"), texts(found.tables.queries, "name"),
            strict=True)
    )  # fmt: skip
    return RuledRun(plan, {prints[one.fingerprint]: one.pool for one in plan.assignments})


def lasted(world: World, seed: int, ruled: RuledRun | None = None) -> dict[str, float]:
    """Duration of each query in a run, in ms; under rules if some are given."""
    night = Night(world.work, (seed, 44))
    cluster = world.work.cluster
    plans = [
        QueryPlan(j.name, tuple(s.plan for s in j.steps), j.app, j.submit, pool=DEFAULT_POOL)
        for j in night.jobs
    ]
    if ruled is not None and ruled.plan.pools:
        pools = {pool.name: pool for pool in ruled.plan.pools}
        slots = cluster.hosts * cluster.slots
        cluster = replace(
            cluster,
            fair=True,
            pools=tuple((p.name, float(p.weight), p.mode == "FAIR") for p in pools.values()),
            min_shares=tuple((p.name, p.min_share) for p in pools.values() if p.min_share),
        )
        plans = [
            replace(
                plan,
                pool=ruled.pool_of.get(plan.name, DEFAULT_POOL),
                cap=_cap(pools.get(ruled.pool_of.get(plan.name, "")), slots),
            )
            for plan in plans
        ]
    run = Simulation(cluster, plans, 0)
    return dict(zip([plan.name for plan in plans], run.lasted().tolist(), strict=True))


def _cap(pool: object, slots: int) -> float:
    share = getattr(pool, "cap_share", None)
    return np.inf if share is None else max(int(share * slots), 1)
