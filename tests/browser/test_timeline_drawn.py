"""A browser draws the timeline, and keys, wheel and pointer act on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.pipeline import diagnose, read
from iqcar.show.pictures.theme import PHASE_COLOURS
from iqcar.show.pictures.timeline import Timeline
from tests.support.browsing import Watched, needs_chromium, serious
from tests.support.contended_log import contended_log
from tests.support.interval_profiles import intervals_of
from tests.support.many_tasks import many_tasks
from tests.support.plotted import HOSTILE, diagnosis_of, nothing_read
from tests.support.random_tables import RandomInput, random_input
from tests.support.timeline_payloads import payload_of

pytestmark = needs_chromium


def opened(browser, path: Path) -> Watched:
    """Open a page and wait until it was drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    watched = Watched(page)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelector('.iqt-top, .iqt-empty') !== null")
    page.evaluate(
        "() => { window.heard = []; document.getElementById('timeline')"
        ".addEventListener('chosen', (event) => heard.push(event.detail)); }"
    )
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    return watched


def state_of(watched: Watched) -> dict:
    """What the timeline says of itself, after the next frame."""
    watched.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
    )
    return watched.page.evaluate("({ ...timeline.state(), heard: window.heard })")


def write_page(path: Path, payload: dict, selected: str = "", dark: bool = False) -> Path:
    """Write a timeline as a page."""
    Timeline(payload, selected, dark=dark).write_html(path)
    return path


@pytest.mark.long
def test_a_browser_draws_100_000_tasks_and_keys_move_through_them(browser, tmp_path: Path) -> None:
    path = write_page(tmp_path / "page.html", payload_of(many_tasks(100_000)))
    watched = opened(browser, path)
    page = watched.page
    whole = state_of(watched)
    assert whole["tasks"] == 100_000
    assert whole["drawn"] > 10_000
    assert whole["from_ms"] == 0
    page.locator(".iqt-area").focus()
    page.keyboard.press("+")
    closer = state_of(watched)
    assert closer["to_ms"] - closer["from_ms"] == pytest.approx(whole["to_ms"] / 1.4, rel=1e-3)
    page.keyboard.press("ArrowRight")
    later = state_of(watched)
    assert later["from_ms"] > closer["from_ms"]
    assert later["to_ms"] - later["from_ms"] == pytest.approx(closer["to_ms"] - closer["from_ms"])
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert state_of(watched)["from_ms"] < closer["from_ms"]
    page.keyboard.press("0")
    assert state_of(watched)["to_ms"] == whole["to_ms"]
    page.keyboard.press("-")
    assert state_of(watched)["from_ms"] == 0, "there is nothing beyond the whole time"
    watched.screenshot("timeline-100k")
    assert watched.errors == []
    assert watched.requests == [path.as_uri()]


def test_wheel_drag_and_click_act_on_what_is_under_the_pointer(browser, tmp_path: Path) -> None:
    payload = payload_of(many_tasks(2_000))
    watched = opened(browser, write_page(tmp_path / "page.html", payload))
    page = watched.page
    box = page.locator(".iqt-top").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 40)
    page.mouse.wheel(0, -200)
    assert state_of(watched)["from_ms"] == 0, "a reader who scrolls past is not caught"
    page.locator(".iqt-area").focus()
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(100)
    zoomed = state_of(watched)
    assert zoomed["from_ms"] > 0
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 40, steps=4)
    page.mouse.up()
    dragged = state_of(watched)
    assert dragged["from_ms"] < zoomed["from_ms"]
    assert dragged["heard"] == []
    page.keyboard.press("0")
    state_of(watched)
    box = page.locator(".iqt-top").bounding_box()
    page.mouse.click(box["x"] + 220, box["y"] + 33)
    assert state_of(watched)["heard"] == ["app-1/sql-0"]
    assert page.locator(".iqt-tip").is_visible() or page.locator(".iqt-chosen").count() == 1


def test_the_page_tells_a_tasks_numbers_under_the_pointer(browser, tmp_path: Path) -> None:
    diagnosis = many_tasks(40, hosts=1, executors=1, cores=1, queries=2)
    # The driver hears of an end some milliseconds after the slot was given to the next task.
    diagnosis.tables.tasks["finish_ms"] += 4
    payload = payload_of(diagnosis)
    assert payload["lanes"]["slots"] == [1]
    watched = opened(browser, write_page(tmp_path / "page.html", payload))
    page = watched.page
    box = page.locator(".iqt-lanes").bounding_box()
    tasks = diagnosis.tables.tasks.sort_values("launch_ms").iloc[5]
    whole = state_of(watched)["to_ms"]
    left = min(170, round(box["width"] * 0.2))
    middle = (tasks["launch_ms"] + tasks["finish_ms"]) / 2 - payload["origin_ms"]
    page.mouse.move(box["x"] + left + middle / whole * (box["width"] - left - 8), box["y"] + 26)
    said = page.locator(".iqt-tip").inner_text()
    assert f"query {int(tasks['query'])}" in said
    ran = tasks["finish_ms"] - tasks["launch_ms"]
    assert (f"{ran / 1e3:.1f} s" if ran >= 1000 else f"{ran:.0f} ms") in said
    stage = diagnosis.tables.stages["stage_id"].iloc[int(tasks["stage"])]
    assert f"stage {stage}, task {int(tasks['task_id'])}, executor 0 on host-00" in said
    assert "not recorded: executors, memory" in said


def test_tasks_are_drawn_as_their_phases(browser, tmp_path: Path) -> None:
    """Each reads in the first third of its life and computes in the rest."""
    diagnosis = many_tasks(40, hosts=1, executors=1, cores=1, queries=2)
    tasks = diagnosis.tables.tasks
    launch, finish = tasks["launch_ms"], tasks["finish_ms"]
    third = launch + (finish - launch) / 3
    intervals = intervals_of(
        [
            {"task": row, "start_ms": a, "end_ms": b, name: b - a}
            for row in range(len(tasks))
            for a, b, name in (
                (launch[row], third[row], "io_read_ms"),
                (third[row], finish[row], "cpu_ms"),
            )
        ]
    )
    tables = diagnosis.tables.with_(intervals=intervals)
    shown = iqcar.show.pictures.lanes(tables, diagnosis.waits, "phase")
    shown.write_html(tmp_path / "page.html")
    watched = opened(browser, tmp_path / "page.html")
    page = watched.page
    whole = state_of(watched)
    assert whole["mode"] == "phase"
    box = page.locator(".iqt-lanes").bounding_box()
    left = min(170, round(box["width"] * 0.2))
    one = int(np.argmax(finish - launch))

    def pointed(part: float) -> str:
        at = launch[one] + part * (finish[one] - launch[one]) - shown.payload["origin_ms"]
        x = left + at / whole["to_ms"] * (box["width"] - left - 8)
        page.mouse.move(box["x"] + x, box["y"] + 26)
        pixel = page.evaluate(
            "([x, y]) => { const c = document.querySelector('.iqt-lanes');"
            " const k = c.width / c.clientWidth;"
            " return [...c.getContext('2d').getImageData(x * k, y * k, 1, 1).data]; }",
            [x, 26],
        )
        colour = "#" + "".join(f"{value:02X}" for value in pixel[:3])
        (name,) = (n for n, c in PHASE_COLOURS.items() if c == colour)
        assert f"phase: {name}" in page.locator(".iqt-tip").inner_text()
        return name

    assert [pointed(0.15), pointed(0.7)] == ["read", "compute"]
    assert "no profile recorded" in page.locator(".iqt-legend").inner_text()
    watched.screenshot("timeline-phases")
    # Reading pixels is what this test does, not the page.
    assert [error for error in watched.errors if "getImageData" not in error] == []


def test_the_table_holds_the_same_and_chooses_by_keyboard(browser, tmp_path: Path) -> None:
    diagnosis = many_tasks(2_000)
    path = write_page(tmp_path / "page.html", payload_of(diagnosis), "app-1/sql-3")
    watched = opened(browser, path)
    page = watched.page
    assert state_of(watched)["selected"] == "app-1/sql-3"
    page.locator(".iqt-details summary").press("Enter")
    rows = page.locator(".iqt-table tbody tr")
    first = rows.nth(0).inner_text()
    ran = float(diagnosis.tables.queries["duration_ms"].iloc[3])
    assert "query 3" in first
    assert f"{ran / 1e3:.1f} s" in first
    assert "stage 3.0 (critical path)" in rows.nth(1).inner_text()
    assert rows.count() == len(diagnosis.tables.queries) + 1
    page.get_by_label("Show query 5").press("Enter")
    assert state_of(watched)["heard"] == ["app-1/sql-5"]
    page.evaluate("timeline.update({ selected: 'app-1/sql-7' })")
    chosen = state_of(watched)
    assert chosen["selected"] == "app-1/sql-7"
    assert chosen["heard"] == ["app-1/sql-5"], "being told is not asking"


@pytest.mark.parametrize("dark", [False, True])
def test_hostile_names_stay_text_and_nothing_is_wrong_for_readers(
    dark: bool, browser, tmp_path: Path
) -> None:
    made = random_input(160, 2, 3, 4, len(HOSTILE), 6, 7)
    tables = made.tables.with_(
        queries=made.tables.queries.assign(name=list(HOSTILE)),
        hosts=made.tables.hosts.assign(host=list(HOSTILE[: len(made.tables.hosts)])),
        stages=made.tables.stages.assign(name=list(HOSTILE[: len(made.tables.stages)])),
    )
    diagnosis = diagnosis_of(RandomInput(tables, made.waits, "hostile"))
    payload = payload_of(diagnosis)
    path = write_page(tmp_path / "page.html", payload, "q0", dark=dark)
    watched = opened(browser, path)
    watched.page.locator(".iqt-details summary").click()
    said = watched.page.locator(".iqt-table").inner_text()
    assert "<script>alert(1)</script>" in said
    assert watched.page.locator(".iqt script, .iqt a, .iqt b").count() == 0
    watched.page.get_by_label("by what they waited for most").check()
    watched.screenshot(f"timeline-hostile-{'dark' if dark else 'light'}")
    assert serious(watched.page) == []
    assert watched.errors == []


def test_a_frame_in_a_notebook_draws_and_asks_for_nothing(browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<body>{many_tasks(2_000).plot.timeline()._repr_html_()}</body>", "utf-8")
    watched = Watched(browser.new_page())
    watched.page.goto(path.as_uri())
    frame = watched.page.frame_locator("iframe")
    frame.locator(".iqt-top").wait_for()
    assert "query 0" in frame.locator(".iqt-legend").inner_text()
    assert watched.errors == []
    assert [url for url in watched.requests if not url.startswith("about:")] == [path.as_uri()]


def test_an_empty_input_is_a_sentence_on_the_page(browser, tmp_path: Path) -> None:
    path = write_page(tmp_path / "page.html", payload_of(nothing_read()))
    watched = opened(browser, path)
    assert watched.page.locator("#timeline").inner_text() == "No query ran in this input."
    assert watched.errors == []


def test_no_two_entries_of_the_legend_read_the_same(browser, tmp_path: Path) -> None:
    diagnosis = many_tasks(60, hosts=1, executors=1, cores=2, queries=4)
    long = "select what is the same for forty characters and more, "
    names = [f"{long}{number}" for number in range(4)]
    diagnosis.tables.queries["name"] = names
    payload = payload_of(diagnosis)
    watched = opened(browser, write_page(tmp_path / "page.html", payload))
    entries = watched.page.locator(".iqt-legend li").all_inner_texts()
    assert len(entries) >= 4
    assert len(set(entries)) == len(entries), entries


def test_no_two_entries_of_the_legend_have_one_colour(browser, tmp_path: Path) -> None:
    diagnosis = many_tasks(60, hosts=1, executors=1, cores=2, queries=4)
    diagnosis.tables.queries["fingerprint"] = ["one", "one", "other", "other"]
    diagnosis.tables.queries["name"] = ["first", "second", "third", "third"]
    watched = opened(browser, write_page(tmp_path / "page.html", payload_of(diagnosis)))
    entries = watched.page.locator(".iqt-legend li")
    colours = entries.locator(".iqt-swatch").evaluate_all(
        "all => all.map((one) => one.style.backgroundColor)"
    )
    assert len(colours) == len(set(colours)) == 2
    assert sorted(entries.all_inner_texts()) == ["first and 1 more", "third (2 runs)"]


@pytest.mark.parametrize("dark", [False, True])
def test_logs_years_apart_are_drawn_with_a_broken_axis(browser, tmp_path: Path, dark: bool) -> None:
    for name, start in (("app-1", 1.6e12), ("app-2", 1.7e12)):
        contended_log(name, start).write(tmp_path / "logs" / name)
    path = write_page(
        tmp_path / "page.html", payload_of(diagnose(read([str(tmp_path / "logs")]))), dark=dark
    )
    watched = opened(browser, path)
    page = watched.page
    hint = page.locator(".iqt-hint").inner_text()
    assert "Times are after 2020-09-13 12:26:40" in hint
    assert "Left out where the axis is broken, as no query ran: 1157.4 days." in hint
    page.locator(".iqt-details summary").click()
    starts = page.locator(".iqt-table tbody tr td:nth-child(2)").all_inner_texts()
    assert {one[:10] for one in starts} == {"2020-09-13", "2023-11-14"}
    assert state_of(watched)["to_ms"] < 60_000
    assert watched.errors == []
