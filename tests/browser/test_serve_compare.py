"""From the list of `iqcar serve` to the comparison of two sets, in a real browser."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.browsing import Watched, needs_chromium
from tests.support.compared_runs import SUITE, suite_with, write_runs
from tests.support.served import WAIT_S, served, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_chromium


def serious(page: Page) -> list[str]:
    """What axe-core finds that is serious or worse."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def press(page: Page, name: str) -> None:
    """Go to a button with the tabulator alone, and press it."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return page.keyboard.press("Enter")
    raise AssertionError(f"no button {name} is reached by keys")


def test_two_sets_are_chosen_and_compared_stopped_and_compared_again(
    browser: Browser, tmp_path: Path
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
