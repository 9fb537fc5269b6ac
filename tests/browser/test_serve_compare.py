"""From the list of `iqcar serve` to the comparison of two sets, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.browsing import Watched, needs_chromium
from tests.support.compared_runs import SUITE, suite_with, write_runs
from tests.support.served import WAIT_S, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium


def test_two_sets_are_chosen_and_compared(browser: Browser, tmp_path: Path) -> None:
    logs = write_runs(tmp_path / "logs", SUITE, 2)
    write_runs(logs, suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5)), 2, first_day=20)
    with served(logs, cache=tmp_path / "cache") as server:
        rows = server.read()
        page = browser.new_context().new_page()
        watched = Watched(page)
        page.goto(server.base)
        for one in rows:
            page.locator(f"input[value='{one['key']}']").check()
        page.get_by_role("button", name="Compare chosen ones").click()
        # The older half is before.
        before = page.locator("input[value=before]:checked")
        older = sorted(rows, key=lambda one: one["start_ms"])[:2]
        names = before.evaluate_all("all => all.map((one) => one.name)")
        assert names == [one["key"] for one in older]
        page.get_by_role("button", name="Compare", exact=True).click()
        page.wait_for_selector("#changes-table", timeout=WAIT_S * 1000)
        assert page.locator("#changes-table tbody tr").first.inner_text().startswith("1. etl_load")
        assert page.locator("#change-1 circle").count() == 4
        assert page.locator("html[data-ready=yes]").count() == 1
        page.get_by_role("link", name="iqcar").click()
        assert page.locator("#list").count() == 1
        assert watched.errors == []
        assert all(url.startswith(server.base) for url in watched.requests)
