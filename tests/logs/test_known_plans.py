"""A plan that is recognised tells what decoding it tells, and only such a plan is recognised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iqcar.logs import collect
from iqcar.logs.collect import Collector
from iqcar.logs.events import known_plans, sql_collect
from iqcar.logs.events.task_structs import SQL
from iqcar.logs.tasks.task_lines import TaskDecoder
from iqcar_lab.clusters.event_log import node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEVER = 1 << 60


@pytest.fixture
def recognised(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Plans of any length are remembered at once; which events were taken in without their plan."""
    monkeypatch.setattr(collect, "LEAST_BYTES", 0)
    monkeypatch.setattr(known_plans, "LONG", 0)
    found: list[bool] = []
    take = sql_collect.SqlCollector.take_known

    def noted(*arguments: Any) -> bool:
        found.append(take(*arguments))
        return found[-1]

    monkeypatch.setattr(sql_collect.SqlCollector, "take_known", noted)
    yield found


def collected(lines: Sequence[bytes]) -> Collector:
    log, decoder = Collector(), TaskDecoder()
    for line in lines:
        log.add(line + b"\n", decoder.decode(line + b"\n"))
    return log


def told(log: Collector) -> dict[str, object]:
    """What the tables are made of."""
    sql, metrics = log.sql, log.sql.metrics
    accumulators = sorted(sql._declared)
    return {
        "executions": {number: repr(one) for number, one in sql.executions.items()},
        "declared": [(one, sql._declared[one]) for one in accumulators],
        "operators": [sql.operators.fed_by([one]) for one in accumulators],
        "of all": sql.operators.fed_by(accumulators),
        "of two": [sql.operators.fed_by(accumulators[at : at + 2]) for at in range(30)],
        "metrics": [list(metrics.rows), metrics.nodes, metrics.names, metrics.units],
        "factors": list(metrics.factors),
        "first": [number for number, count in metrics.runs for _ in range(count)],
        "waits": [sql.declared_waits.nanoseconds, sql.declared_waits.scans],
        "counts": [log.events, log.malformed, log.skipped],
    }


def assert_same(lines: Sequence[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "LEAST_BYTES", NEVER)
        decoded = told(collected(lines))
    assert told(collected(lines)) == decoded


def start(plan: object, number: int = 0, spaced: bool = False, **more: object) -> bytes:
    fields = {"executionId": number, "description": "", "sparkPlanInfo": plan, "time": 1000}
    event = {"Event": f"{SQL}SparkListenerSQLExecutionStart", **fields, **more}
    return json.dumps(event, separators=None if spaced else (",", ":")).encode()


def adapted(plan: object, number: int = 0) -> bytes:
    name = f"{SQL}SparkListenerSQLAdaptiveExecutionUpdate"
    event = {"Event": name, "executionId": number, "sparkPlanInfo": plan}
    return json.dumps(event, separators=(",", ":")).encode()


def query(first: int, constant: int = 7, table: str = "sales_2", leaf: str = "") -> dict[str, Any]:
    """A plan whose accumulators are counted from a number."""
    scan = node(
        leaf or f"Scan parquet lake.{table}",
        f"FileScan parquet lake.{table}[a#{first}] Location: InMemoryFileIndex [file:/d/{table}], "
        f"DataFilters: [(a#{first} = {constant})]",
        metrics=[(first, "scan time", "nsTiming"), (first + 1, "number of output rows", "sum")],
    )
    kept = node(f"Filter (a#{first} > {constant})", metrics=[(first + 2, "spill size", "size")])
    kept["children"] = [scan]
    compiled = node("WholeStageCodegen (1)", "", kept, metrics=[(first + 3, "duration", "timing")])
    exchange = node(
        "Exchange", f"Exchange hashpartitioning(a#{first}, 200), [plan_id={first}]", compiled
    )
    exchange["metrics"] = node("", metrics=[(first + 4, "shuffle write time", "nsTiming")])[
        "metrics"
    ]
    return {**exchange, "nodeName": "Exchange"}


def with_names(plan: dict[str, Any], name: str) -> dict[str, Any]:
    plan["children"][0]["children"][0]["nodeName"] = name
    return plan


def plain(first: int, constant: int = 7, **more: Any) -> dict[str, Any]:
    """The same, of which no operator's name holds a number that may differ."""
    return with_names(query(first, constant, **more), "Filter")


@pytest.mark.parametrize("spaced", [False, True])
def test_a_query_that_comes_again_is_not_decoded(recognised: list[bool], spaced: bool) -> None:
    lines = [start(plain(100 * n, 10 + n), n, spaced) for n in range(10, 30)]
    assert_same(lines)
    assert recognised == [True] * 19


def test_numbers_of_a_plan_that_comes_again_may_be_longer(recognised: list[bool]) -> None:
    lines = [start(plain(10**n, 10 ** (n % 4)), n) for n in range(1, 14)]
    assert_same(lines)
    assert recognised == [True] * 12
    too_long = [start(plain(10**n), n) for n in range(13, 19)]
    assert_same(too_long)
    assert recognised == [True] * 13
    damaged = start(plain(1234), 3).replace(b":1234,", b":0123,")
    assert damaged != start(plain(1234), 3)
    assert_same([lines[0], damaged])
    assert recognised == [True] * 13


def test_a_plan_longer_than_what_is_hashed_of_a_line_is_decoded(
    recognised: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer numbers decide there where a text is cut, and it would take much memory."""
    length = len(json.dumps(plain(100), separators=(",", ":")))
    lines = [start(plain(100), 1), start(plain(20_000), 2), start(plain(300), 3)]
    for longest, expected in ((length, [True]), (length - 1, [])):
        recognised.clear()
        monkeypatch.setattr(known_plans, "MAX_LINE", longest)
        assert_same(lines)
        assert recognised == expected


def test_a_name_is_made_of_a_plan_that_was_described_when_it_came_first(
    recognised: list[bool],
) -> None:
    assert_same([start(plain(100), 1, description="sales"), start(plain(200), 2)])
    assert recognised == [True]


def test_a_line_with_two_plans_is_decoded(recognised: list[bool]) -> None:
    twice = start(plain(200), 2)[:-1] + b',"sparkPlanInfo":%b}' % json.dumps(query(300)).encode()
    assert_same([start(plain(100), 1), twice])
    assert recognised == [False]


def test_a_plan_that_is_not_the_events_is_none(recognised: list[bool]) -> None:
    event = json.loads(start(plain(200), 2))
    event["x"] = {"sparkPlanInfo": event.pop("sparkPlanInfo"), "time": 5}
    nested = json.dumps(event, separators=(",", ":")).encode()
    assert_same([start(plain(100), 1), nested])
    assert recognised == [False]


def test_texts_that_are_no_unicode_are_read(recognised: list[bool]) -> None:
    lines = [start(plain(100 * n), n, description="x@") for n in (1, 2, 3)]
    for bad in (b"\\ud800", b"\xff", b"\\u0000", b"\x00"):
        assert_same([line.replace(b"@", bad) for line in lines])


def test_a_plan_that_an_adaptive_query_repeats_is_not_decoded(recognised: list[bool]) -> None:
    lines = [start(plain(100), 1), adapted(plain(100), 1), adapted(plain(200), 1)]
    assert_same([*lines, start(plain(300), 3), adapted(plain(300), 3)])
    assert recognised == [True] * 4


def test_a_plan_of_old_and_new_accumulators_is_decoded(recognised: list[bool]) -> None:
    again = plain(100)
    again["metrics"][0]["accumulatorId"] = 999
    twice = plain(500)
    twice["metrics"][0]["accumulatorId"] = 500
    assert_same([start(plain(100), 1), adapted(again, 1), start(twice, 2), start(plain(700), 3)])
    assert recognised == [False, False, True]


def test_a_plan_that_shares_accumulators_with_another_is_not_remembered(
    recognised: list[bool],
) -> None:
    def other(*ids: int) -> dict[str, Any]:
        return node(
            "Sort", "Sort", node("Scan json", metrics=[(ids[0], "scan time", "timing")]),
            metrics=[(ids[1], "sort time", "timing")],
        )  # fmt: skip

    assert_same([start(plain(100), 1), start(other(100, 105), 2), start(other(200, 205), 3)])
    assert recognised == []


@pytest.mark.parametrize(
    "other",
    [
        plain(200, table="sales_3"),
        plain(200, leaf="Scan parquet lake.sales_3"),
        with_names(plain(200), "Sort"),
        query(200),
        node("Exchange", "Exchange", plain(200)),
    ],
)
def test_another_plan_is_decoded(recognised: list[bool], other: dict[str, Any]) -> None:
    assert_same([start(plain(100), 1), start(other, 2)])
    assert recognised == []


@pytest.mark.parametrize(
    "plan",
    [
        lambda n: query(n),  # the name of its filter holds an attribute
        lambda n: plain(n, leaf=f"Scan jdbc t#{n}"),
        lambda n: plain(n, table=f"t#{n}"),
        lambda n: plain(n, table=f"of {n})/t"),
        lambda n: node("Scan a", "", metrics=[(n, f"scan time #{n}", "timing")]),
        lambda n: node("Scan a", f"x #{n}" + "0" * 20, metrics=[(n, "scan time", "timing")]),
        lambda n: {**node("Scan a", metrics=[(n, "scan time", "timing")]), "otherId": n + 5000},
        lambda n: node("Scan a", metrics=[(n, "scan time", "timing"), (n, "spill size", "size")]),
    ],
)
def test_a_plan_whose_numbers_tell_something_is_decoded(recognised: list[bool], plan: Any) -> None:
    assert_same([start(plan(n), n) for n in (101, 102, 103)])
    assert True not in recognised


@pytest.mark.parametrize(
    "more",
    [
        {"modifiedConfigs": {"a": "b"}},
        {"modifiedConfigs": {"a": {"b": 1}, "time": 7}},
        {"rootExecutionId": 3},
        {"details": '"sparkPlanInfo":{"nodeName":"x"},"time":8'},
    ],
)
@pytest.mark.parametrize("time_first", [False, True])
def test_what_stands_around_a_plan_is_read(
    recognised: list[bool], more: dict[str, Any], time_first: bool
) -> None:
    lines = []
    for n in (1, 2, 3):
        event = json.loads(start(plain(100 * n), n, description=f"query {n}", **more))
        if time_first:
            time, event["time"] = event.pop("time"), 0
            event["time"] = time + n
        lines.append(json.dumps(event, separators=(",", ":")).encode())
        moved = {key: event[key] for key in sorted(event, key=lambda key: key != "Event")}
        lines.append(json.dumps({**moved, "executionId": 10 + n}).encode())
        swapped = dict(reversed([(key, event[key]) for key in event if key != "Event"]))
        swapped |= {"executionId": 20 + n}
        lines.append(json.dumps({"Event": event["Event"], **swapped}).encode())
    assert_same(lines)


NAMES = st.sampled_from(
    ("Project", "Sort", "WholeStageCodegen (2)", "InputAdapter", "Scan parquet lake.t", "Scan json",
     "BatchScan t5", "Filter (a#12 > 3)", "Union", "AdaptiveSparkPlan", "Subquery")
)  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(
        ("a#@", "(b#@ > @)", " @)", "[plan_id=@]", "[id=#@]", "x_@", "@", '"q#@"', "\\", "é", "{[",
         "Location: InMemoryFileIndex [file:/d/t_@]", "Location: X [file:/a/b], c", "\n", "\0",
         '"accumulatorId":@,', "part-@", "2020-01-@", "'", "#@12)")
    ),
    max_size=5,
).map(" ".join)  # fmt: skip
METRICS = st.sampled_from(
    (("scan time", "timing"), ("spill size", "size"), ("io wait time", "timing"), ("rows", "sum"),
     ("sort time total (min, med, max)", "nsTiming"), ("part of shuffle file write", "nsTiming"))
)  # fmt: skip
PLANS = st.recursive(
    st.tuples(NAMES, TEXTS, st.lists(METRICS, max_size=2), st.just([])),
    lambda inner: st.tuples(
        NAMES, TEXTS, st.lists(METRICS, max_size=2), st.lists(inner, max_size=3)
    ),
    max_leaves=6,
)


def instance(plan: Any, first: int, number: int) -> dict[str, Any]:
    """The plan with accumulators counted from a number, and other numbers in its texts."""
    name, text, metrics, children = plan
    made = [instance(child, first + 100 + 100 * at, number) for at, child in enumerate(children)]
    told_by = [(first + at, *metric) for at, metric in enumerate(metrics)]
    return node(name, text.replace("@", str(number)), *made, metrics=told_by)


@given(
    PLANS,
    PLANS,
    st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from([1, 5, 12, 99]), st.booleans(), st.booleans(),
            st.booleans(),
        ),
        min_size=2, max_size=8,
    ),
)  # fmt: skip
@example(
    ("Sort", "a#@", [("scan time", "timing")], [("Scan json", "#@12)", [], [])]),
    ("Sort", "a#@", [("scan time", "timing")], []),
    [(n, 1 + n % 2, False, False, False) for n in range(5)],
)
def test_tables_are_the_same_whether_plans_are_recognised_or_decoded(
    one: Any, other: Any, events: list[tuple[int, int, bool, bool, bool]]
) -> None:
    lines = []
    for at, (place, number, is_other, is_adapted, spaced) in enumerate(events):
        plan = instance(other if is_other else one, 10_000 * (1 + place), number)
        lines.append(adapted(plan, at) if is_adapted else start(plan, at, spaced))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "LEAST_BYTES", 0)
        patch.setattr(known_plans, "LONG", 0)
        assert_same(lines)


def test_short_plans_are_remembered_when_they_come_often(
    recognised: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_plans, "LONG", NEVER)
    assert_same([start(plain(100 * n), n) for n in range(1, known_plans._OFTEN + 3)])
    assert recognised == [True, True]


@pytest.fixture
def patterns(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The plans of which a pattern was made."""
    made = []

    class Noted(known_plans.PlanPattern):
        def __init__(self, plan: bytes) -> None:
            made.append(plan)
            super().__init__(plan)

    monkeypatch.setattr(known_plans, "PlanPattern", Noted)
    return made


def test_plans_that_differ_in_constants_are_compared_some_times_only(
    recognised: list[bool], patterns: list[bytes]
) -> None:
    log = collected([start(plain(100 * n, table=f"t{n}"), n) for n in range(1, 1_200, 10)])
    assert log.malformed == 0
    assert recognised == []
    assert 0 < len(patterns) <= 3 * known_plans._MOST_IN_VAIN


def test_plans_that_come_once_are_not_compared(
    recognised: list[bool], patterns: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_plans, "LONG", NEVER)
    collected([start(plain(100 * n, table="t" * n), n) for n in range(1, 20)])
    assert patterns == []


def test_a_plan_of_old_accumulators_is_not_compared(
    recognised: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached table's plan is part of each plan that reads it."""
    monkeypatch.setattr(sql_collect, "pattern_of", lambda *_: pytest.fail("compared in vain"))
    again = [start(node("Sort", "Sort", plain(100)), n) for n in range(2, 9)]
    lines = [adapted(plain(100), 1), *again]
    collected(lines)
    assert recognised == []


def test_what_is_remembered_does_not_grow_with_the_log(
    recognised: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_plans, "_MOST_BYTES", 50_000)
    monkeypatch.setattr(known_plans, "_MOST_MET", 10)
    sizes = []
    for count in (50, 200):
        lines = [start(plain(1000 + 10 * n, table="t" * (n + 1)), n) for n in range(count)]
        similar = [start(plain(9000 + 10 * n, table=f"{n:04}"), n) for n in range(count)]
        plans = collected([*lines, *similar]).sql.plans
        assert plans._bytes <= 50_000 + 20_000
        alike = [len(patterns) for patterns in plans._patterns.values()]
        sizes.append([len(plans._known), len(plans._in_vain), sum(alike)])
        assert max(alike) <= known_plans._MOST_ALIKE
    assert all(after <= 2 * before for before, after in zip(*sizes, strict=True))
    monkeypatch.setattr(known_plans, "LONG", NEVER)
    assert len(collected(lines).sql.plans._met) <= 10
