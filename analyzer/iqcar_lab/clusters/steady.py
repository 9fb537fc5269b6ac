"""Simulated clusters on which contention hardly varies, each with a quiet twin.

A query that loses the same at every moment looks like one with a slow format. The quiet twin does
the same work where nothing is short, so that its truth is 0. What clusters vary in varies here as
well: hosts, their names, whether one comes late or goes early, cores, devices, and where ids begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iqcar_lab.clusters.quiet import MB, Plans
from iqcar_lab.clusters.truth import chain_of
from iqcar_lab.clusters.varied_logs import FIRST_IDS, HOST_NAMES
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

AMPLE_DEVICE = 1e7
"""Bytes per ms that the queries below never fill, all together."""
GB = 1e9
EVEN = 0.08
"""Log-normal spread of tasks that end at about the same time."""


@dataclass(frozen=True)
class Twins:
    """The same work where something is short, and where nothing is."""

    loud: Plans
    quiet: Plans


def _cluster(
    rng: np.random.Generator, apps: int = 1, *, least: int = 2, change: bool = True
) -> Cluster:
    """A cluster of some size on which nothing is short; hosts ``change`` in some."""
    hosts = int(rng.integers(least, 7))
    pattern = HOST_NAMES[int(rng.integers(len(HOST_NAMES)))]
    numbers = rng.choice(250 * 250, hosts, replace=False)
    names = tuple(pattern.format(a=int(n) // 250, b=int(n) % 250) for n in numbers)
    since, until = [0.0] * hosts, [np.inf] * hosts
    if change and hosts > 3 and rng.random() < 0.4:
        since[int(rng.integers(hosts))] = float(rng.uniform(1000, 4000))
    if change and hosts > 4 and rng.random() < 0.4:
        until[int(rng.integers(hosts))] = float(rng.uniform(4000, 12_000))
    return Cluster(
        hosts=hosts, cores=512, disk=AMPLE_DEVICE, network=AMPLE_DEVICE,
        slots=int(rng.integers(96, 161)), apps=apps, fair=bool(rng.random() < 0.7),
        there_from=tuple(since) if any(since) else (),
        there_until=tuple(until) if min(until) < np.inf else (),
        host_names=names, first_id=int(rng.choice(FIRST_IDS)),
    )  # fmt: skip


def _twins(ample: Cluster, plans: list[QueryPlan], **short: Any) -> Twins:
    return Twins((replace(ample, **short), plans), (ample, plans))


def _all_along(stage: StagePlan, times: int) -> tuple[StagePlan, ...]:
    """A chain of stages of which each has about as many tasks at every moment."""
    return chain_of(replace(stage, spread=EVEN), times)


def _wide(rng: np.random.Generator, cluster: Cluster, least: int = 3, most: int = 7) -> int:
    """Tasks of a stage: some on each host."""
    return int(rng.integers(least, most) * cluster.hosts + rng.integers(0, 3))


def _rate(rng: np.random.Generator) -> float:
    """What a reader of some format reads alone, in bytes per ms."""
    return float(1.6e5 * np.exp(-rng.uniform(0.0, 1.3)))


def _reader(rng: np.random.Generator, cluster: Cluster) -> StagePlan:
    return StagePlan(
        _wide(rng, cluster), read=rng.uniform(120, 360) * MB, read_rate=_rate(rng),
        cpu=rng.uniform(50, 400),
    )  # fmt: skip


def _readers(
    rng: np.random.Generator, cluster: Cluster, count: int, app: int = 0, late: int = 1000
) -> list[QueryPlan]:
    return [
        QueryPlan(
            f"scan-{k}", chain_of(_reader(rng, cluster), 2), app, float(rng.integers(0, late))
        )
        for k in range(count)
    ]


def _light(rng: np.random.Generator, cluster: Cluster, app: int = 0) -> QueryPlan:
    """Uses next to nothing."""
    stage = StagePlan(_wide(rng, cluster), cpu=rng.uniform(30, 100), sleep=rng.uniform(1000, 3000))
    return QueryPlan("light", chain_of(stage, 2), app, float(rng.integers(0, 2000)))


def _short(rng: np.random.Generator, cluster: Cluster, plans: list[QueryPlan]) -> float:
    """A disk that has less than all first stages together would move if they were alone."""
    asked = sum(
        plan.stages[0].tasks * max(
            rate for rate in (plan.stages[0].read_rate, plan.stages[0].write_rate) if rate < np.inf
        )
        for plan in plans
    )  # fmt: skip
    return float(rng.uniform(0.3, 0.7)) * asked / cluster.hosts


def _moved(plans: list[QueryPlan], amount: str) -> float:
    return sum(stage.tasks * getattr(stage, amount) for plan in plans for stage in plan.stages)


def _writer(rng: np.random.Generator, apps: int) -> Twins:
    """So many streams write from before the first reader to after the last one."""
    ample = _cluster(rng, apps)
    readers = _readers(rng, ample, int(rng.integers(1, 5)))
    readers = [replace(plan, submit=plan.submit + 300.0) for plan in readers]
    streams, stages = int(rng.integers(4, 9)) * ample.hosts, int(rng.integers(2, 6))
    each = 2.5 * _moved(readers, "read") / (streams * stages)
    writes = StagePlan(streams, write=each, write_rate=rng.uniform(0.8, 1.6) * 1e5, cpu=60)
    writer = QueryPlan("writer", _all_along(writes, stages), apps - 1, 0.0)
    disk = _short(rng, ample, [*readers, writer])
    return _twins(ample, [*readers, writer, _light(rng, ample)], disk=disk)


def _page_cache(rng: np.random.Generator) -> Twins:
    """Who reads from memory is in nobody's way, though it reads most."""
    ample = _cluster(rng)
    plans = _readers(rng, ample, int(rng.integers(3, 5)))
    disk = _short(rng, ample, plans)
    for k in range(2):
        stage = StagePlan(
            _wide(rng, ample), read=rng.uniform(400, 1200) * MB, cached=True,
            read_rate=rng.uniform(3e5, 1.5e6), cpu=rng.uniform(200, 600),
        )  # fmt: skip
        plans.append(QueryPlan(f"cached-{k}", chain_of(stage, 4), 0, float(rng.integers(0, 1000))))
    return _twins(ample, plans, disk=disk)


def _memory(rng: np.random.Generator, in_turn: bool) -> Twins:
    """Tasks of one query hold most of the execution memory and sleep while others want to sort."""
    ample = replace(_cluster(rng), memory=400 * GB, in_turn=in_turn)
    memory = float(rng.choice([2, 4, 8, 16])) * GB
    each = int(rng.integers(1, 4))
    holds = StagePlan(
        each * ample.hosts, cpu=100, sleep=rng.uniform(2000, 5000),
        memory=memory * rng.uniform(0.6, 0.85) / each,
    )  # fmt: skip
    plans = [QueryPlan("holder", _all_along(holds, int(rng.integers(4, 7))), 0, 0.0)]
    for k in range(int(rng.integers(2, 4))):
        sort = StagePlan(
            _wide(rng, ample, 2, 5), read=30 * MB, read_rate=_rate(rng), cpu=rng.uniform(200, 700),
            memory=memory * rng.uniform(0.1, 0.25),
        )  # fmt: skip
        plans.append(QueryPlan(f"sort-{k}", chain_of(sort, 2), 0, float(rng.integers(200, 2500))))
    return _twins(ample, [*plans, _light(rng, ample)], memory=memory)


def _wide_beside_wide(rng: np.random.Generator) -> Twins:
    """Two equal queries, each of which fills the disk with its own tasks when it is alone."""
    ample = _cluster(rng)
    wide = StagePlan(
        _wide(rng, ample, 9, 18), read=rng.uniform(60, 150) * MB,
        read_rate=rng.uniform(0.6, 1.6) * 1e5, cpu=rng.uniform(50, 200),
    )  # fmt: skip
    plans = [
        QueryPlan(f"wide-{k}", chain_of(wide, 2), 0, k * float(rng.integers(0, 500)))
        for k in range(2)
    ]
    disk = float(rng.uniform(0.4, 0.9)) * wide.tasks / ample.hosts * wide.read_rate
    return _twins(ample, [*plans, _light(rng, ample)], disk=disk)


def _processor(rng: np.random.Generator) -> Twins:
    """Queries that also sleep, compute in Python or call a service, beside one that computes."""
    ample = _cluster(rng)
    cores = int(rng.integers(4, 13))
    at_once = max(int(rng.uniform(1.0, 2.0) * cores), 2) * ample.hosts
    hog = StagePlan(at_once, cpu=rng.uniform(1500, 3500))
    plans = [QueryPlan("hog", _all_along(hog, int(rng.integers(5, 8))), 0, 0.0)]
    work: list[dict[str, float]] = [
        {"cpu": rng.uniform(100, 900), "sleep": rng.uniform(500, 4000)},
        {"cpu": rng.uniform(100, 400), "python": rng.uniform(500, 2000)},
        {"cpu": rng.uniform(300, 1200), "read": 20 * MB, "read_rate": 8e4},
        {"cpu": rng.uniform(200, 500), "sleep": rng.uniform(1000, 3000), "fetch": 5 * MB,
         "fetch_rate": 5e4},
    ]  # fmt: skip
    for name, needs in zip(("sleeper", "udf", "computes", "service"), work, strict=True):
        stage = StagePlan(_wide(rng, ample, 2, 4), **needs)
        plans.append(QueryPlan(name, chain_of(stage, 2), 0, float(rng.integers(200, 2500))))
    return _twins(ample, plans, cores=cores)


def _slow_host(rng: np.random.Generator) -> Twins:
    """One host is slow for all, and the disks are short as well.

    All hosts stay: where the tasks of a missing one go depends on who else is there.
    """
    ample = replace(_cluster(rng, least=3, change=False), slow_host=float(rng.uniform(0.35, 0.65)))
    plans = _readers(rng, ample, int(rng.integers(4, 6)))
    return _twins(ample, plans, disk=_short(rng, ample, plans))


def _applications(rng: np.random.Generator, apps: int) -> Twins:
    """Each application reads and fetches, or computes, on hosts that all of them share."""
    ample = _cluster(rng, apps)
    plans = []
    for app in range(apps):
        scan = replace(_reader(rng, ample), write=15 * MB, write_rate=1e5)
        join = StagePlan(
            _wide(rng, ample), fetch=rng.uniform(20, 60) * MB, fetch_rate=0.5 * _rate(rng),
            cpu=rng.uniform(300, 1200), parents=(0,),
        )  # fmt: skip
        crunch = StagePlan(_wide(rng, ample), cpu=rng.uniform(1000, 3000), read=15 * MB,
                           read_rate=_rate(rng))  # fmt: skip
        at = rng.integers(0, 2000, 2).tolist()
        plans += [
            QueryPlan(f"report-{app}", (scan, join), app, float(at[0])),
            QueryPlan(f"model-{app}", chain_of(crunch, 2), app, float(at[1])),
        ]
    cores = int(rng.integers(5, 9))
    return _twins(ample, plans, disk=rng.uniform(2.5e5, 4e5), network=2e5, cores=cores)


def _speeds(capacity: float, rates: np.ndarray, many: np.ndarray) -> np.ndarray:
    """What one task of each query moves when so many of each share a device max–min fairly."""
    found, left, tasks = np.zeros(len(rates)), capacity, many.sum()
    for k in np.argsort(rates):
        found[k] = min(rates[k], left / tasks)
        left -= found[k] * many[k]
        tasks -= many[k]
    return found


def _steady(
    rng: np.random.Generator,
    device: str = "disk",
    *,
    apps: int = 1,
    writes: bool = False,
    as_slow_alone: bool = False,
) -> Twins:
    """All queries run from the first moment to the last, as many tasks of each all the time.

    ``writes``: the first one writes, in the last application. ``as_slow_alone``: in the quiet twin
    they are by themselves as slow as the others make them.
    """
    amount = {"disk": "read", "network": "fetch"}[device]
    ample = _cluster(rng, apps)
    count, waves = int(rng.integers(2 if writes else 3, 7)), int(rng.integers(4, 8))
    rates = np.array([_rate(rng) for _ in range(count)])
    many = rng.integers(2, 6, count)
    if writes:
        rates[0], many[0] = rng.uniform(0.8, 1.6) * 1e5, rng.integers(4, 10)
    capacity = float(rng.uniform(0.35, 0.85) * (rates * many).sum())
    speeds, took = _speeds(capacity, rates, many), rng.uniform(1200, 3000, count)
    loud, slow = [], []
    for k in range(count):
        writer = writes and k == 0
        does, name = ("write", "writer") if writer else (amount, f"steady-{k}")
        stages, app = max(round(waves * took.mean() / took[k]), 2), apps - 1 if writer else 0
        at = float(rng.integers(0, 60))
        for plans, own in ((loud, rates[k]), (slow, speeds[k])):
            work = {does: float(took[k] * speeds[k]), f"{does}_rate": float(own)}
            stage = StagePlan(int(many[k]) * ample.hosts, cpu=40, **work)
            plans.append(QueryPlan(name, _all_along(stage, stages), app, at))
    quiet = slow if as_slow_alone else loud
    return Twins((replace(ample, **{device: capacity}), loud), (ample, quiet))


STEADY: dict[str, Callable[[np.random.Generator], Twins]] = {
    "a writer, two applications": lambda rng: _writer(rng, 2),
    "a writer, one application": lambda rng: _writer(rng, 1),
    "page cache beside disk": _page_cache,
    "memory in turn": lambda rng: _memory(rng, in_turn=True),
    "memory in parts": lambda rng: _memory(rng, in_turn=False),
    "wide beside wide": _wide_beside_wide,
    "beside a processor hog": _processor,
    "slow host beside contention": _slow_host,
    "two applications' mix": lambda rng: _applications(rng, 2),
    "three applications' mix": lambda rng: _applications(rng, 3),
    "steady reads": _steady,
    "steady fetches": lambda rng: _steady(rng, "network"),
    "steady reads beside writes": lambda rng: _steady(rng, writes=True),
    "the same, two applications": lambda rng: _steady(rng, writes=True, apps=2),
    "steady, or as slow alone": lambda rng: _steady(rng, as_slow_alone=True),
}


def twins(family: str, seed: int) -> Twins:
    """Both twins of one seed."""
    return STEADY[family](np.random.default_rng([seed, 11, *family.encode()]))
