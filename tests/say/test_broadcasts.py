"""A join whose small side could be broadcast is found, and only such a one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar_lab.clusters.event_log import (
    SyntheticLog,
    node,
    sql_update,
    stage_info,
    task_metrics,
)

MB = 1 << 20
START = 1_700_000_000_000
_LARGE, _SMALL, _JOINED = 11, 12, 13
_HASHED = "Exchange hashpartitioning(k#1L, 8), ENSURE_REQUIREMENTS, [plan_id=1]"


def join_plan(
    join: str = "SortMergeJoin", kind: str = "Inner", exchange: str = _HASHED, above: str = ""
) -> dict[str, Any]:
    """The large side is the left one; ``above``: operators on top, the outermost first."""

    def side(accumulator: int, text: str) -> dict[str, Any]:
        metrics = [(accumulator, "data size", "size")]
        inner = node("Exchange", text, node("Scan parquet t"), metrics=metrics)
        wrapped = node("InputAdapter", None, node("Sort", None, node("InputAdapter", None, inner)))
        return node("WholeStageCodegen (1)", None, wrapped)

    rows = [(_JOINED, "number of output rows", "sum")]
    text = f"{join} [k#1L], [k#5L], {kind}"
    plan = node(join, text, side(_LARGE, exchange), side(_SMALL, _HASHED), metrics=rows)
    for name in reversed(above.split()):
        plan = node(name, None, plan)
    return node("WholeStageCodegen (3)", None, plan)


def joined_log(
    plan: dict[str, Any],
    adapted: dict[str, Any] | None = None,
    small: int = 2 * MB,
    shuffled: tuple[int, int] = (400 * MB, MB),
    queries: int = 1,
    **settings: str,
) -> SyntheticLog:
    """Four slots. The sides take 8 s and 1 s of them, the join 20 s, of 16 million rows.

    ``shuffled``: bytes that the large and the small side write.
    """
    log = SyntheticLog("app-1").app("joined", START).environment(**settings)
    log.executor("1", "host-a", 4, START)
    for query in range(queries):
        _query(log, query, START + 40_000 * query, plan, adapted, small, shuffled)
    return log.end(START + 40_000 * queries)


def _query(
    log: SyntheticLog, query: int, start: int, plan: dict[str, Any],
    adapted: dict[str, Any] | None, small: int, shuffled: tuple[int, int],
) -> None:  # fmt: skip
    properties = {"spark.sql.execution.id": str(query), "spark.job.description": "joined"}
    more = 1000 * query
    log.sql(query, _numbered(plan, more), description="joined", time=start)
    if adapted is not None:
        log.event(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
            {"executionId": query, "physicalPlanDescription": "",
             "sparkPlanInfo": _numbered(adapted, more)},
        )  # fmt: skip
    first = 3 * query
    # tasks, from and to in ms, accumulator, its value, rows and bytes of the shuffle
    stages = [
        (8, 0, 8_000, _LARGE, 600 * MB, 16_000_000, shuffled[0]),
        (1, 0, 1_000, _SMALL, small, 50_000, shuffled[1]),
        (8, 8_000, 28_000, _JOINED, 16_000_000, 0, 0),
    ]
    infos = [
        stage_info(first + number, parents=[first, first + 1] if number == 2 else [],
                   submission=start + begin, **{"Number of Tasks": tasks})
        for number, (tasks, begin, *_) in enumerate(stages)
    ]  # fmt: skip
    log.job(query, infos, start, properties)
    for number, (tasks, begin, end, fed, value, rows, wrote) in enumerate(stages):
        log.stage(infos[number], properties)
        waves = -(-tasks // 4)
        lasts = (end - begin) // waves
        for task in range(tasks):
            launch = start + begin + lasts * (task // 4)
            written = {
                "Shuffle Bytes Written": wrote // tasks,
                "Shuffle Write Time": 0,
                "Shuffle Records Written": rows // tasks,
            }
            metrics = task_metrics(
                Executor_Run_Time=lasts - 20, Executor_CPU_Time=(lasts - 20) * 1_000_000 // 2,
                JVM_GC_Time=0, Shuffle_Read_Metrics={}, Input_Metrics={},
                Shuffle_Write_Metrics=written,
            )  # fmt: skip
            log.task(
                100 * first + 10 * number + task, stage=first + number, metrics=metrics,
                launch=launch, finish=launch + lasts, host="host-a", index=task,
            )  # fmt: skip
        done = {**infos[number], "Accumulables": [sql_update(fed + more, "x", None, value)]}
        log.stage_end(done, start + end)
    log.job_end(query, start + 28_000).sql_end(query, start + 28_100)


def _numbered(plan: dict[str, Any], more: int) -> dict[str, Any]:
    """The plan with other accumulators."""
    metrics = [{**one, "accumulatorId": one["accumulatorId"] + more} for one in plan["metrics"]]
    children = [_numbered(child, more) for child in plan["children"]]
    return {**plan, "metrics": metrics, "children": children}


def found(path: Path, *args: Any, **more: Any) -> list[Finding]:
    log = joined_log(*args, **more).write(path / "app-1")
    findings = find_findings(iqcar.diagnose(iqcar.read(log)))
    return [one for one in findings if one.kind is FindingKind.BROADCAST]


@pytest.mark.parametrize("join", ["SortMergeJoin", "SortMergeJoin(skew=true)", "ShuffledHashJoin"])
def test_a_small_side_is_said_with_its_size_and_a_threshold_above_it(
    tmp_path: Path, join: str
) -> None:
    (one,) = found(tmp_path, join_plan(join))
    assert "though one is 2.1 MB only" in one.sentence
    assert one.settings[0][:2] == ("spark.sql.autoBroadcastJoinThreshold", "4m")
    assert "broadcast(...)" in one.action
    assert 0 < one.low_ms < one.saves_ms < one.high_ms <= 28_000
    assert one.subject == "joined"


def test_of_a_query_that_runs_again_all_runs_are_one_finding(tmp_path: Path) -> None:
    (once,) = found(tmp_path / "once", join_plan())
    (again,) = found(tmp_path / "again", join_plan(), queries=5)
    assert again.high_ms == pytest.approx(5 * once.high_ms)


@pytest.mark.parametrize("kind", ["LeftOuter", "LeftSemi", "LeftAnti", "Cross"])
def test_the_right_side_of_these_can_be_broadcast(tmp_path: Path, kind: str) -> None:
    assert found(tmp_path, join_plan(kind=kind))


@pytest.mark.parametrize("kind", ["RightOuter", "FullOuter"])
def test_the_right_side_of_these_cannot(tmp_path: Path, kind: str) -> None:
    assert not found(tmp_path, join_plan(kind=kind))


def test_a_side_that_does_not_fit_in_memory_is_no_small_one(tmp_path: Path) -> None:
    large = {"small": 100 * MB, "shuffled": (900 * MB, 60 * MB)}
    assert not found(tmp_path / "1g", join_plan(), **large)
    assert found(tmp_path / "8g", join_plan(), **large, **{"spark.executor.memory": "8g"})


def test_sides_alike_stay_shuffled(tmp_path: Path) -> None:
    assert not found(tmp_path, join_plan(), shuffled=(2 * MB, MB))


@pytest.mark.parametrize(
    "above", ["Window", "HashAggregate HashAggregate", "SortMergeJoin", "Sort Window"]
)
def test_where_more_needs_the_partitioning_nothing_is_left_out(tmp_path: Path, above: str) -> None:
    assert not found(tmp_path, join_plan(above=above))


def test_what_is_above_the_next_exchange_does_not_need_it(tmp_path: Path) -> None:
    assert found(tmp_path, join_plan(above="Window Exchange HashAggregate"))


@pytest.mark.parametrize(
    "exchange",
    [
        "Exchange hashpartitioning(k#1L, 8), REPARTITION_BY_NUM, [plan_id=1]",
        "Exchange rangepartitioning(k#1L ASC NULLS FIRST, 8), ENSURE_REQUIREMENTS, [plan_id=1]",
    ],
)
def test_an_exchange_for_another_reason_stays(tmp_path: Path, exchange: str) -> None:
    assert not found(tmp_path, join_plan(exchange=exchange))


def test_an_exchange_that_is_read_twice_stays(tmp_path: Path) -> None:
    reused = node("ReusedExchange", "ReusedExchange [k#9L], Exchange hashpartitioning(k#1L, 8)")
    assert not found(tmp_path, node("Union", None, join_plan(), reused))


def test_a_join_that_spark_has_turned_to_a_broadcast_is_none(tmp_path: Path) -> None:
    turned = node("BroadcastHashJoin", "BroadcastHashJoin [k#1L], [k#5L], Inner, BuildRight, false")
    assert not found(tmp_path / "turned", join_plan(), turned)
    assert found(tmp_path / "same", join_plan(), join_plan())
