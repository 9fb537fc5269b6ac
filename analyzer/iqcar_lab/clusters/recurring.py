"""Simulated runs of many queries with one trouble that recurs, and the next run under rules.

A culprit takes a little, or a lot, of what many queries need; or the queries are slow for what
nobody else does to them: skew, collection. One family is quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.recorded_setup import DEFAULT_POOL, recorded_scheduler
from iqcar.rules.rule import PoolPlan, Rule, scheduler_rules
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.changes import MB, Job, Night, Step, Workload
from iqcar_lab.clusters.planted_findings import World, recorded
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan, number_of

RATE = 1e5
"""Bytes per ms that one task moves when it is alone."""
AMPLE = 1e7
EVEN = 0.06
"""Log-normal spread of tasks that do the same."""
CULPRIT = "culprit"


class Draw:
    """What the families draw alike: hosts, those with the trouble, and how many queries there are.

    Some hosts have more slots than others, and devices like theirs.
    """

    def __init__(self, family: str, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 83, *family.encode()])
        self.hosts = int(self.rng.integers(5, 9))
        self.large = int(0.45 * self.hosts)
        """Hosts that the culprit works on."""
        self.queries = int(self.rng.integers(24, 37))
        self.tasks = int(self.rng.integers(4, 6))
        """Tasks of a short query on each host."""
        self.each = int(self.rng.integers(12, 19))
        """Tasks of the culprit on each of its hosts."""

    def between(self, low: float, high: float) -> float:
        """Draw evenly."""
        return float(self.rng.uniform(low, high))

    def cluster(self, **short: Any) -> Cluster:
        """Ample devices but for those that are short."""
        wide, narrow = 2 * self.tasks + self.each, 2 * self.tasks + 2
        ample = Cluster(
            hosts=self.hosts, cores=512, disk=AMPLE, network=AMPLE, slots=wide, fair=False,
            places=(tuple(wide if h < self.large else narrow for h in range(self.hosts)),),
        )  # fmt: skip
        return replace(ample, **short)

    def short_queries(
        self,
        ms: float,
        work: Callable[[float], dict[str, float]],
        uneven: float = 0.0,
        apart: float = 1.0,
    ) -> list[Job]:
        """Queries of one stage with about so much work, one after another or two at once.

        ``uneven``: share of those of which some tasks have two or three times as much to do.
        ``apart``: how far apart they come, relative to other families.
        """
        jobs, at = [], 500.0
        for k in range(self.queries):
            tasks = self.tasks * self.hosts
            scales = self.skewed(tasks) if self.rng.random() < uneven else self.even(tasks)
            stage = StagePlan(tasks, scales=scales, **work(ms * self.between(0.8, 1.2)))
            jobs.append(Job(f"dash_{k}", (Step(f"Scan parquet t{k}", stage),), 0, at))
            at += apart * self.between(1.0, 2.0) * (ms + 60)
        return jobs

    def even(self, tasks: int) -> tuple[float, ...]:
        """Tasks that do the same."""
        return tuple(np.exp(EVEN * self.rng.standard_normal(tasks)).tolist())

    def skewed(self, tasks: int) -> tuple[float, ...]:
        """Tasks of which two have two or three times as much to do."""
        sizes = np.array(self.even(tasks))
        sizes[self.rng.integers(tasks, size=2)] *= self.between(2.0, 3.0)
        return tuple(sizes.tolist())

    def culprit(self, lasts: float, part: float = 1.0, **work: Any) -> Job:
        """A long query that works hard on the large hosts.

        ``lasts``: about how long, in ms; its work is that of a stage of some three seconds.
        """
        each, at = max(int(part * self.each), 1), number_of(QueryPlan(CULPRIT, ()))
        steps = []
        for k in range(max(round(lasts / 3_000), 2)):
            place = (at + k + np.arange(each * self.hosts)) % self.hosts
            scales = np.where(place < self.large, 1.0, 0.02).tolist()
            stage = StagePlan(len(place), scales=tuple(scales), parents=(k - 1,) if k else (),
                              **work)  # fmt: skip
            steps.append(Step(f"Scan parquet archive{k}", stage))
        return Job(CULPRIT, tuple(steps), 0, 0.0)

    def beside(self, jobs: list[Job]) -> float:
        """How long short queries come, in ms."""
        return jobs[-1].submit + 1_000


LITTLE, MUCH = 55.0, 450.0
"""Work of a short query in ms: what a culprit takes of it is below what counts, or above."""


def _reader(draw: Draw, ms: float) -> World:
    """One query reads on some of the hosts; the short ones read there, too."""
    disk = 2 * draw.tasks * RATE
    jobs = draw.short_queries(ms, lambda t: {"read": t * RATE, "read_rate": RATE, "cpu": 20})
    hog = draw.culprit(draw.beside(jobs), read=3_000 * disk / draw.each, cpu=20)
    return World(Workload(draw.cluster(disk=disk), (hog, *jobs)))


def _computer(draw: Draw, ms: float) -> World:
    """One query computes on some of the hosts; the short ones compute, too."""
    cores = 2 * draw.tasks
    jobs = draw.short_queries(ms, lambda t: {"cpu": t, "read": RATE, "read_rate": RATE})
    hog = draw.culprit(draw.beside(jobs), cpu=3_000 * cores / draw.each)
    return World(Workload(draw.cluster(cores=cores), (hog, *jobs)))


def _fetcher(draw: Draw, ms: float) -> World:
    """One query fetches on some of the hosts; the short ones fetch, too."""
    network = 2 * draw.tasks * RATE
    jobs = draw.short_queries(ms, lambda t: {"fetch": t * RATE, "fetch_rate": RATE, "cpu": 20})
    hog = draw.culprit(draw.beside(jobs), fetch=3_000 * network / draw.each, cpu=20)
    return World(Workload(draw.cluster(network=network), (hog, *jobs)))


def _slots(draw: Draw) -> World:
    """One query's long tasks hold the slots."""
    jobs = draw.short_queries(MUCH, lambda t: {"cpu": t, "read": 5 * MB, "read_rate": RATE}, 0.9)
    cluster = draw.cluster()
    stage = StagePlan(3 * sum(cluster.places[0]), cpu=4_000)
    hog = Job(CULPRIT, (Step("Scan parquet archive", stage),), 0, 0.0)
    return World(Workload(cluster, (hog, *jobs)))


def _skew(draw: Draw, part: float = 0.0) -> World:
    """Short queries with skewed input; with a part a reader takes from them beside that."""
    disk = 2 * draw.tasks * RATE
    jobs = draw.short_queries(MUCH, lambda t: {"read": t * RATE, "read_rate": RATE, "cpu": 50}, 0.9)
    hog = draw.culprit(draw.beside(jobs), part or 0.5, read=3_000 * disk / draw.each, cpu=20)
    short = {"disk": disk} if part else {}
    return World(Workload(draw.cluster(**short), (hog, *jobs)))


def _skew_and_few_slots(draw: Draw) -> World:
    """Short queries with skewed input that now and then wait a little for each other's slots."""
    jobs = draw.short_queries(
        MUCH, lambda t: {"read": t * RATE, "read_rate": RATE, "cpu": 50}, 0.9, apart=0.7
    )
    places = ((draw.tasks + draw.tasks // 2,) * draw.hosts,)
    return World(Workload(replace(draw.cluster(), places=places), tuple(jobs)))


FAMILIES: dict[str, Callable[[Draw], World]] = {
    "reading takes little from many": lambda draw: _reader(draw, LITTLE),
    "reading takes much from many": lambda draw: _reader(draw, MUCH),
    "computing takes little from many": lambda draw: _computer(draw, LITTLE),
    "computing takes much from many": lambda draw: _computer(draw, MUCH),
    "fetching takes little from many": lambda draw: _fetcher(draw, LITTLE),
    "fetching takes much from many": lambda draw: _fetcher(draw, MUCH),
    "long tasks hold the slots": _slots,
    "skew beside reading": lambda draw: _skew(draw, 0.7),
    "skew, and hardly too few slots": _skew_and_few_slots,
    "quiet, with skew": _skew,
}


def logged(world: World, seed: int) -> Tables:
    """The tables that the reader would make of the world's log."""
    tables, places = recorded(world, seed), world.work.cluster.places[0]
    cores = np.array(places, float)[tables.executors["host"].to_numpy(np.int64)]
    return tables.with_(
        executors=tables.executors.assign(cores=cores),
        applications=tables.applications.assign(most_slots=float(sum(places))),
    )


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
    plans = [job.plan(pool=DEFAULT_POOL) for job in night.jobs]
    if ruled is not None and ruled.plan.pools:
        pools = {pool.name: pool for pool in ruled.plan.pools}
        slots = sum(cluster.places[0])
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
