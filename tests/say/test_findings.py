"""Findings: ranked, within their ranges and their runs, said once, and short at first."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.apps.notebook import Diagnosis
from iqcar.causes.executors_used import start_up_time
from iqcar.causes.savings import slow_hosts
from iqcar.enums import FindingKind
from iqcar.pipeline import diagnose
from iqcar.say import find_verdict
from iqcar.say.finding import Finding, Severity, severity_of
from iqcar.say.finding_driver import driver_section
from iqcar.say.findings import find_findings, findings_headline
from iqcar.show.json.analyze import result_schema, to_dict
from iqcar.show.terminal.analyze import print_answer
from iqcar.show.terminal.layout import NARROW, terminal
from iqcar_lab.clusters.changes import Job
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info, task_metrics
from iqcar_lab.clusters.planted_findings import (
    FIRST,
    KINDS,
    TARGET,
    check,
    check_quiet,
    plant,
    recorded,
)
from iqcar_lab.clusters.quiet import QUIET
from tests.support.contended_log import contended_log
from tests.support.crowded_log import crowded_log
from tests.support.driver_tables import queries_of
from tests.support.joined_log import MB, join_plan, joined_log

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    path: Path = tmp_path_factory.mktemp("findings") / "app-1"
    return iqcar.diagnose(iqcar.read(crowded_log().write(path)))


def few_tasks(path: Path, tasks: list[float], slots: int) -> Diagnosis:
    """A query of one stage: its tasks start together and last so many seconds."""
    log = SyntheticLog("app-1").executor("1", "host-a", cores=slots)
    info = stage_info(0, submission=START + 100, **{"Number of Tasks": len(tasks)})
    log.job(0, [info], START + 100, {}).stage(info, {})
    for number, seconds in enumerate(tasks):
        until = START + 110 + int(1000 * seconds)
        computed = {"Executor CPU Time": int(0.9e9 * seconds), "Executor Run Time": 1000 * seconds}
        metrics = {**task_metrics(), **computed}
        log.task(number, launch=START + 110, finish=until, host="host-a", metrics=metrics)
    end = START + 120 + int(1000 * max(tasks))
    log.stage_end(info, end).job_end(0, end + 10).end(end + 20)
    return iqcar.diagnose(iqcar.read(log.write(path)))


def test_what_surely_saves_most_comes_first_within_its_range(crowded: Diagnosis) -> None:
    findings = find_findings(crowded)
    assert findings
    sure = [one.low_ms for one in findings if one.kind is not FindingKind.EXECUTORS]
    assert sure == sorted(sure, reverse=True)
    for one in findings:
        assert 0 <= one.low_ms <= one.saves_ms <= one.high_ms
        assert 0 < one.share <= 1
        assert one.sentence and one.action and one.queries


def test_the_answer_fits_25_lines_of_80_and_says_what_to_do_next(crowded: Diagnosis) -> None:
    shown = io.StringIO()
    named = replace(crowded, tables=replace(crowded.tables, given="spark-events/"))
    print_answer(named, terminal(shown, NARROW))
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 25
    assert max(len(line.rstrip()) for line in lines) <= NARROW
    assert lines[-1].startswith("All of it (")
    assert lines[-1].endswith("iqcar analyze spark-events/ --full")
    assert find_verdict(named).findings[0].saving in " ".join(shown.getvalue().split())


def test_the_result_has_them_in_the_form_of_its_schema(crowded: Diagnosis) -> None:
    result = json.loads(json.dumps(to_dict(crowded)))
    jsonschema.validate(result, json.loads(result_schema()))
    kinds = [one["kind"] for one in result["findings"]]
    assert kinds == [str(one.kind) for one in find_findings(crowded)]
    assert {one["query_ids"][0] for one in result["findings"]} <= {
        one["query_id"] for one in result["queries"]
    }


def test_a_query_in_the_way_is_named_with_what_it_cost(tmp_path: Path) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(contended_log().write(tmp_path / "app-1")))
    first = find_findings(diagnosis)[0]
    assert first.kind is FindingKind.CONTENTION
    assert "etl was in the way of report, which lost 9.0 s of its 10.0 s" in first.sentence


@given(tasks=st.integers(1, 6), seconds=st.floats(5.0, 60.0), more=st.integers(1, 20))
def test_idle_slots_beside_long_tasks_are_said_with_their_number(
    tmp_path_factory: pytest.TempPathFactory, tasks: int, seconds: float, more: int
) -> None:
    slots = tasks + more
    path = tmp_path_factory.mktemp("few") / "app-1"
    findings = find_findings(few_tasks(path, [seconds] * tasks, slots))
    best = seconds * 1000.0 * (1.0 - tasks / slots)
    named = [one for one in findings if one.kind is FindingKind.PARTITIONS]
    if best < 2500.0 or 1.0 - tasks / slots < 0.1:
        return
    assert named, [one.kind for one in findings]
    assert f"for {slots} slots" in named[0].sentence
    assert named[0].high_ms <= seconds * 1000.0 + 200.0
    assert named[0].low_ms <= best <= 1.05 * named[0].high_ms


def test_equal_tasks_on_all_slots_have_no_partitions_to_change(tmp_path: Path) -> None:
    findings = find_findings(few_tasks(tmp_path / "app-1", [5.0] * 4, 4))
    assert not {one.kind for one in findings} & {FindingKind.PARTITIONS, FindingKind.SKEW}


SEED = 1001
"""A seed that no range was chosen on."""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_planted_is_among_the_first_and_its_range_holds_mostly(kind: str) -> None:
    found = [check(kind, seed)[0] for seed in range(SEED, SEED + 5)]
    assert sum(0 < one.rank <= FIRST for one in found) >= 4
    assert sum(one.within for one in found) >= 3


@pytest.mark.long
@pytest.mark.parametrize("family", QUIET)
def test_where_nothing_is_short_nothing_false_is_found(family: str) -> None:
    assert not [one for one in check_quiet(family, SEED) if one.false]


@pytest.mark.parametrize("kind", ["contention, slots", "contention, disk"])
def test_without_a_replay_the_range_holds_what_taking_the_other_away_saves(kind: str) -> None:
    assert check(kind, SEED, replay=False)[0].within


def test_tasks_of_a_slow_host_are_no_skew() -> None:
    tables = recorded(plant("slow host", SEED).was, SEED)
    (host,) = set(slow_hosts(tables)["host"])
    first = find_findings(diagnose(tables))[0]
    assert (first.kind, first.where) == ("slow-host", tables.hosts["host"].iloc[host])
    assert first.where in findings_headline([first])


def test_executors_that_come_later_are_missing_until_then() -> None:
    planted = plant("start-up", SEED)
    saves, missed, slots = start_up_time(recorded(planted.was, SEED))
    names = [job.name for job in planted.was.work.jobs]
    at = names.index(TARGET)
    assert 0 < saves[at] <= missed[at]
    assert 0 < slots[at] <= planted.was.work.cluster.hosts * planted.was.work.cluster.slots
    assert not np.any(start_up_time(recorded(planted.mended, SEED))[0])


def test_a_replay_narrows_the_range_around_what_was_estimated() -> None:
    seed = SEED + 1  # in the first one a second could not be saved
    diagnosis = diagnose(recorded(plant("skew", seed).was, seed))
    (replayed, *_), (estimated, *_) = (
        find_findings(diagnosis, replay=replay) for replay in (True, False)
    )
    assert replayed.kind == estimated.kind
    assert (replayed.evidence, estimated.evidence) == ("replayed", "estimated")
    assert estimated.low_ms < replayed.saves_ms < 1.2 * estimated.high_ms


def test_too_few_tasks_that_read_nothing_are_found_though_no_replay_divides_them() -> None:
    was = plant("partitions, few", SEED).was

    def alone(job: Job) -> Job:
        plan = replace(job.steps[1].plan, parents=(), fetch=0.0)
        return replace(job, steps=(replace(job.steps[1], plan=plan),))

    work = was.work.changed(TARGET, alone)
    first = find_findings(diagnose(recorded(replace(was, work=work), SEED)))[0]
    assert first.kind == "partitions"
    assert first.question is None


@given(
    st.floats(0, 1e7), st.floats(0, 1), st.floats(0, 1)
)  # fmt: skip
def test_severity_grows_with_what_was_lost_to_others(ran: float, lost: float, part: float) -> None:
    order = [Severity.SLIGHT, Severity.MARKED, Severity.SEVERE]
    worse = severity_of(ran, ran * lost, ran * lost)
    better = severity_of(ran, ran * lost, ran * lost * part)
    if better in order:
        assert order.index(worse) >= order.index(better)


@pytest.mark.parametrize(
    ("ran", "lost", "to_others", "word"),
    [
        (10_000, 8_000, 6_000, Severity.SEVERE),
        (10_000, 8_000, 3_000, Severity.MARKED),
        (10_000, 900, 800, Severity.SLIGHT),
        (10_000, 8_000, 100, Severity.OWN),
        (10_000, 300, 200, Severity.QUIET),
        (400, 400, 400, Severity.QUIET),
        (float("nan"), 0, 0, Severity.QUIET),
    ],
)
def test_severity_weighs_the_share_of_the_run_and_leaves_out_what_nobody_notices(
    ran: float, lost: float, to_others: float, word: Severity
) -> None:
    assert severity_of(ran, lost, to_others) is word


RUN = [(0, 35_000, [(12_000, [(0, 10_000)]), (23_000, [(0, 12_000)])])]


@pytest.mark.parametrize(
    ("metrics", "phases", "said", "helps"),
    [
        (
            [("metadata time", 8_000.0), ("number of files read", 1_200.0)],
            [],
            "12.0 s before its first stage (listing 1,200 files 8.0 s, not recorded 4.0 s).",
            "fewer and larger files",
        ),
        (
            [],
            [("planning", 1_000, 11_000)],
            "12.0 s before its first stage (planning 11.0 s).",
            "Make the plan smaller",
        ),
        (
            [],
            [("analysis", -9_000, 9_000)],
            "12.0 s before its first stage. It was planned for 9.0 s more before that run.",
            "Look at what the driver does there: planning",
        ),
        ([], [], "12.0 s before its first stage.", "Look at what the driver does there: planning"),
    ],
)
def test_a_finding_says_when_and_for_what(metrics, phases, said: str, helps: str) -> None:
    found = iqcar.diagnose(queries_of(RUN, metrics, phases=phases))
    (one,) = (one for one in find_findings(found) if one.kind is FindingKind.DRIVER)
    assert one.sentence.startswith("37 % of ")
    assert f"passes in the driver: {said}" in one.sentence
    assert one.sentence.endswith("More executors do not help.")
    assert helps in one.action
    assert one.section == driver_section(found, 5).key


def test_the_section_shows_what_is_recorded_and_what_is_not() -> None:
    phases = [("planning", 1_000, 2_000), ("listeners", 35_000, 4_000)]
    found = iqcar.diagnose(queries_of(RUN, [("metadata time", 500.0)], phases=phases))
    section = driver_section(found, 5)
    ((_, spent, share, before, between, after, early, did, evidence),) = section.rows
    assert (spent, before, between, after, early) == (13_000, 12_000, 1_000, 0, 0)
    assert share == 13 / 35
    assert did == {"not recorded": 10_500, "planning": 2_000, "listing files": 500}
    assert evidence == "estimated, reported, measured"
    assert any("up to 4.0 s late" in note for note in section.notes)
    plain = driver_section(iqcar.diagnose(queries_of(RUN)), 5)
    assert plain.rows[0][6] is None
    assert not plain.notes


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
