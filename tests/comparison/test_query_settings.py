"""A setting that a query's session changed is a cause for that query, with its own values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import iqcar
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.sides.side import dump_baseline
from tests.support.compared_runs import SUITE, QueryWork, suite_with, write_runs

PARTITIONS = "spark.sql.shuffle.partitions"


def divided(name: str, tasks: int, session: str = "") -> QueryWork:
    """A query with another number of tasks in its second stage, and what its session set."""
    first, second = SUITE[name].stages
    each = {"task_bytes": 120_000_000 // tasks, "task_records": 1200 // tasks}
    work = replace(second, tasks=tasks, task_ms=3000.0, **each)
    return QueryWork((first, work), session={PARTITIONS: session} if session else {})


def causes_of(comparison: Comparison, query: str) -> dict[str, str]:
    """Causes of a query's change, with their sentences."""
    (row,) = comparison.changes.index[comparison.changes["category"] == comparison.find(query)]
    rows = comparison.causes[comparison.causes["change"] == row]
    return dict(zip(rows["cause"], rows["sentence"], strict=True))


def test_only_the_query_whose_session_changed_a_setting_has_it_as_a_cause(tmp_path: Path) -> None:
    old = suite_with(etl_load=divided("etl_load", 4, "4"), sessions=divided("sessions", 4))
    new = suite_with(etl_load=divided("etl_load", 12, "12"), sessions=divided("sessions", 12))
    write_runs(tmp_path / "before", old)
    write_runs(tmp_path / "after", new, first_day=20)
    comparison = iqcar.compare(tmp_path / "before", tmp_path / "after")
    blamed = causes_of(comparison, "etl_load")
    assert blamed["partitions"] == "4 → 12 partitions"
    assert blamed[f"conf:{PARTITIONS}"] == f"{PARTITIONS} 4 → 12"
    assert set(causes_of(comparison, "sessions")) == {"partitions"}
    kept = tmp_path / "baseline.json"
    kept.write_bytes(dump_baseline(comparison.sides[0]))
    assert causes_of(iqcar.compare(kept, tmp_path / "after"), "etl_load") == blamed


def test_a_session_value_hides_that_of_the_application(tmp_path: Path) -> None:
    conf = PARTITIONS.replace(".", "_")
    write_runs(
        tmp_path / "before",
        suite_with(etl_load=divided("etl_load", 4, "7"), sessions=divided("sessions", 4)),
        **{conf: "200"},
    )
    write_runs(
        tmp_path / "after",
        suite_with(etl_load=divided("etl_load", 12, "7"), sessions=divided("sessions", 12, "12")),
        first_day=20,
        **{conf: "50"},
    )
    comparison = iqcar.compare(tmp_path / "before", tmp_path / "after")
    assert set(causes_of(comparison, "etl_load")) == {"partitions"}
    assert causes_of(comparison, "sessions")[f"conf:{PARTITIONS}"] == f"{PARTITIONS} 200 → 12"
