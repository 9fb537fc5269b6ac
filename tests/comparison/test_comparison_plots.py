"""``comparison.plot`` and what a notebook shows: SVG and HTML that stand alone, names escaped."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import iqcar
from iqcar import Comparison
from iqcar.base.units import duration
from iqcar.comparison.sides import dump_baseline
from iqcar.errors import UsageError
from iqcar.show.pictures.comparison_plots import StageNode, run_dots, stage_graphs, waterfall
from iqcar.show.pictures.drawing import Drawing
from tests.support.compared_runs import SUITE, QueryWork, StageWork, suite_with, write_runs

HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compared")
    write_runs(root / "before", {**SUITE, HOSTILE: QueryWork()})
    other = QueryWork((StageWork("scan"), StageWork("sort"), StageWork("join")))
    slower = suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5), **{HOSTILE: other})
    write_runs(root / "after", slower, first_day=20)
    return root


@pytest.fixture(scope="module")
def compared(folder: Path) -> Comparison:
    return iqcar.compare(folder / "before", folder / "after")


def words(drawing: Drawing) -> list[str]:
    """Texts of a drawing, which must be well-formed XML."""
    root = ElementTree.fromstring(drawing.svg)  # noqa: S314 (iqcar wrote it)
    texts = root.iter("{http://www.w3.org/2000/svg}text")
    return [re.sub("[\u2068\u2069]", "", one.text or "") for one in texts]


@pytest.mark.parametrize("picture", ["runs", "stages", "parts", "blame"])
@pytest.mark.parametrize("change", [None, 1, "1.1", "etl_load", "sessions", HOSTILE])
def test_every_picture_is_drawn_of_a_rank_a_stage_and_a_name(
    compared: Comparison, picture: str, change: str | int | None
) -> None:
    drawn = getattr(compared.plot, picture)(change)
    words(drawn)
    assert "<script" not in drawn.svg
    assert drawn._repr_html_() == drawn.svg


def test_parts_drawn_sum_to_the_mean_times(compared: Comparison) -> None:
    row = compared.effects.iloc[compared.find("etl_load")]
    found = re.findall("\u2068[^\u2068]* (before|after): ([^\u2069]*)", compared.plot.parts(
        "etl_load").svg)  # fmt: skip
    sums = {"before": 0.0, "after": 0.0}
    for side, said in found:
        number, unit = said.split()
        sums[side] += float(number) * {"s": 1000, "ms": 1}[unit]
    for side, ms in sums.items():
        assert ms == pytest.approx(row[f"{side}_ms"], abs=250)


def test_a_waterfall_ends_where_its_steps_lead() -> None:
    steps = [(f"q{number}", 100.0 * number) for number in range(40)]
    said = words(waterfall(50_000.0, steps, -500.0))
    assert said[said.index("after") + 1] == duration(50_000.0 + 78_000.0 - 500.0)
    assert "25 more changes" in said


def test_runs_of_a_side_without_any_are_said_and_many_are_bounded() -> None:
    assert "did not run" in words(run_dots([], [1000.0]))
    assert run_dots([1.0] * 5000, [2.0]).svg.count("<circle") == 301


def test_stages_on_one_side_only_are_named_and_many_are_counted() -> None:
    nodes = [StageNode(place, "scan", "gone", "4 partitions") for place in range(50)]
    said = words(stage_graphs(nodes, []))
    assert "10 more stages" in said
    assert "no stage" in said
    assert said.count("gone · 4 partitions") == 40


def test_a_baseline_has_the_same_graphs_as_its_logs(folder: Path, compared: Comparison) -> None:
    kept = folder / "baseline.json"
    content = dump_baseline(compared.sides[0])
    kept.write_bytes(content) if isinstance(content, bytes) else kept.write_text(content)
    again = iqcar.compare(kept, folder / "after")
    assert again.plot.stages(HOSTILE).svg == compared.plot.stages(HOSTILE).svg


def test_a_notebook_shows_totals_changes_and_the_waterfall(compared: Comparison) -> None:
    shown = compared._repr_html_()
    assert "4 runs before, 4 after" in shown
    assert "<td>\u20681. etl_load\u2069</td>" in shown
    assert compared.plot.waterfall().svg in shown
    assert "<script" not in shown


def test_nothing_changed_is_said_and_there_is_no_first_change(folder: Path) -> None:
    same = iqcar.compare(folder / "before", folder / "before")
    assert "Nothing changed." in same._repr_html_()
    with pytest.raises(UsageError, match="nothing changed"):
        same.plot.runs()
