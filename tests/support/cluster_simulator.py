"""A small simulator of shared clusters whose truth is known: remove a query and run it again.

Processors, disk and network of a host are shared equally among the tasks that use them at a
moment; slots of an application are handed out FIFO or FAIR. A task goes through rounds of
reading, fetching, computing and writing. The simulation yields the tables and waits that a
perfect log of it would, so that what blame says can be held against what removal does.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.tables import (
    APPLICATIONS,
    EXECUTORS,
    HOSTS,
    INTERVALS,
    QUERIES,
    STAGES,
    TASKS,
    Tables,
)
from iqcar.waits import ESTIMATED, evidence_column
from tests.support.fair_sharing import Shared
from tests.support.random_tables import EPOCH_MS, frame, waits_frame

ROUNDS = 4
"""Times that a task goes through read, fetch, compute, write, unless a cluster says else."""
MEMORY_RATE = 4e6
"""Bytes per ms of a read that the page cache answers."""
SPREAD = 0.25
"""Log-normal spread of the work of a stage's tasks."""
DISK, NETWORK, PROCESSOR, CACHE, SLEEP = range(5)
SLOWING = 0.03
"""Part of its capacity that a rough disk loses with each further stream."""


@dataclass(frozen=True)
class StagePlan:
    """Work of each task of a stage; ``parents`` are positions within the query.

    ``gc`` and ``sleep`` are ms without processor; a ``*_rate`` is the most one task moves when
    it is alone, in bytes per ms: its own rate. ``scales`` is the work of each task relative to the
    others; empty: drawn with ``spread``.
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


@dataclass(frozen=True)
class QueryPlan:
    """A query: when and where it is submitted, and its stages."""

    name: str
    stages: tuple[StagePlan, ...]
    app: int = 0
    submit: float = 0.0
    cap: float = np.inf
    """Most tasks that run at once."""


@dataclass(frozen=True)
class Cluster:
    """Hosts of one kind; every application has ``slots`` on each.

    Rates in bytes per ms; ``disk_each`` is the most one task gets, as from an object store.
    ``slow_host`` is the speed of the last host's disk and network relative to the others.
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
    slow_host: float = 1.0
    rough: bool = False
    """Devices share in proportion, disks slow with streams, threads share cores, and tasks do not
    do the same in each round."""


@dataclass
class _Task:
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
    history: list[tuple[float, float, Request, float, float]] = field(default_factory=list)
    """Begin and end of each phase, its request, and how long it computed and waited."""


class Simulation:
    """One run: tasks with their waits, and when each query ended."""

    def __init__(self, cluster: Cluster, plans: Sequence[QueryPlan], seed: int) -> None:
        self.cluster, self.plans, self.seed = cluster, plans, seed
        self.tasks: list[_Task] = []
        self.ended = [0.0] * len(plans)
        self.stage_end: dict[tuple[int, int], float] = {}
        self.stage_start: dict[tuple[int, int], float] = {}
        self._pending: dict[tuple[int, int], list[_Task]] = {}
        self._left: dict[tuple[int, int], int] = {}
        self._running = [0] * len(plans)
        self._entered = 0
        self._free = [[cluster.slots] * cluster.hosts for _ in range(cluster.apps)]
        inf = np.inf
        c = cluster
        kinds = [
            (c.disk, c.disk_each),
            (c.network, inf),
            (c.cores, 1.0),
            (inf, MEMORY_RATE),
            (inf, 1.0),
        ]
        speed = [1.0] * (c.hosts - 1) + [c.slow_host]
        slow = (DISK, NETWORK)
        self._shared = [
            [Shared(c * f, m * f) if k in slow else Shared(c, m) for k, (c, m) in enumerate(kinds)]
            for f in speed
        ]
        if c.rough:
            for host in self._shared:
                host[DISK].proportional = host[NETWORK].proportional = True
                host[DISK].slowing, host[PROCESSOR].siblings = SLOWING, True
        self._speed = speed
        self._run()

    def _run(self) -> None:
        arrivals = sorted((plan.submit, q) for q, plan in enumerate(self.plans))
        now, unfinished = 0.0, sum(len(p.stages) for p in self.plans)
        everything = [shared.classes for host in self._shared for shared in host]
        while unfinished:
            step, chosen = np.inf, None
            running = [own for classes in everything for own in classes.values() if own.queue]
            for own in running:
                wait = (own.queue[0][0] - own.clock) / own.rate
                if wait < step:
                    step, chosen = wait, own
            if arrivals and arrivals[0][0] - now <= step:
                step, chosen = arrivals[0][0] - now, None
            step = max(step, 0.0)
            now += step
            for own in running:
                own.clock += step * own.rate
            if chosen is None:
                query = arrivals.pop(0)[1]
                for stage, plan in enumerate(self.plans[query].stages):
                    if not plan.parents:
                        self._submit(query, stage, now)
                self._launch(now)
                continue
            _, _, task = heapq.heappop(chosen.queue)
            self._shared[task.host][task.phases[0][0]].share_out()
            self._account(task, now)
            task.phases.pop(0)
            if task.phases:
                self._enter(task, now)
                continue
            task.finish = now
            self._running[task.query] -= 1
            self._free[self.plans[task.query].app][task.host] += 1
            key = (task.query, task.stage)
            self._left[key] -= 1
            if self._left[key] == 0:
                unfinished -= 1
                self.stage_end[key] = self.ended[task.query] = now
                for stage, plan in enumerate(self.plans[task.query].stages):
                    ready = all((task.query, p) in self.stage_end for p in plan.parents)
                    if ready and (task.query, stage) not in self.stage_start:
                        self._submit(task.query, stage, now)
            self._launch(now)

    def _submit(self, query: int, stage: int, now: float) -> None:
        plan = self.plans[query].stages[stage]
        name = sum(ord(c) * 31**k for k, c in enumerate(self.plans[query].name))
        # Work depends on the query's name alone: removing another changes nothing here.
        rng = np.random.default_rng([self.seed, name % 2**32, stage])
        drawn = np.exp(plan.spread * rng.standard_normal(plan.tasks))
        scales = np.array(plan.scales) if plan.scales else drawn
        work = (
            (CACHE if plan.cached else DISK, Request.IO_READ, plan.read),
            (NETWORK, Request.SHUFFLE_FETCH, plan.fetch),
            (PROCESSOR, Request.RUN_QUEUE, plan.cpu),
            (SLEEP, None, plan.sleep),
            (SLEEP, None, plan.gc),
            (DISK, Request.IO_WRITE, plan.write),
        )
        rounds = self.cluster.rounds
        luck = rng.dirichlet(np.ones(rounds), plan.tasks) if self.cluster.rough else None
        evenly = np.full((plan.tasks, rounds), 1.0 / rounds)
        self.stage_start[(query, stage)] = now
        self._left[(query, stage)] = plan.tasks
        self._pending[(query, stage)] = [
            _Task(
                query,
                stage,
                [(k, r, w * s * part) for part in parts for k, r, w in work if w],
                now,
                s,
                (name + stage + index) % self.cluster.hosts,
            )
            for index, (s, parts) in enumerate(
                zip(scales, evenly if luck is None else luck, strict=True)
            )
        ]

    def _launch(self, now: float) -> None:
        for app, free in enumerate(self._free):
            while sum(free):
                waiting = [
                    key
                    for key, tasks in self._pending.items()
                    if tasks
                    and self.plans[key[0]].app == app
                    and self._running[key[0]] < self.plans[key[0]].cap
                ]
                if not waiting:
                    break
                if self.cluster.fair:
                    key = min(waiting, key=lambda k: (self._running[k[0]], k))
                else:
                    key = min(waiting, key=lambda k: (self.plans[k[0]].submit, k))
                task = self._pending[key].pop(0)
                # Data has its place: without this, removing a query would reshuffle the others.
                chosen = task.prefers
                task.host = chosen if free[chosen] else max(range(len(free)), key=lambda h: free[h])
                free[task.host] -= 1
                self._running[task.query] += 1
                task.launch = now
                self.tasks.append(task)
                self._enter(task, now)

    def _enter(self, task: _Task, now: float) -> None:
        kind, request, work = task.phases[0]
        task.since = now
        self._entered += 1
        plan = self.plans[task.query].stages[task.stage]
        own = {
            Request.IO_READ: plan.read_rate,
            Request.SHUFFLE_FETCH: plan.fetch_rate,
            Request.IO_WRITE: plan.write_rate,
        }
        rate = np.inf if request is None else own.get(request, np.inf)
        shared = self._shared[task.host][kind]
        shared.enter(work, rate * self._speed[task.host], self._entered, task)

    def _account(self, task: _Task, now: float) -> None:
        kind, request, work = task.phases[0]
        if request is None:
            return
        spent = now - task.since
        computed = 0.0
        if kind == PROCESSOR:
            task.processor += work
            spent -= work
            computed = work
        task.history.append((task.since, now, request, computed, max(spent, 0.0)))
        task.spent[request] = task.spent.get(request, 0.0) + max(spent, 0.0)

    def critical(self) -> set[tuple[int, int]]:
        """Stages on the chain that ended last: each time the parent that ended last."""
        path = set()
        for q, plan in enumerate(self.plans):
            stage = max(range(len(plan.stages)), key=lambda s: self.stage_end[(q, s)])
            while True:
                path.add((q, stage))
                parents = plan.stages[stage].parents
                if not parents:
                    break
                stage = max(parents, key=lambda s: self.stage_end[(q, s)])
        return path

    def emit(
        self, bucket_ms: float | None = None, *, plain: bool = False
    ) -> tuple[Tables, pd.DataFrame]:
        """The tables and waits of this run; with profiles of this resolution if it is given.

        ``plain`` is what a log without the plugin's records says: the wait for the processor is
        estimated as the time that nothing else explains.
        """
        c, keys = self.cluster, sorted(self.stage_end)
        row_of = {key: row for row, key in enumerate(keys)}
        critical = self.critical()
        n = len(self.tasks)
        apps = np.array([self.plans[t.query].app for t in self.tasks])
        host = np.array([t.host for t in self.tasks])
        tasks = frame(
            TASKS,
            n,
            app=apps,
            stage=[row_of[(t.query, t.stage)] for t in self.tasks],
            query=[t.query for t in self.tasks],
            host=host,
            executor=apps * c.hosts + host,
            launch_ms=EPOCH_MS + np.array([t.launch for t in self.tasks]),
            finish_ms=EPOCH_MS + np.array([t.finish for t in self.tasks]),
            input_bytes=self._bytes("read"),
            remote_bytes=self._bytes("fetch"),
            local_bytes=np.zeros(n),
            shuffle_write_bytes=self._bytes("write"),
            output_bytes=np.zeros(n),
            disk_spilled_bytes=np.zeros(n),
            peak_memory_bytes=np.full(n, 1e6),
        )
        requests = (Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH, Request.RUN_QUEUE)
        waits = {r: np.array([t.spent.get(r, 0.0) for t in self.tasks]) for r in requests}
        waits[Request.SLOT_WAIT] = np.array([t.launch - t.asked for t in self.tasks])
        executors = np.arange(c.apps * c.hosts)
        starts = EPOCH_MS + np.array([p.submit for p in self.plans])
        ends = EPOCH_MS + np.array(self.ended)
        tables = Tables.empty().with_(
            applications=frame(APPLICATIONS, c.apps, task_cpus=np.ones(c.apps)),
            hosts=frame(HOSTS, c.hosts, host=[f"host-{h}" for h in range(c.hosts)]),
            executors=frame(
                EXECUTORS,
                len(executors),
                app=executors // c.hosts,
                host=executors % c.hosts,
                cores=np.full(len(executors), float(c.slots)),
            ),
            queries=frame(
                QUERIES,
                len(self.plans),
                app=[p.app for p in self.plans],
                query_id=[p.name for p in self.plans],
                name=[p.name for p in self.plans],
                start_ms=starts,
                end_ms=ends,
                duration_ms=ends - starts,
            ),
            stages=frame(
                STAGES,
                len(keys),
                app=[self.plans[q].app for q, _ in keys],
                query=[q for q, _ in keys],
                submission_ms=EPOCH_MS + np.array([self.stage_start[k] for k in keys]),
                completion_ms=EPOCH_MS + np.array([self.stage_end[k] for k in keys]),
                critical=[k in critical for k in keys],
            ),
            tasks=tasks,
        )
        if bucket_ms is not None:
            tables = tables.with_(intervals=self._profiles(bucket_ms))
        compute = np.array([t.processor for t in self.tasks])
        gc = np.array([self.plans[t.query].stages[t.stage].gc * t.scale for t in self.tasks])
        if plain:
            life = np.array([t.finish - t.launch for t in self.tasks])
            others = sum(waits[r] for r in requests if r is not Request.RUN_QUEUE)
            waits[Request.RUN_QUEUE] = np.maximum(life - compute - gc - others, 0.0)
        found = waits_frame(tasks, waits, compute, gc)
        if plain:
            column = evidence_column(Request.RUN_QUEUE)
            found[column] = np.full(n, ESTIMATED, found[column].dtype)
        return tables, found

    def _profiles(self, bucket_ms: float) -> pd.DataFrame:
        """What every task did in each interval; evenly within a phase."""
        columns: dict[str, list[np.ndarray]] = {name: [] for name in INTERVALS.column_names()}
        for row, task in enumerate(self.tasks):
            life = task.finish - task.launch
            edges = np.minimum(np.arange(int(life // bucket_ms) + 2) * bucket_ms, life)
            edges = task.launch + edges[np.append(True, np.diff(edges) > 0)]
            profile = {name: np.zeros(len(edges) - 1) for name in columns}
            for begin, end, request, computed, waited in task.history:
                reached = np.clip((edges - begin) / max(end - begin, 1e-9), 0.0, 1.0)
                profile["cpu_ms"] += computed * np.diff(reached)
                profile[f"{request}_ms"] += waited * np.diff(reached)
            profile["task"] += row
            profile["start_ms"], profile["end_ms"] = EPOCH_MS + edges[:-1], EPOCH_MS + edges[1:]
            for name, values in profile.items():
                columns[name].append(values)
        return INTERVALS.frame({n: np.concatenate(parts) for n, parts in columns.items()})

    def _bytes(self, column: str) -> list[float]:
        plans = self.plans
        return [getattr(plans[t.query].stages[t.stage], column) * t.scale for t in self.tasks]
