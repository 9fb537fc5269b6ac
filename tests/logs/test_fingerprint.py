"""Two runs of the same query hash equal with other constants; different queries differ."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iqcar.logs import read_logs
from iqcar.logs.events import operators
from iqcar.logs.events.operators import (
    HASH_DIGITS,
    hash_plan,
    hash_plan_text,
    nodes_of,
    normalise,
    without_number,
)
from iqcar.logs.events.settings import clean_description, connect_operation, is_user_named
from iqcar.logs.events.structs import PlanNode
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog, node

SAME = [
    ("Filter (d_year#12 = 2001)", "Filter (d_year#99 = 1999)"),
    ("Filter (i_category#12 = Books)", "Filter (i_category#1 = Home & Garden)"),
    ("Filter i_class#3 IN (a b,c,d)", "Filter i_class#3 IN (x)"),
    ("Filter (d_date#1 >= 2000-01-01)", "Filter (d_date#1 >= 2024-11-30)"),
    ("Filter (a#1 = 'x y')", "Filter (a#2 = 'z')"),
    ("Filter Contains(c#5, abc)", "Filter Contains(c#9, d e f)"),
    ("PushedFilters: [EqualTo(a,x y)]", "PushedFilters: [EqualTo(a,z)]"),
    ("PushedFilters: [In(a, [x,y])]", "PushedFilters: [In(a, [z])]"),
    (
        "FileScan t[p#17] DataFilters: [(price#17 > 7.0), (name#18 = name 2)..., Format: Parquet, "
        "PartitionFilters: [isnotnull(y#3), (y#3 = 2024)], PushedFilters: []",
        "FileScan t[p#1] DataFilters: [(price#1 > 5.5), (name#2 = n), (da..., Format: Parquet, "
        "PartitionFilters: [isnotnull(y#7), (y#7 = 1999)], PushedFilters: []",
    ),
    (
        "Exchange hashpartitioning(k#1L, 200), ENSURE_REQUIREMENTS, [plan_id=12]",
        "Exchange hashpartitioning(k#77L, 64), ENSURE_REQUIREMENTS, [plan_id=9]",
    ),
    ("Exchange SinglePartition, true, [id=#12]", "Exchange SinglePartition, true, [id=#7]"),
    (
        "Location: InMemoryFileIndex(1 paths)[file:/d/2024-01-01/x], Format: Parquet",
        "Location: InMemoryFileIndex(3 paths)[file:/d/2024-05-07/x, file:/e], Format: Parquet",
    ),
    ("Scan s3://b/_tmp/3f2a9c1b77/part-00012", "Scan s3://b/_tmp/ab12cd34ef/part-00001"),
    ("MapPartitionsRDD[12] at map at App.scala:3", "MapPartitionsRDD[5] at map at App.scala:9"),
    ("MapElements App$$Lambda$123/0x0000001@3fa2", "MapElements App$$Lambda$77/0x0000abc@11ff"),
    ("TakeOrderedAndProject(limit=100)", "TakeOrderedAndProject(limit=7)"),
]
DIFFERENT = [
    ("Filter (d_year#1 = 2001)", "Filter (d_month#1 = 2001)"),
    ("Filter (a#1 = 5)", "Filter (a#1 > 5)"),
    ("PartitionFilters: [isnotnull(y#3)], A: 1", "PartitionFilters: [isnotnull(m#3)], A: 1"),
    ("SortMergeJoin [a#1], [b#2], Inner", "SortMergeJoin [a#1], [c#2], Inner"),
    ("Filter (a#1 < b#2)", "Filter (a#1 < c#2)"),
    ("FileScan parquet db.sales[a#1]", "FileScan parquet db.returns[a#1]"),
    ("HashAggregate(functions=[sum(x#1)])", "HashAggregate(functions=[max(x#1)])"),
    ("Project [col_1#3]", "Project [col_2#3]"),
    ("Location: InMemoryFileIndex[s3://b/sales]", "Location: InMemoryFileIndex[s3://b/returns]"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_constants_and_ids_make_no_difference(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_query_is_another(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e6), st.dates())
def test_any_id_number_or_date_is_left_out(a: int, b: int, x: float, day: object) -> None:
    def line(first: int, second: int, number: float, date: object) -> str:
        return (
            f"Filter ((k#{first}L > {second}) AND (x#{second} = {number})"
            f" AND (d#{first} < {date})) [plan_id={second}]"
        )

    assert normalise(line(a, b, x, day)) == normalise(line(1, 2, 0.5, "2024-01-01"))


@given(st.text(max_size=200))
def test_any_text_is_normalised_and_stays_so(text: str) -> None:
    once = normalise(text)
    assert not re.search(r"#\d+L?", once)
    assert hash_plan_text(text) == hash_plan_text(text)


def plan(year: int, first: int, column: str = "d_year") -> dict[str, object]:
    scan = node("Scan parquet t", f"FileScan parquet t[{column}#{first}]")
    inner = node(f"WholeStageCodegen ({first})", f"WholeStageCodegen ({first})", scan)
    return node("Filter", f"Filter ({column}#{first} = {year})", inner)


def test_the_initial_plan_decides_and_later_plans_do_not(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    log.sql(0, plan(2001, 1)).sql(1, plan(1999, 40)).sql(2, plan(2001, 1, "d_moy"))
    for execution, final in ((0, node("BroadcastHashJoin")), (1, node("SortMergeJoin"))):
        log.event(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
            {"executionId": execution, "physicalPlanDescription": "", "sparkPlanInfo": final},
        )
    tables = read_logs([log.end().write(tmp_path / "app-1")])
    first, again, other = texts(tables.sql_executions, "plan_hash")
    assert first == again
    assert first != other


def test_the_shape_of_the_tree_counts(tmp_path: Path) -> None:
    a, b = node("A"), node("B")
    chain = node("A", None, node("A", None, b))
    fork = node("A", None, node("A"), b)
    log = SyntheticLog().app().sql(0, chain).sql(1, fork).sql(2, node("A", None, b, a))
    tables = read_logs([log.sql(3, node("A", None, a, b)).end().write(tmp_path / "app-1")])
    hashes = texts(tables.sql_executions, "plan_hash")
    assert len(set(hashes[:3])) == 3
    assert hashes[1] == hashes[3]


def test_without_a_tree_the_text_of_the_plan_is_hashed(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    for execution, text in enumerate(("Filter (a#1 = 5)", "Filter (a#7 = 6)", "Filter (b#1 = 5)")):
        log.sql(execution, description="x", sparkPlanInfo=..., physicalPlanDescription=text)
    log.sql(3, sparkPlanInfo=..., physicalPlanDescription=...)
    tables = read_logs([log.end().write(tmp_path / "app-1")])
    one, same, other, nothing = texts(tables.sql_executions, "plan_hash")
    assert one == same != other
    assert nothing == ""


@pytest.mark.parametrize(
    ("description", "named"),
    [
        ("nightly sales report", True),
        ("q39b", True),
        ("count at App.scala:12", False),
        ("collect at /jobs/my job.py:62", False),
        ("show at <console>:30", False),
        ("$anonfun$run$2 at CompletableFuture.java:1768", False),
        ("SELECT * FROM t WHERE d = '2024-01-01'", False),
        ("/* nightly */ WITH a AS (SELECT 1) SELECT * FROM a", False),
        ("", False),
    ],
)
def test_only_a_name_that_stays_the_same_is_the_users(description: str, named: bool) -> None:
    assert is_user_named(description) is named


ID = "0a1b2c3d-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize("gap", ["<br/>", "\n"])
def test_a_streams_batches_share_one_description(gap: str) -> None:
    batch = f"id = {ID}{gap}runId = {ID}{gap}batch = 12"
    assert clean_description(f"clicks{gap}{batch}") == "clicks"
    assert is_user_named(clean_description(f"clicks{gap}{batch}"))
    assert not is_user_named(clean_description(batch))


@pytest.mark.parametrize(
    ("group", "tags"),
    [
        (None, f"x,SparkConnect_OperationTag_User_ann_Session_{ID}_Operation_{ID}"),
        (f"SparkConnect_OperationTag_User_a_b_Session_{ID}_Operation_{ID}", None),
        (f"User_ann_Session_{ID}_Request_{ID}", None),
    ],
)
def test_a_connect_operation_is_found_in_group_or_tags(group: str | None, tags: str | None) -> None:
    assert connect_operation(group, tags) == ID
    assert connect_operation("etl", f"spark-session-{ID}-execution-root-id-1") == ""


PIECES = (
    "#12", "#7L", "#x12", "#345", "a", "b_1", "(", ")", " = ", " <=> ", "5", "'x#3'", "[", "]", ",",
    ", ", "IN (", "In(", "[id=#12]", "[plan_id=9]", "deadbeef12", "#12deadbeef12", "Filters: [",
    "DataFilters: [", "Location: X(3 paths)[", "Contains(a#5, b)", "like", "2020-01-02", " AND ",
    "-", "/", "12/", "@1234abcd", '"q#4"', "#1\u0968", "Lambda$12", "WHEN ", "THEN ", " ELSE ", ".",
    " 17)", " 12345678,", " 2020,", " 3,", " 4)", "> 5,", "T", " 12:30", ":30", "Lambda$", "'", '"',
    "{", "\n", "EqualTo(", "In(a, [", "DataFilters: [x > ", "Location: X[", "INSET (", "(8 paths)[",
    "\\", "e5", "0001", "1234-", "-12-30", "deadbeef", "\u0663", " OR ", "$", "=", "@", ".5,", "]",
    "LIKE ", "?, ", "[plan_id=12345678]", "[plan_id=", "-01-02]", "= abc)", " <=> 2020-01-02)",
    "EqualTo(a,b)", "LessThan(a,", "EqualTo(a1,2020-01-02)", ",7)", "> ", "x.y)", "Xn(a,b)",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("file:/d/day=2024-01-02/x")
@example("LessThan(a,1-2)")
@example("f(a,1-2)")
def test_numbers_may_be_the_same_before(text: str) -> None:
    """What is remembered of a line, or of a plan, is looked up with other numbers."""
    same = operators._with_same_numbers(text)
    assert operators._normalised(text) == operators._normalised(same)


def printed(plan: PlanNode, depth: int = 0) -> str:
    """What is hashed of a plan, node by node."""
    line = f"{depth} {normalise(without_number(plan.name))}: {normalise(plan.text)}\n"
    return line + "".join(printed(child, depth + 1) for child in plan.children)


NODES = st.recursive(
    st.builds(
        PlanNode,
        name=st.sampled_from(["Scan t5", "WholeStageCodegen (2)", "Sort", "a\0b", "x #7"]),
        text=st.lists(st.sampled_from([*PIECES, "\0", "x" * 301]), max_size=4).map("".join),
    ),
    lambda inner: st.builds(
        PlanNode,
        name=st.sampled_from(["Join", "WholeStageCodegen (12)"]),
        text=st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
        children=st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(NODES)
def test_the_hash_of_a_plan_is_that_of_its_normalised_lines(plan: PlanNode) -> None:
    """Stores keep hashes for years: this is their definition, whatever is remembered."""
    expected = hashlib.sha256(printed(plan).encode("utf-8", "replace")).hexdigest()
    for _ in range(2):
        assert hash_plan(nodes_of(plan)) == expected[:HASH_DIGITS]


def filtered(first: int, number: str, day: str) -> PlanNode:
    text = f"FileScan parquet [a#{first},d#{first}] PushedFilters: [LessThan(a,{number})"
    scan = PlanNode(name="Scan parquet ", text=f"{text}, GreaterThanOrEqual(d,{day})], Schema: s")
    condition = f"((a#{first} < {number}) AND (d#{first} >= {day}))"
    return PlanNode(name="Filter", text=f"Filter {condition}", children=[scan])


def test_a_plan_with_other_constants_is_not_normalised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = hash_plan(nodes_of(filtered(7, "10", "2024-01-31")))
    for way in ("_normalised", "_remembered"):
        monkeypatch.setattr(operators, way, lambda _: pytest.fail("normalised again"))
    assert hash_plan(nodes_of(filtered(12345, "2500000", "1999-12-01"))) == expected
