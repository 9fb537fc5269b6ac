"""What differs between runs without a change of the query: stage ids, counts of bytes, versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.comparison.causes.differences import Differences, SettingDifference, Symptom
from iqcar.comparison.comparison import Comparison
from iqcar.enums import ChangeKind
from iqcar.tables import Tables
from tests.support.compared_runs import SUITE, QueryWork, StageWork, suite_with, write_runs
from tests.support.recorded_waits import DIVIDED, with_records

SALES, RETURNS = (
    StageWork("Scan parquet sales", reads=()),
    StageWork("Scan parquet returns", reads=()),
)
LARGE = StageWork("Aggregate", 8, 4000.0, task_bytes=30_000_000)
SMALL = StageWork("Aggregate", 4, 1000.0)
JOIN = StageWork("Join", reads=(2, 3))


def queries_of(comparison: Comparison) -> set[str]:
    """Names of the queries that are listed as changed."""
    of_query = comparison.changes["parent"].to_numpy() < 0
    return {comparison.name(row) for row in comparison.changes["category"].to_numpy()[of_query]}


def first_cause(comparison: Comparison) -> str:
    return str(comparison.causes["cause"].iloc[0])


def test_alike_stages_are_matched_by_the_tables_they_read_whatever_their_ids(
    tmp_path: Path,
) -> None:
    """Adaptive execution gives the branches of a join other ids in each run."""
    one = (SALES, RETURNS, replace(LARGE, reads=(0,)), replace(SMALL, reads=(1,)), JOIN)
    other = (RETURNS, SALES, replace(SMALL, reads=(0,)), replace(LARGE, reads=(1,)), JOIN)
    sides = [
        write_runs(tmp_path / str(day), {"q": QueryWork(stages)}, first_day=day)
        for day, stages in ((0, one), (20, other))
    ]
    comparison = iqcar.compare(*sides)
    assert comparison.changes.empty
    per_stage = comparison.category_runs.groupby(["category", "side"])["bytes"].mean().unstack()
    np.testing.assert_allclose(per_stage[0], per_stage[1])


def scanning(factor: float, counted: float = 1.0) -> dict[str, QueryWork]:
    """The suite with a query that reads more, of which not all bytes are counted."""
    scan = StageWork(
        "scan", 4, 2000.0 * factor, task_bytes=int(10_000_000 * counted),
        task_records=int(1000 * factor),
    )  # fmt: skip
    return suite_with(sessions=QueryWork((scan, *SUITE["sessions"].stages[1:])))


def test_more_records_are_more_data_where_bytes_are_not_counted(tmp_path: Path) -> None:
    before = write_runs(tmp_path / "before", scanning(1.0))
    after = write_runs(tmp_path / "after", scanning(2.0), first_day=20)
    comparison = iqcar.compare(before, after)
    assert queries_of(comparison) == {"sessions"}
    assert first_cause(comparison) == "data:input_bytes"


def test_versions_that_count_bytes_differently_have_no_other_data(tmp_path: Path) -> None:
    before = write_runs(tmp_path / "before", scanning(1.0), version="3.5.1")
    after = write_runs(tmp_path / "after", scanning(1.0, 0.01), first_day=20, version="4.1.0")
    assert iqcar.compare(before, after).changes.empty
    same = write_runs(tmp_path / "same", scanning(1.4, 0.01), first_day=20, version="4.1.0")
    found = iqcar.compare(before, same)
    assert queries_of(found) == {"sessions"}
    assert "version:3.5.1->4.1.0" in set(found.causes["cause"])


def with_python(tables: Tables, factor: float) -> Tables:
    """The tables as if tasks of the last stages of "sessions" had waited for Python workers."""
    recorded = with_records(tables)
    names = recorded.queries["name"].to_numpy(object)[recorded.stages["query"].to_numpy()]
    python = (names == "sessions") & (recorded.stages["label"] == "window").to_numpy()
    records = recorded.task_records
    rows = python[recorded.tasks["stage"].to_numpy()[records["task"].to_numpy()]]
    others = {f"{kind}_ms": np.where(rows, 0.0, records[f"{kind}_ms"]) for kind in DIVIDED}
    cpu = np.where(rows, 150.0 * factor, 0.0)
    return recorded.with_(
        stages=recorded.stages.assign(python=python),
        task_records=records.assign(**others, python_cpu_ms=cpu),
    )


def test_python_workers_that_compute_longer_are_found_by_processor_time(tmp_path: Path) -> None:
    plain = [
        iqcar.read([write_runs(tmp_path / str(day), SUITE, first_day=day, noise=0.02)])
        for day in (0, 20)
    ]
    comparison = iqcar.compare(with_python(plain[0], 1.0), with_python(plain[1], 3.0))
    runs = comparison.category_runs.groupby(["category", "side"])["python_cpu_ms"].mean().unstack()
    assert runs.loc[comparison.find("sessions")].tolist() == pytest.approx([1200.0, 3600.0])
    assert queries_of(comparison) == {"sessions"}
    assert set(comparison.changes["evidence"]) == {"cpu"}
    assert first_cause(comparison) == "metric:cpu_ms"
    one_sided = iqcar.compare(plain[0], with_python(plain[1], 2.0))
    assert one_sided.category_runs["python_cpu_ms"].max() == 0.0


@pytest.mark.parametrize(("local", "key"), [(True, "spark.driver"), (False, "spark.executor")])
def test_memory_is_that_of_the_process_that_runs_the_tasks(local: bool, key: str) -> None:
    settings = tuple(
        SettingDifference(f"{place}.memory", ("4g",), ("1g",))
        for place in ("spark.driver", "spark.executor")
    )
    fitting = Differences(settings, local=local).fitting(ChangeKind.MEMORY, Symptom.MEMORY)
    assert [cause for cause, _ in fitting] == [f"conf:{key}.memory"]


def test_a_version_is_a_cause_of_what_versions_change() -> None:
    different = Differences(versions=(("3.5.1",), ("4.1.0",)))
    assert different.fitting(ChangeKind.RATE, None) == [
        ("version:3.5.1->4.1.0", "Spark 3.5.1 → 4.1.0")
    ]
    assert different.fitting(ChangeKind.DATA, Symptom.DATA) == []
    assert different.fitting(ChangeKind.CONTENTION, None) == []


def test_another_plan_is_the_cause_where_only_the_work_of_other_stages_tells(
    tmp_path: Path,
) -> None:
    """The query takes as long as before: its new join longer, its last stage shorter."""
    scan, last = StageWork("scan"), StageWork("Aggregate")
    old = (scan, StageWork("SortMergeJoin"), last)
    less = replace(last, task_ms=1200.0, task_bytes=5_000_000)
    new = (scan, StageWork("BroadcastHashJoin", task_ms=2800.0), less)
    before = write_runs(tmp_path / "before", suite_with(report=QueryWork(old)))
    after = write_runs(tmp_path / "after", suite_with(report=QueryWork(new)), first_day=20)
    comparison = iqcar.compare(before, after)
    assert queries_of(comparison) == {"report"}
    assert comparison.changes["kind"].iloc[0] == "structure"
    assert first_cause(comparison) == "plan:SortMergeJoin->BroadcastHashJoin"
