"""What-if questions in a real browser: answers of the report, and those asked of `iqcar serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import iqcar
from iqcar.base.units import duration
from tests.support.browsing import Watched, needs_chromium
from tests.support.contended_log import contended_log
from tests.support.served import WAIT_S, served
from tests.support.shown_page import show, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium


def serious(page: Page) -> list[str]:
    """What axe-core finds that is serious or worse."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def test_a_reader_chooses_what_is_changed(browser: Browser, tmp_path: Path) -> None:
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
        "rows => rows.map(row => [...row.cells].slice(0, 3).map(cell => cell.textContent))"
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


def test_a_question_is_asked_of_the_server(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    contended_log().write(tmp_path / "logs" / "app-1")
    with served(tmp_path / "logs", cache=tmp_path / "cache") as server:
        key = server.key("contended")
        page = browser.new_context().new_page()
        watched = Watched(page)
        page.goto(f"{server.base}/applications/{key}")
        page.get_by_role("link", name="Ask what if").click()
        page.get_by_label("Without query").fill("etl")
        page.get_by_label("Without query").press("Enter")
        answer = page.get_by_role("region", name="Answer")
        answer.wait_for(timeout=WAIT_S * 1000)
        assert answer.locator("h2").inner_text() == "without etl"
        assert page.locator("#queries option").count() == 2
        assert answer.locator("circle").count() > 0
        assert serious(page) == []
        assert watched.errors == []
        page.get_by_label("Disks").fill("abc")
        page.get_by_role("button", name="Ask").click()
        assert "--disk: is no factor" in page.get_by_role("alert").inner_text()
        assert page.get_by_label("Without query").input_value() == "etl"
        assert serious(page) == []
