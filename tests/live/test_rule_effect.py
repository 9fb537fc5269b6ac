"""The measured effect of a rule that acts, against queries without a rule."""

from __future__ import annotations

from iqcar.live.apply_rules import EndedRuns
from iqcar.tables import Tables
from tests.support.live_rules import raised, rule
from tests.support.tiny_tables import tiny_tables

ETL = rule("etl")


def tables(report_ms: float, other_ms: float, start: float, runs: int = 4) -> Tables:
    """Runs of a victim and of a query that no rule is about, one a second."""
    return tiny_tables(
        queries=[
            {
                "query_id": f"app-1/{name}-{start}-{number}",
                "name": name,
                "fingerprint": f"name:{name}",
                "start_ms": start + 1000.0 * number,
                "end_ms": start + 1000.0 * number + ms,
                "ended": True,
            }
            for name, ms in (("report", report_ms), ("other", other_ms))
            for number in range(runs)
        ]
    )


def measured(after: Tables, others=()):
    runs = EndedRuns()
    before = tables(900.0, 300.0, 0.0)
    for _ in range(2):  # windows overlap: a run counts once
        runs.add(before, 5000.0)
    runs.add(after, 15_000.0)
    return runs.measure(ETL, others, 0.0, 5000.0)


def test_victims_that_got_faster_alone_were_helped() -> None:
    found = measured(tables(300.0, 300.0, 6000.0))
    assert (found.verdict, found.runs, found.harmed) == ("helped", (4, 4), False)
    assert (round(found.change_percent), found.controls_percent) == (-67, 0.0)
    assert found.sentence == "its victims took 67 % less time"


def test_no_verdict_where_queries_without_a_rule_moved_as_much() -> None:
    found = measured(tables(300.0, 150.0, 6000.0))
    assert found.verdict == "disturbed" and not found.harmed
    assert "queries that no rule is about -50 %" in found.sentence


def test_queries_of_other_rules_are_no_controls() -> None:
    found = measured(tables(300.0, 150.0, 6000.0), [raised("other")])
    assert (found.verdict, found.controls_percent) == ("helped", None)


def test_victims_that_got_slower_were_harmed() -> None:
    assert measured(tables(990.0, 300.0, 6000.0)).harmed
    assert not measured(tables(910.0, 300.0, 6000.0)).harmed


def test_two_runs_measure_nothing() -> None:
    assert measured(tables(300.0, 300.0, 6000.0, runs=2)) is None
