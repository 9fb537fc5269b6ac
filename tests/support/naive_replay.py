"""Spark's scheduler in plain Python, slow and plain: what the replay must agree with.

Written from FIFOSchedulingAlgorithm, FairSchedulingAlgorithm, Pool and TaskSchedulerImpl: pools
and task sets are sorted with a comparator, a round of offers serves them in that order, nothing
is taken away from a running task. It knows nothing of how the replay is built.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction

from iqcar.rules.rule import Pool
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables


@dataclass(frozen=True)
class StagePlan:
    """Durations of the attempts of each task; ``parents`` are positions within the job."""

    tasks: tuple[tuple[float, ...], ...]
    parents: tuple[int, ...] = ()


@dataclass(frozen=True)
class JobPlan:
    """A job that comes some time after the one before it in its query."""

    gap: float
    stages: tuple[StagePlan, ...]
    tail: float = 0.0


@dataclass(frozen=True)
class QueryPlan:
    start: float
    jobs: tuple[JobPlan, ...]
    pool: str = ""
    tail: float = 0.0


@dataclass(frozen=True)
class ExecutorPlan:
    added: float
    cores: int
    removed: float | None = None


@dataclass(frozen=True)
class Problem:
    queries: tuple[QueryPlan, ...]
    executors: tuple[ExecutorPlan, ...]
    mode: str = "FIFO"
    pools: tuple[Pool, ...] = ()
    task_cpus: int = 1


@dataclass
class _TaskSet:
    query: int
    job: int
    stage: int
    job_id: int
    stage_id: int
    plan: StagePlan
    pending: list[tuple[int, int]]
    running: int = 0
    left: int = 0
    submitted: float = 0.0
    ended: float = 0.0


@dataclass
class _Ran:
    task_set: _TaskSet
    index: int
    attempt: int
    executor: int
    launch: float
    finish: float


@dataclass
class Schedule:
    """What happened: tasks, task sets, and the times of jobs and queries."""

    tasks: list[_Ran] = field(default_factory=list)
    sets: list[_TaskSet] = field(default_factory=list)
    job_ids: dict[tuple[int, int], int] = field(default_factory=dict)
    job_times: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    query_end: dict[int, float] = field(default_factory=dict)
    most_at_once: int = 0


def simulate(problem: Problem, shares: Problem | None = None) -> Schedule:
    """Run a problem; ``shares`` gives other pools and another mode to its queries."""
    return _Simulator(problem, shares or problem).run()


class _Simulator:
    def __init__(self, problem: Problem, shares: Problem) -> None:
        self.problem, self.shares = problem, shares
        self.out = Schedule()
        self.events: list = []
        self.count = itertools.count()
        self.free: list[int] = []  # the executor of each free slot
        self.owed: list[int] = []  # executors that went while slots of theirs were busy
        self.stands_for: list[tuple[int, int]] = []
        self.offered = 0
        self.to_come = len(problem.executors)
        self.ids = itertools.count()
        # Stage ids that do not depend on the shares.
        keys = [
            (q, j, s)
            for q, query in enumerate(problem.queries)
            for j, job in enumerate(query.jobs)
            for s in range(len(job.stages))
        ]
        self.stage_ids = {key: number for number, key in enumerate(keys)}

    def at(self, time: float, what, *args) -> None:
        heapq.heappush(self.events, (time, next(self.count), what, args))

    def run(self) -> Schedule:
        for number, executor in enumerate(self.problem.executors):
            self.at(executor.added, self.add, number)
            if executor.removed is not None:
                self.at(executor.removed, self.remove, number)
        for number, query in enumerate(self.problem.queries):
            self.at(query.start, self.next_job, number, 0)
        while self.events:
            self.now, _, what, args = heapq.heappop(self.events)
            what(*args)
        return self.out

    def slots(self, executor: int) -> int:
        return self.problem.executors[executor].cores // self.problem.task_cpus

    def add(self, executor: int) -> None:
        self.to_come -= 1
        self.offered += self.slots(executor)
        for _ in range(self.slots(executor)):
            self.slot_free(executor)
        self.offer()

    def remove(self, executor: int) -> None:
        slots = self.slots(executor)
        if self.offered - slots < 1 and self.to_come == 0:
            return
        self.offered -= slots
        for _ in range(slots):
            if executor in self.free:
                self.free.remove(executor)
            elif self.free:
                self.stands_for.append((executor, self.free.pop()))
            else:
                self.owed.append(executor)

    def slot_free(self, executor: int) -> None:
        """A slot is a slot: where another went in its place, it counts as that one from now on."""
        if executor not in self.owed:
            for pair in self.stands_for:
                if pair[0] == executor:
                    self.stands_for.remove(pair)
                    executor = pair[1]
                    break
        if not self.owed:
            self.free.append(executor)
        elif executor in self.owed:
            self.owed.remove(executor)
        else:
            self.stands_for.append((self.owed.pop(), executor))

    def next_job(self, query: int, number: int) -> None:
        plan = self.problem.queries[query]
        if number == len(plan.jobs):
            self.at(self.now + plan.tail, self.query_ends, query)
        else:
            self.at(self.now + plan.jobs[number].gap, self.submit_job, query, number)

    def query_ends(self, query: int) -> None:
        self.out.query_end[query] = self.now

    def submit_job(self, query: int, number: int) -> None:
        key = (query, number)
        self.out.job_ids[key] = next(self.ids)
        self.out.job_times[key] = [self.now]
        self.submit_ready(query, number)

    def submit_ready(self, query: int, number: int) -> None:
        plan = self.problem.queries[query].jobs[number]
        mine = {t.stage: t for t in self.out.sets if (t.query, t.job) == (query, number)}
        for stage, one in enumerate(plan.stages):
            if stage not in mine and all(p in mine and not mine[p].left for p in one.parents):
                tasks = [(index, 0) for index in range(len(one.tasks))]
                task_set = _TaskSet(
                    query, number, stage, self.out.job_ids[query, number],
                    self.stage_ids[query, number, stage], one, tasks[::-1],
                    left=len(tasks), submitted=self.now,
                )  # fmt: skip
                self.out.sets.append(task_set)
                self.offer()
        if len(mine) == len(plan.stages) and not any(t.left for t in mine.values()):
            self.at(self.now + plan.tail, self.job_ends, query, number)

    def job_ends(self, query: int, number: int) -> None:
        self.out.job_times[query, number].append(self.now)
        self.next_job(query, number + 1)

    def task_ends(self, ran: _Ran) -> None:
        task_set = ran.task_set
        task_set.running -= 1
        self.slot_free(ran.executor)
        self.offer()
        # The slot is handed on before the end is booked (TaskSchedulerImpl.statusUpdate).
        again = ran.attempt + 1
        if again < len(task_set.plan.tasks[ran.index]):
            task_set.pending.append((ran.index, again))
            self.offer()
            return
        task_set.left -= 1
        if not task_set.left:
            task_set.ended = self.now
            self.submit_ready(task_set.query, task_set.job)

    def offer(self) -> None:
        """TaskSchedulerImpl.resourceOffers: sort once, then serve in that order.

        Pools at their cap are left out; then slots that nobody took go to them, unless strict.
        """
        queue = self.sorted_queue()
        for task_set in queue:
            while task_set.pending and self.free and self.room_in(task_set):
                self.launch(task_set)
        for task_set in queue:
            while task_set.pending and self.free and not self.declared(task_set).strict:
                self.launch(task_set)
        busy = sum(t.running for t in self.out.sets)
        self.out.most_at_once = max(self.out.most_at_once, busy)
        waiting = any(t.pending and self.room_in(t) for t in self.out.sets)
        assert not (waiting and self.free), "a slot stays free while a task waits"

    def launch(self, task_set: _TaskSet) -> None:
        index, attempt = task_set.pending.pop()
        duration = task_set.plan.tasks[index][attempt]
        ran = _Ran(task_set, index, attempt, self.free.pop(0), self.now, self.now + duration)
        task_set.running += 1
        self.out.tasks.append(ran)
        self.at(ran.finish, self.task_ends, ran)

    def declared(self, task_set: _TaskSet) -> Pool:
        name = self.shares.queries[task_set.query].pool or "default"
        declared = {pool.name: pool for pool in self.shares.pools if self.shares.mode == "FAIR"}
        return declared.get(name, Pool(name))

    def room_in(self, task_set: _TaskSet) -> bool:
        """Whether one more task of its pool may run."""
        pool = self.declared(task_set)
        running = sum(t.running for t in self.out.sets if self.declared(t).name == pool.name)
        most = [] if pool.cap is None else [pool.cap]
        if pool.cap_share is not None:
            most.append(max(math.floor(Fraction(str(pool.cap_share)) * self.offered), 1))
        return running < min(most, default=math.inf)

    def sorted_queue(self) -> list[_TaskSet]:
        sets = [t for t in self.out.sets if t.pending or t.running]
        if self.shares.mode == "FIFO":
            return sorted(sets, key=functools.cmp_to_key(fifo))
        declared = {pool.name: pool for pool in self.shares.pools}
        pools: dict[str, list[_TaskSet]] = {}
        for task_set in sets:
            name = self.shares.queries[task_set.query].pool or "default"
            pools.setdefault(name, []).append(task_set)
        entries = [
            (declared.get(name, Pool(name)), name, sum(t.running for t in mine))
            for name, mine in pools.items()
        ]
        by_share = functools.cmp_to_key(
            lambda a, b: fair(
                (a[0].min_share, a[2], a[0].weight, a[1]), (b[0].min_share, b[2], b[0].weight, b[1])
            )
        )
        queue = []
        for pool, name, _ in sorted(entries, key=by_share):
            inside = fifo
            if pool.mode == "FAIR":

                def inside(a: _TaskSet, b: _TaskSet) -> int:
                    return fair(
                        (0, a.running, 1, f"TaskSet_{a.stage_id}.0"),
                        (0, b.running, 1, f"TaskSet_{b.stage_id}.0"),
                    )

            queue += sorted(pools[name], key=functools.cmp_to_key(inside))
        return queue


def fifo(a: _TaskSet, b: _TaskSet) -> int:
    """FIFOSchedulingAlgorithm: by priority, which is the job's id, then by stage id."""
    return (a.job_id - b.job_id) or (a.stage_id - b.stage_id)


def fair(a: tuple[int, int, int, str], b: tuple[int, int, int, str]) -> int:
    """FairSchedulingAlgorithm over (minShare, runningTasks, weight, name)."""
    min_share_a, running_a, weight_a, name_a = a
    min_share_b, running_b, weight_b, name_b = b
    needy_a, needy_b = running_a < min_share_a, running_b < min_share_b
    if needy_a and not needy_b:
        return -1
    if needy_b and not needy_a:
        return 1
    if needy_a:
        compare = running_a / max(min_share_a, 1.0) - running_b / max(min_share_b, 1.0)
    else:
        compare = running_a / weight_a - running_b / weight_b
    if compare:
        return -1 if compare < 0 else 1
    return (name_a > name_b) - (name_a < name_b)


def tables_of(problem: Problem, schedule: Schedule, row_order=None) -> Tables:
    """The tables that a log of this schedule would give; ``row_order`` shuffles its tasks."""
    jobs = sorted(schedule.job_times, key=schedule.job_ids.get)
    job_row = {key: row for row, key in enumerate(jobs)}
    sets = sorted(schedule.sets, key=lambda t: t.stage_id)
    set_row = {id(one): row for row, one in enumerate(sets)}
    tasks = schedule.tasks if row_order is None else [schedule.tasks[k] for k in row_order]
    number_of = {id(ran): number for number, ran in enumerate(schedule.tasks)}
    pools = [query.pool for query in problem.queries]
    first_launch = {id(t.task_set): t.launch for t in reversed(schedule.tasks)}
    key_row = {(t.query, t.job, t.stage): row for row, t in enumerate(sets)}
    return tiny_tables(
        applications=[{"scheduler_mode": problem.mode, "task_cpus": float(problem.task_cpus)}],
        executors=[
            {
                "executor_id": str(number), "cores": float(executor.cores),
                "added_ms": executor.added,
                "removed_ms": float("nan") if executor.removed is None else executor.removed,
            }
            for number, executor in enumerate(problem.executors)
        ],
        queries=[
            {
                "query_id": f"app-1/sql-{q}", "name": f"q{q}", "fingerprint": f"name:q{q}",
                "pool": query.pool, "start_ms": query.start, "end_ms": schedule.query_end[q],
                "duration_ms": schedule.query_end[q] - query.start, "ended": True,
                "tasks": sum(t.task_set.query == q for t in tasks),
            }
            for q, query in enumerate(problem.queries)
        ],
        jobs=[
            {
                "job_id": schedule.job_ids[key], "query": key[0], "pool": pools[key[0]],
                "submission_ms": schedule.job_times[key][0],
                "completion_ms": schedule.job_times[key][1],
            }
            for key in jobs
        ],
        stages=[
            {
                "stage_id": t.stage_id, "job": job_row[t.query, t.job], "query": t.query,
                "pool": pools[t.query], "submission_ms": t.submitted,
                "first_launch_ms": first_launch[id(t)], "completion_ms": t.ended,
            }
            for t in sets
        ],
        stage_parents=[
            {"stage": set_row[id(t)], "parent": key_row[t.query, t.job, parent]}
            for t in sets
            for parent in t.plan.parents
        ],
        tasks=[
            {
                "stage": set_row[id(ran.task_set)], "query": ran.task_set.query,
                "executor": ran.executor, "task_id": number, "index": ran.index,
                "attempt": ran.attempt, "launch_ms": ran.launch, "finish_ms": ran.finish,
            }
            for number, ran in ((number_of[id(ran)], ran) for ran in tasks)
        ],
        pools=[
            {
                "time_ms": 0.0, "name": pool.name, "mode": pool.mode, "weight": float(pool.weight),
                "min_share": float(pool.min_share),
                "cap": float("nan") if pool.cap is None else float(pool.cap), "strict": pool.strict,
            }
            for pool in problem.pools
        ],
    )  # fmt: skip
