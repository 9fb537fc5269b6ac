"""What a simulated cluster is told: hosts, queries, and the work of their tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from iqcar.enums import Request

ROUNDS = 4
"""Times that a task goes through read, fetch, compute, write, unless a cluster says else."""
SPREAD = 0.25
"""Log-normal spread of the work of a stage's tasks."""
WORK = ("read", "fetch", "cpu", "python", "write", "sleep", "gc", "memory")
"""Fields of a stage that say what each task does."""


@dataclass(frozen=True)
class StagePlan:
    """Work of each task of a stage; ``parents`` are positions within the query.

    ``gc`` and ``sleep`` are ms without processor, ``python`` ms of a processor that no task's CPU
    time tells of, in another process; a ``*_rate`` is the most one task moves when
    it is alone, in bytes per ms: its own rate. ``scales`` is the work of each task relative to the
    others; empty: drawn with ``spread``. ``memory`` is what a task wants to hold, in bytes.
    """

    tasks: int
    read: float = 0.0
    fetch: float = 0.0
    cpu: float = 0.0
    write: float = 0.0
    sleep: float = 0.0
    cached: bool = False
    parents: tuple[int, ...] = ()
    gc: float = 0.0
    read_rate: float = np.inf
    fetch_rate: float = np.inf
    write_rate: float = np.inf
    spread: float = SPREAD
    scales: tuple[float, ...] = ()
    memory: float = 0.0
    python: float = 0.0

    def scaled(self, factor: float) -> StagePlan:
        """The stage with so many times the work per task."""
        return replace(self, **{name: factor * getattr(self, name) for name in WORK})


@dataclass(frozen=True)
class QueryPlan:
    """A query: when and where it is submitted, and its stages.

    ``submit`` is a moment, or, where the query waits for another one, ms ``after`` that one's end.
    At most ``cap`` of its tasks run at once. Without a ``pool`` it has one of its own, of this
    ``weight``.
    """

    name: str
    stages: tuple[StagePlan, ...]
    app: int = 0
    submit: float = 0.0
    after: str = ""
    cap: float = np.inf
    weight: float = 1.0
    pool: str = ""

    def with_stages(self, change: Callable[[int, StagePlan], StagePlan]) -> QueryPlan:
        """The query with each stage, of this number, changed."""
        return replace(self, stages=tuple(change(k, one) for k, one in enumerate(self.stages)))


def drawn_scales(seed: int, query: QueryPlan, stage: int) -> np.ndarray:
    """Work of each task of a stage relative to the others.

    It depends on the query's name alone: removing another changes nothing here.
    """
    plan = query.stages[stage]
    if plan.scales:
        return np.array(plan.scales)
    drawn: np.ndarray = np.exp(plan.spread * rng_of(seed, query, stage).standard_normal(plan.tasks))
    return drawn


def rng_of(seed: int, query: QueryPlan, stage: int) -> np.random.Generator:
    """What decides the luck of a stage."""
    return np.random.default_rng([seed, number_of(query) % 2**32, stage])


def number_of(query: QueryPlan) -> int:
    """A number that depends on the query's name alone."""
    return sum(ord(c) * 31**k for k, c in enumerate(query.name))


@dataclass(frozen=True)
class Cluster:
    """Hosts of one kind; every application has ``slots`` on each.

    Rates in bytes per ms; ``disk_each`` is the most one task gets, as from an object store.
    ``slow_host`` is the speed of the last host's disk and network relative to the others.
    ``pools`` are those that several queries share: name, weight, and whether it is FAIR inside.
    """

    hosts: int = 3
    cores: float = 4.0
    disk: float = 2e5
    disk_each: float = np.inf
    network: float = 1.2e5
    slots: int = 16
    apps: int = 1
    fair: bool = True
    rounds: int = ROUNDS
    pools: tuple[tuple[str, float, bool], ...] = ()
    slow_host: float = 1.0
    memory: float = np.inf
    """Bytes of execution memory of each application on each host."""
    in_turn: bool = False
    """Memory is held in the order of asking: all that a task wants, or it waits."""
    lost: int = -1
    """Host that has no slots."""
    places: tuple[tuple[int, ...], ...] = ()
    """Slots of each application on each host, if they are not ``slots`` everywhere."""
    fair_apps: tuple[bool, ...] = ()
    """Whether each application schedules FAIR; empty: as ``fair`` says."""
    min_shares: tuple[tuple[str, int], ...] = ()
    """minShare of pools; others have none."""
    there_from: tuple[float, ...] = ()
    """When the slots of each host come; empty: all are there from the start."""
    there_until: tuple[float, ...] = ()
    """When each host takes no more tasks, those that run end there; empty: all stay."""
    as_spark: bool = False
    """A slot that comes free is offered before the end of its task is booked, which may submit the
    next stage; task sets are sorted once for a round of offers, and served until none is left."""
    rough: bool = False
    """Devices share in proportion, disks slow with streams, threads share cores, and tasks do not
    do the same in each round."""
    host_names: tuple[str, ...] = ()
    """Empty: ``host-0`` and so on."""
    first_id: int = 0
    """Where ids of jobs, stages and tasks begin."""

    def comes(self, host: int) -> float:
        """When the slots of a host come."""
        return self.there_from[host] if self.there_from else 0.0

    def coming(self) -> list[tuple[float, int]]:
        """When the hosts that come later do; a host is a negative number, unlike a query."""
        return [(at, -1 - host) for host, at in enumerate(self.there_from) if at > 0]

    def going(self) -> list[tuple[float, int]]:
        """When the hosts that go do; numbers below those of :meth:`coming`."""
        gone = enumerate(self.there_until)
        return [(at, -1 - self.hosts - host) for host, at in gone if at < np.inf]

    def added(self, host: int, since: float) -> float:
        """When the executors of a host were added; NaN where all are there from the start."""
        return since + self.there_from[host] if self.there_from else np.nan

    def named(self) -> list[str]:
        """Names of the hosts."""
        return list(self.host_names) or [f"host-{host}" for host in range(self.hosts)]

    def has_slots(self, host: int) -> bool:
        """Whether a host has slots from the start."""
        return host != self.lost and self.comes(host) <= 0

    def slots_of(self, app: int) -> list[int]:
        """Slots of an application on each host at the start."""
        if self.places:
            return list(self.places[app])
        return [self.slots if self.has_slots(h) else 0 for h in range(self.hosts)]

    def is_fair(self, app: int) -> bool:
        """Whether an application schedules FAIR."""
        return self.fair_apps[app] if self.fair_apps else self.fair


@dataclass
class SimulatedTask:
    """A task that runs: what it has left to do, and what became of it."""

    query: int
    stage: int
    phases: list[tuple[int, Request | None, float]]
    asked: float
    scale: float
    prefers: int
    host: int = -1
    launch: float = 0.0
    finish: float = 0.0
    since: float = 0.0
    spent: dict[Request, float] = field(default_factory=dict)
    processor: float = 0.0
    memory: float = 0.0
    held: float = 0.0
    asks_at: int = 0
    """Phases that are left when it asks for memory."""
    history: list[tuple[float, float, Request, float, float]] = field(default_factory=list)
    """Begin and end of each phase, its request, and how long it computed and waited."""
    python: list[tuple[float, float, float]] = field(default_factory=list)
    """Begin and end of each time that its Python worker computed, and for how long it did."""


def critical_stages(
    plans: Sequence[QueryPlan], stage_end: Mapping[tuple[int, int], float]
) -> set[tuple[int, int]]:
    """Stages on the chain that ended last: each time the parent that ended last."""
    path = set()
    for q, plan in enumerate(plans):
        stage = max(range(len(plan.stages)), key=lambda s: stage_end[(q, s)])
        while True:
            path.add((q, stage))
            parents = plan.stages[stage].parents
            if not parents:
                break
            stage = max(parents, key=lambda s: stage_end[(q, s)])
    return path
