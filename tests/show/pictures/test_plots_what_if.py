"""Pictures of what-if answers: they show the answer's numbers, and names in them stay text."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import iqcar
from iqcar.apps.notebook import ShownWhatIf
from iqcar.base.units import duration
from tests.support.contended_log import contended_log

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def without_etl(tmp_path_factory: pytest.TempPathFactory) -> ShownWhatIf:
    path = tmp_path_factory.mktemp("whatif") / "app"
    return iqcar.diagnose(iqcar.read(contended_log().write(path))).what_if(remove="etl")


def marks(svg: str, tag: str) -> list[dict[str, str]]:
    return [one.attrib for one in ElementTree.fromstring(svg).iter() if one.tag.endswith(tag)]  # noqa: S314


def test_a_dot_stands_where_the_duration_is_on_the_axis(without_etl: ShownWhatIf) -> None:
    (row,) = without_etl.queries.to_dict("records")
    svg = without_etl.plot.durations().svg
    recorded, predicted = [float(dot["cx"]) for dot in marks(svg, "circle")][2:]
    zero = float(marks(svg, "line")[0]["x1"])
    assert (predicted - zero) / (recorded - zero) == pytest.approx(
        row["predicted_ms"] / row["recorded_ms"], abs=0.001
    )
    bar = marks(svg, "rect")[1]
    low, high = float(bar["x"]), float(bar["x"]) + float(bar["width"])
    assert low <= predicted <= high
    assert (high - zero) / (recorded - zero) == pytest.approx(
        row["high_ms"] / row["recorded_ms"], abs=0.001
    )


def test_waits_and_devices_say_the_answer_s_numbers(without_etl: ShownWhatIf) -> None:
    (row,) = without_etl.queries.to_dict("records")
    before, after = (duration(row[f"slots_wait_{when}_ms"]) for when in ("before", "after"))
    assert f"{before} → {after}" in without_etl.plot.waits().svg
    said = re.findall(r">\u2068(\d+ %) → (\d+ %)", without_etl.plot.devices().svg)
    (device,) = without_etl.capacities.to_dict("records")
    busy = (device["busy_before"], device["busy_after"])
    assert said == [tuple(f"{100 * share:.0f} %" for share in busy)]


def test_a_notebook_shows_the_verdict_and_the_durations(without_etl: ShownWhatIf) -> None:
    shown = without_etl._repr_html_()
    assert "without etl" in shown
    assert without_etl.plot.durations().svg in shown
    assert "self-check" in shown


def test_names_in_pictures_stay_text(without_etl: ShownWhatIf) -> None:
    hostile = replace(without_etl, queries=without_etl.queries.assign(name=HOSTILE))
    assert HOSTILE not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile.plot.durations().svg
