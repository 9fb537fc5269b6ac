"""The report in a real browser: from the verdict to the source, checked against the JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.base.units import duration, one_unit, percent, read_time
from iqcar.diagnosis import Diagnosis
from iqcar.say.blamed import cause_name
from iqcar.show.json.analyze import to_dict
from tests.support.browsing import needs_chromium
from tests.support.crowded_log import NAMES, crowded_log
from tests.support.shown_page import Shown, show, write_page

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def opened(opened_browser, file: Path) -> Iterator[Shown]:
    """The report, opened once for all tests that do not look at how it opens."""
    shown = show(opened_browser, file, permissions=["clipboard-read", "clipboard-write"])
    yield shown
    shown.page.context.close()


@pytest.fixture
def shown(opened: Shown) -> Shown:
    """The report with what it chooses by itself."""
    opened.restart()
    return opened


@pytest.fixture(scope="module")
def result(crowded: Diagnosis) -> dict[str, Any]:
    """The queries of ``iqcar analyze --json`` by name."""
    return {query["name"]: query for query in to_dict(crowded)["queries"]}


def lost_in(rows: list[list[str]], column: int) -> dict[str, str]:
    return {row[0]: row[column] for row in rows}


def test_the_whole_path_from_the_verdict_to_the_source(
    shown: Shown, result: dict[str, Any]
) -> None:
    page, report = shown.page, result["report"]
    page.get_by_role("link", name="Explore report").click()
    shown.until("selection.get().target === 'app-1/sql-1'")
    facts = page.locator("#target-facts").inner_text()
    ran, lost, others = (report[f"{key}_ms"] for key in ("duration", "lost", "lost_to_others"))
    assert f"ran {duration(ran)} and lost {duration(lost)} ({percent(lost / ran)})" in facts
    low, high = (duration(report[f"lost_{end}_ms"]) for end in ("low", "high"))
    of_run = f"{percent(others / ran)} of its run"
    assert f"to other queries {duration(others)} ({low} … {high}), {of_run}" in facts
    assert f"slots {duration(report['waits']['slots']['ms'])} (reported)" in facts
    assert "memory not recorded" in facts

    # Stage and resource: the bars' sums are those of the JSON's blame.
    slots = sum(part["by_resource"].get("slots", 0.0) for part in report["blame"])
    stages = shown.rows("#stages-numbers")
    assert lost_in(stages, 1)["◆ stage 1.0"] == duration(slots)
    shown.pick("#stages-numbers", duration(slots))
    assert shown.chosen() == {"target": "app-1/sql-1", "stage": "1.0", "resource": "slots"}

    # Request and host: for slots alone, host by host.
    by_host: dict[str, float] = {}
    for part in report["blame"]:
        if part["by_resource"].keys() <= {"slots"}:
            for host, ms in part["by_host"].items():
                by_host[host] = by_host.get(host, 0.0) + ms
    hosts = shown.rows("#hosts-numbers")
    assert {row[1]: row[2] for row in hosts} == {h: duration(ms) for h, ms in by_host.items()}
    shown.click_picture("#hosts-picture", 0.5, 0.5)
    shown.until("selection.get().host === 'host-b'")

    # The blamed source stage, then its query.
    sources = shown.rows("#source-stages-numbers")
    assert sources[0][:2] == ["stage 0.0 of etl", duration(by_host["host-b"])]
    shown.pick("#source-stages-numbers", "stage 0.0 of etl")
    lost = by_host["host-b"]
    of_run = percent(lost / report["duration_ms"])
    assert shown.rows("#sources-numbers")[0][:3] == ["etl", duration(lost), of_run]
    shown.pick("#sources-numbers", "etl")
    assert page.locator("#path li").count() == 6
    assert page.locator("#path-sum").inner_text().startswith(duration(by_host["host-b"]))
    page.get_by_role("button", name="Explore what held up etl").click()
    assert shown.chosen() == {"target": "app-1/sql-0"}
    shown.check_nothing_went_wrong()


def test_sources_of_every_query_are_those_of_the_json(shown: Shown, result: dict[str, Any]) -> None:
    called = {"own": "itself (its own tasks)"}
    for name in NAMES:
        query = result[name]
        shown.page.select_option("#target", query["query_id"])
        found = {row[0]: (row[1], row[2]) for row in shown.rows("#sources-numbers")}
        for part in query["blame"]:
            who = called.get(part["kind"], part["source_name"])
            if part["kind"] == "known":
                for resource, ms in part["by_resource"].items():
                    written, _ = found[cause_name("known", resource)]
                    assert read_time(written) == pytest.approx(ms, abs=50)
            elif part["lost_ms"] > 0:
                written, share = found[who]
                assert read_time(written) == pytest.approx(part["lost_ms"], abs=50), who
                assert share == percent(part["share_of_duration"]), who
    shown.check_nothing_went_wrong()


def test_the_matrix_shows_who_lost_what_and_leads_to_where(
    shown: Shown, result: dict[str, Any]
) -> None:
    page = shown.page
    page.locator("#matrix summary").click()
    worst = shown.rows("#matrix-numbers")[0]
    etl = next(p for p in result["report"]["blame"] if p["source_name"] == "etl")
    of_run = percent(etl["share_of_duration"])
    assert worst == ["report", "etl", duration(etl["lost_ms"]), of_run]
    page.get_by_label("slots", exact=True).check()
    pairs = {(row[0], row[1]): row[2] for row in shown.rows("#matrix-numbers")}
    assert pairs["report", "etl"] == duration(etl["by_resource"]["slots"])
    page.get_by_label("memory", exact=True).check()
    assert "No query lost time to memory" in page.locator("#matrix-picture").inner_text()
    page.get_by_label("anything", exact=True).check()
    page.get_by_label("share of the run", exact=True).check()
    shown.click_picture("#matrix-picture", 0.1, 0.05)
    shown.until("selection.get().target === 'app-1/sql-1'")
    assert shown.chosen() == {"target": "app-1/sql-1", "source": "app-1/sql-0"}
    assert "only etl" in page.locator("#path").inner_text()
    shown.check_nothing_went_wrong()


@pytest.mark.long
def test_a_link_shows_the_same_again_and_back_goes_one_step_back(browser, file: Path) -> None:
    shown = show(browser, file)
    page = shown.page
    page.select_option("#target", "app-1/sql-2")
    shown.click_picture("#stages-picture", 0.2, 0.5)
    shown.until("selection.get().stage === '3.0'")
    row = page.locator("#hosts-numbers tbody tr").filter(has_text="host-c").first
    row.locator("button.pick").click()
    chosen, numbers = shown.chosen(), shown.rows("#sources-numbers")
    assert chosen.keys() == {"target", "stage", "resource", "request", "host"}
    page.get_by_role("button", name="Copy link to this view").click()
    shown.until("document.getElementById('said').textContent !== ''")
    assert page.locator("#link").inner_text() == "Copied"
    again = show(browser, file, page.evaluate("location.hash"))
    assert again.chosen() == chosen
    check_explore_is_in_sight(again)
    assert again.rows("#sources-numbers") == numbers
    assert again.page.locator("#target").input_value() == "app-1/sql-2"
    page.go_back()
    shown.until("selection.get().host === null")
    assert shown.chosen().keys() == {"target", "stage", "resource"}
    shown.check_nothing_went_wrong()
    again.check_nothing_went_wrong()


def check_explore_is_in_sight(shown: Shown) -> None:
    """What a link led to is at the top, and the keys go on from its list of queries."""
    shown.until("document.activeElement.id === 'target'")
    shown.until("Math.abs(document.querySelector('#explore').getBoundingClientRect().top) < 120")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
def test_explore_brings_the_query_into_sight_each_time(browser, file: Path, width: int) -> None:
    shown = show(browser, file)
    page = shown.page
    page.set_viewport_size({"width": width, "height": 800})
    for _ in range(2):
        page.evaluate("scrollTo(0, 0)")
        page.get_by_role("link", name="Explore report").first.click()
        check_explore_is_in_sight(shown)
        assert shown.chosen() == {"target": "app-1/sql-1"}
    shown.check_nothing_went_wrong()


@pytest.mark.long
@pytest.mark.parametrize(
    "fragment",
    ["#explore?target=gone", "#explore?target=%3Cscript%3E&stage=x", "#explore?", "#rules"],
)
def test_a_link_to_what_is_not_there_shows_the_worst_query(
    browser, file: Path, fragment: str
) -> None:
    shown = show(browser, file, fragment)
    assert shown.chosen() == {"target": "app-1/sql-1"}
    shown.check_nothing_went_wrong()


def test_choosing_again_takes_it_back_and_all_can_be_taken_back(shown: Shown) -> None:
    before = shown.rows("#hosts-numbers")
    shown.pick("#stages-numbers", "◆ stage 1.0")
    assert shown.rows("#hosts-numbers") != before
    shown.pick("#stages-numbers", "◆ stage 1.0")
    assert shown.rows("#hosts-numbers") == before
    shown.pick("#stages-numbers", "◆ stage 1.0")
    shown.pick("#source-stages-numbers", "stage 0.0 of etl")
    shown.page.get_by_role("button", name="Take all back").click()
    assert shown.chosen() == {"target": "app-1/sql-1"}
    shown.check_nothing_went_wrong()


def test_a_table_is_copied_with_its_units_and_whole_numbers(
    shown: Shown, result: dict[str, Any]
) -> None:
    page = shown.page
    page.locator("#sources-numbers").get_by_role("button", name="Copy table").click()
    shown.until("document.getElementById('said').textContent === 'The table copied.'")
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0].split("\t")[:2] == ["source", "lost (ms)"]
    etl = next(p for p in result["report"]["blame"] if p["source_name"] == "etl")
    who, lost = lines[1].split("\t")[:2]
    assert (who, float(lost)) == ("etl", pytest.approx(etl["lost_ms"], abs=0.011))
    page.locator("#rules").get_by_role("button", name="Copy").first.click()
    shown.until("document.getElementById('said').textContent.startsWith('The command')")
    assert "--apply-rules rules.json" in page.evaluate("navigator.clipboard.readText()")
    shown.check_nothing_went_wrong()


def test_the_sankey_s_links_sum_to_one_between_any_two_columns(shown: Shown) -> None:
    trace = shown.page.evaluate(
        """() => {
          const { link, node } = document.getElementById('sankey-picture').data[0];
          const { source, target, value } = link;
          return { nodes: node.label.length, from: source, to: target, value };
        }"""
    )
    into, out = [0.0] * trace["nodes"], [0.0] * trace["nodes"]
    for start, end, value in zip(trace["from"], trace["to"], trace["value"], strict=True):
        out[start] += value
        into[end] += value
    first = [at for at in range(trace["nodes"]) if at not in trace["to"]]
    assert into[-1] == pytest.approx(1, abs=1e-4)
    assert sum(out[at] for at in first) == pytest.approx(1, abs=1e-4)
    for at in range(trace["nodes"] - 1):
        if at not in first:
            assert into[at] == pytest.approx(out[at], abs=1e-4)


def test_no_picture_speaks_as_the_papers_do(shown: Shown) -> None:
    said = shown.page.evaluate(
        """[...document.querySelectorAll('.js-plotly-plot')].map((one) =>
          JSON.stringify([one.data, { ...one.layout, template: null }])).join(' ')"""
    )
    assert "of its run" in said
    assert [word for word in ("DOR", "IF·", "MQD", "RATP", "gc_ms") if word in said] == []


def test_the_sankey_joins_what_is_too_thin_to_see(shown: Shown) -> None:
    thin = shown.page.evaluate(
        """(() => {
          const { node, link } = document.getElementById('sankey-picture').data[0];
          const through = (ends, at) =>
            link.value.reduce((sum, value, i) => sum + (ends[i] === at ? value : 0), 0);
          const flows = node.label.map((_, at) =>
            Math.max(through(link.source, at), through(link.target, at)));
          const thin = (at) => flows[at] < 0.01 * Math.max(...flows);
          return node.label.filter((label, at) => thin(at) && !/ more /.test(label));
        })()"""
    )
    assert thin == []


def test_the_page_s_numbers_are_written_as_the_terminal_s(shown: Shown) -> None:
    values = [0, 0.4, 0.5, 1.5, 2.5, 999.4, 999.5, 1000, 1050, 1250, 1350, 59_950, 119_949, 120_000]
    values += [150_000, 153_000, 7_199_000, 7_200_000, 9_000_000, 1.7e10, math.pi * 1e5]
    values += [n * 7.3 for n in range(3000)]
    found = shown.page.evaluate("values => values.map(words.duration)", values)
    assert found == [duration(value) for value in values]
    shares = [0, 0.0001, 0.0049, 0.005, 0.015, 0.125, 0.145, 0.5, 0.995, 1, 1.2]
    shares += [n / 997 for n in range(997)]
    found = shown.page.evaluate("values => values.map(words.percent)", shares)
    assert found == [percent(share) for share in shares]
    for most in (900, 9e5, 8e6, 1e11):
        column = [value for value in values if value <= most]
        found = shown.page.evaluate("values => values.map(words.oneUnit(values))", column)
        assert found == list(map(one_unit(column), column))
    assert shown.page.evaluate("words.duration(null)") == duration(None)


@pytest.mark.long
def test_a_look_is_kept_and_pictures_follow_it(browser, file: Path) -> None:
    shown = show(browser, file, color_scheme="light")
    page = shown.page
    ink = "document.getElementById('sankey-picture').layout.template.layout.font.color"
    light = page.evaluate(ink)
    button = page.get_by_role("button", name="Look:")
    button.click()
    button.click()
    assert button.inner_text() == "Look: dark"
    shown.until(f"{ink} !== '{light}'")
    page.reload()
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(ink) != light
    shown.check_nothing_went_wrong()


def test_every_picture_is_drawn_named_and_has_its_numbers(shown: Shown) -> None:
    for place in ("matrix", "stages", "hosts", "source-stages", "sources", "sankey"):
        picture = shown.page.locator(f"#{place}-picture")
        assert picture.get_attribute("role") == "img"
        assert "numbers" in (picture.get_attribute("aria-label") or "")
        assert picture.locator("svg.main-svg").count() > 0, place
        assert shown.rows(f"#{place}-numbers"), place


def test_stragglers_are_shown_beside_the_others_stage_by_stage(
    shown: Shown, crowded: Diagnosis
) -> None:
    worst = crowded.stragglers.stragglers.iloc[0]
    stages = shown.page.locator("#boxes-stage option").all_inner_texts()
    assert stages[0].endswith("(1 straggler)")
    shown.page.locator("details:has(#boxes-numbers) > summary").click()
    ran = next(row for row in shown.rows("#boxes-numbers") if row[0] == "run time")
    # Its code ran 20 ms less than the task took.
    assert ran[1:3] == [duration(worst["run_ms"]), duration(worst["median_ms"] - 20)]
    assert shown.page.locator("#boxes-picture .box").count() > 0
    assert shown.page.locator("#hosts-series svg.main-svg").count() > 0
    shown.check_nothing_went_wrong()


def test_what_was_clicked_in_a_hostile_log_stays_text(browser, tmp_path: Path) -> None:
    from tests.show.report.test_report_page import HOSTILE

    path = crowded_log(names=HOSTILE).write(tmp_path / "app-1")
    diagnosis = iqcar.diagnose(iqcar.read(path))
    shown = show(browser, write_page(diagnosis, tmp_path / "hostile.html", title=HOSTILE[1]))
    page = shown.page
    for number in range(len(HOSTILE)):
        page.select_option("#target", f"app-1/sql-{number}")
        for place in ("stages", "hosts", "source-stages", "sources"):
            buttons = page.locator(f"#{place}-numbers button.pick")
            if buttons.count():
                buttons.first.click()
    page.locator("#matrix summary").click()
    # Hover texts are made of names as well.
    for place in ("#matrix-picture", "#source-stages-picture"):
        shown.click_picture(place, 0.1, 0.1)
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img").count() == 0
    assert "<script>window.hurt" in page.locator("#matrix-numbers").inner_text()
    labels = page.locator("#sankey-picture .node-label").all_inner_texts()
    assert labels
    page.select_option("#target", "app-1/sql-3")
    page.locator("#target-text summary").click()
    assert "value 599" in page.locator("#target-text-whole").inner_text()
    shown.check_nothing_went_wrong()


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1366, "light"), (1366, "dark"), (800, "light")]
)
def test_nothing_is_cut_off_sideways(browser, file: Path, width: int, scheme: Any) -> None:
    shown = show(browser, file, viewport={"width": width, "height": 768}, color_scheme=scheme)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    shown.until("document.querySelectorAll('[data-drawn]').length >= 8")
    shown.screenshot(f"report-{width}-{scheme}")
