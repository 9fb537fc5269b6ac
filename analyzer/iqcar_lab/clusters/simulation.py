"""A small simulator of shared clusters whose truth is known: remove a query and run it again.

Tasks that use a device of a host at a moment share it equally; slots are handed out FIFO or FAIR.
The simulation yields the tables and waits of a perfect log of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, INTERVALS, QUERIES, STAGES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame
from iqcar_lab.clusters.work import (
    Cluster,
    QueryPlan,
    SimulatedTask,
    critical_stages,
    drawn_scales,
    number_of,
    rng_of,
)

SECOND_THREAD = 0.3
"""What the second thread of a core adds."""


@dataclass
class OneRate:
    """Tasks of one own rate, by virtual time: each waits until the clock has moved by its work."""

    clock: float = 0.0
    rate: float = 0.0
    queue: list[tuple[float, int, Any]] = field(default_factory=list)


@dataclass
class Shared:
    """Max–min fair sharing of a capacity among tasks of different own rates.

    In a rough world shares are proportional to own rates, a disk loses ``slowing`` of its capacity
    with each further stream, and of ``siblings`` (two threads per core) the second adds little.
    """

    capacity: float
    most_each: float
    classes: dict[float, OneRate] = field(default_factory=dict)
    rising: list[tuple[float, OneRate]] = field(default_factory=list)
    """The classes from the slowest rate to the fastest."""
    proportional: bool = False
    slowing: float = 0.0
    siblings: bool = False

    def enter(self, work: float, own_rate: float, number: int, task: Any) -> None:
        """Let a task begin this much work."""
        rate = min(own_rate, self.most_each)
        if rate not in self.classes:
            self.classes[rate] = OneRate()
            self.rising = sorted(self.classes.items(), key=itemgetter(0))
        own = self.classes[rate]
        heapq.heappush(own.queue, (own.clock + work, number, task))
        self.share_out()

    def share_out(self) -> None:
        """Give the slow ones their own rate, and the others equal parts of what is left."""
        waiting = [(rate, own, len(own.queue)) for rate, own in self.rising if own.queue]
        left, tasks = self.capacity, sum([many for _, _, many in waiting])
        if self.slowing:
            left /= 1.0 + self.slowing * max(tasks - 1, 0)
        if self.siblings:
            left = min(tasks, left / 2) + SECOND_THREAD * max(0.0, min(tasks, left) - left / 2)
        if self.proportional:
            asked = sum([min(rate, left) * many for rate, _, many in waiting])
            for rate, own, _ in waiting:
                own.rate = min(rate, left) * min(1.0, left / asked)
            return
        for rate, own, many in waiting:
            own.rate = min(rate, left / tasks)
            left -= own.rate * many
            tasks -= many


@dataclass
class MemoryPool:
    """Of N who want memory each gets at most 1/N, and waits for 1/2N, or all that it wants.

    ``in_turn``: each gets all that it wants, in the order of asking.
    """

    capacity: float
    in_turn: bool = False
    held: dict[int, float] = field(default_factory=dict)
    line: list[Any] = field(default_factory=list)

    def ask(self, task: Any) -> None:
        """Stand in line."""
        self.line.append(task)

    def served(self) -> list[Any]:
        """Who gets memory now."""
        found = []
        for task in list(self.line):
            crowd = 1 if self.in_turn else len(self.held) + len(self.line)
            part = self.capacity / crowd
            left = self.capacity - sum(self.held.values())
            if left < min(task.memory, part if self.in_turn else part / 2) - 1e-6:
                if self.in_turn:
                    break
                continue
            task.held = self.held[id(task)] = min(task.memory, part, left)
            self.line.remove(task)
            found.append(task)
        return found

    def give_back(self, task: Any) -> None:
        """A task has ended."""
        self.held.pop(id(task), None)


Phase = tuple[float, float, Request, float, float]
"""Begin and end of a phase, its request, and how long its task computed and waited in it."""


def profiles(
    tasks: Iterable[tuple[float, float, Sequence[Phase]]], bucket_ms: float
) -> pd.DataFrame:
    """Intervals of tasks, given their launches, finishes and phases; evenly within a phase."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in INTERVALS.column_names()}
    for row, (launch, finish, history) in enumerate(tasks):
        life = finish - launch
        edges = np.minimum(np.arange(int(life // bucket_ms) + 2) * bucket_ms, life)
        edges = launch + edges[np.append(True, np.diff(edges) > 0)]
        profile = {name: np.zeros(len(edges) - 1) for name in columns}
        for begin, end, request, computed, waited in history:
            reached = np.clip((edges - begin) / max(end - begin, 1e-9), 0.0, 1.0)
            profile["cpu_ms"] += computed * np.diff(reached)
            profile[f"{request}_ms"] += waited * np.diff(reached)
        profile["task"] += row
        profile["start_ms"], profile["end_ms"] = EPOCH_MS + edges[:-1], EPOCH_MS + edges[1:]
        for name, values in profile.items():
            columns[name].append(values)
    return INTERVALS.frame({n: np.concatenate(parts) for n, parts in columns.items()})


MEMORY_RATE = 4e6
"""Bytes per ms of a read that the page cache answers."""
DISK, NETWORK, PROCESSOR, CACHE, SLEEP = range(5)
SLOWING = 0.03
"""Part of its capacity that a rough disk loses with each further stream."""


def _any(free: list[int]) -> bool:
    """Whether a slot is free; hosts that go owe theirs."""
    return any(places > 0 for places in free)


class Simulation:
    """One run: tasks with their waits, and when each query ended."""

    def __init__(self, cluster: Cluster, plans: Sequence[QueryPlan], seed: int) -> None:
        self.cluster, self.plans, self.seed = cluster, plans, seed
        self.tasks: list[SimulatedTask] = []
        self.began, self.ended = [0.0] * len(plans), [0.0] * len(plans)
        self.stage_end: dict[tuple[int, int], float] = {}
        self.stage_start: dict[tuple[int, int], float] = {}
        self._pending: dict[tuple[int, int], list[SimulatedTask]] = {}
        self._left: dict[tuple[int, int], int] = {}
        self._running = [0] * len(plans)
        self._of_stage: dict[tuple[int, int], int] = {}
        self._of_pool: dict[tuple[int, str], int] = {}
        self._min_share = dict(cluster.min_shares)
        assert {plan.after for plan in plans} <= {"", *(plan.name for plan in plans)}
        self._entered = 0
        self._free = [cluster.slots_of(app) for app in range(cluster.apps)]
        inf, c = np.inf, cluster
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
        self._memory = [
            [MemoryPool(c.memory, c.in_turn) for _ in range(c.hosts)] for _ in range(c.apps)
        ]
        self._run()

    def _run(self) -> None:
        arrivals = [(p.submit, q) for q, p in enumerate(self.plans) if not p.after]
        arrivals = sorted(arrivals + self.cluster.coming() + self.cluster.going())
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
                if query < 0:
                    self._come(query, now)
                    continue
                self.began[query] = now
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
                self._go_on(task, now)
                continue
            task.finish = now
            if task.memory:
                pool = self._memory[self.plans[task.query].app][task.host]
                pool.give_back(task)
                self._serve(pool, now)
            self._count(task, -1)
            self._free[self.plans[task.query].app][task.host] += 1
            if self.cluster.as_spark:
                self._launch(now)
            key = (task.query, task.stage)
            self._left[key] -= 1
            if self._left[key] == 0:
                unfinished -= 1
                self.stage_end[key] = self.ended[task.query] = now
                for stage, plan in enumerate(self.plans[task.query].stages):
                    ready = all((task.query, p) in self.stage_end for p in plan.parents)
                    if ready and (task.query, stage) not in self.stage_start:
                        self._submit(task.query, stage, now)
                if len(self.stage_end_of(task.query)) == len(self.plans[task.query].stages):
                    name = self.plans[task.query].name
                    waited = [q for q, p in enumerate(self.plans) if p.after == name]
                    arrivals = sorted(arrivals + [(now + self.plans[q].submit, q) for q in waited])
            self._launch(now)

    def _come(self, late: int, now: float) -> None:
        """A host comes or goes; tasks on one that goes run to their end."""
        goes, host = divmod(-1 - late, self.cluster.hosts)
        for free in self._free:
            free[host] += -self.cluster.slots if goes else self.cluster.slots
        self._launch(now)

    def stage_end_of(self, query: int) -> list[float]:
        """When those of its stages ended that have."""
        stages = range(len(self.plans[query].stages))
        return [self.stage_end[query, s] for s in stages if (query, s) in self.stage_end]

    def lasted(self) -> np.ndarray:
        """Duration of each query."""
        return np.array(self.ended) - np.array(self.began)

    def _submit(self, query: int, stage: int, now: float) -> None:
        plan = self.plans[query].stages[stage]
        name, rng = number_of(self.plans[query]), rng_of(self.seed, self.plans[query], stage)
        rng.standard_normal(plan.tasks)  # What the scales are drawn from.
        scales = drawn_scales(self.seed, self.plans[query], stage)
        work = (
            (CACHE if plan.cached else DISK, Request.IO_READ, plan.read),
            (NETWORK, Request.SHUFFLE_FETCH, plan.fetch),
            (PROCESSOR, Request.RUN_QUEUE, plan.cpu),
            (PROCESSOR, None, plan.python),
            (SLEEP, None, plan.sleep),
            (SLEEP, None, plan.gc),
            (DISK, Request.IO_WRITE, plan.write),
        )
        rounds = self.cluster.rounds
        luck = rng.dirichlet(np.ones(rounds), plan.tasks) if self.cluster.rough else None
        evenly = np.full((plan.tasks, rounds), 1.0 / rounds)
        self.stage_start[(query, stage)] = now
        self._left[(query, stage)] = plan.tasks
        wanted = plan.memory if np.isfinite(self.cluster.memory) else 0.0
        tasks = [
            SimulatedTask(
                query,
                stage,
                [(k, r, w * s * part) for part in parts for k, r, w in work if w],
                now,
                s,
                (name + stage + index) % self.cluster.hosts,
                memory=wanted * s,
            )
            for index, (s, parts) in enumerate(
                zip(scales, evenly if luck is None else luck, strict=True)
            )
        ]
        for task in tasks:
            # In a rough world tasks want memory in the middle of their work.
            n = len(task.phases)
            task.asks_at = n - n // 3 if self.cluster.rough else n
        self._pending[(query, stage)] = tasks

    def _launch(self, now: float) -> None:
        for app, free in enumerate(self._free):
            if self.cluster.as_spark:
                for key in sorted(self._waiting(app), key=self._order):
                    while _any(free) and self._pending[key] and self._below_cap(key[0]):
                        self._start(key, free, now)
                continue
            while _any(free):
                waiting = self._waiting(app)
                if not waiting:
                    break
                self._start(min(waiting, key=self._order), free, now)

    def _waiting(self, app: int) -> list[tuple[int, int]]:
        """Stages of an application that may start a task."""
        return [
            key
            for key, tasks in self._pending.items()
            if tasks and self.plans[key[0]].app == app and self._below_cap(key[0])
        ]

    def _below_cap(self, query: int) -> bool:
        return self._running[query] < self.plans[query].cap

    def _start(self, key: tuple[int, int], free: list[int], now: float) -> None:
        """Start the next task of a stage."""
        task = self._pending[key].pop(0)
        # Data has its place: without this, removing a query would reshuffle the others.
        chosen = task.prefers
        most = max(range(len(free)), key=lambda h: free[h])
        task.host = chosen if free[chosen] > 0 else most
        free[task.host] -= 1
        self._count(task, 1)
        task.launch = now
        self.tasks.append(task)
        self._go_on(task, now)

    def _go_on(self, task: SimulatedTask, now: float) -> None:
        """Enter the next phase; who wants memory asks for it first."""
        if task.memory and len(task.phases) == task.asks_at:
            task.since = now
            pool = self._memory[self.plans[task.query].app][task.host]
            pool.ask(task)
            self._serve(pool, now)
        else:
            self._enter(task, now)

    def _serve(self, pool: MemoryPool, now: float) -> None:
        for task in pool.served():
            task.spent[Request.EXECUTION_MEMORY] = now - task.since
            self._enter(task, now)

    def _order(self, key: tuple[int, int]) -> tuple[Any, ...]:
        """The least goes first: FIFO, or FAIR among pools, then as its pool says."""
        query, stage = key
        plan = self.plans[query]
        fifo = (self.began[query], query, stage)
        if not self.cluster.is_fair(plan.app):
            return fifo
        name, weight, fair = self._pool(query)
        runs, least = self._of_pool.get((plan.app, name), 0), self._min_share.get(name, 0)
        # Who has less than his minShare comes first, by how little of it he has.
        share = (0.0, runs / max(least, 1)) if runs < least else (1.0, runs / weight)
        if fair:
            called = (plan.name, stage) if self.cluster.as_spark else f"TaskSet_{query}.{stage}"
            return *share, name, self._of_stage.get(key, 0), called
        return *share, name, *fifo

    def _pool(self, query: int) -> tuple[str, float, bool]:
        plan = self.plans[query]
        shared = {name: (name, weight, fair) for name, weight, fair in self.cluster.pools}
        return shared.get(plan.pool, (plan.pool or f"pool-{query:03d}", plan.weight, False))

    def _count(self, task: SimulatedTask, change: int) -> None:
        key, app = (task.query, task.stage), self.plans[task.query].app
        pool = (app, self._pool(task.query)[0])
        self._running[task.query] += change
        self._of_stage[key] = self._of_stage.get(key, 0) + change
        self._of_pool[pool] = self._of_pool.get(pool, 0) + change

    def _enter(self, task: SimulatedTask, now: float) -> None:
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

    def _account(self, task: SimulatedTask, now: float) -> None:
        kind, request, work = task.phases[0]
        if request is None:
            if kind == PROCESSOR:
                task.python.append((task.since, now, work))
            return
        spent = now - task.since
        computed = 0.0
        if kind == PROCESSOR:
            task.processor += work
            spent -= work
            computed = work
        task.history.append((task.since, now, request, computed, max(spent, 0.0)))
        task.spent[request] = task.spent.get(request, 0.0) + max(spent, 0.0)

    def emit(
        self, bucket_ms: float | None = None, *, plain: bool = False
    ) -> tuple[Tables, pd.DataFrame]:
        """The tables and waits of this run; with profiles of this resolution if it is given.

        ``plain`` is what a log without the plugin's records says: the wait for the processor is
        estimated as the time that nothing else explains, and memory is missing.
        """
        c, keys = self.cluster, sorted(self.stage_end)
        row_of, critical = (
            {key: row for row, key in enumerate(keys)},
            critical_stages(self.plans, self.stage_end),
        )
        n = len(self.tasks)
        apps = np.array([self.plans[t.query].app for t in self.tasks])
        host = np.array([t.host for t in self.tasks])
        tasks = frame(
            TASKS, n, app=apps, host=host, executor=apps * c.hosts + host,
            stage=[row_of[(t.query, t.stage)] for t in self.tasks],
            query=[t.query for t in self.tasks],
            launch_ms=EPOCH_MS + np.array([t.launch for t in self.tasks]),
            finish_ms=EPOCH_MS + np.array([t.finish for t in self.tasks]),
            input_bytes=self._bytes("read"),
            remote_bytes=self._bytes("fetch"),
            local_bytes=np.zeros(n), output_bytes=np.zeros(n), disk_spilled_bytes=np.zeros(n),
            shuffle_write_bytes=self._bytes("write"),
            cpu_ms=[t.processor for t in self.tasks],
            peak_memory_bytes=[t.held for t in self.tasks] if c.memory < np.inf else [1e6] * n,
            memory_spilled_bytes=[max(t.memory - t.held, 0.0) for t in self.tasks],
        )  # fmt: skip
        requests = (Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH, Request.RUN_QUEUE)
        waits = {r: np.array([t.spent.get(r, 0.0) for t in self.tasks]) for r in requests}
        if np.isfinite(c.memory) and not plain:
            memory = Request.EXECUTION_MEMORY
            waits[memory] = np.array([t.spent.get(memory, 0.0) for t in self.tasks])
        waits[Request.SLOT_WAIT] = np.array([t.launch - t.asked for t in self.tasks])
        executors = np.arange(c.apps * c.hosts)
        starts, ends = (EPOCH_MS + np.array(times) for times in (self.began, self.ended))
        tables = Tables.empty().with_(
            applications=frame(APPLICATIONS, c.apps, task_cpus=np.ones(c.apps)),
            hosts=frame(HOSTS, c.hosts, host=c.named()),
            executors=frame(
                EXECUTORS, len(executors), app=executors // c.hosts, host=executors % c.hosts,
                cores=np.full(len(executors), float(c.slots)),
                added_ms=[c.added(h, EPOCH_MS) for h in executors % c.hosts],
                removed_ms=[self._removed(app, h) for app in range(c.apps) for h in range(c.hosts)],
            ),
            queries=frame(
                QUERIES, len(self.plans), app=[p.app for p in self.plans],
                query_id=[p.name for p in self.plans], name=[p.name for p in self.plans],
                start_ms=starts, end_ms=ends, duration_ms=ends - starts,
                ended=[True] * len(self.plans),
            ),
            stages=frame(
                STAGES, len(keys), app=[self.plans[q].app for q, _ in keys],
                query=[q for q, _ in keys],
                submission_ms=EPOCH_MS + np.array([self.stage_start[k] for k in keys]),
                completion_ms=EPOCH_MS + np.array([self.stage_end[k] for k in keys]),
                critical=[k in critical for k in keys],
            ),
            tasks=tasks,
        )  # fmt: skip
        if bucket_ms is not None:
            tables = tables.with_(
                intervals=profiles([(t.launch, t.finish, t.history) for t in self.tasks], bucket_ms)
            )
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

    def _removed(self, app: int, host: int) -> float:
        """When the executor on a host that goes was removed: after its last task."""
        gone = self.cluster.there_until[host] if self.cluster.there_until else np.inf
        mine = (t for t in self.tasks if t.host == host and self.plans[t.query].app == app)
        last = max([gone, *(t.finish for t in mine)])
        return EPOCH_MS + last if gone < max(self.ended) else np.nan

    def _bytes(self, column: str) -> list[float]:
        stages = (self.plans[t.query].stages[t.stage] for t in self.tasks)
        return [getattr(s, column) * t.scale for s, t in zip(stages, self.tasks, strict=True)]
