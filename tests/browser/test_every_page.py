"""Every kind of page: axe-core finds nothing, and a phone needs not be scrolled sideways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.history import add
from iqcar.show.html.compare import render_comparison
from tests.support.browsing import (
    OF_THE_LOOK,
    needs_chromium,
    texts_in_the_way,
    violations,
    wider_than_the_screen,
)
from tests.support.nightly_logs import nightly_logs
from tests.support.served import WAIT_S, Served, served
from tests.support.shown_page import show

pytestmark = needs_chromium

PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SERVED = {
    "list": "/?size=500",
    "not-analysed": "/applications/{c}",
    "report": "/applications/{a}",
    "together": "/together?app={a}&app={b}",
    "choose": "/compare?app={a}&app={b}",
    "compared": "/compared?before={a}&after={b}",
    "what-if": "/whatif?app={a}",
    "what-if-answer": "/whatif?app={a}&words=--remove+etl+--slots+%2B2",
    "what-if-plan": "/whatif?app={a}&words=--plan+slots%3D1..4",
    "what-if-blame": "/whatif?app={a}&words=--blame+report",
    "history": "/history",
    "live": "/live/{c}",
    "api": "/api",
    "not-found": "/nothing",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("every")
    logs = nightly_logs(folder / "logs", 3)
    add(str(folder / "store"), [logs], processes=1)
    options = ("--store", str(folder / "store"))
    with served(logs, cache=folder / "cache", options=options) as running:
        yield running


@pytest.fixture(scope="module")
def keys(server: Served) -> dict[str, str]:
    """Two applications that are analysed, alone and together, and compared; and one that is not."""
    found = [one["key"] for one in server.read()]
    for chosen in (found[:1], found[1:2], found[:2]):
        assert server.analyse(*chosen)["state"] == "done"
    before, after = found[:2]
    server.client.post("/api/comparisons", json={"before": [before], "after": [after]})
    return dict(zip("abc", found, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("kind", SERVED)
def test_every_served_page_is_for_everybody(
    browser, server: Served, keys: dict[str, str], kind: str
) -> None:
    page = browser.new_context(viewport=PHONE, base_url=server.base).new_page()
    page.goto(SERVED[kind].format(**keys))
    if kind == "compared":
        page.locator("#changes-title").wait_for(timeout=WAIT_S * 1000)
    if kind.startswith("what-if-"):
        page.get_by_role("button", name="Ask").click()
        page.get_by_role("region", name="Answer").wait_for(timeout=WAIT_S * 1000)
    check(page, kind)


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_every_written_page_is_for_everybody(
    browser, file: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "comparison":
        logs = sorted(map(str, nightly_logs(tmp_path / "logs", 2).iterdir()))
        file = tmp_path / "compared.html"
        file.write_text(render_comparison(iqcar.compare(logs[:1], logs[1:])), "utf-8")
    check(show(browser, file, viewport=PHONE).page, f"written-{kind}")


def check(page: Any, kind: str) -> None:
    """Look at it on a phone and on a laptop, with all that is folded."""
    unfold = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    page.evaluate(unfold)
    page.wait_for_timeout(300)
    assert wider_than_the_screen(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert texts_in_the_way(page) == []
    for size, scheme, rules in ((PHONE, "dark", OF_THE_LOOK), (LAPTOP, "light", ())):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)
        assert violations(page, rules=rules) == [], kind
    assert texts_in_the_way(page) == []
    tables = "[...document.querySelectorAll('.table')]"
    cut = f"{tables}.filter((one) => one.scrollWidth > one.clientWidth + 1)"
    assert kind != "written-report" or page.evaluate(f"{cut}.map((one) => one.ariaLabel)") == []
