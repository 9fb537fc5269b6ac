"""The report of other people's logs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iqcar.formatting import duration
from iqcar.report.json.analyze import to_dict
from tests.support.browsing import needs_chromium
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.shown_page import show, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium

MOST_BYTES = 8_000_000
"""What a report weighs at most; 4.8 MB of it is Plotly's program."""


@pytest.mark.parametrize("name", LOGS)
def test_every_log_gives_a_report_that_opens_without_an_error(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    diagnosis = diagnosis_of_log(name)
    file = write_page(diagnosis, tmp_path / "report.html")
    print(f"{name}: {file.stat().st_size / 1e6:.2f} MB")
    assert file.stat().st_size < MOST_BYTES
    shown = show(browser, file, viewport={"width": 1366, "height": 768})
    lost = {query["query_id"]: query for query in to_dict(diagnosis)["queries"]}
    targets = shown.page.locator("#target option").evaluate_all("all => all.map((o) => o.value)")
    for target in targets[:3]:
        shown.page.select_option("#target", target)
        facts = shown.page.locator("#target-facts").inner_text()
        assert f"lost {duration(lost[target]['lost_ms'])}" in facts
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 1366
    shown.check_nothing_went_wrong()
