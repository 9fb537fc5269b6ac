"""A cluster with queues in plain Python, slow and plain: what replays of clusters must agree with.

Written from the documented rules of YARN's CapacityScheduler and FairScheduler, and of Spark's
dynamic allocation. It knows nothing of how the replay is built. Times are seconds.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.shared_cluster_logs import YARN, Executor, Query, application


@dataclass(frozen=True)
class NaiveQueue:
    """Cores that a queue is guaranteed (or its weight) and gets at most, and its users' limits."""

    name: str
    guaranteed: float
    maximum: float
    user_factor: float = math.inf
    user_least: float = 1.0
    evenly: bool = False


@dataclass(frozen=True)
class NaiveTenant:
    """An application: queries one after another, each some time after the one before it.

    queries: seconds before each, and the durations of its tasks.
    most: executors; a fixed number without an idle timeout.
    units: of the cluster that an executor takes; 0: as many as it has cores.
    """

    name: str
    user: str
    queue: str
    start: float
    queries: tuple[tuple[float, tuple[float, ...]], ...]
    cores: int = 1
    most: int = 2
    idle: float = math.inf
    units: int = 0

    @property
    def size(self) -> int:
        return self.units or self.cores

    @property
    def dynamic(self) -> bool:
        return self.idle < math.inf


@dataclass(frozen=True)
class NaiveCluster:
    """Units and queues. An application's master takes one unit; executors start in ``start_up``."""

    cores: int
    queues: tuple[NaiveQueue, ...]
    fair: bool = False
    start_up: float = 2.0
    preempts_after: float = math.inf


@dataclass
class _Executor:
    number: int
    granted: float
    serial: int
    added: float = math.nan
    removed: float | None = None
    running: list[_Task] = field(default_factory=list)
    idle_since: float = math.nan

    @property
    def here(self) -> bool:
        return self.added == self.added and self.removed is None


@dataclass
class _Task:
    query: int
    index: int
    duration: float
    executor: _Executor | None = None
    launched: float = math.nan
    killed: bool = False


class _Running:
    def __init__(self, plan: NaiveTenant) -> None:
        self.plan = plan
        self.alive = False
        self.executors: list[_Executor] = []
        self.pending: list[_Task] = []
        self.left = 0
        self.done: list[_Task] = []
        self.begin: list[float] = []
        self.finish: list[float] = []
        self.ended = math.nan

    @property
    def held(self) -> int:
        return sum(e.removed is None for e in self.executors)

    @property
    def used(self) -> int:
        return self.held * self.plan.size + (1 if self.alive else 0)

    def wants_more(self) -> bool:
        if not self.alive:
            return False
        if not self.plan.dynamic:
            return self.held < self.plan.most
        tasks = len(self.pending) + sum(len(e.running) for e in self.executors)
        need = -(-tasks // self.plan.cores)
        return self.held < min(need, self.plan.most)


class NaiveRun:
    """One run of tenants on a cluster; ``tenants`` then hold what happened."""

    def __init__(self, cluster: NaiveCluster, tenants: Sequence[NaiveTenant]) -> None:
        self.cluster = cluster
        self.tenants = [_Running(plan) for plan in sorted(tenants, key=lambda one: one.start)]
        self.queue = {queue.name: queue for queue in cluster.queues}
        self.events: list = []
        self.count, self.serial = itertools.count(), itertools.count()
        self.hungry: dict[str, float] = {}
        self.now = 0.0
        for one in self.tenants:
            self.at(one.plan.start, 4, self.starts, one)
            self.at(one.plan.start + one.plan.queries[0][0], 1, self.asks, one, 0)
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, _, _, what, args = heapq.heappop(self.events)
                what(*args)
            self.allocate()

    def at(self, time: float, order: int, what: Callable[..., None], *args: object) -> None:
        heapq.heappush(self.events, (time, order, next(self.count), what, args))

    def starts(self, one: _Running) -> None:
        one.alive = True

    def asks(self, one: _Running, query: int) -> None:
        durations = one.plan.queries[query][1]
        one.begin.append(self.now)
        one.pending = [_Task(query, index, length) for index, length in enumerate(durations)]
        one.left = len(durations)
        self.offer(one)

    def offer(self, one: _Running) -> None:
        """Spread tasks over executors: the next one goes to the one with the most free slots."""
        while one.pending:
            free = [e for e in one.executors if e.here and len(e.running) < one.plan.cores]
            if not free:
                return
            executor = min(free, key=lambda e: (len(e.running), e.number))
            task = one.pending.pop(0)
            task.executor, task.launched = executor, self.now
            executor.running.append(task)
            self.at(self.now + task.duration, 0, self.ends, one, task)

    def ends(self, one: _Running, task: _Task) -> None:
        if task.killed:
            return
        assert task.executor is not None
        task.executor.running.remove(task)
        one.done.append(task)
        one.left -= 1
        self.offer(one)
        self.rests(one, task.executor)
        if one.left:
            return
        one.finish.append(self.now)
        if task.query + 1 < len(one.plan.queries):
            gap = one.plan.queries[task.query + 1][0]
            self.at(self.now + gap, 1, self.asks, one, task.query + 1)
        else:
            self.at(self.now, 5, self.finishes, one)

    def rests(self, one: _Running, executor: _Executor) -> None:
        if executor.here and not executor.running and one.plan.dynamic:
            executor.idle_since = self.now
            self.at(self.now + one.plan.idle, 3, self.times_out, executor, self.now)

    def times_out(self, executor: _Executor, since: float) -> None:
        if executor.here and not executor.running and executor.idle_since == since:
            executor.removed = self.now

    def arrives(self, one: _Running, executor: _Executor) -> None:
        if executor.removed is None:
            executor.added = self.now
            self.offer(one)
            self.rests(one, executor)

    def finishes(self, one: _Running) -> None:
        one.alive, one.ended = False, self.now
        for executor in one.executors:
            if executor.removed is None:
                executor.removed = self.now

    def used_by(self, queue: str, user: str = "") -> int:
        mine = [t for t in self.tenants if t.plan.queue == queue]
        return sum(t.used for t in mine if not user or t.plan.user == user)

    def may_get(self, one: _Running) -> bool:
        queue, size = self.queue[one.plan.queue], one.plan.size
        if sum(t.used for t in self.tenants) + size > self.cluster.cores:
            return False
        if self.used_by(queue.name) + size > queue.maximum + 1e-6:
            return False
        return self.within_user_limit(one)

    def within_user_limit(self, one: _Running) -> bool:
        queue, size = self.queue[one.plan.queue], one.plan.size
        asking = {
            t.plan.user for t in self.tenants if t.plan.queue == queue.name and t.wants_more()
        }
        used = self.used_by(queue.name)
        whole = queue.guaranteed if used < queue.guaranteed else used + size
        limit = max(whole / max(len(asking), 1), whole * queue.user_least)
        limit = min(limit, queue.guaranteed * queue.user_factor)
        return self.used_by(queue.name, one.plan.user) <= limit + 1e-6

    def order(self, one: _Running) -> tuple:
        queue = self.queue[one.plan.queue]
        ratio = self.used_by(queue.name) / queue.guaranteed if queue.guaranteed else math.inf
        place = list(self.queue).index(queue.name)
        inside = one.held * one.plan.size if queue.evenly else 0
        return ratio, place, inside, self.tenants.index(one)

    def allocate(self) -> None:
        while True:
            asking = [t for t in self.tenants if t.wants_more() and self.may_get(t)]
            if asking:
                self.give(min(asking, key=self.order))
            elif not self.preempt():
                return

    def give(self, one: _Running) -> None:
        taken = {e.number for e in one.executors if e.removed is None}
        number = next(n for n in itertools.count() if n not in taken)
        executor = _Executor(number, self.now, next(self.serial))
        one.executors.append(executor)
        self.at(self.now + self.cluster.start_up, 2, self.arrives, one, executor)

    def guaranteed(self, queue: NaiveQueue) -> float:
        if not self.cluster.fair:
            return queue.guaranteed
        active = [
            other
            for other in self.cluster.queues
            if other is queue
            or self.used_by(other.name)
            or any(t.wants_more() for t in self.tenants if t.plan.queue == other.name)
        ]
        return self.cluster.cores * queue.guaranteed / sum(other.guaranteed for other in active)

    def preempt(self) -> bool:
        """Take one executor back for a queue that has starved for long enough."""
        if math.isinf(self.cluster.preempts_after):
            return False
        needy: _Running | None = None
        for name, queue in self.queue.items():
            lacking = self.lacking(queue)
            if not lacking:
                self.hungry.pop(name, None)
                continue
            if name not in self.hungry:
                self.starve(name)
            if self.now >= self.hungry[name] + self.cluster.preempts_after:
                needy = needy or lacking[0]
        if needy is None:
            return False
        while self.cluster.cores - sum(t.used for t in self.tenants) < needy.plan.size:
            loser = self.loser()
            if loser is None:
                self.starve(needy.plan.queue)
                break
            self.take(loser)
        return True

    def starve(self, queue: str) -> None:
        self.hungry[queue] = self.now
        self.at(self.now + self.cluster.preempts_after, 6, lambda: None)

    def lacking(self, queue: NaiveQueue) -> list[_Running]:
        """Applications whose next executor is within what their queue is guaranteed."""
        most = min(self.guaranteed(queue), queue.maximum) + 1e-6
        return [
            t
            for t in self.tenants
            if t.plan.queue == queue.name
            and t.wants_more()
            and self.used_by(queue.name) + t.plan.size <= most
            and self.within_user_limit(t)
        ]

    def loser(self) -> _Running | None:
        """The latest application of the queue that uses most of what it is guaranteed."""

        def room(one: _Running) -> float:
            return self.guaranteed(self.queue[one.plan.queue])

        rich = [
            t
            for t in self.tenants
            if any(e.here for e in t.executors)
            and self.used_by(t.plan.queue) - t.plan.size >= room(t) - 1e-6
        ]
        return max(
            rich,
            key=lambda t: (
                self.used_by(t.plan.queue) / max(room(t), 1e-6),
                self.tenants.index(t),
            ),
            default=None,
        )

    def take(self, loser: _Running) -> None:
        executor = max((e for e in loser.executors if e.here), key=lambda e: e.serial)
        executor.removed = self.now
        for task in sorted(executor.running, key=lambda task: task.index):
            task.killed = True
            self.at(self.now, 1 + task.index / 1e6, self.again, loser, task)
        executor.running = []

    def again(self, loser: _Running, task: _Task) -> None:
        loser.pending.insert(0, _Task(task.query, task.index, task.duration))
        self.offer(loser)

    def durations(self) -> dict[tuple[str, int], float]:
        """Duration of each query, by tenant and position; NaN where it did not end."""
        found = {}
        for one in self.tenants:
            ends = [*one.finish, *[math.nan] * (len(one.begin) - len(one.finish))]
            for at, (begin, end) in enumerate(zip(one.begin, ends, strict=True)):
                found[one.plan.name, at] = end - begin
        return found

    def logs(self) -> list[SyntheticLog]:
        """The event logs of this run, as Spark would have written them."""
        made = []
        for number, one in enumerate(self.tenants):
            there = [e for e in one.executors if e.added == e.added]
            position = {e.serial: at for at, e in enumerate(there)}
            executors = [
                Executor(
                    at % 3, one.plan.cores, e.added, e.removed if e.removed != one.ended else None
                )
                for at, e in enumerate(there)
            ]
            queries = []
            for at, begin in enumerate(one.begin):
                tasks = sorted((t for t in one.done if t.query == at), key=lambda t: t.index)
                placed = [
                    (position[t.executor.serial], t.launched, t.launched + t.duration)
                    for t in tasks
                    if t.executor is not None
                ]
                queries.append(Query(f"{one.plan.name}-{at}", begin, placed))
            settings = {
                "spark_executor_cores": str(one.plan.cores),
                "spark_yarn_queue": one.plan.queue,
            }
            if one.plan.dynamic:
                settings["spark_dynamicAllocation_enabled"] = "true"
                settings["spark_dynamicAllocation_maxExecutors"] = str(one.plan.most)
                settings["spark_dynamicAllocation_executorIdleTimeout"] = f"{round(one.plan.idle)}s"
            else:
                settings["spark_executor_instances"] = str(one.plan.most)
            made.append(
                application(
                    number + 1, one.plan.name, executors, queries, end=one.ended,
                    start=one.plan.start, master=YARN, user=one.plan.user, **settings,
                )
            )  # fmt: skip
        return made
