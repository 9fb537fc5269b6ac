"""A join whose small side could be broadcast is found, and only such a one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar_lab.clusters.event_log import node
from tests.support.joined_log import MB, join_plan, joined_log


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
