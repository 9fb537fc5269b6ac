"""The replay hands out slots as Spark does, and reproduces what it was made from."""

from __future__ import annotations

import random
from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.recorded_workload import IDLE_BEFORE_REMOVAL_MS
from iqcar.replay.loop.run import record, replay, replay_errors
from iqcar.replay.loop.scheduling import recorded_shares, stage_order
from iqcar.rules.rule import Assignment, Pool, PoolPlan
from tests.support.naive_replay import (
    ExecutorPlan,
    JobPlan,
    Problem,
    QueryPlan,
    StagePlan,
    simulate,
    tables_of,
)

FINE = 2.0**-24
"""Times are multiples of this many ms: sums of them are exact, and hardly any two are equal."""

POOL_NAMES = ("a", "b", "default")


class Times:
    """Times drawn from a seed: two of them are equal only where one follows from the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, most: float) -> float:
        return self.random.randint(1, int(most / FINE)) * FINE

    def often_nothing(self, most: float) -> float:
        return self.random.choice([0.0, self(most)])


def a_job(draw: st.DrawFn, time: Times) -> JobPlan:
    stages = []
    for number in range(draw(st.integers(1, 3))):
        attempts = draw(st.lists(st.sampled_from([1, 1, 1, 3]), min_size=1, max_size=6))
        tasks = tuple(tuple(time(40) for _ in range(most)) for most in attempts)
        above = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        stages.append(StagePlan(tasks, tuple(sorted(above))))
    return JobPlan(time(20), tuple(stages), time.often_nothing(5))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    time = Times(draw(st.integers(0, 2**32)))
    queries = tuple(
        QueryPlan(
            time(60),
            tuple(a_job(draw, time) for _ in range(draw(st.integers(1, 3)))),
            draw(st.sampled_from(["", *POOL_NAMES])),
            time.often_nothing(5),
        )
        for _ in range(draw(st.integers(1, 4)))
    )
    cpus = draw(st.sampled_from([1, 1, 2]))
    cores = st.integers(cpus, 5)
    executors = [ExecutorPlan(time(30), draw(cores))]
    for stays in draw(st.lists(st.booleans(), max_size=2)):
        added = time(80)
        executors.append(ExecutorPlan(added, draw(cores), None if stays else added + time(80)))
    mode = draw(st.sampled_from(["FIFO", "FAIR"]))
    return Problem(queries, tuple(executors), mode, draw(pool_lists()), cpus)


def pool_lists(*, shares: bool = False) -> st.SearchStrategy[tuple[Pool, ...]]:
    """Pools with caps or without; what is recorded of a cap is a number of tasks.

    Only planned ones are strict: in a record, a wait beside free slots counts as preparation.
    """
    pool = st.builds(
        Pool,
        st.sampled_from(POOL_NAMES),
        st.integers(1, 4),
        st.integers(0, 3),
        st.sampled_from(["FIFO", "FAIR"]),
        st.sampled_from([None, None, 1, 2, 3]),
        st.sampled_from([None, 0.25, 0.29, 0.5, 0.9]) if shares else st.none(),
        st.booleans() if shares else st.just(False),
    )
    return st.lists(pool, max_size=3, unique_by=lambda one: one.name).map(tuple)


def lost_not_idle(tables) -> bool:
    """Whether no executor was idle when it went: what the naive scheduler can do."""
    executors, tasks = tables.executors, tables.tasks
    for row, removed in enumerate(executors["removed_ms"]):
        last = tasks["finish_ms"][tasks["executor"] == row].max()
        if not np.isnan(removed) and not last >= removed - IDLE_BEFORE_REMOVAL_MS:
            return False
    return True


def query_ends(schedule) -> list[float]:
    return [schedule.query_end[q] for q in range(len(schedule.query_end))]


ONE_QUERY = Problem(
    (QueryPlan(1.0, (JobPlan(1.0, (StagePlan(((3.0,), (4.0,), (5.0,))),)),)),),
    (ExecutorPlan(0.5, 2),),
)


@pytest.mark.slow
@given(problems())
@example(ONE_QUERY)
def test_a_replay_under_its_own_shares_is_the_recorded_run(problem: Problem) -> None:
    schedule = simulate(problem)
    tables = tables_of(problem, schedule)
    assume(lost_not_idle(tables))
    replayed = replay(tables)
    assert replayed.end_ms.tolist() == query_ends(schedule)
    assert replayed.start_ms.tolist() == [query.start for query in problem.queries]
    (workload,) = record(tables).workloads.values()
    launched = run(
        workload.steps,
        workload.work,
        workload.slots,
        recorded_shares(tables, workload, stage_order(tables, workload)),
    ).launched
    recorded = tables.tasks["launch_ms"].to_numpy()[workload.task]
    assert (launched + workload.origin).tolist() == recorded.tolist()


@pytest.mark.slow
@given(problems(), pool_lists(shares=True), st.data())
def test_a_replay_under_other_shares_is_what_spark_would_have_done(
    problem: Problem, pools: tuple[Pool, ...], data: st.DataObject
) -> None:
    tables = tables_of(problem, simulate(problem))
    assume(lost_not_idle(tables))
    moved = data.draw(st.lists(st.sampled_from((None, *POOL_NAMES)), min_size=4, max_size=4))
    assigned = {q: pool for q, pool in enumerate(moved[: len(problem.queries)]) if pool}
    assume(assigned)
    plan = PoolPlan(
        pools, tuple(Assignment(pool, "r", f"name:q{q}") for q, pool in assigned.items())
    )
    known = {pool.name: pool for pool in (*problem.pools, *pools)}
    wanted = changed(
        problem,
        mode="FAIR",
        pools=tuple(known.values()),
        queries=tuple(
            changed(query, pool=assigned.get(q, query.pool))
            for q, query in enumerate(problem.queries)
        ),
    )
    after = simulate(problem, wanted)
    assert replay(tables, plan).end_ms.tolist() == query_ends(after)


@pytest.mark.slow
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_task_rows_changes_nothing(problem: Problem, dice: random.Random) -> None:
    schedule = simulate(problem)
    order = list(range(len(schedule.tasks)))
    dice.shuffle(order)
    plan = PoolPlan((Pool("a", 3, 1),), (Assignment("a", "r", "name:q0"),))
    for shares in (None, plan):
        straight = replay(tables_of(problem, schedule), shares)
        shuffled = replay(tables_of(problem, schedule, order), shares)
        assert straight.end_ms.tolist() == shuffled.end_ms.tolist()


@pytest.mark.slow
@given(problems(), pool_lists())
def test_no_more_tasks_run_than_slots_and_each_runs_once(
    problem: Problem, pools: tuple[Pool, ...]
) -> None:
    problem = changed(problem, executors=tuple(changed(e, removed=None) for e in problem.executors))
    tables = tables_of(problem, simulate(problem))
    (workload,) = record(tables).workloads.values()
    in_pools = tables_of(changed(problem, pools=pools), simulate(problem))
    shares = recorded_shares(in_pools, workload, stage_order(in_pools, workload))
    released, done, launched = run(
        workload.steps, workload.work, workload.slots, shares._replace(fair=np.array([True]))
    )[:3]
    assert np.isfinite(released).all() and np.isfinite(done).all()
    assert sorted(workload.task.tolist()) == list(range(len(tables.tasks)))
    ended = launched + workload.work.duration
    assert np.isfinite(launched).all()
    step = workload.work.step
    assert (launched >= released[step]).all() and (ended <= done[step]).all()
    for now in launched:
        there = sum(
            executor.cores // problem.task_cpus
            for executor in problem.executors
            if executor.added <= now + workload.origin
        )
        assert ((launched <= now) & (ended > now)).sum() <= there


@given(problems())
def test_the_work_is_done_no_later_than_one_slot_would_take(problem: Problem) -> None:
    """Between the gaps somebody always works: the whole run is no longer than all of it in turn."""
    tables = tables_of(problem, simulate(problem))
    plan = PoolPlan((Pool("a", 2),), (Assignment("a", "r", "name:q0"),))
    gaps = sum(
        query.start + query.tail + sum(job.gap + job.tail for job in query.jobs)
        for query in problem.queries
    )
    work = (tables.tasks["finish_ms"] - tables.tasks["launch_ms"]).sum()
    arrives = max(executor.added for executor in problem.executors)
    assert replay(tables, plan).end_ms.max() <= arrives + gaps + work + 1e-6


def two_queries(mode: str = "FIFO") -> Problem:
    """A long query holds both slots when a short one comes."""
    long = QueryPlan(1.0, (JobPlan(1.0, (StagePlan(((10.0,),) * 20),)),))
    short = QueryPlan(2.0, (JobPlan(1.0, (StagePlan(((10.0,),) * 4),)),))
    return Problem((long, short), (ExecutorPlan(0.5, 2),), mode)


def test_a_pool_of_its_own_lets_a_short_query_overtake() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    before = replay(tables)
    assert before.duration_ms.tolist() == [101.0, 120.0]
    plan = PoolPlan(
        (Pool("short", 3), Pool("default", 1, 0, "FAIR")),
        (Assignment("short", "DYNP-1", "name:q1"),),
    )
    after = replay(tables, plan)
    # Of two slots each pool gets one: a pool that runs nothing comes first, whatever its weight.
    assert after.duration_ms.tolist() == [121.0, 50.0]


def test_an_assignment_needs_all_of_its_fields() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    tables = tables.with_(jobs=tables.jobs.assign(job_group=["nightly", "adhoc"]))
    before = replay(tables).end_ms.tolist()
    pool = (Pool("short", 3),)

    def ends(**fields: str) -> list[float]:
        return replay(tables, PoolPlan(pool, (Assignment("short", "r", **fields),))).end_ms.tolist()

    moved = ends(fingerprint="name:q1")
    assert moved != before
    assert ends(job_group="adhoc") == moved
    assert ends(fingerprint="name:q1", job_group="adhoc") == moved
    assert ends(fingerprint="name:q1", job_group="nightly") == before
    assert ends(fingerprint="name:q1", description="report") == before
    assert ends() == before


def test_a_plan_for_nobody_changes_nothing() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    plan = PoolPlan((Pool("x", 9),), (Assignment("x", "r", "name:other"),))
    assert replay(tables, plan).end_ms.tolist() == replay(tables).end_ms.tolist()


def test_an_executor_that_went_idle_stays_while_somebody_waits() -> None:
    """Dynamic allocation takes nothing away from a query that a plan makes run later."""
    quick = QueryPlan(1.0, (JobPlan(1.0, (StagePlan(((10.0,),) * 8),)),))
    problem = Problem((quick,), (ExecutorPlan(0.5, 1), ExecutorPlan(0.5, 1)))
    schedule = simulate(problem)
    tables = tables_of(problem, schedule)
    assert replay(tables).end_ms.tolist() == [42.0]
    late = tables.executors.assign(removed_ms=[np.nan, 22.0])
    # Lost in the middle: one slot is left for what was not begun.
    assert replay(tables.with_(executors=late)).end_ms.tolist() == [62.0]
    idle = tables.executors.assign(removed_ms=[np.nan, 22.0 + IDLE_BEFORE_REMOVAL_MS])
    held = tables.tasks.assign(executor=0)
    assert replay(tables.with_(executors=idle, tasks=held)).end_ms.tolist() == [42.0]


def test_the_last_slots_stay_until_everything_is_done() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    gone = tables.executors.assign(removed_ms=[50.0])
    assert np.isfinite(replay(tables.with_(executors=gone)).end_ms).all()


def test_what_cannot_be_replayed_is_said_and_is_not_zero() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    nobody = tables.with_(
        executors=tables.executors.iloc[:0], tasks=tables.tasks.assign(executor=-1)
    )
    recording = record(nobody)
    assert np.isnan(recording.replay().duration_ms).all()
    (doubt,) = recording.doubts
    assert "app-1 cannot be replayed" in doubt


def test_unknown_cores_are_the_most_tasks_seen_at_once() -> None:
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    blind = tables.with_(executors=tables.executors.assign(cores=np.nan, added_ms=np.nan))
    assert replay(blind).end_ms.tolist() == replay(tables).end_ms.tolist()


@pytest.mark.parametrize("late_ms", [4.0, -3.0])
def test_the_time_to_hand_a_slot_on_is_taken_from_the_record(late_ms: float) -> None:
    """Every launch comes so much later (or earlier) than the end that freed its slot."""
    stage = StagePlan(((10.0,),) * 30)
    problem = Problem((QueryPlan(1.0, (JobPlan(1.0, (stage,)),)),), (ExecutorPlan(0.5, 1),))
    tables = tables_of(problem, simulate(problem))
    shift = np.arange(30) * late_ms
    tasks = tables.tasks.assign(
        launch_ms=tables.tasks["launch_ms"] + shift, finish_ms=tables.tasks["finish_ms"] + shift
    )
    last = float(tasks["finish_ms"].max())
    tables = tables.with_(
        tasks=tasks,
        stages=tables.stages.assign(completion_ms=last),
        jobs=tables.jobs.assign(completion_ms=last),
        queries=tables.queries.assign(end_ms=last, duration_ms=last - 1.0),
    )
    (workload,) = record(tables).workloads.values()
    assert workload.slots.handover.tolist() == [late_ms]
    assert replay(tables).end_ms.tolist() == [last]
    assert replay_errors(tables, replay(tables)).tolist() == [0.0]


def test_steps_that_wait_for_each_other_are_freed_in_their_recorded_order() -> None:
    """Only a damaged log has them: the replay must come to an end all the same."""
    problem = two_queries()
    tables = tables_of(problem, simulate(problem))
    circle = tables.stage_parents.__class__({"stage": [0, 1], "parent": [1, 0]}, dtype="int32")
    stages = tables.stages.assign(submission_ms=5.0, completion_ms=5.0, first_launch_ms=5.0)
    ends = replay(tables.with_(stage_parents=circle, stages=stages)).end_ms
    assert np.isfinite(ends).all()
