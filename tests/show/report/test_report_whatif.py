"""What-if questions on the page: the JSON's numbers, within a bound, and names stay text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import iqcar
from iqcar import Diagnosis
from iqcar.base.units import duration
from iqcar.replay.whatif import usual_questions
from iqcar.show.html.whatif import answer_html, what_if_part
from iqcar.show.json.whatif import whatif_to_json
from tests.support.contended_log import contended_log
from tests.support.page_reader import Reader

HOSTILE = "</bdi><script>alert(1)</script>"


@pytest.fixture(scope="module")
def contended(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    path: Path = tmp_path_factory.mktemp("whatif") / "app"
    return iqcar.diagnose(iqcar.read(contended_log().write(path)))


def test_the_page_s_answers_are_those_of_the_json(contended: Diagnosis) -> None:
    section = what_if_part(contended)
    one = next(one for one in section["answers"] if one["label"] == "without etl")
    said = json.loads(whatif_to_json(contended.what_if(remove="etl")))
    row = next(row for row in section["table"].rows if row[0] == "without etl")
    best = section["answers"][section["best"]]["label"]
    assert section["first"].lower().startswith(f"{best.lower()}: ")
    total = said["total"]
    assert row[1:3] == (total["recorded_ms"], total["predicted_ms"])
    assert row[4:] == (total["change_percent"], total["slower"])
    (query,) = said["queries"]
    times = [query[f"{name}_ms"] for name in ("recorded", "predicted", "low", "high")]
    words = Reader(one["html"]).words
    assert all(duration(ms) in words for ms in times)
    before, after = query["waits"]["slots"]
    assert f"slots {duration(before)} → {duration(after)}" in words
    assert all(line in words for line in said["assumptions"])


def test_the_capacity_plan_is_drawn_from_the_answers(contended: Diagnosis) -> None:
    plan = what_if_part(contended)["plan"]
    totals = {1: None, 2: None, 3: None, 4: None, 6: None}
    for slots in totals:
        answer = contended.what_if(slots=str(slots)) if slots != 2 else contended.what_if()
        said = duration(answer.total["predicted_ms"])
        assert f"{slots} slots: {said}" in plan["picture"]
    assert plan["picture"].count("<circle") == len(totals)
    assert "recorded" in plan["picture"]


def test_every_answer_can_be_chosen_once(contended: Diagnosis) -> None:
    section = what_if_part(contended)
    steps = [step["answer"] for kind in section["kinds"] for step in kind["steps"]]
    assert sorted(at for at in steps if at is not None) == list(range(len(section["answers"])))
    sliders = {kind["key"]: kind["steps"] for kind in section["kinds"] if kind["slider"]}
    slots = [step["label"] for step in sliders["slots"]]
    assert slots == ["1 slot", "as it was", "3 slots", "4 slots", "6 slots"]


def test_the_most_asked_questions_are_answered_where_not_all_fit(
    contended: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = contended.what_if_model
    each = len(model.scenario.work.step) * len(model.members)
    monkeypatch.setattr(usual_questions, "MOST_REPLAYED", 3 * each)
    chosen, left_out = usual_questions.usual_questions(model, ["etl"])
    assert [one.label for one in chosen] == ["etl", "4 slots"]
    assert left_out > 0
    monkeypatch.setattr(usual_questions, "MOST_REPLAYED", each - 1)
    assert usual_questions.usual_questions(model, ["etl"])[0] == []


def test_a_run_that_is_too_large_is_told_whom_to_ask(
    contended: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iqcar.show.html.whatif.MOST_TASKS", 3)
    section = what_if_part(contended)
    assert section["answers"] == []
    assert "ask iqcar whatif" in section["sentence"]


def test_names_in_an_answer_stay_text(contended: Diagnosis) -> None:
    found = contended.what_if(remove="etl")
    hostile = replace(found, queries=found.queries.assign(name=HOSTILE))
    assert "<script" not in answer_html(hostile)
