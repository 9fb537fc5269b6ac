"""Rules that are predicted to harm: not written, not compiled, not recommended unless asked for."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import iqcar
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Request
from iqcar.replay.rule_effect.effect import Prediction, predict
from iqcar.rules.compile_pools import compile_rules, dump_compiled, parse_rules_file
from iqcar.rules.propose_rules import propose
from iqcar.show.html import render_page
from iqcar.show.html.page import rules_part
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.pictures.notebook import notebook_html
from iqcar.show.terminal.analyze import print_diagnosis
from tests.support.command import iqcar as command
from tests.support.naive_replay import (
    ExecutorPlan,
    JobPlan,
    Problem,
    QueryPlan,
    StagePlan,
    simulate,
    tables_of,
)
from tests.support.random_blame import blame_of_rows
from tests.support.replayed_log import write_log

IDS = ["AGG-1", "DYNP-1", "DYNP-2"]


def query(start: float, tasks: int, task_ms: float = 1000.0) -> QueryPlan:
    return QueryPlan(start, (JobPlan(1.0, (StagePlan(((task_ms,),) * tasks),)),))


LITTLE_LEFT = Problem((query(1.0, 20), query(100.0, 200)), (ExecutorPlan(0.0, 4),))
"""`etl` holds four slots for 5 s; `report` waits that long and runs for 50 s. A share of the slots
for `etl` helps `report` by nothing: it takes as long as all of the work."""

TOGETHER = Problem(
    (
        *(query(3000.0, 2), query(100.0, 20, 200.0), query(1000.0, 8, 500.0)),
        *(query(1.0, 12, 500.0), query(1.0, 60, 200.0)),
    ),
    (ExecutorPlan(0.5, 4),),
)
"""Priority for the second or for the third query helps; for both it doubles the fourth's time."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("harm") / "app-1"
    return write_log(path, LITTLE_LEFT, names=("etl", "report"))


@pytest.fixture(scope="module")
def rejecting(log: Path) -> Diagnosis:
    return iqcar.diagnose(iqcar.read(log))


@pytest.fixture(scope="module")
def asked(log: Path) -> Diagnosis:
    return iqcar.diagnose(iqcar.read(log), all_rules=True)


def predicted(problem: Problem, victims: tuple[int, ...], **options: bool) -> Prediction:
    """Predict rules where some queries lost most of their time to the first."""
    tables = tables_of(problem, simulate(problem))
    duration = tables.queries["duration_ms"].tolist()
    lost = [0.8 * duration[q] if q in victims else 0.0 for q in range(len(duration))]
    demands = [(q, Request.SLOT_WAIT, 0, lost[q], [(0, lost[q])]) for q in victims]
    graph = build_graph(tables, blame_of_rows(tables, demands, lost))
    return predict(tables, graph, propose(tables, graph), **options)


def test_a_rule_that_is_predicted_to_harm_is_no_rule(rejecting: Diagnosis) -> None:
    assert rejecting.rules == () and rejecting.rules_together is None
    assert [one.rule.id for one in rejecting.rejected_rules] == IDS
    for one in rejecting.rejected_rules:
        assert one.rule.harms
        assert one.why == one.rule.expected["sentence"]
        assert one.why.startswith("more harm than good")
    assert rejecting.rejected_rules[1].rule.expected["slowest"]["change_percent"] > 100


def test_a_rejected_rule_is_neither_written_nor_compiled(rejecting: Diagnosis) -> None:
    file = parse_rules_file(dump_compiled(rejecting.tables, rejecting.rules))
    assert file.rules == () and file.plan.pools == () and file.plan.assignments == ()


def test_what_is_rejected_and_why_is_said_in_one_line_each(rejecting, capsys) -> None:
    print_diagnosis(rejecting)
    shown = capsys.readouterr().out
    first, *_ = shown.splitlines()
    assert first.startswith("Do not apply scheduler rules: all that were found (AGG-1, DYNP-1,")
    words = " ".join(shown.split())
    assert "AGG-1 (etl) is rejected. Expected: more harm than good, its victim 54.9 s →" in words
    section = rules_part(rejecting)
    assert section["sentence"] == first.strip()
    assert len(section["rejected"]) == 3 and section["rules"] == []
    assert "Do not apply scheduler rules" in notebook_html(rejecting)
    page = render_page(rejecting)
    assert page.count("Do not apply scheduler rules") == 2, "first of all, and above the rules"
    assert "DYNP-1 (etl) is rejected. Expected: more harm than good" in page
    assert "rules.json" not in page.partition('id="rules"')[2].partition("</section>")[0]


def test_rejected_rules_are_in_the_result(rejecting: Diagnosis) -> None:
    result = json.loads(to_json(rejecting))
    jsonschema.validate(result, json.loads(result_schema()))
    assert result["rules"] == []
    assert [one["id"] for one in result["rejected_rules"]] == IDS
    assert all(one["rejected"].startswith("more harm") for one in result["rejected_rules"])
    assert result["do_not_apply"].startswith("Do not apply")


def test_all_rules_are_kept_when_asked_for_and_the_first_line_warns(asked, capsys) -> None:
    assert [rule.id for rule in asked.rules] == IDS
    assert asked.rejected_rules == () and asked.rules_together.harms
    print_diagnosis(asked)
    assert capsys.readouterr().out.startswith("Do not apply these scheduler rules: more harm than")
    plan = parse_rules_file(dump_compiled(asked.tables, asked.rules)).plan
    assert [one.rule_id for one in plan.assignments] == ["AGG-1", "DYNP-2"]
    assert plan.notes[0].startswith("Do not apply AGG-1 (etl). Expected: more harm than good")


def test_rules_of_a_file_that_harm_make_no_pool_unless_asked_for(asked: Diagnosis) -> None:
    plan = compile_rules(asked.rules, 4, 2)
    assert plan.pools == () and plan.assignments == ()
    assert plan.notes[0].startswith("AGG-1 (etl) is rejected. Expected: more harm than good")
    assert compile_rules(asked.rules, 4, 2, all_rules=True).assignments


@pytest.mark.long
def test_the_commands_take_all_rules(log: Path, tmp_path: Path) -> None:
    few, every, page = (tmp_path / name for name in ("few.json", "every.json", "page.html"))
    done = command("analyze", log, "--rules", few)
    assert done.returncode == 0 and done.stdout.startswith("Do not apply")
    assert json.loads(few.read_text())["rules"] == []
    assert command("analyze", log, "--rules", every, "--all-rules").returncode == 0
    assert len(json.loads(every.read_text())["rules"]) == 3
    done = command("rules", "compile", every)
    assert "nothing to apply" in done.stdout and "is rejected" in done.stdout
    assert "<pool" not in (tmp_path / "every-pools" / "fairscheduler.xml").read_text()
    done = command("rules", "compile", every, "--all-rules", "--force")
    assert done.stdout.startswith("Do not apply these pools: AGG-1, DYNP-1, DYNP-2 are expected")
    assert "<pool" in (tmp_path / "every-pools" / "fairscheduler.xml").read_text()
    assert command("report", log, "--out", page, "--all-rules").returncode == 0
    assert "rule-AGG-1" in page.read_text()


def test_rules_that_harm_only_together_are_not_proposed_together() -> None:
    prediction = predicted(TOGETHER, (1, 2, 3))
    rejected = {one.rule.id: one.why for one in prediction.rejected}
    kept = [rule.id for rule in prediction.rules]
    late = [why for why in rejected.values() if why.startswith("together with")]
    assert kept and late and not prediction.together.harms
    assert f"together with {', '.join(kept)} more harm than good" in late[0]
    everything = predicted(TOGETHER, (1, 2, 3), all_rules=True)
    assert len(everything.rules) == len(kept) + len(rejected) and everything.together.harms


def test_rules_that_help_are_not_rejected() -> None:
    prediction = predicted(
        Problem((query(1.0, 60), query(100.0, 4)), (ExecutorPlan(0.5, 4),)), (1,)
    )
    assert [rule.id for rule in prediction.rules] == IDS and prediction.rejected == ()
