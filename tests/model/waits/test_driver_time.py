"""Time in the driver: what the tasks of a query, and their waits, leave of its run, in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import QueryBy
from iqcar.model.queries.identify import identify
from iqcar.model.waits.driver_time import DriverPart, driver_time
from iqcar.tables import DRIVER_PHASES
from tests.support.driver_tables import queries_of

TASK = st.tuples(st.integers(0, 40), st.integers(0, 40))
STAGE = st.tuples(st.integers(-20, 200), st.lists(TASK, min_size=1, max_size=4))
METRIC = st.tuples(
    st.sampled_from(
        ["metadata time", "time to build", "time to broadcast", "job commit time", "sort time"]
    ),
    st.one_of(st.just(np.nan), st.floats(0, 500)),
)

PHASE = st.tuples(
    st.sampled_from(["parsing", "analysis", "optimization", "planning", "compiling", "listeners"]),
    st.integers(-100, 200),
    st.integers(0, 150),
)


@given(
    runs=st.lists(
        st.tuples(
            st.integers(0, 50), st.integers(50, 220), st.lists(STAGE, min_size=1, max_size=6)
        ),
        min_size=1,
        max_size=3,
    ),
    metrics=st.lists(METRIC, max_size=5),
    phases=st.lists(PHASE, max_size=4),
    jobs=st.lists(st.tuples(st.just(0), st.integers(-50, 250), st.integers(0, 150)), max_size=4),
    late=st.integers(0, 60),
)
def test_parts_are_what_tasks_and_their_waits_leave_of_the_run(
    runs, metrics, phases, jobs, late
) -> None:
    tables = queries_of(runs, metrics, phases=phases, jobs=jobs, late=late)
    found = driver_time(tables)
    stages, tasks = tables.stages, tables.tasks
    for query, (start, end, _) in enumerate(runs):
        busy = np.zeros(end - start, bool)
        mine = tasks[(tasks["query"] == query).to_numpy()]
        for stage, finish in zip(mine["stage"], mine["finish_ms"], strict=True):
            since = stages["submission_ms"].iloc[stage]
            busy[int(max(since - start, 0)) : int(max(finish - start, 0))] = True
        assert found.total[query] == (~busy).sum()
        work = found.work[(found.work["query"] == query).to_numpy()]
        seen = np.zeros(500, bool)
        for name, begin, length in phases if query == 0 else ():
            if name not in ("compiling", "listeners"):
                seen[100 + begin : 100 + begin + length] = True
        planned = (seen[100 + start : 100 + end] & ~busy).sum()
        assert work["time_ms"][(work["evidence"] == "measured").to_numpy()].sum() == planned
        inside = np.zeros(500, bool)
        for _, begin, length in jobs if query == 0 else ():
            inside[100 + begin : 100 + begin + length] = True
        scheduled = work["time_ms"][(work["work"] == "scheduling").to_numpy()].sum()
        within = inside[100 + start : 100 + end] & ~busy
        assert (within & ~seen[100 + start : 100 + end]).sum() <= scheduled <= within.sum()
        if query == 0 and seen.any():
            assert found.early[query] == seen[: 100 + start].sum()
        for part, ms in zip(DriverPart, found.parts[query], strict=True):
            assert ms >= 0
            of_part = work[(work["part"] == str(part)).to_numpy()]
            assert (of_part["time_ms"] > 0).all()
            assert of_part["time_ms"].sum() == pytest.approx(ms, abs=1e-6)


def test_each_part_lies_where_it_is_called() -> None:
    tables = queries_of([(0, 1000, [(200, [(0, 100)]), (450, [(10, 190)]), (500, [(0, 50)])])])
    assert driver_time(tables).parts.tolist() == [[200, 150, 350]]


def test_metrics_tell_what_was_done_and_no_more_than_fits() -> None:
    metrics = [
        ("metadata time", 120.0),
        ("number of files read", 40.0),
        ("time to build", 30.0),
        ("time to broadcast", 20.0),
        ("job commit time", 9_000.0),
        ("task commit time", 77.0),
    ]
    tables = queries_of([(0, 1000, [(200, [(0, 100)]), (450, [(0, 190)])])], metrics)
    work = driver_time(tables).work
    found = {
        (one["part"], one["work"]): (one["time_ms"], one["evidence"])
        for one in work.to_dict("records")
    }
    assert found == {
        ("before_first_job", "listing"): (120, "reported"),
        ("before_first_job", "other"): (80, "estimated"),
        ("between_jobs", "broadcast"): (50, "reported"),
        ("between_jobs", "commit"): (100, "reported"),
        ("after_last_task", "commit"): (360, "reported"),
    }
    assert work["files"][(work["work"] == "listing").to_numpy()].tolist() == [40]


def test_phases_tell_when_the_driver_planned_and_what_it_did_before_the_start() -> None:
    phases = [("analysis", -300, 400), ("planning", 120, 30), ("planning", 340, 20)]
    run = [(0, 1000, [(200, [(0, 100)]), (450, [(0, 190)])])]
    found = driver_time(queries_of(run, phases=phases))
    assert found.early.tolist() == [300]
    measured = found.work[(found.work["evidence"] == "measured").to_numpy()]
    assert measured[["part", "work", "time_ms"]].to_numpy().tolist() == [
        ["before_first_job", "analysis", 100],
        ["before_first_job", "planning", 30],
        ["between_jobs", "planning", 20],
    ]
    assert np.isnan(driver_time(queries_of(run)).early).all()


def test_between_the_stages_of_a_job_the_scheduler_is_at_work() -> None:
    run = [(0, 1000, [(200, [(0, 100)]), (450, [(0, 190)])]), (0, 900, [(100, [(0, 800)])])]
    tables = queries_of(run, jobs=[(0, 180, 600), (0, 700, 50)], late=30)
    work = driver_time(tables).work
    assert work[["query", "part", "work", "time_ms"]].to_numpy().tolist() == [
        [0, "before_first_job", "other", 180],
        [0, "before_first_job", "scheduling", 20],
        [0, "between_jobs", "scheduling", 150],
        [0, "after_last_task", "other", 220],
        [0, "after_last_task", "scheduling", 140],
        [1, "before_first_job", "other", 100],
    ]


@pytest.mark.parametrize("lost", ["declared_tasks", "failure_reason", "status"])
def test_where_a_task_may_be_missing_the_stage_lasts_until_its_completion(lost: str) -> None:
    tables = queries_of([(0, 1000, [(200, [(0, 100), (0, 90)])])], late=30)
    assert driver_time(tables).parts.tolist() == [[200, 0, 700]]
    stages, tasks = tables.stages, tables.tasks
    if lost == "status":
        tasks = tasks.iloc[1:]
    else:
        stages = stages.assign(**{lost: {"declared_tasks": -1, "failure_reason": "why"}[lost]})
    unsure = tables.with_(stages=stages, tasks=tasks)
    assert driver_time(unsure).parts.tolist() == [[200, 0, 670]]


def test_a_plan_that_runs_again_was_planned_once() -> None:
    tables = queries_of([(100, 200, [(150, [(0, 50)])]), (900, 999, [(950, [(0, 49)])])])
    planned = {"app": [0, 0], "sql_execution": [0, 1], "phase": ["planning"] * 2}
    phases = DRIVER_PHASES.frame({**planned, "start_ms": [90, 90], "end_ms": [120, 120]})
    found = driver_time(tables.with_(driver_phases=phases))
    assert found.early.tolist() == [10, 0]


def test_compiling_takes_what_planning_leaves() -> None:
    phases = [("planning", 0, 150), ("compiling", 0, 80), ("compiling", 0, 60)]
    run = [(0, 1000, [(200, [(0, 100)]), (450, [(0, 550)])])]
    work = driver_time(queries_of(run, phases=phases)).work
    assert work[["work", "time_ms", "evidence"]].to_numpy().tolist() == [
        ["planning", 150, "measured"],
        ["compiling", 50, "estimated"],
        ["other", 120, "estimated"],
        ["compiling", 30, "estimated"],
    ]


def test_what_is_not_recorded_is_missing_and_not_zero() -> None:
    run = [(0, 1000, [(200, [(0, 100)])])]
    assert np.isnan(driver_time(queries_of(run, query_by=QueryBy.JOB)).parts).all()
    sql = queries_of(run).sql_executions
    for column, known in (("end_ms", [False, False, True]), ("start_ms", [True, False, False])):
        lost = queries_of(run).with_(sql_executions=sql.assign(**{column: np.nan}))
        found = driver_time(identify(lost))
        assert np.isnan(found.parts[0]).tolist() == known
        assert np.isnan(found.total[0])
