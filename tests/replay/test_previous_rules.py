"""Rules proposed from a run under rules: the next round adds to them and never swings back."""

from __future__ import annotations

import json
from dataclasses import replace as changed
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import iqcar
from iqcar.apps.cli.main import app
from iqcar.replay.rule_effect.previous_rules import rules_that_acted
from iqcar.rules.compile_pools import RulesFile, load_rules_file
from iqcar.rules.rule import PoolPlan, opposite, scheduler_rules
from iqcar.show.json.analyze import result_schema
from tests.rules.test_rules_check import NAMES, with_plan, workload
from tests.support.naive_replay import Problem
from tests.support.replayed_log import write_log

pytestmark = pytest.mark.slow

ROUNDS = 5


def analyze(folder: Path, log: Path, number: int, previous: Path | None = None) -> RulesFile:
    """Run the command as a user would after each day; the rules file of this round."""
    out, result = folder / f"rules-{number}.json", folder / f"result-{number}.json"
    arguments = ["analyze", str(log), "--rules", str(out), "--json", str(result)]
    arguments += ["--previous", str(previous)] if previous else []
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    jsonschema.validate(json.loads(result.read_text()), json.loads(result_schema()))
    return load_rules_file(out)


def rounds(folder: Path, problem: Problem, *, damped: bool) -> list[RulesFile]:
    """Each round runs under the rules of the one before, and is analysed."""
    files: list[RulesFile] = []
    for number in range(ROUNDS):
        plan = files[-1].plan if files else None
        shares = with_plan(problem, plan) if plan is not None and plan.pools else None
        log = write_log(folder / f"log-{number}", problem, shares=shares, names=NAMES)
        previous = folder / f"rules-{number - 1}.json" if damped and number else None
        files.append(analyze(folder, log, number, previous))
    return files


def content(file: RulesFile):
    return scheduler_rules(file.rules), file.plan.pools, file.plan.assignments


@pytest.mark.long
def test_rules_are_stable_over_five_rounds(tmp_path: Path) -> None:
    first, *later = rounds(tmp_path, workload(), damped=True)
    acting = {assigned.rule_id for assigned in first.plan.assignments}
    assert len(acting) == 2
    for file in later:
        rules, pools, assignments = content(file)
        assert [rule for rule in rules if rule.id in acting] == [
            rule for rule in first.rules if rule.id in acting
        ]
        assert assignments == first.plan.assignments
        assert pools == first.plan.pools
        assert not any(opposite(one, other) for one in rules for other in rules)


@pytest.mark.long
def test_without_the_rules_before_the_second_round_would_undo_them(tmp_path: Path) -> None:
    """What --previous is for: the same rounds swing without it."""
    first, second, *_ = rounds(tmp_path, workload(), damped=False)
    assert content(second) != content(first)
    result = json.loads((tmp_path / "result-1.json").read_text())
    assert [doubt for doubt in result["doubts"] if "give their file with --previous" in doubt]
    assert not any(
        "--previous" in d for d in json.loads((tmp_path / "result-0.json").read_text())["doubts"]
    )


def test_each_rule_of_before_is_accounted_for(tmp_path: Path) -> None:
    rounds(tmp_path, workload(), damped=True)
    result = json.loads((tmp_path / "result-1.json").read_text())
    first = load_rules_file(tmp_path / "rules-0.json")
    for assigned in first.plan.assignments:
        (note,) = [one for one in result["earlier_round"] if one.startswith(f"{assigned.rule_id} ")]
        assert "stays as it was: it is still needed" in note
    assert set(result["earlier_round"]) <= set(
        load_rules_file(tmp_path / "rules-1.json").plan.notes
    )


@pytest.fixture
def first(tmp_path: Path) -> RulesFile:
    log = write_log(tmp_path / "log-0", workload(), names=NAMES)
    return analyze(tmp_path, log, 0)


def notes(folder: Path, problem: Problem, plan: PoolPlan | None) -> tuple[RulesFile, str]:
    shares = with_plan(problem, plan) if plan is not None else None
    log = write_log(folder / "log-1", problem, shares=shares, names=NAMES)
    file = analyze(folder, log, 1, folder / "rules-0.json")
    return file, " ".join(json.loads((folder / "result-1.json").read_text())["earlier_round"])


def test_a_rule_that_nothing_needs_any_more_is_dropped_and_named(
    tmp_path: Path, first: RulesFile
) -> None:
    apart = workload()
    report = changed(apart.queries[1], start=200_000.0)
    apart = changed(apart, queries=(apart.queries[0], report, apart.queries[2]))
    file, said = notes(tmp_path, apart, first.plan)
    assert scheduler_rules(file.rules) == []
    assert said.count("is dropped: nothing needs it any more") == len(first.plan.assignments)


def test_a_rule_whose_query_did_not_run_stays(tmp_path: Path, first: RulesFile) -> None:
    alone = workload()
    alone = changed(alone, queries=(alone.queries[1],))
    log = write_log(tmp_path / "log-1", alone, names=("report",))
    file = analyze(tmp_path, log, 1, tmp_path / "rules-0.json")
    source = next(rule for rule in file.rules if rule.query_name == "etl")
    assert source in first.rules
    said = json.loads((tmp_path / "result-1.json").read_text())["earlier_round"]
    assert any("this run cannot tell: what it holds back did not run" in note for note in said)


def test_rules_that_did_not_act_are_proposed_anew(tmp_path: Path, first: RulesFile) -> None:
    file, said = notes(tmp_path, workload(), None)
    assert "is dropped: it did not act, its query ran in no pool, under FIFO" in said
    assert content(file)[1:] == content(first)[1:]


def test_a_run_under_rules_is_known_by_the_pools_that_its_tasks_ran_in(
    tmp_path: Path, first: RulesFile
) -> None:
    plain = iqcar.read(write_log(tmp_path / "plain", workload(), names=NAMES))
    assert rules_that_acted(plain) == ()
    shares = with_plan(workload(), first.plan)
    ruled = iqcar.read(write_log(tmp_path / "ruled", workload(), shares=shares, names=NAMES))
    assert rules_that_acted(ruled) == ("iqcar-etl", "iqcar-report")


def test_a_file_of_rules_that_is_none_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", workload(), names=NAMES)
    done = CliRunner().invoke(app, ["analyze", str(log), "--previous", str(log)])
    assert isinstance(done.exception, iqcar.errors.IqcarError)
