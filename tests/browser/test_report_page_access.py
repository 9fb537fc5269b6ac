"""The report for everybody: no serious finding of axe-core, and the whole path by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import needs_chromium, serious
from tests.support.shown_page import Shown, show

pytestmark = needs_chromium

MOST_TABS = 400
"""Steps of the tabulator after which whatever was looked for is out of reach."""


@pytest.fixture(scope="module")
def unchanged(opened_browser, file: Path) -> Iterator[Shown]:
    """The report as it opens, for tests that only read it."""
    shown = show(opened_browser, file)
    yield shown
    shown.page.context.close()


# Colours do not depend on the width, nor the layout on the colours.
@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (800, "dark")])
def test_axe_finds_nothing_serious(browser, file: Path, scheme: Any, width: int) -> None:
    shown = show(browser, file, color_scheme=scheme, viewport={"width": width, "height": 768})
    shown.page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    shown.pick("#stages-numbers", "◆ stage 1.0")
    assert serious(shown.page) == []


def tab_to(shown: Shown, selector: str) -> None:
    """Press the tabulator until an element has the focus."""
    for _ in range(MOST_TABS):
        if shown.page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        shown.page.keyboard.press("Tab")
    raise AssertionError(f"{selector} can not be reached with the tabulator")


def test_the_whole_path_can_be_walked_by_keyboard(browser, file: Path) -> None:
    shown = show(browser, file)
    press = shown.page.keyboard.press
    press("Tab")
    assert shown.page.evaluate("document.activeElement.className") == "skip"
    press("Enter")
    tab_to(shown, "#verdict a.button")
    press("Enter")
    tab_to(shown, "#target")
    press("ArrowDown")
    press("ArrowUp")
    assert shown.chosen() == {"target": "app-1/sql-1"}
    tab_to(shown, "#stages-numbers tbody th button")
    press("Enter")
    assert shown.chosen()["stage"] == "1.0"
    # The choice redraws the table; the keyboard stays where it was.
    assert shown.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    tab_to(shown, "#hosts-numbers tbody th button")
    press("Enter")
    tab_to(shown, "#source-stages-numbers tbody th button")
    press("Space")
    tab_to(shown, "#sources-numbers tbody th button")
    press("Enter")
    assert shown.chosen().keys() == {"target", "stage", "request", "host", "sourceStage", "source"}
    tab_to(shown, "#sources-next button")
    press("Enter")
    assert shown.chosen() == {"target": "app-1/sql-0"}
    shown.check_nothing_went_wrong()


def test_what_has_the_focus_can_be_seen(unchanged: Shown) -> None:
    for _ in range(60):
        unchanged.page.keyboard.press("Tab")
        outline = unchanged.page.evaluate(
            "(() => { const s = getComputedStyle(document.activeElement);"
            " return [document.activeElement.outerHTML.slice(0, 80), s.outlineStyle,"
            " parseFloat(s.outlineWidth)]; })()"
        )
        assert outline[1] != "none" and outline[2] >= 1, outline


def test_headings_follow_one_another_without_a_gap(unchanged: Shown) -> None:
    levels = unchanged.page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_table_says_what_it_is_and_what_its_rows_and_columns_are(
    unchanged: Shown,
) -> None:
    tables = unchanged.page.locator("main table:not(.iqt-table)").evaluate_all(
        "all => all.map((one) => [one.caption?.textContent ?? '', "
        "[...one.querySelectorAll('th')].every((cell) => cell.scope), "
        "[...one.querySelectorAll('tbody tr')].every((row) => row.querySelector('th'))])"
    )
    assert len(tables) >= 8
    assert all(caption and scoped and named for caption, scoped, named in tables)


def test_colour_is_never_the_only_sign(unchanged: Shown) -> None:
    badges = unchanged.page.locator(".severity").evaluate_all(
        "all => all.map((one) => [one.textContent.trim(), one.querySelectorAll('path').length])"
    )
    assert badges
    assert all(word and shapes for word, shapes in badges)


def test_without_javascript_the_words_are_still_there(browser, file: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(file.resolve().as_uri())
    text = page.locator("main").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "report lost 11.2 s of its 14.0 s" in text
    assert "Pictures and exploring need JavaScript" in text
    assert page.locator("#hosts-table tbody tr").count() == 3


def test_on_paper_the_controls_are_left_out(browser, file: Path) -> None:
    shown = show(browser, file, color_scheme="dark")
    shown.page.emulate_media(media="print")
    shown.until("document.getElementById('sankey-picture').dataset.drawn === 'light'")
    assert not shown.page.locator(".top").is_visible()
    assert not shown.page.locator("#link").is_visible()
    paper = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"


@pytest.mark.long
def test_pictures_fit_on_paper_and_have_their_width_again_afterwards(browser, file: Path) -> None:
    shown = show(browser, file, viewport={"width": 1280, "height": 768})
    width = "document.querySelector('#sankey-picture .main-svg').clientWidth"
    before = shown.page.evaluate(width)
    shown.page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {width}; }})")
    shown.page.pdf(format="A4")
    # An A4 page is 794 pixels wide, less its margins.
    assert shown.page.evaluate("window.printed") <= 718 < before
    shown.until(f"{width} === {before}")
