"""The page of a store in a browser: rankings, who lost to whom, and the runs of one query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iqcar.history import add
from tests.support.browsing import Watched, needs_chromium
from tests.support.nightly_logs import nightly_log, nightly_logs, slow_node_log
from tests.support.served import Served, served

pytestmark = needs_chromium
HOSTILE = '<script>window.hit = 1</script>"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("history")
    logs = nightly_logs(folder / "logs", 26)
    text = nightly_log(30).bytes().replace(b'"etl"', b'"<script>window.hit = 1</script>\\""')
    (logs / "app-0030").write_bytes(text.replace(b"app-0026", b"app-0030"))
    slow_node_log("app-0040").write(logs / "app-0040")
    store = str(folder / "store")
    add(store, [logs], processes=1)
    with served(logs, cache=folder / "cache", options=("--store", store)) as running:
        yield running


@pytest.mark.long
def test_the_store_is_shown_and_a_query_of_it(server: Served, browser) -> None:
    watched = Watched(browser.new_context().new_page())
    page = watched.page
    page.goto(server.base)
    page.get_by_role("link", name="History").click()
    page.get_by_label("Who, by").wait_for()
    text = page.locator("main").inner_text()
    assert "Who lost to whom" in text
    assert "it loses 20" in text and "most to etl, waiting for slots" in text
    assert HOSTILE in text
    assert page.evaluate("window.hit") is None
    causes = page.locator("table", has_text="Cause of stragglers")
    assert causes.locator("tbody tr").count() >= 1
    assert 'its stage "map" takes' in text
    assert page.locator("svg.drawing rect").count() >= 1
    watched.screenshot("history")
    page.get_by_label("Who, by").fill("pool")
    page.get_by_role("button", name="Show").click()
    page.locator("td", has_text="bi").first.wait_for()
    page.get_by_role("link", name="report", exact=True).first.click()
    page.get_by_role("heading", name="report").wait_for()
    assert page.locator("svg.drawing rect").count() >= 26
    assert "2026-01-21" in (page.locator("svg.drawing").text_content() or "")
    watched.screenshot("history-query")
    assert watched.errors == []


@pytest.mark.long
def test_the_api_answers_as_the_command_does(server: Served) -> None:
    who = server.client.get("/api/history/who", params={"by": "pool"}).json()
    assert {one["victim"] for one in who["losses"]} == {"bi"}
    assert server.client.get("/api/history/trend", params={"query": "report"}).json()["runs"]
    for question, more, status in (
        ("nope", {}, 404),
        ("who", {"by": "colour"}, 400),
        ("top", {"since": "yesterday"}, 400),
        ("trend", {"query": "nobody"}, 400),
    ):
        answer = server.client.get(f"/api/history/{question}", params=more)
        assert answer.status_code == status, answer.text
    assert server.client.get("/history", params={"query": "nobody"}).status_code == 400


def test_without_a_store_there_is_no_history(tmp_path: Path) -> None:
    nightly_logs(tmp_path / "logs", 1)
    with served(tmp_path / "logs", cache=tmp_path / "cache") as running:
        assert "History" not in running.client.get("/").text
        assert running.client.get("/history").status_code == 404
        assert running.client.get("/api/history/top").status_code == 404
