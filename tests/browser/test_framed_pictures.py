"""The report's pictures in the frames of a notebook: they draw what was asked for, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from tests.support.browsing import Watched, needs_chromium, serious
from tests.support.crowded_log import crowded_log

pytestmark = needs_chromium


@pytest.mark.long
def test_a_notebook_frames_the_pictures_of_the_report(browser, tmp_path: Path) -> None:
    diagnosis = iqcar.diagnose(iqcar.read(crowded_log().write(tmp_path / "app-1")))
    plot = diagnosis.plot
    cells = [
        plot.sankey("report"),
        plot.heatmap("report", "ratp", resource="slots"),
        plot.waits("report", dark=True),
        plot.matrix("share_of_duration", resource="slots"),
    ]
    notebook = tmp_path / "notebook.html"
    frames = "".join(one._repr_html_() for one in cells)
    notebook.write_text(f'<!doctype html><html lang="en"><title>cells</title>{frames}', "utf-8")
    watched = Watched(browser.new_context().new_page())
    page = watched.page
    page.goto(notebook.as_uri())
    shown = [page.frame_locator("iframe").nth(at) for at in range(len(cells))]
    for frame, place in zip(shown, ("sankey", "hosts", "stages", "matrix"), strict=True):
        page.locator("iframe").nth(shown.index(frame)).scroll_into_view_if_needed()
        frame.locator(f"#{place}-picture[data-drawn]").wait_for(timeout=300_000)
        assert frame.locator(".plot:visible").count() == 1
    sankey, heatmap, waits, matrix = shown
    assert sankey.locator("#sankey-picture .sankey-node").count() > 4
    assert "report" in sankey.locator("#target option").inner_text()
    assert heatmap.get_by_label("waiting per unit of work").is_checked()
    assert "slots" in heatmap.locator("#path").inner_text()
    assert waits.get_by_label("task time waited").first.is_checked()
    assert waits.locator("#stages-picture[data-drawn=dark]").count() == 1
    assert matrix.get_by_role("radio", name="share of the run").is_checked()
    assert matrix.get_by_role("radio", name="slots").is_checked()
    # What is chosen in a frame narrows it; it has no address to remember that in.
    heatmap.get_by_role("button", name="Take all back").click()
    assert "Nothing chosen" in heatmap.locator("#path-sum").inner_text()
    assert watched.errors == []
    assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in watched.requests)
    watched.screenshot("framed-pictures")
    for cell in cells:
        cell.write_html(tmp_path / "picture.html")
        page.goto((tmp_path / "picture.html").as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        assert serious(page) == []
