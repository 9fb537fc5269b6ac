"""The report of other people's logs in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.base.units import duration
from iqcar.show.json.analyze import to_dict
from tests.support.browsing import needs_chromium
from tests.support.real_logs import LOGS, diagnosis_of_log
from tests.support.shown_page import show, write_page

pytestmark = needs_chromium

MOST_BYTES = 4_600_000
"""What a report weighs at most; 1.4 MB of it is Plotly's program."""

KINDS_OF_TRACES = """[...document.querySelectorAll(".js-plotly-plot")].flatMap(picture =>
    picture._fullData.map(trace => [trace._input.type || "scatter", trace.type]))"""
"""Of each trace of each picture: its kind, and the one drawn; what a bundle of Plotly does not know
it draws as a line, without an error."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (n > 1)) for n, name in enumerate(LOGS)]
)
def test_every_log_gives_a_report_that_opens_without_an_error(
    browser, name: str, tmp_path: Path
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
    traces = shown.page.evaluate(KINDS_OF_TRACES)
    assert traces
    assert [drawn for _, drawn in traces] == [asked for asked, _ in traces]
    shown.check_nothing_went_wrong()
