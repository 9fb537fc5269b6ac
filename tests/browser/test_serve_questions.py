"""What-if questions and comparisons in a real browser: the report, and `iqcar serve`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import iqcar
from iqcar.base.units import duration
from tests.support.browsing import Watched, needs_chromium, serious
from tests.support.compared_runs import SUITE, suite_with, write_runs
from tests.support.contended_log import contended_log
from tests.support.served import WAIT_S, served, until
from tests.support.shown_page import show, write_page

pytestmark = needs_chromium


@pytest.mark.long
def test_a_reader_chooses_what_is_changed(browser, tmp_path: Path) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(contended_log().write(tmp_path / "app-1")))
    said = diagnosis.what_if(slots="3")
    shown = show(browser, write_page(diagnosis, tmp_path / "report.html"))
    page = shown.page
    visible = page.locator(".whatif-answer:visible")
    assert visible.locator("h3").all_inner_texts() == ["without etl"]
    # A slider moves by keys, and says where it is.
    page.get_by_label("Change", exact=True).select_option("slots")
    slider = page.locator("#whatif-slots")
    slider.focus()
    page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") == "1 slot"
    page.keyboard.press("ArrowRight")
    assert visible.count() == 0
    assert page.locator("#whatif-as-it-was").is_visible()
    page.keyboard.press("ArrowRight")
    assert visible.locator("h3").all_inner_texts() == ["3 slots"]
    rows = [
        [row["name"], *(duration(row[f"{name}_ms"]) for name in ("recorded", "predicted"))]
        for row in said.queries.to_dict("records")
    ]
    found = visible.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(0, 3).map(cell => cell.textContent"
        ".replaceAll('\u00a0', ' ')))"
    )
    assert sorted(found) == sorted(rows)
    assert page.locator("#said").inner_text().startswith("all 2 queries")
    # The table leads to an answer, too.
    page.locator("#whatif-table").get_by_role("button", name="without etl").press("Enter")
    assert visible.locator("h3").all_inner_texts() == ["without etl"]
    assert page.get_by_label("Change", exact=True).input_value() == "remove"
    visible.locator("summary").first.click()
    assert serious(page) == []
    shown.check_nothing_went_wrong()


@pytest.mark.long
def test_a_question_is_asked_of_the_server(browser, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    contended_log().write(tmp_path / "logs" / "app-1")
    with served(tmp_path / "logs", cache=tmp_path / "cache") as server:
        key = server.key("contended")
        page = browser.new_context().new_page()
        watched = Watched(page)
        page.goto(f"{server.base}/applications/{key}")
        page.get_by_role("link", name="Ask what if").click()
        field = page.get_by_role("textbox", name="options of iqcar whatif")
        field.fill("--remove etl")
        field.press("Enter")
        answer = page.get_by_role("region", name="Answer")
        answer.wait_for(timeout=WAIT_S * 1000)
        assert answer.locator("h2").inner_text() == "without etl"
        assert answer.locator("circle").count() > 0
        assert serious(page) == []
        assert watched.errors == []
        watched.screenshot("serve-whatif")
        page.locator("summary", has_text="All options").click()
        assert page.get_by_text("--host-cores 16", exact=True).is_visible()
        assert field.input_value() == "--remove etl"
        field.fill("--disk abc")
        page.get_by_role("button", name="Ask").click()
        assert "--disk: is no factor" in page.get_by_role("alert").inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        assert field.input_value() == "--disk abc"
        assert serious(page) == []


def press(page, name: str) -> None:
    """Go to a button with the tabulator alone, and press it."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return page.keyboard.press("Enter")
    raise AssertionError(f"no button {name} is reached by keys")


@pytest.mark.long
def test_two_sets_are_chosen_and_compared_stopped_and_compared_again(
    browser, tmp_path: Path
) -> None:
    logs = write_runs(tmp_path / "logs", SUITE, 2)
    write_runs(logs, suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5)), 2, first_day=20)
    growing = (logs / "app-21").rename(logs / "app-21.inprogress")
    with served(logs, cache=tmp_path / "cache", rescan=0.2) as server:
        rows = server.read()
        page = browser.new_context().new_page()
        watched = Watched(page)
        page.goto(server.base)
        for one in rows:
            page.locator(f"input[value='{one['key']}']").check()
        page.get_by_role("button", name="Compare chosen ones").click()
        # The older half is before.
        before = page.locator("input[value=before]:checked")
        before.first.wait_for()
        older = sorted(rows, key=lambda one: one["start_ms"])[:2]
        names = before.evaluate_all("all => all.map((one) => one.name)")
        assert names == [one["key"] for one in older]
        page.get_by_role("button", name="Compare", exact=True).click()
        page.wait_for_selector("#changes-table", timeout=WAIT_S * 1000)
        assert page.locator("#changes-table tbody tr").first.inner_text().startswith("1. etl_load")
        assert page.locator("#change-1 circle").count() == 4
        assert page.locator("html[data-ready=yes]").count() == 1
        assert page.get_by_role("button", name="Compare again").count() == 0
        # A log grows, by so much that there is time to find the process.
        ended, *tasks = growing.read_bytes().splitlines(keepends=True)[::-1]
        task = next(line for line in tasks if b"SparkListenerTaskEnd" in line)
        with growing.open("ab") as file:
            for _ in range(60_000):
                file.write(task)
        page.get_by_role("button", name="Compare again").wait_for(timeout=WAIT_S * 1000)
        assert "has grown since these were compared" in page.locator(".served").inner_text()
        watched.screenshot("serve-compare-grown")
        assert serious(page) == []
        press(page, "Compare again")
        page.get_by_role("progressbar", name="Progress of the comparison").wait_for()
        (process,) = until(lambda: server.workers() or None)
        os.kill(process, signal.SIGSTOP)  # however long looking at the page takes
        assert serious(page) == []
        press(page, "Stop")
        page.get_by_text("The comparison was stopped.").wait_for(timeout=WAIT_S * 1000)
        assert process not in server.workers()
        # The old result is still there.
        assert page.locator("#changes-table tbody tr").count() > 0
        watched.screenshot("serve-compare-stopped")
        smaller = tmp_path / "smaller"
        smaller.write_bytes(b"".join([*tasks[::-1], ended, b"\n"]))
        smaller.replace(growing)
        page.get_by_text("has grown since these were compared").wait_for(timeout=WAIT_S * 1000)
        press(page, "Compare again")
        page.locator(".served [data-state=done]").wait_for(state="attached", timeout=WAIT_S * 1000)
        assert page.get_by_role("button", name="Compare again").count() == 0
        page.get_by_role("link", name="All applications").click()
        page.locator("#list").wait_for()
        assert watched.errors == []
        assert all(url.startswith(server.base) for url in watched.requests)
