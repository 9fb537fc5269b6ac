"""`iqcar serve` answers what-if questions as `iqcar whatif` does, from a model that is kept."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

import iqcar
from iqcar.apps.serve.worker import Task
from iqcar.diagnosis import Settings
from iqcar.logs.find.locate import EventLog, locate
from iqcar.show.json.whatif import whatif_to_json
from tests.support.contended_log import contended_log
from tests.support.long_chain import long_chain
from tests.support.served import Served, large_log, served, until


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
    asked(server, cap=["etl=1"])
    (process,) = server.workers("question")
    asked(server, slots="+1")
    assert server.workers("question") == [process]


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


def test_words_of_the_command_lead_to_an_address_that_shows_the_answer(server: Served) -> None:
    key = server.key("contended")
    for words, said in (
        ("--start report=+10s", ("report 10 s later",)),
        ("--remove 'etl' --slots=+2 --no-gc", ("without etl", "2 slots more", "no garbage")),
        ("--plan slots=1..4 --price 0.5/h", ("Each number of slots", "as recorded", "cost")),
        ("--blame report", ("they cost +", "Shapley", "etl")),
    ):
        sent = server.client.post("/whatif", data={"app": key, "words": words})
        assert sent.status_code == 303, sent.text
        address = sent.headers["location"]
        assert address == "/whatif?" + urlencode({"app": key, "words": words})
        page = until(lambda: _answered(server.client.get(address)))  # noqa: B023 (called at once)
        answer = page.partition('aria-label="Answer"')[2]
        assert all(word in answer for word in said), answer
        assert f'value="{words}"' in html.unescape(page)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--disk abc", "--disk: is no factor"),
        ("--slots", "--slots: has no value; give --slots +8|24"),
        ("spark-events/ --disk 2x", "spark-events/: is no change"),
        ("--curves file", "--curves: is no change"),
        ("--no_gc", "--no_gc: is no change"),
        ("--remove 'etl", "is not closed"),
        ("--pool-weight etl=0", "--pool-weight etl: is no number"),
        ("--remove <b>", "no query is called"),
        ("", "nothing to change"),
    ],
)
def test_wrong_words_are_refused_as_the_command_refuses_them(
    server: Served, words: str, said: str
) -> None:
    form = {"app": server.key("contended"), "words": words}
    sent = server.client.post("/whatif", data=form)
    if sent.status_code == 303:  # only the model knows the queries
        address = sent.headers["location"]
        sent = until(lambda: _refused(server.client.get(address)))
    assert sent.status_code == 400
    assert said in html.unescape(sent.text)
    assert "<b>" not in sent.text


def _answered(page: httpx.Response) -> str | None:
    assert page.status_code == 200, page.text
    return page.text if 'aria-label="Answer"' in page.text else None


def _refused(page: httpx.Response) -> httpx.Response | None:
    return page if page.status_code == 400 else None


def test_a_question_is_stopped_and_its_process_ends_with_the_server(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    large_log(tmp_path / "logs" / "app-1")
    with served(tmp_path / "logs", cache=tmp_path / "cache") as server:
        form = {"app": server.key("contended"), "words": "--slots +1"}
        address = server.client.post("/whatif", data=form).headers["location"]
        (process,) = until(lambda: server.workers("question"))
        assert server.client.post("/whatif/stop", data=form).headers["location"] == address
        until(lambda: "The question was stopped" in server.client.get(address).text)
        until(lambda: not Path(f"/proc/{process}").exists() or None)
        server.client.post("/whatif", data=form)
        (process,) = until(lambda: server.workers("question"))
        server.stop()
        until(lambda: not Path(f"/proc/{process}").exists() or None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_question_that_takes_too_much_memory_is_refused_and_the_next_one_answered(
    tmp_path: Path,
) -> None:
    (log,) = locate([long_chain(400).write(tmp_path / "app-1")])
    assert isinstance(log, EventLog)
    program = "from iqcar.apps.serve import worker\nworker.ANSWER_BYTES = 64 << 20\nworker.main()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        ends: list[dict[str, Any]] = []
        for changes in ({"slots": "+1"}, {"partitions": ["q=2500"]}, {"slots": "+2"}):
            folder = tmp_path / f"answer-{len(ends)}"
            folder.mkdir()
            task = Task(
                logs=(log,), settings=asdict(Settings()), folder=str(folder), changes=changes
            )
            process.stdin.write(task.to_line())
            process.stdin.flush()
            news: dict[str, Any] = {}
            while not news.keys() & {"done", "failed"}:
                news = json.loads(process.stdout.readline())
            ends.append(news)
        assert ends[0] == ends[2] == {"done": True}
        assert "takes more than 67.1 MB of memory" in ends[1]["failed"]
        process.stdin.close()
