"""A report in a real browser: writing it, opening it offline, and reading what it shows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iqcar.show.html import render_page
from tests.support.browsing import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from iqcar.diagnosis import Diagnosis

DRAWN_MS = 300_000
"""Patience for the pictures: Plotly's program is large, and the machine may be busy."""


class Shown(Watched):
    """One report, opened from a disk in a browser that has no network."""

    def __init__(self, page: Page, file: Path, fragment: str = "") -> None:
        super().__init__(page)
        self.url = file.resolve().as_uri()
        page.goto(self.url + fragment)
        page.wait_for_selector("html[data-ready=yes]", timeout=DRAWN_MS, state="attached")

    def restart(self) -> None:
        """Choose what is chosen where the page opens; opening it again would take seconds."""
        self.page.evaluate("history.pushState(null, '', '#explore?'); selection.restore()")

    def rows(self, place: str) -> list[list[str]]:
        """Texts of a table's body, row by row."""
        return self.page.locator(f"{place} tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()"
            ".replaceAll('\u00a0', ' ')))"
        )

    def pick(self, place: str, text: str) -> None:
        """Click the table's button with this text."""
        self.page.locator(f"{place} button.pick").get_by_text(text, exact=True).first.click()

    def click_picture(self, place: str, across: float, down: float) -> None:
        """Click into a picture's plane, at parts of its width and height."""
        plane = self.page.locator(f"{place} .nsewdrag").first
        plane.scroll_into_view_if_needed()
        box = plane.bounding_box()
        assert box is not None
        x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
        self.page.mouse.move(x - 3, y - 3)
        self.page.mouse.move(x, y)
        # Plotly takes a click where it has seen the mouse rest.
        self.page.wait_for_timeout(150)
        self.page.mouse.click(x, y)

    def until(self, condition: str) -> None:
        """Wait for a condition in JavaScript.

        Playwright's own waiting evaluates text inside the page, which the page's policy refuses.
        """
        ends = time.monotonic() + DRAWN_MS / 1000
        while not self.page.evaluate(condition):
            assert time.monotonic() < ends, condition
            self.page.wait_for_timeout(50)

    def chosen(self) -> dict[str, Any]:
        """What is chosen now, step by step."""
        found: dict[str, Any] = self.page.evaluate("selection.get()")
        return {step: value for step, value in found.items() if value is not None}

    def check_nothing_went_wrong(self) -> None:
        """No error or warning was said, and nothing but the file was asked for."""
        assert self.errors == []
        own = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
        assert {url.partition("#")[0] for url in own} == {self.url}


def write_page(diagnosis: Diagnosis, file: Path, **options: str) -> Path:
    """Write a diagnosis as a page."""
    file.write_text(render_page(diagnosis, **options), encoding="utf-8")
    return file


def show(browser: Browser, file: Path, fragment: str = "", **context: Any) -> Shown:
    """Open a page in a fresh context without a network."""
    made = browser.new_context(offline=True, **context)
    return Shown(made.new_page(), file, fragment)
