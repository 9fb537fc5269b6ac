"""`iqcar serve` answers what-if questions as `iqcar whatif` does, from a model that is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import iqcar
from iqcar.show.json.whatif import whatif_to_json
from tests.support.contended_log import contended_log
from tests.support.served import Served, served, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("logs")
    contended_log().write(root / "app-1")
    with served(root, cache=tmp_path_factory.mktemp("cache")) as server:
        server.read()
        yield server


def asked(server: Served, **changes: Any) -> httpx.Response:
    wish = {"applications": [server.key("contended")], **changes}

    def answer() -> httpx.Response | None:
        found = server.client.post("/api/whatif", json=wish)
        return None if found.status_code == 202 else found

    return until(answer)


def test_an_answer_is_what_iqcar_whatif_writes(server: Served, tmp_path: Path) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(contended_log().write(tmp_path / "app-1")))
    for changes in (
        {"remove": ["etl"]},
        {"start": ["report=+10s"], "slots": "+2", "no_gc": True},
        {"slots": ["contended=+2"], "mode": "FAIR", "pool_weight": ["default=3"]},
    ):
        found = asked(server, **changes)
        assert found.status_code == 200, found.text
        expected = json.loads(whatif_to_json(diagnosis.what_if(**changes)))
        assert found.json() == expected


def test_a_plan_and_blame_by_removal_are_what_iqcar_whatif_writes(
    server: Served, tmp_path: Path
) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(contended_log().write(tmp_path / "app-1")))
    planned = asked(server, plan="slots=1..4", price="0.5/h").json()
    expected = diagnosis.plan(slots=[1, 2, 3, 4], price=0.5)
    assert planned == json.loads(whatif_to_json(None, expected))
    blamed = asked(server, blame="report", slots="3").json()
    assert blamed == json.loads(
        whatif_to_json(diagnosis.what_if(slots="3"), None, diagnosis.blame_by_removal("report"))
    )


def test_one_process_answers_all_questions_about_a_log(server: Served) -> None:
    asked(server, remove=["etl"])
    (process,) = server.workers("question_process")
    asked(server, slots="+1")
    assert server.workers("question_process") == [process]


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({}, "nothing to change"),
        ({"remove": ["nobody"]}, "--remove: no query is called 'nobody'"),
        ({"disk": "-3"}, "--disk: is no factor or number above 0: '-3'; give 2x or 0.5"),
        ({"slots": "8", "executors": "2"}, "both set the number of slots"),
        ({"bad": 1}, "unknown field `bad`"),
        ({"slots": ["other=+8"]}, "--slots: no application is called 'other'"),
        ({"pool_weight": ["etl=3"]}, "--pool-weight: no pool is called 'etl'"),
        ({"plan": "slots=4..2"}, "--plan: is no range upwards from 1"),
        ({"price": "0.4/h"}, "--price: is the price in a plan"),
        ({"plan": "slots=1..4", "remove": ["etl"]}, "--plan: a plan is asked alone"),
        ({"blame": "nobody"}, "--blame: no query is called 'nobody'"),
    ],
)
def test_bad_values_are_refused_as_the_command_refuses_them(
    server: Served, changes: dict[str, Any], detail: str
) -> None:
    found = asked(server, **changes)
    assert found.status_code == 400
    assert detail in found.json()["detail"]


def test_a_log_that_is_not_there_is_not_found(server: Served) -> None:
    wish = {"applications": ["0" * 24], "remove": ["etl"]}
    assert server.client.post("/api/whatif", json=wish).status_code == 404


def test_a_form_leads_to_an_address_that_shows_the_answer(server: Served) -> None:
    key = server.key("contended")
    form = {"app": key, "remove": "", "query": "report", "query_start": "+10s", "slots": ""}
    sent = server.client.post("/whatif", data=form)
    assert sent.status_code == 303
    address = sent.headers["location"]
    assert address == f"/whatif?app={key}&start=report%3D%2B10s"
    page = until(lambda: _answered(server.client.get(address)))
    assert "report 10 s later" in page
    for wrong, said in (
        ({"disk": "abc"}, "Disks: is no factor"),
        ({"query_cap": "8"}, "name the query"),
        ({"pool_weight": "etl=0"}, "Weight of a pool etl: is no number"),
        ({"slots": ["+1", "x=+2"]}, "both set the number of slots"),
        ({}, "nothing to change"),
    ):
        refused = server.client.post("/whatif", data={"app": key, **wrong})
        assert refused.status_code == 400
        assert said in refused.text


def test_a_form_asks_for_a_plan_and_for_blame_by_removal(server: Served) -> None:
    key = server.key("contended")
    for form, said in (
        ({"plan": "slots=1..4", "price": "0.5/h"}, ("Each number of slots", "as recorded", "cost")),
        ({"blame": "report"}, ("they cost +", "Shapley", "etl")),
    ):
        address = server.client.post("/whatif", data={"app": key, **form}).headers["location"]
        page = until(lambda: _answered(server.client.get(address)))  # noqa: B023 (called at once)
        answer = page.partition('aria-label="Answer"')[2]
        assert all(word in answer for word in said), answer


def test_a_form_keeps_every_change_of_its_question(server: Served) -> None:
    key = server.key("contended")
    form = {
        "app": key, "query": "report", "query_start": "+10s", "query_no_skew": "true",
        "start": "etl=+5s", "scale": ["etl=2x", ""], "starts": "recorded",
        "slots": ["", "contended=+2"], "mode": ["", "contended=FAIR"],
        "pool_weight": "default=3", "pool_min_share": ["default=1"],
    }  # fmt: skip
    address = server.client.post("/whatif", data=form).headers["location"]
    page = until(lambda: _answered(server.client.get(address)))
    answer = page.partition('aria-label="Answer"')[2]
    assert "starts as recorded" in answer and "etl 5 s later" in answer
    page = page.partition('class="whatif"')[2]
    again = re.findall(
        r'<input(?![^>]*type="checkbox")[^>]* name="(\w+)"[^>]* value="([^"]+)"', page
    )
    checked = re.findall(r'name="(\w+)" value="(\w+)" checked', page)
    chosen = re.findall(
        r'name="(\w+)">(?:<option[^>]*>[^<]*</option>)*<option value="(\w+)" selected', page
    )
    sent: dict[str, list[str]] = {}
    for name, value in [*again, *checked, *chosen]:
        sent.setdefault(name, []).append(value)
    assert server.client.post("/whatif", data=sent).headers["location"] == address


def _answered(page: httpx.Response) -> str | None:
    assert page.status_code == 200, page.text
    return page.text if 'aria-label="Answer"' in page.text else None


def test_the_process_ends_with_the_server(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "logs" / "app-1")
    with served(tmp_path / "logs", cache=tmp_path / "cache") as server:
        asked(server, remove=["etl"])
        (process,) = server.workers("question_process")
        server.stop()
        until(lambda: not Path(f"/proc/{process}").exists() or None)
