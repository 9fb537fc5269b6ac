"""Whether a rule in force is needed: demand that it does not change, on hand-made runs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from iqcar.rules.propose_rules import HELD_BACK, HELPED, OTHERS, demand_of, needs_of
from iqcar.tables import Tables
from tests.support.live_rules import raised, rule
from tests.support.tiny_tables import tiny_tables

ETL, REPORT = rule("etl"), raised("report")


def run(*queries: tuple[str, list[tuple[float, float, str]]], slots: float = 2.0) -> Tables:
    """One stage per query, open from 0 on; tasks as launch, finish and status."""
    tasks = [
        {"stage": row, "query": row, "launch_ms": launch, "finish_ms": finish, "status": status}
        for row, (_, of_query) in enumerate(queries)
        for launch, finish, status in of_query
    ]
    return tiny_tables(
        executors=[{"executor_id": "1", "cores": slots, "added_ms": 0.0}],
        queries=[
            {"query_id": f"app-1/{n}", "name": n, "fingerprint": f"name:{n}"} for n, _ in queries
        ],
        stages=[
            {
                "query": row,
                "submission_ms": 0.0,
                "first_launch_ms": 0.0,
                "completion_ms": np.nan if any(t[2] != "success" for t in of_query) else 1e9,
            }
            for row, (_, of_query) in enumerate(queries)
        ],
        tasks=tasks,
    )


def hog(ran: int, waiting: int) -> list[tuple[float, float, str]]:
    """Tasks of 1 s one after another, as under a cap of one, and those that wait at 10 s."""
    done = [(1000.0 * n, 1000.0 * (n + 1), "success") for n in range(ran)]
    return [*done, *[(10_000.0, 10_000.0, "waiting")] * waiting]


SHORT = [(1000.0 * n, 1000.0 * n + 900.0, "success") for n in range(10)]


def need(tables: Tables, one=ETL):
    (found,) = needs_of([one], tables, 0.0, 10_000.0)
    return found


@pytest.mark.parametrize("one", [ETL, REPORT], ids=["for the hog", "for the victim"])
def test_a_hog_that_waits_under_its_cap_still_makes_its_rule_needed(one) -> None:
    """Nobody waits for a slot that another has: blame and replay would find nothing here."""
    found = need(run(("etl", hog(10, 30)), ("report", SHORT)), one)
    assert found.needed and found.told
    assert found.why == "those it holds back and those it helps wanted slots for 9.9 s"


def test_without_the_hog_or_its_victims_the_time_does_not_tell() -> None:
    without_hog, alone = need(run(("report", SHORT))), need(run(("etl", hog(10, 30))))
    assert not without_hog.needed and not without_hog.told
    assert without_hog.why == "what it holds back did not run"
    assert not alone.needed and not alone.told
    assert alone.why == "nobody it helps ran"


def test_where_there_is_room_for_all_no_rule_is_needed() -> None:
    found = need(run(("etl", hog(10, 30)), ("report", SHORT), slots=99.0))
    assert not found.needed and found.told
    assert "hardly wanted more than the 99 slots" in found.why


def test_of_a_rule_against_a_full_disk_free_slots_say_nothing() -> None:
    tables = run(("etl", hog(10, 30)), ("report", SHORT), slots=99.0)
    found = need(tables, msgspec.structs.replace(ETL, resource="io"))
    assert found.needed and found.told
    assert found.why == "those it holds back and those it helps ran side by side for 9.9 s"
    apart = run(("etl", [(0.0, 1000.0, "success")]), ("report", SHORT[2:]), slots=99.0)
    stages = apart.stages.assign(submission_ms=[0.0, 2000.0], first_launch_ms=[0.0, 2000.0])
    late = need(apart.with_(stages=stages), msgspec.structs.replace(ETL, resource="io"))
    assert late.told and not late.needed
    assert late.why == "what it holds back and those it helps did not run at the same time"


def test_other_queries_are_no_victims() -> None:
    assert need(run(("etl", hog(10, 30)), ("other", SHORT))).why == "nobody it helps ran"


def test_demand_is_what_has_not_finished_whether_it_runs_or_not() -> None:
    tables = run(
        ("etl", [(0.0, 4000.0, "success"), (0.0, 0.0, "failed"), (4000.0, 0.0, "running")])
    )
    lasted, demand = demand_of(tables, np.array([HELD_BACK]), 1000.0, 6000.0)
    assert (lasted @ demand[HELD_BACK], lasted.sum()) == (2 * 3000.0 + 2000.0, 5000.0)
    assert not demand[HELPED].any() and not demand[OTHERS].any()


def test_nothing_at_all_needs_nothing() -> None:
    (found,) = needs_of([ETL], Tables.empty(), 0.0, 1000.0)
    assert not found.needed and not found.told
