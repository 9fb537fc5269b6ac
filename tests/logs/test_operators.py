"""What a stage does, told by RDD scopes and by the plan nodes whose accumulators it fed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.events.operators import (
    MOST_OPERATORS,
    Operators,
    nodes_of,
    operator_name,
    scope_name,
    sources_of,
    stage_label,
)
from iqcar.logs.events.structs import PlanMetric, PlanNode
from iqcar.pipeline import read
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, rdd, stage_info

ROWS = "number of output rows"


def plan(codegen: int = 1, first: int = 0, catalog: str = "spark_catalog.") -> dict[str, Any]:
    """Scan, filter and aggregate, exchange, aggregate: two stages; ids from ``first`` on."""
    scan = node(f"Scan parquet {catalog}db.sales", metrics=[(first + 1, ROWS, "sum")])
    filtered = node("Filter", f"Filter (a#{first} > 1)", scan, metrics=[(first + 2, ROWS, "sum")])
    partial = node("HashAggregate", None, filtered, metrics=[(first + 3, ROWS, "sum")])
    mapped = node(
        f"WholeStageCodegen ({codegen})", None, partial, metrics=[(first + 4, "duration", "timing")]
    )
    exchange = node("Exchange", None, mapped, metrics=[(first + 5, "data size", "size")])
    final = node(
        "HashAggregate",
        None,
        node("InputAdapter", None, exchange),
        metrics=[(first + 6, ROWS, "sum")],
    )
    return node(
        f"WholeStageCodegen ({codegen + 1})",
        None,
        final,
        metrics=[(first + 7, "duration", "timing")],
    )


def accumulables(*ids: int) -> list[dict[str, Any]]:
    return [{"ID": number, "Name": ROWS, "Value": "5"} for number in ids]


def log(plan: dict[str, Any], first: int, scopes: tuple[str, ...] = ("Exchange",)) -> SyntheticLog:
    """Two stages of one SQL execution; the first fed only the scan and the exchange."""
    properties = {"spark.sql.execution.id": "0"}
    infos = [
        stage_info(number, rdds=[rdd(n, scope=name) for n, name in enumerate(scopes)])
        for number in (0, 1)
    ]
    made = SyntheticLog().app().executor().sql(0, plan).job(0, infos, properties=properties)
    for number, fed in enumerate(((first + 1, first + 5), (first + 5, first + 7))):
        made.stage(infos[number], properties).task(number, number)
        made.stage_end({**infos[number], "Accumulables": accumulables(*fed)})
    return made.job_end(0).sql_end(0).end()


def tables(made: SyntheticLog, folder: Path) -> Tables:
    return read(made.write(folder / "app-1"))


def test_operators_compiled_into_one_function_all_count_where_one_was_fed(tmp_path: Path) -> None:
    stages = tables(log(plan(), 0), tmp_path).stages
    assert texts(stages, "operators") == [
        "Exchange; Filter; HashAggregate; Scan parquet db.sales",
        "Exchange; HashAggregate",
    ]


def test_a_label_is_the_same_whatever_the_numbers_and_the_order_of_rdds(tmp_path: Path) -> None:
    one = log(plan(), 0, ("Exchange", "WholeStageCodegen (1)", "mapPartitions"))
    other = log(
        plan(codegen=7, first=900, catalog=""),
        900,
        ("mapPartitions", "WholeStageCodegen (8)", "Exchange", "mapPartitionsInternal"),
    )
    labels = [
        texts(read(made.write(tmp_path / f"app-{n}")).stages, "label")
        for n, made in enumerate((one, other))
    ]
    assert labels[0] == labels[1] == [
        "Exchange; Filter; HashAggregate; Scan parquet db.sales; mapPartitions",
        "Exchange; HashAggregate; mapPartitions",
    ]  # fmt: skip


def test_a_plan_changed_while_running_adds_its_new_operators(tmp_path: Path) -> None:
    made = log(plan(), 0)
    update = node("BroadcastHashJoin", None, plan(), metrics=[(50, ROWS, "sum")])
    made.lines.insert(
        next(n for n, line in enumerate(made.lines) if b"StageCompleted" in line),
        SyntheticLog(version=None).event(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
            {"executionId": 0, "physicalPlanDescription": "", "sparkPlanInfo": update},
        ).lines[0],
    )  # fmt: skip
    last = json.loads(made.lines[-4])
    last["Stage Info"]["Accumulables"] += accumulables(50)
    made.lines[-4] = json.dumps(last, separators=(",", ":")).encode()
    found = tables(made, tmp_path)
    assert texts(found.stages, "operators")[1] == "BroadcastHashJoin; Exchange; HashAggregate"
    assert "Join" not in texts(found.sql_executions, "operators")[0]


def test_an_execution_tells_what_its_first_plan_reads_and_does(tmp_path: Path) -> None:
    made = SyntheticLog().app()
    text = "FileScan csv [a#1] Location: InMemoryFileIndex[hdfs://nn/in/{}], PushedFilters: []"
    made.sql(
        0,
        node(
            "Union",
            None,
            node("Scan csv ", text.format("day=2026-10-01")),
            node("Scan csv ", text.format("day=2026-10-02")),
            node("Scan hive spark_catalog.db.items"),
        ),
    ).job(0, [0], properties={"spark.sql.execution.id": "0"})
    execution = tables(made.end(), tmp_path).sql_executions.iloc[0]
    assert execution["tables"] == "day=*; db.items"
    assert execution["operators"] == ("Scan csv day=*; Scan csv day=*; Scan hive db.items; Union")


def test_a_stage_without_a_plan_is_labelled_by_its_scopes(tmp_path: Path) -> None:
    infos = [stage_info(0, rdds=[rdd(0, scope="textFile"), rdd(1, scope="map"), rdd(2)])]
    stages = tables(SyntheticLog().app().job(0, infos).stage(infos[0]).end(), tmp_path).stages
    assert texts(stages, "label") == ["map; textFile"]
    assert texts(stages, "operators") == [""]


@pytest.mark.parametrize(
    "scope", ["", "{", "[]", '{"id":"1"}', '{"name":5}', '"x"', "{" * 10_000, '{"name":"\\ud800"}']
)
def test_a_damaged_scope_names_nothing(scope: str) -> None:
    assert scope_name(scope) == ""


def test_a_secret_in_the_name_of_a_node_stays_out() -> None:
    name = "Scan JDBCRelation((select 1) x, password=hunter22) [numPartitions=1]"
    assert "hunter22" not in operator_name(PlanNode(name=name))


def test_only_what_wraps_is_a_label_where_nothing_else_is_known() -> None:
    assert stage_label(["WholeStageCodegen"], []) == "WholeStageCodegen"
    assert stage_label(["WholeStageCodegen"], ["Sort"]) == "Sort"
    assert stage_label(["Scan csv", "map"], ["Scan csv a"]) == "Scan csv a; map"
    assert stage_label([], []) == ""


def test_forgotten_accumulators_tell_nothing_and_others_what_they_told() -> None:
    operators = Operators()
    for first in (0, 10, 20):
        nodes = [
            PlanNode(name=f"Op {chr(97 + n)}", metrics=[PlanMetric(id=float(first + n))])
            for n in range(3)
        ]
        operators.add(nodes_of(PlanNode(name="Union", children=nodes)))
    operators.forget({0.0, 1.0, 2.0, 10.0})
    assert operators.fed_by([0.0, 1.0, 10.0, 12.0, 20.0]) == ["Op a", "Op c"]
    operators.add(nodes_of(PlanNode(name="Sort", metrics=[PlanMetric(id=1.0)])))
    assert operators.fed_by([1.0, 11.0]) == ["Op b", "Sort"]
    operators.forget(range(30))
    assert not operators._names


def test_one_function_of_a_million_operators_costs_no_stage_more_than_its_bound() -> None:
    operators = Operators()
    inner = [PlanNode(name="Sort", metrics=[PlanMetric(id=float(n))]) for n in range(20_000)]
    operators.add(nodes_of(PlanNode(name="WholeStageCodegen (1)", children=inner)))
    assert len(operators.fed_by([5.0])) == MOST_OPERATORS


@given(
    st.lists(st.sampled_from(["map", "Exchange", "Scan", "WholeStageCodegen"]), max_size=6),
    st.lists(st.sampled_from(["Exchange", "Sort", "Filter"]), max_size=6),
    st.randoms(),
)
def test_labels_do_not_depend_on_the_order(scopes: list[str], ran: list[str], draw: Any) -> None:
    label = stage_label(scopes, ran)
    draw.shuffle(scopes)
    draw.shuffle(ran)
    assert stage_label(scopes, ran) == label
    counted = Counter(ran)
    assert all(name in label for name in counted)


def test_real_logs_have_labels_that_no_run_changes(shared_logs: Path) -> None:
    for name in ("application_1713000000000_0001_2.zstd", "local-1642039451826"):
        labels = texts(read(shared_logs / name).stages, "label")
        assert all(labels)
        assert not any("(1)" in label or "#" in label for label in labels)


def test_a_path_that_spark_cut_names_no_table() -> None:
    """Its last part may be a folder, which differs between runs that read the same table."""
    location = "FileScan parquet [id] Location: InMemoryFileIndex(1 paths)[file:/lake/night-7"
    whole = PlanNode(name="Scan parquet ", text=f"{location}/sales], PartitionFilters: []")
    cut = PlanNode(name="Scan parquet ", text=f"{location}..., PartitionFilters: []")
    assert operator_name(whole) == "Scan parquet sales"
    assert operator_name(cut) == "Scan parquet"
    assert sources_of([whole, cut]) == "sales"
