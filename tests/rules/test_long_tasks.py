"""Where long tasks hold the slots, rules, page and text say whose tasks should be split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.propose_rules import LONG_MS, held_by_long_tasks, split_tasks
from iqcar.say import find_verdict
from iqcar.show.html.page import rules_part
from iqcar.show.terminal.analyze import print_diagnosis
from iqcar.show.terminal.rules import print_plan
from tests.replay.test_rejected_rules import query
from tests.support.naive_replay import ExecutorPlan, Problem, simulate, tables_of
from tests.support.replayed_log import write_log

SAYS = "Split the tasks of etl into shorter ones: FAIR never takes a slot away from a running task."


def held(*queries) -> bool:
    """Whether the second query waited for running tasks of the first, on four slots."""
    problem = Problem(queries, (ExecutorPlan(0.0, 4),))
    tables = tables_of(problem, simulate(problem))
    rows = np.arange(len(tables.queries))
    return held_by_long_tasks(tables, rows == 0, rows == 1)


def diagnosis_of(folder: Path, hog_tasks: int, task_ms: float) -> Diagnosis:
    problem = Problem((query(1.0, hog_tasks, task_ms), query(100.0, 4)), (ExecutorPlan(0.0, 4),))
    return iqcar.diagnose(iqcar.read(write_log(folder / "app", problem, names=("etl", "report"))))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return diagnosis_of(tmp_path_factory.mktemp("long"), 4, 20_000.0)


def test_a_wait_until_running_tasks_end_is_for_long_tasks() -> None:
    assert held(query(1.0, 4, 20_000.0), query(100.0, 4))


def test_a_wait_behind_many_short_tasks_is_not() -> None:
    assert not held(query(1.0, 60), query(100.0, 4))


def test_tasks_that_end_soon_are_not_long() -> None:
    assert not held(query(1.0, 4, 100.0 + LONG_MS / 2), query(100.0, 4))


def test_the_own_waves_of_the_query_that_waits_do_not_count() -> None:
    assert held(query(1.0, 4, 20_000.0), query(100.0, 400))


def test_tasks_that_start_later_held_nothing() -> None:
    assert not held(query(5000.0, 4, 20_000.0), query(100.0, 4))


def test_rules_text_and_page_say_the_same_sentence_once(long: Diagnosis, capsys) -> None:
    assert split_tasks("etl") == SAYS
    assert {rule.advice for rule in long.rules} == {SAYS}
    print_diagnosis(long)
    assert (
        " ".join(capsys.readouterr().out.split()).count("Split the tasks of etl") == 2
    )  # what to do, and the rule
    assert [line.besides for line in rules_part(long)["rules"]] == [SAYS, "", "", ""]
    (report,) = (one for one in find_verdict(long).targets if one.name == "report")
    assert report.advice.startswith(SAYS)


def test_the_compiled_rules_say_it_in_their_notes(long: Diagnosis, capsys) -> None:
    plan = compile_rules(long.rules, 4, 2)
    assert plan.notes.count(SAYS) == 1
    print_plan(plan)
    assert SAYS in " ".join(capsys.readouterr().out.split())


def test_where_tasks_are_short_nobody_is_told_to_split_them(tmp_path: Path) -> None:
    diagnosis = diagnosis_of(tmp_path, 60, 1000.0)
    assert diagnosis.rules and {rule.advice for rule in diagnosis.rules} == {""}
    assert not any("Split" in one.advice for one in find_verdict(diagnosis).targets)
