"""What explains a change: causes of queries and stages, settings, and runs that are unlike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import iqcar
from iqcar.comparison.blame_change import BLAME_CHANGES, SharedCause
from iqcar.comparison.causes import CauseInputs, ContentionChains, Explained, Root, explain_changes
from iqcar.comparison.comparison import Comparison, compare
from iqcar.comparison.comparison_tables import CATEGORIES, CATEGORY_RUNS, CHANGES, MEASURES
from iqcar.comparison.effects import effects, rank_changes
from iqcar.comparison.match import side_means
from iqcar.comparison.sides import dump_baseline
from iqcar.comparison.stage_cause import (
    CategoryMeasures,
    Differences,
    SettingDifference,
    StageCause,
    Symptom,
    setting_differences,
    stage_causes,
)
from iqcar.enums import ChangeKind
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.tables import Tables
from tests.support.compared_runs import SUITE, QueryWork, StageWork, run_log, suite_with, write_runs
from tests.support.recorded_waits import DIVIDED, with_records

WAITS, STAGE_OF_WAITS, WORKS, STAGE_OF_WORKS = range(4)
"""A query that waits for another one, each with one stage."""


def categories(*query: int) -> pd.DataFrame:
    """Categories by the query of each; a query is its own."""
    is_query = [row == of for row, of in enumerate(query)]
    n = len(query)
    return CATEGORIES.frame(
        {
            "kind": ["query" if yes else "stage" for yes in is_query],
            "query_category": list(query),
            "name_before": [f"q{row}" if yes else "" for row, yes in enumerate(is_query)],
            "name_after": [f"q{row}" if yes else "" for row, yes in enumerate(is_query)],
            "fingerprint": [""] * n,
            "matched_by": ["label"] * n,
            "label": ["" if yes else f"stage {row}" for row, yes in enumerate(is_query)],
            "ordinal": [0] * n,
            "operators": [""] * n,
            "parent": [-1 if yes else of for yes, of in zip(is_query, query, strict=True)],
        }
    )


def runs_of(of: list[dict[str, tuple[float, float]]], runs: int) -> pd.DataFrame:
    """Runs a side of each category, from its measures before and after, with little noise."""
    draw, rows = np.random.default_rng(1), []
    for category, given in enumerate(of):
        for side in (0, 1):
            for run in range(runs):
                measures = {
                    name: given.get(name, (0.0, 0.0))[side] * np.exp(draw.normal(0, 0.02))
                    for name, *_ in MEASURES
                }
                key = {"category": category, "side": side, "run": run, "instances": 1}
                rows.append({**key, **measures, "bytes_max_over_mean": np.nan})
    frame = pd.DataFrame(rows)
    return CATEGORY_RUNS.frame({name: frame[name] for name in CATEGORY_RUNS.column_names()})


@pytest.mark.parametrize(("after_ms", "found"), [(8000.0, True), (4200.0, False)])
def test_processor_time_of_a_stage_beside_the_chain_counts(after_ms: float, found: bool) -> None:
    """A scan computes beside a longer one, which then waits for the slots that it takes."""
    same = dict.fromkeys(("cpu_ms", "compute_ms"), (4000.0, 4000.0)) | {"bytes": (1e8, 1e8)}
    beside = {"cpu_ms": (4000.0, after_ms), "bytes": (1e8, 1e8)}
    whole = {
        "time_ms": (5000.0, 5400.0),
        "cpu_ms": (8000.0, 4000.0 + after_ms),
        "compute_ms": (1000.0, 1000.0),
        "bytes": (2e8, 2e8),
    }
    on_chain = same | {"time_ms": (5000.0, 5400.0), "compute_ms": (1000.0, 1000.0)}
    named = categories(0, 0, 0)
    effect = effects(runs_of([whole, on_chain, beside], 2), named, margin=0.05, alpha=0.05)
    changes = rank_changes(named, effect)
    assert changes["category"].tolist() == ([0, 2] if found else [])
    if found:
        assert set(changes["evidence"]) == {"cpu"}
        sides = tuple(side_means(runs_of([whole, on_chain, beside], 2), named, s) for s in (0, 1))
        told = explain_changes(changes, CauseInputs(named, (sides[0], sides[1]), [("", "")] * 3))
        assert set(told.causes["cause"]) == {"metric:cpu_ms"}
        assert not told.by_chance.any()


def explained(runs: int, evidence: str, *, source_changed: str) -> Explained:
    """Causes of a query that waited longer for slots of another one."""
    waits = {"time_ms": (4000.0, 5000.0), "slots_ms": (1000.0, 2000.0), "cpu_ms": (1e4, 1e4)}
    works = {"time_ms": (9000.0, 9000.0), "compute_ms": (9000.0, 9000.0), "cpu_ms": (2e4, 2e4)}
    waits["tasks"] = works["tasks"] = (8.0, 8.0)
    named = categories(WAITS, WAITS, WORKS, WORKS)
    table = runs_of([waits, waits, works, works], runs)
    sides = side_means(table, named, 0), side_means(table, named, 1)
    listed = [(WAITS, -1, evidence), (STAGE_OF_WAITS, 0, evidence)]
    if source_changed:
        listed += [(WORKS, -1, ""), (STAGE_OF_WORKS, 2, source_changed)]
    before, after = (side.measure["time_ms"] for side in sides)
    rows = [category for category, *_ in listed]
    changes = CHANGES.frame(
        {
            **{name: [0] * len(rows) for name in CHANGES.column_names()},
            "category": rows,
            "kind": [""] * len(rows),
            "before_ms": before[rows],
            "after_ms": after[rows],
            "runs_before": [runs] * len(rows),
            "runs_after": [runs] * len(rows),
            "evidence": [by for *_, by in listed],
            "parent": [parent for _, parent, _ in listed],
        }
    )
    blame = BLAME_CHANGES.frame(
        {
            "category": [WAITS], "resource": ["slots"], "kind": ["query"], "source": [WORKS],
            "before_ms": [100.0], "after_ms": [1100.0], "change_ms": [1000.0],
            "work_growth": [1.0], "presence_growth": [1.0 if source_changed else 1.3],
            "named": [not source_changed],
        }
    )  # fmt: skip
    return explain_changes(changes, CauseInputs(named, sides, [("", "")] * 4, blame=blame))


def test_a_longer_wait_for_a_query_that_is_the_same_is_chance_in_few_runs() -> None:
    assert explained(3, "time", source_changed="").by_chance.tolist() == [True, True]
    assert not explained(5, "time", source_changed="").by_chance.any()
    assert not explained(3, "time, cpu", source_changed="").by_chance.any()


def test_a_wait_for_a_query_with_other_work_is_none_though_that_does_not_take_more() -> None:
    """Another plan does as much work at other times."""
    told = explained(3, "time", source_changed="cpu")
    assert not told.by_chance[:2].any()
    of_wait = told.causes[told.causes["change"] == 0]
    assert of_wait["cause"].iloc[0] == f"query:q{WORKS}"
    assert told.kind[0] == "contention"


SAME = {
    "time_ms": 1000.0, "cpu_ms": 4000.0, "bytes": 1e8, "records": 1e6, "tasks": 8.0,
    "partitions": 8.0, "spill_bytes": 0.0, "bytes_max_over_mean": 1.5,
    **dict.fromkeys(PART_NAMES, 100.0),
}  # fmt: skip


def changed(evidence: str = "time", relabelled: bool = False, **after: float) -> CategoryMeasures:
    """A stage that takes twice as long, with some measures changed."""
    now = SAME | {"time_ms": 2000.0} | after
    return CategoryMeasures(
        0, dict(SAME), now, ("SortMergeJoin", "SortMergeJoin"), relabelled, evidence
    )


def blame(*rows: tuple[str, int, float, bool]) -> pd.DataFrame:
    """Growth of lost time by (resource, source, ms, named); source −1 is the query itself."""
    n = len(rows)
    return BLAME_CHANGES.frame(
        {
            "category": [0] * n,
            "resource": [resource for resource, *_ in rows],
            "kind": ["query" if source >= 0 else "own" for _, source, *_ in rows],
            "source": [source for _, source, *_ in rows],
            "before_ms": [0.0] * n,
            "after_ms": [ms for *_, ms, _ in rows],
            "change_ms": [ms for *_, ms, _ in rows],
            "work_growth": [float("inf")] * n,
            "presence_growth": [float("inf")] * n,
            "named": [named for *_, named in rows],
        }
    )


@pytest.mark.parametrize(
    ("after", "kind", "cause"),
    [
        ({"partitions": 80.0}, "structure", "partitions"),
        ({"partitions": 80.0, "bytes": 2e8, "spill_bytes": 9e8}, "structure", "partitions"),
        ({"bytes": 2e8}, "data", "data:input_bytes"),
        ({"records": 2e6}, "data", "data:input_bytes"),
        ({"records": 2e6, "partitions": 16.0}, "data", "data:input_bytes"),
        ({"bytes": 2e8, "partitions": 16.0}, "data", "data:input_bytes"),
        ({"bytes": 2e8, "bytes_max_over_mean": 5.0}, "data", "data:input_bytes"),
        ({"bytes_max_over_mean": 5.0, "spill_bytes": 1e8}, "skew", "skew:input_bytes"),
        ({"spill_bytes": 1e8, "io_write_ms": 900.0}, "memory", "metric:spill_bytes"),
        ({"cpu_ms": 8000.0, "compute_ms": 1100.0}, "rate", "metric:cpu_ms"),
        ({"bytes": 5e7, "cpu_ms": 8000.0, "compute_ms": 1100.0}, "rate", "metric:cpu_ms"),
        ({"io_read_ms": 1100.0}, "rate", "metric:io_read_ms"),
    ],
)
def test_the_first_rule_that_fits_names_the_cause(
    after: Mapping[str, float], kind: str, cause: str
) -> None:
    ((first, _), *_) = stage_causes(changed(**after), None, None)
    assert (first.kind, first.cause) == (ChangeKind(kind), cause)


def test_another_plan_comes_before_other_data() -> None:
    ((first, _),) = stage_causes(changed(relabelled=True, bytes=2e8), None, None)
    assert first.kind is ChangeKind.STRUCTURE
    assert first.cause.startswith("plan:")


def test_what_slows_all_stages_comes_before_a_stages_own_part() -> None:
    shared = SharedCause("host:h3", "io_read_ms", 2.5)
    slower = changed(io_read_ms=1100.0)
    assert stage_causes(slower, shared, None)[0][0].kind is ChangeKind.HOST
    faster = CategoryMeasures(0, slower.after, slower.before, slower.operators, False, "time")
    assert stage_causes(faster, shared, None)[0][0].kind is ChangeKind.RATE


def test_a_wait_that_all_stages_share_is_not_why_one_computes_longer() -> None:
    shared = SharedCause("environment:hosts", "run_queue_ms", 1.6)
    slower = changed("cpu", cpu_ms=8000.0, compute_ms=1100.0)
    assert stage_causes(slower, shared, None)[0][0].cause == "metric:cpu_ms"
    assert stage_causes(changed("time"), shared, None)[0][0].cause == "environment:hosts"


def test_shares_of_a_stages_causes_sum_to_one() -> None:
    grown = changed(io_read_ms=700.0, cpu_ms=8000.0, compute_ms=500.0)
    causes = stage_causes(grown, None, blame(("io", 7, 300.0, True), ("io", 8, 100.0, False)))
    assert sum(share for _, share in causes) == pytest.approx(1.0)
    contention = next(cause for cause, _ in causes if cause.kind is ChangeKind.CONTENTION)
    assert contention.sources == ((7, 1.0),)


def test_a_wait_behind_the_querys_own_tasks_is_no_contention() -> None:
    grown = changed(slots_ms=900.0, io_read_ms=300.0)
    own = blame(("slots", -1, 900.0, False), ("slots", 4, 50.0, False))
    causes = {cause.cause: share for cause, share in stage_causes(grown, None, own)}
    assert causes["metric:io_read_ms"] > causes["metric:slots_ms"]


def test_evidence_of_work_alone_names_the_work() -> None:
    """The stage waits for less, and computes longer: its time says nothing."""
    stage = changed("cpu", time_ms=800.0, slots_ms=0.0, cpu_ms=8000.0, compute_ms=200.0)
    ((first, share),) = stage_causes(stage, None, None)
    assert (first.cause, share) == ("metric:cpu_ms", 1.0)


def test_contention_is_handed_over_to_who_changed_by_itself() -> None:
    """0 waits for 1 and 2, which wait for each other, and 1 for 3, which computes longer."""

    def waits(*sources: tuple[int, float]) -> StageCause:
        return StageCause(ChangeKind.CONTENTION, "", "waits", None, sources)

    reasons = {
        1: [(waits((2, 0.5), (3, 0.5)), 1.0)],
        2: [(waits((1, 1.0)), 1.0)],
        3: [(StageCause(ChangeKind.RATE, "metric:cpu_ms", "computes"), 1.0)],
    }
    chains = ContentionChains(lambda query: reasons.get(query, []))
    sources = ((1, 0.6), (2, 0.4))
    ((root, part), *rest) = chains.roots_of(sources, 0)
    assert root == Root(3, None)
    assert part > 0.95
    assert part + sum(other for _, other in rest) == pytest.approx(1.0)
    assert chains.path(sources, root, 0) == [1, 3]


def test_only_settings_that_can_differ_between_equal_runs_are_left_out() -> None:
    before = {
        "spark.app.id": ("application_1_2",),
        "spark.executor.memory": ("12g",),
        "spark.yarn.queue": ("night",),
        "spark.hadoop.out": ("/data/2026-10-01/x",),
    }
    after = {
        "spark.app.id": ("application_1_3",),
        "spark.executor.memory": ("4g",),
        "spark.yarn.queue": ("night",),
        "spark.hadoop.out": ("/data/2026-10-02/x",),
        "spark.sql.shuffle.partitions": ("400",),
    }
    found = {one.key: one for one in setting_differences(before, after)}
    assert list(found) == ["spark.executor.memory", "spark.sql.shuffle.partitions"]
    memory, partitions = found.values()
    assert memory.fits([Symptom.MEMORY])
    assert not memory.fits([Symptom.PARTITIONS])
    assert partitions.fits([Symptom.PARTITIONS])
    assert str(partitions) == "spark.sql.shuffle.partitions not set → 400"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (100.0, 9_100.0, "the driver took 9.0 s longer before its first stage"),
        (9_100.0, 100.0, "the driver took 9.0 s less long before its first stage"),
    ],
)
def test_a_change_in_the_driver_names_its_part(
    tmp_path: Path, before: float, after: float, said: str
) -> None:
    sides = []
    for side, driver_ms in (("before", before), ("after", after)):
        folder = tmp_path / side
        folder.mkdir()
        for run in range(3):
            work = {"q": replace(QueryWork(), driver_ms=driver_ms + run)}
            run_log(f"{side}-{run}", work, float(run), noise=0.01, seed=run).write(
                folder / f"{side}-{run}"
            )
        sides.append(folder)
    found = compare(*sides)
    causes = found.causes[(found.causes["cause"] == "metric:driver_ms").to_numpy()]
    assert set(causes["sentence"]) == {said}


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
