"""What a plan has to fit: slots, queries at once and pools of the recorded run."""

from __future__ import annotations

from iqcar.rules.recorded_setup import Recorded, recorded_scheduler
from iqcar.rules.rule import Pool
from tests.rules.test_pool_plan import agg
from tests.support.tiny_tables import tiny_tables

TASKS = [{"launch_ms": 0.0, "finish_ms": 10_000.0}, {"launch_ms": 50.0, "finish_ms": 90.0}]
TWO_AT_ONCE = [
    {"query_id": "app-1/sql-1", "start_ms": 0.0, "end_ms": 9.0},
    {"query_id": "app-1/sql-2", "start_ms": 5.0, "end_ms": 12.0},
]


def recorded(rules=None, **rows) -> Recorded:
    tables = tiny_tables(**{"queries": TWO_AT_ONCE, "tasks": TASKS, "executors": [{}], **rows})
    return recorded_scheduler(tables, rules or [agg(0.5)])


def test_slots_and_queries_at_once_are_those_of_the_rules_application() -> None:
    assert recorded() == Recorded(4, 2, ())


def test_rules_of_an_application_that_is_not_there_tell_nothing() -> None:
    assert recorded([agg(0.5, query_id="app-9/sql-1")]) == Recorded()


def test_tasks_that_hold_several_cores_fit_less_often() -> None:
    assert recorded(applications=[{"task_cpus": 3.0}]).slots == 1
    assert recorded(applications=[{"task_cpus": 8.0}]).slots is None


def test_executors_that_come_for_a_peak_or_start_late_do_not_change_the_slots() -> None:
    steady = {"cores": 4.0, "added_ms": 0.0}
    peak = {"cores": 16.0, "added_ms": 2_000.0, "removed_ms": 7_000.0}
    late = {"cores": 4.0, "added_ms": 900.0}
    assert recorded(executors=[steady, peak]).slots == 4
    assert recorded(executors=[steady, late]).slots == 8
    assert recorded(executors=[steady, {**late, "added_ms": 1_100.0}]).slots == 4


def test_slots_are_not_known_where_an_executor_s_cores_are_not() -> None:
    assert recorded(executors=[{}, {"cores": float("nan")}]).slots is None
    assert recorded(executors=[]).slots is None
    assert recorded(tasks=[]).slots is None


POOLS = [
    {"name": "gold", "mode": "FIFO", "weight": 2.0, "min_share": 1.0, "time_ms": 1.0},
    {"name": "gold", "mode": "FAIR", "weight": 3.0, "min_share": 2.0, "time_ms": 2.0},
    {"name": "default", "mode": "odd", "weight": 1.0, "time_ms": 1.0},
    {"name": "bad\x1bname", "weight": 1.0},
    {"name": "huge", "weight": 1e300, "min_share": -5.0},
]


def test_pools_are_those_seen_last_with_whole_numbers_that_spark_takes() -> None:
    found = recorded(applications=[{"scheduler_mode": "FAIR"}], pools=POOLS).pools
    assert found == (
        Pool("default"),
        Pool("gold", 3, 2, "FAIR"),
        Pool("huge", 2**31 - 1, 0),
    )


def test_pools_of_rules_that_were_taken_back_are_not_the_applications_own() -> None:
    known = {"kind": "pool", "outcome": "accepted", "after": "FIFO weight 2 minShare 0"}
    pools = [{"name": "kept", "weight": 5.0, "time_ms": 2.0}]
    pools += [{"name": name, "weight": 2.0, "time_ms": 1.0} for name in ("kept", "gone", "quiet")]
    changes = [{"name": name, "time_ms": 1.0, **known} for name in ("kept", "gone", "quiet")]
    changes += [{"name": name, "time_ms": 2.0, **known, "after": ""} for name in ("gone", "kept")]
    found = recorded(
        applications=[{"scheduler_mode": "FAIR"}], pools=pools, rule_changes=changes
    ).pools
    assert found == (Pool("kept", 5), Pool("quiet", 2))


def test_under_fifo_pools_do_not_count() -> None:
    assert recorded(applications=[{"scheduler_mode": "FIFO"}], pools=POOLS).pools == ()


def test_of_several_applications_the_fewest_slots_and_the_most_queries_count() -> None:
    queries = [*TWO_AT_ONCE, {"query_id": "app-2/sql-1", "app": 1, "end_ms": 5.0, "start_ms": 0.0}]
    tasks = [*TASKS, {"app": 1, "launch_ms": 0.0, "finish_ms": 10.0}]
    rules = [agg(0.5), agg(1.0, 2, query_id="app-2/sql-1")]
    two = {"queries": queries, "tasks": tasks, "applications": [{}, {}]}
    assert recorded(rules, **two, executors=[{}, {"app": 1, "cores": 2.0}]) == Recorded(2, 2)
    assert recorded(rules, **two, executors=[{}]).slots is None
