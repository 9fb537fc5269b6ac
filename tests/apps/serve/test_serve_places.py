"""Places that answer slowly, never, or wrongly, beside others in the list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from iqcar.apps.serve.listing import Listing, Places
from iqcar.logs.find import http_client
from tests.support.contended_log import contended_log
from tests.support.dripping import dripping
from tests.support.hosted_apps import TWO
from tests.support.log_places import APP
from tests.support.served import served, until
from tests.support.web_server import web_server

LONG_S = 60
"""Longer than a server may take to end; a place that drips does so for ever."""


def test_a_place_that_does_not_answer_hides_no_other_and_is_named(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "logs" / "app-1")
    with (
        dripping("trailers") as (slow, _),
        web_server(TWO) as good,
        served(slow, tmp_path / "logs", good, cache=tmp_path / "cache") as server,
    ):
        until(lambda: len(server.applications()) == 4)
        answer = server.client.get("/api/applications").json()
        assert answer["unanswered"] == [slow]
        assert answer["unread"] >= 1
        page = re.sub(r"<[^>]*>", "", server.client.get("/").text)
        assert f"No answer yet from {slow}" in page
        server.process.send_signal(15)
        assert server.process.wait(LONG_S) == 0


def test_a_place_that_was_given_up_stands_in_the_order_of_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "ANSWER_S", 0.3)
    contended_log().write(tmp_path / "logs" / "app-1")
    with dripping("chunk-size") as (slow, _), web_server(TWO) as good:
        places = [good, slow, f"{good}/?color=red", str(tmp_path / "logs")]
        listing = Listing(Places(places), lambda *_: None)
        listing.scan()
    found = listing.applications()
    assert [one.path.startswith(good) for one in found] == [True] * 3 + [False, True, False]
    assert [one.log is None for one in found] == [False] * 3 + [True, True, False]
    said = {one.path: one.peek.message for one in found if one.peek and one.log is None}
    assert said[slow] == "answers too slowly: it was given up"
    assert "chooses by 'color', which nothing has; there are user" in said[places[2]]
    assert listing.unanswered == []


def test_what_a_place_had_is_listed_while_it_answers_no_more(tmp_path: Path) -> None:
    parts: list[Any] = [TWO]
    with dripping("body") as (_, drip), web_server(lambda to: parts[-1](to)) as url:
        listing = Listing(Places([url]), lambda *_: None)
        listing.scan()
        parts.append(drip)
        with pytest.MonkeyPatch.context() as quick:
            quick.setattr("iqcar.apps.serve.listing.RESCAN_S", 0.0)
            quick.setattr("iqcar.apps.serve.listing.LOOKING_SHARE", float("inf"))
            quick.setattr("iqcar.apps.serve.listing.CHECK_S", 0.0)
            listing.look_again()
            assert drip.asked.acquire(timeout=LONG_S)
            assert listing.unanswered == [url]
        assert {one.application_id for one in listing.applications()} >= {APP}
