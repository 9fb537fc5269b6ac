"""The report of other people's logs in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import iqcar
from iqcar.formatting import duration
from iqcar.report.json.analyze import to_dict
from tests.conftest import shared_logs_folder
from tests.support.browsing import needs_chromium
from tests.support.shown_page import show, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium

MOST_BYTES = 8_000_000
"""What a report weighs at most; 4.8 MB of it is Plotly's program."""


def logs() -> list[Path]:
    folder = shared_logs_folder()
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.suffix != ".md"]


@pytest.mark.parametrize("log", logs(), ids=lambda path: path.name)
def test_every_log_gives_a_report_that_opens_without_an_error(
    browser: Browser, log: Path, tmp_path: Path
) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(log), topics=True)
    file = write_page(diagnosis, tmp_path / "report.html")
    print(f"{log.name}: {file.stat().st_size / 1e6:.2f} MB")
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
