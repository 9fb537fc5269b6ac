"""The pages of `iqcar serve` in a real browser: list, search, sort, analyse, read, go back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iqcar_lab.clusters.event_log import SyntheticLog
from tests.conftest import shared_logs_folder
from tests.support.browsing import SCREENSHOTS, Watched, needs_chromium, serious
from tests.support.contended_log import contended_log
from tests.support.served import WAIT_S, Served, served
from tests.support.small_log import small_log

pytestmark = needs_chromium

HOSTILE = '<b>bold</b> "quoted" \u202egnirts &amp; {{ 7*7 }}'
LAPTOP = {"width": 1280, "height": 800}
TOKEN = "a-token-of-our-own_123"  # noqa: S105


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Applications of a cluster; two shared a host."""
    folder = tmp_path_factory.mktemp("logs")
    start = 1_700_000_000_000.0
    contended_log("app-20240101000000-0001", start).write(folder / "app-20240101000000-0001")
    beside = contended_log("app-20240101000000-0002", start + 5000)
    beside.lines = [line.replace(b'"contended"', b'"etl of the night"') for line in beside.lines]
    beside.write(folder / "app-20240101000000-0002")
    small_log().write(folder / "application_1700000000000_0001.inprogress")
    (folder / "local-1700000000001").write_bytes(b"rubbish\n" * 20)
    SyntheticLog("app-9").app(HOSTILE, start + 90_000).end(start + 95_000).write(folder / "app-9")
    for number in range(60):
        log = SyntheticLog(f"app-{number:04}").app(f"filler {number}", start + 1e6 * number)
        log.end(start + 1e6 * number + 500).write(folder / f"app-20230101000000-{number:04}")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(folder, cache=tmp_path_factory.mktemp("cache")) as server:
        server.read()
        yield server


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


@contextmanager
def page_of(browser, server: Served, **options: object) -> Iterator[Watched]:
    """A page on which nothing may go wrong, and which may ask nobody but the server."""
    context = browser.new_context(viewport=LAPTOP, base_url=server.base, **options)
    watched = Watched(context.new_page())
    try:
        yield watched
        assert watched.errors == [], server.said[-40:]
        foreign = [
            url for url in watched.requests if not url.startswith((server.base, "data:", "blob:"))
        ]
        assert foreign == []
    finally:
        context.close()


def names(watched: Watched) -> list[str]:
    return watched.page.locator("td.name a").all_inner_texts()


def test_from_the_list_to_a_report_and_back(browser, server: Served) -> None:
    with page_of(browser, server) as watched:
        page = watched.page
        page.goto("/")
        assert "65 applications" in page.locator(".count").inner_text()
        page.get_by_role("link", name="Next").click()
        page.wait_for_url("**page=2**")
        assert len(names(watched)) == 15
        page.get_by_label("Search").fill("contended")
        expect(page.locator("td.name")).to_have_count(1)
        assert names(watched) == ["contended"]
        assert "q=contended" in page.url
        page.get_by_label("Search").fill("app-20240101")
        expect(page.locator("td.name")).to_have_count(2)
        page.get_by_role("link", name="Application", exact=True).click()
        page.wait_for_url("**sort=name**")
        assert names(watched) == ["contended", "etl of the night"]
        assert page.locator("th.name").get_attribute("aria-sort") == "ascending"
        page.get_by_role("link", name="Application", exact=True).click()
        page.wait_for_url(re.compile("sort=name$"))
        assert names(watched) == ["etl of the night", "contended"]
        page.get_by_role("link", name="contended").click()
        # Who comes from the list wants the report: the analysis begins by itself.
        page.get_by_role("progressbar").wait_for()
        watched.screenshot("serve-progress")
        page.get_by_role("heading", name="What to do").wait_for(timeout=WAIT_S * 1000)
        bar = page.locator(".served")
        bar.wait_for()
        assert page.locator("h1").inner_text() == "contended"
        assert "report" in page.locator("#verdict").inner_text()
        # Pictures need Plotly's program, which the server keeps once for all reports.
        for section in ("matrix", "explore"):
            page.locator(f"#{section}").scroll_into_view_if_needed()
            page.locator(f"#{section} .js-plotly-plot svg").first.wait_for()
        watched.screenshot("serve-report")
        assert serious(watched.page) == []
        bar.get_by_role("link", name="All applications").click()
        # The list is as it was left: searched and sorted.
        page.wait_for_url(re.compile(r"/\?.*sort=name"))
        assert page.get_by_label("Search").input_value() == "app-20240101"
        page.get_by_label("Search").fill("report")
        expect(page.locator("td.name")).to_have_count(1)
        row = page.locator("tbody tr")
        watched.screenshot("serve-found")
        assert "9.0\N{NO-BREAK SPACE}s" in row.locator("td.worst_name").inner_text()
        assert "report" in row.locator("td.worst_name").inner_text()
        page.get_by_role("link", name="contended").click()
        page.locator(".served summary").click()
        page.get_by_role("group", name="Ran beside it on the same hosts").wait_for()
        assert serious(watched.page) == []
        page.screenshot(path=SCREENSHOTS / "serve-bar.png")


@pytest.mark.long
def test_the_list_says_what_saves_most_and_analyses_all(browser, tmp_path: Path) -> None:
    for name in ("app-1", "app-2"):
        contended_log(name).write(tmp_path / "logs" / name)
    (tmp_path / "logs" / "local-1700000000001").write_bytes(b"rubbish\n" * 20)
    with served(tmp_path / "logs", cache=tmp_path / "cache") as server:
        server.read()
        with page_of(browser, server) as watched:
            page = watched.page
            page.goto("/")
            assert page.get_by_text("not analysed", exact=True).count() == 2
            assert "; 2 not analysed" in page.locator(".count").inner_text()
            heads = [one.split(" ·")[0] for one in page.locator("thead th").all_inner_texts()]
            assert heads[1:4] == ["Application", "Saves most", "Lost"]
            assert heads[4:6] == ["Worst victim", "Lost most to"]
            page.get_by_role("button", name="Analyse all").click()
            expect(page.locator("td.saves_ms")).to_have_count(2, timeout=WAIT_S * 1000)
            saves = page.locator("td.saves_ms").first
            assert "contention" in saves.inner_text()
            found = server.applications(sort="saves_ms")[0]["found"]["first_finding"]
            assert found["kind"] == "contention"
            assert found["action"] in saves.locator("span").first.get_attribute("title")
            assert page.get_by_role("button", name="Analyse all").count() == 0
            assert serious(page) == []


@pytest.mark.long
def test_applications_that_shared_hosts_are_analysed_together(browser, server: Served) -> None:
    with page_of(browser, server) as watched:
        page = watched.page
        page.goto(f"/applications/{server.key('etl of the night')}")
        # Nobody came from the list, so nothing begins by itself.
        page.get_by_role("button", name="Analyse", exact=True).wait_for()
        group = page.get_by_role("group", name="Ran beside it on the same hosts")
        group.get_by_role("checkbox", name="contended").check()
        watched.screenshot("serve-application")
        group.get_by_role("button", name="Analyse together").click()
        page.wait_for_url("**/together?**")
        page.locator(".served").wait_for(timeout=WAIT_S * 1000)
        assert "and 1 more" in page.locator("h1").inner_text()
        watched.screenshot("serve-together")
        page.goto("/?q=app-20240101")
        for box in page.locator("td.pick input").all():
            box.check()
        page.get_by_role("button", name="Analyse chosen ones together").click()
        page.locator(".served").wait_for()


@pytest.mark.long
def test_a_log_that_grows_is_told_on_its_page(browser, tmp_path: Path) -> None:
    lines = contended_log().lines
    log = tmp_path / "logs" / "app-20240101000000-0001.inprogress"
    log.parent.mkdir()
    log.write_bytes(b"\n".join(lines[: len(lines) // 2]) + b"\n")
    with served(log.parent, cache=tmp_path / "cache", rescan=0.2) as server:
        key = server.read()[0]["key"]
        server.analyse(key)
        with page_of(browser, server) as watched:
            page = watched.page
            page.goto(f"/applications/{key}")
            page.locator(".served").wait_for()
            log.write_bytes(b"\n".join(lines[:-1]) + b"\n")
            again = page.get_by_role("button", name="Analyse again")
            again.wait_for(timeout=WAIT_S * 1000)
            assert "has grown" in page.locator(".served").inner_text()
            watched.screenshot("serve-grown")
            again.click()
            again.wait_for(state="detached", timeout=WAIT_S * 1000)
            page.locator("[data-state=done]").wait_for(state="attached", timeout=WAIT_S * 1000)


def test_names_in_logs_are_shown_as_text(browser, server: Served) -> None:
    with page_of(browser, server) as watched:
        page = watched.page
        page.goto("/?q=bold")
        (name,) = names(watched)
        assert name == '<b>bold</b> "quoted" gnirts &amp; {{ 7*7 }}'
        assert page.locator("td.name b").count() == 0
        page.goto(f"/applications/{server.read()[-1]['key']}")


def test_the_list_works_without_scripts(browser, server: Served) -> None:
    with page_of(browser, server, java_script_enabled=False) as watched:
        page = watched.page
        page.goto("/")
        page.get_by_label("Search").fill("etl of the night")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**q=etl**")
        assert names(watched) == ["etl of the night"]
        page.goto("/?q=filler&sort=start_ms&order=asc")
        page.get_by_role("link", name="filler 7").click()
        page.get_by_role("button", name="Analyse", exact=True).click()
        page.wait_for_url(re.compile("/applications/"))
        assert page.locator("progress, .note, .served").count() >= 1


def test_the_list_is_reached_by_keys_alone(browser, server: Served) -> None:
    with page_of(browser, server) as watched:
        page = watched.page
        page.goto("/?q=app-20240101&sort=name&order=asc")
        focused = "document.activeElement.textContent.trim() || document.activeElement.name"
        seen = []
        for _ in range(30):
            page.keyboard.press("Tab")
            seen.append(page.evaluate(focused))
        for stop in ("Skip to the content", "q", "Search", "Lost", "app", "contended"):
            assert stop in seen, stop
        page.goto("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable_by_everybody(browser, server: Served, scheme: str) -> None:
    with page_of(browser, server, color_scheme=scheme) as watched:
        rubbish = next(one["key"] for one in server.read() if one["status"] == "failed")
        pages = {"list": "/?size=20", "rubbish": f"/applications/{rubbish}", "api": "/api"}
        for name, path in pages.items():
            watched.page.goto(path)
            watched.screenshot(f"serve-{name}-{scheme}")
            assert serious(watched.page) == [], name
            width = watched.page.evaluate("document.documentElement.scrollWidth")
            assert width <= LAPTOP["width"], name


def test_a_browser_enters_with_the_token(browser, folder: Path, tmp_path: Path) -> None:
    with served(folder, cache=tmp_path, options=("--token", TOKEN)) as server:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.address)
        page.get_by_role("heading", name="Applications").wait_for()
        assert TOKEN not in page.url
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.get_by_role("heading", name="Applications").wait_for()
        other = browser.new_context().new_page()
        other.goto(server.base)
        assert "Token needed" in other.content()


def test_other_peoples_logs_are_listed(browser, tmp_path: Path) -> None:
    if not shared_logs_folder().is_dir():
        pytest.skip("the folder of other people's event logs is not here")
    with served(shared_logs_folder(), cache=tmp_path) as server:
        rows = server.read()
        assert all(one["status"] != "failed" and one["name"] for one in rows)
        with page_of(browser, server) as watched:
            watched.page.goto("/")
            assert len(names(watched)) == len(rows)
            watched.screenshot("serve-list-of-other-people")
            assert serious(watched.page) == []
