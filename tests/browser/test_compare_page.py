"""The page of a comparison in a real browser: its numbers are those of the JSON, hostile names are
text, and everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.base.units import duration, one_unit, signed
from iqcar.comparison.comparison import Comparison, relative
from iqcar.comparison.comparison_sections import INDENT
from iqcar.comparison.explore import find_variation
from iqcar.show.html.compare import render_comparison
from iqcar.show.json.compare import compare_to_dict
from tests.support.browsing import needs_chromium, serious
from tests.support.compared_runs import SUITE, QueryWork, StageWork, suite_with, write_runs
from tests.support.shown_page import Shown, show

pytestmark = needs_chromium

HOSTILE = "<img src=x onerror=alert(1)>\"'</script><b>"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A slower stage, a new query, another stage graph of a hostile name, and unchanged queries."""
    root = tmp_path_factory.mktemp("compared")
    before = write_runs(root / "before", {**SUITE, HOSTILE: QueryWork()})
    sorted_too = QueryWork((StageWork("scan"), StageWork("sort<b>"), StageWork("join")))
    changed = suite_with(
        etl_load=SUITE["etl_load"].slower(1, 1.5), newcomer=QueryWork(), **{HOSTILE: sorted_too}
    )
    settings = {"spark_executor_memory": "4g", "spark_note": "<script>alert(2)</script>"}
    after = write_runs(root / "after", changed, first_day=20, **settings)
    return iqcar.compare(before, after)


@pytest.fixture(scope="module")
def file(compared: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_comparison(compared), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def result(compared: Comparison) -> dict[str, Any]:
    return compare_to_dict(compared)


@pytest.fixture(scope="module")
def unchanged(opened_browser, file: Path) -> Iterator[Shown]:
    """The page as it opens, for tests that only read it."""
    shown = show(opened_browser, file)
    yield shown
    shown.page.context.close()


def plain(text: str) -> str:
    """A text without the marks that isolate names."""
    return text.replace("\u2068", "").replace("\u2069", "")


def test_changes_are_those_of_the_json_in_its_order(
    unchanged: Shown, result: dict[str, Any]
) -> None:
    expected, before = [], one_unit(change["before_ms"] for change in result["changes"])
    for change in result["changes"]:
        name = change["stage"]["label"] if change["stage"] else change["query"]["name_after"]
        rank = INDENT if change["stage"] else f"{change['rank']}. "
        of = relative(change["before_ms"], change["after_ms"])
        after = duration(change["after_ms"]) + (f" ({of})" if of else "")
        low, high = change["interval_ms"]
        interval = "" if low is None else f" [{signed(low)}, {signed(high)}]"
        change_ms = f"{signed(change['contribution_ms'])}{interval}"
        times = [before(change["before_ms"]), after, change_ms]
        expected.append([f"{rank}{name}", *times, change["kind"]])
    assert len(expected) >= 5
    rows = [[*row[:4], row[5]] for row in unchanged.rows("#changes-table")]
    assert rows == expected
    causes = [row[6] for row in unchanged.rows("#changes-table")]
    assert causes == [
        ", ".join(cause["sentence"] for cause in change["causes"][:4])
        for change in result["changes"]
    ]
    unchanged.check_nothing_went_wrong()


def test_the_waterfall_leads_from_before_to_after(
    unchanged: Shown, compared: Comparison, result: dict[str, Any]
) -> None:
    words = [plain(one) for one in unchanged.page.locator("#waterfall text").all_text_contents()]
    of = compared.effects.iloc[compared.queries]
    for side in ("before", "after"):
        total = float((of[f"{side}_ms"] * of["instances"]).sum())
        assert words[words.index(side) + 1] == duration(total)
    for change in result["changes"]:
        if not change["stage"]:
            assert signed(change["contribution_ms"]) in words


def test_every_run_is_a_dot_and_stages_sum_to_their_query(
    unchanged: Shown, compared: Comparison, result: dict[str, Any]
) -> None:
    for change in result["changes"]:
        if change["stage"]:
            continue
        place = f"#change-{change['rank']}"
        dots = unchanged.page.locator(f"{place} circle title").all_text_contents()
        assert sorted(plain(dot) for dot in dots) == sorted(
            f"a run {word}: {duration(ms)}"
            for word, values in zip(("before", "after"), change["runs_ms"], strict=True)
            for ms in values
        )
        parts = compared.parts(change["query"]["name_after"])
        rows = unchanged.rows(f"{place} table")
        assert len(rows) == len(parts)
        assert parts["contribution_ms"].sum() == pytest.approx(change["contribution_ms"])


def test_the_stage_graphs_tell_what_was_added_and_what_changed(
    unchanged: Shown, result: dict[str, Any]
) -> None:
    ranks = {
        one["query"]["name_after"]: one["rank"] for one in result["changes"] if not one["stage"]
    }
    drawn = unchanged.page.get_by_label(f"Stage graphs of change {ranks[HOSTILE]}", exact=True)
    words = [plain(one) for one in drawn.locator("text").all_text_contents()]
    assert words.count("join") == 2
    assert words[words.index("sort<b>") + 1].startswith("added · 4 partitions")
    drawn = unchanged.page.get_by_label(f"Stage graphs of change {ranks['etl_load']}", exact=True)
    words = [plain(one) for one in drawn.locator("text").all_text_contents()]
    assert sum(word.startswith("changed · 4 partitions") for word in words) == 2


def test_blame_is_that_of_the_comparison(
    unchanged: Shown, compared: Comparison, result: dict[str, Any]
) -> None:
    rank = next(c["rank"] for c in result["changes"] if c["query"]["name_after"] == "etl_load")
    drawn = unchanged.page.get_by_label(f"Blame of change {rank}", exact=True)
    words = [plain(one) for one in drawn.locator("text").all_text_contents()]
    rows = compared.blame_change("etl_load")
    lost = rows[rows["kind"] == "unattributed"][["before_ms", "after_ms"]].sum()
    assert f"{duration(lost['before_ms'])} → {duration(lost['after_ms'])}" in words


def test_settings_and_verdicts_are_those_of_the_json(
    unchanged: Shown, result: dict[str, Any]
) -> None:
    assert [row[0] for row in unchanged.rows("#settings-table")] == [
        one["key"] for one in result["different"]["conf"]
    ]
    assert ["spark.executor.memory", "not set", "4g"] in unchanged.rows("#settings-table")
    assert (
        {row[0] for row in unchanged.rows("#same-table")}
        == {one["query"]["name_after"] for one in result["same"]}
        == {"sessions", "dashboard"}
    )


def test_variation_is_that_of_the_comparison(unchanged: Shown, compared: Comparison) -> None:
    variation = find_variation(compared)
    found = {row[0]: row[2:4] for row in unchanged.rows("#browse-table") if not row[1]}
    for name in SUITE:
        row = variation.iloc[compared.find(name)]
        both = [row[f"runs_c2_{side}"] for side in ("before", "after")]
        assert found[name] == ["<0.001" if 0 < c2 < 0.001 else f"{c2:.2g}" for c2 in both]


def test_hostile_names_are_text(unchanged: Shown) -> None:
    assert unchanged.page.locator("img, main script, main b, [onerror]").count() == 0
    titles = unchanged.page.locator(".change h3").all_inner_texts()
    assert any(HOSTILE in title for title in titles)
    assert "<script>alert(2)</script>" in unchanged.page.locator("#settings-table").inner_text()


# Colours do not depend on the width, nor the layout on the colours.
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (800, "dark")])
def test_axe_finds_nothing_serious(browser, file: Path, scheme: Any, width: int) -> None:
    shown = show(browser, file, color_scheme=scheme, viewport={"width": width, "height": 768})
    shown.page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    assert serious(shown.page) == []
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_look_is_chosen_and_headings_leave_no_gap(browser, file: Path) -> None:
    shown = show(browser, file, color_scheme="light")
    shown.page.locator("#look").focus()
    for _ in range(2):
        shown.page.keyboard.press("Enter")
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"
    paper = shown.page.evaluate("getComputedStyle(document.querySelector('main > section')).color")
    assert paper == "rgb(230, 234, 238)"
    levels = shown.page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_without_javascript_everything_is_there(browser, file: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(file.resolve().as_uri())
    assert page.locator("#waterfall rect").count() >= 5
    assert page.locator("#changes-table tbody tr").count() >= 5
