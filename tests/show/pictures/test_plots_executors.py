"""Who held a cluster's slots over time: the areas are the slots that were there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.show.html.page import render_page
from iqcar.show.pictures import cluster_slots, executors
from iqcar.show.pictures.theme import legend_above
from tests.support.contended_log import contended_log
from tests.support.shared_cluster_logs import read, three_of_four_held


def test_areas_sum_to_the_slots_held_and_idle_ones_are_apart(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    (cluster,) = cluster_slots(found.tables, found.waits, 29)
    assert cluster.names == ["nightly", "morning"]  # from 1 s to 30 s, second by second
    held = (cluster.busy + cluster.idle).sum(axis=0)
    assert held[:2] == pytest.approx(3)
    assert held[2:24] == pytest.approx(4)
    assert held[24:] == pytest.approx(3)
    assert cluster.busy[0][:9] == pytest.approx(3)
    assert cluster.idle[0][9:] == pytest.approx(3)
    assert cluster.missing[4:15] == pytest.approx(3)
    assert cluster.missing[24:] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_the_figure_has_an_area_for_each_application_and_a_line_for_what_lacked(
    tmp_path: Path,
) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    figure = found.plot.executors()
    names = [trace.name for trace in figure.data if np.max(trace.y) > 0]
    assert names[:2] == ["nightly", "nightly, idle"]
    assert "morning" in names
    assert figure.data[-1].name == "lacking because others held them"
    page = render_page(found)
    assert "Who held the cluster's slots" in page.replace("&#39;", "'")
    assert 'id="executors-series"' in page


def test_the_legend_has_room_for_every_name_that_it_shows(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    names = [f"{name} of all orders and customers" for name in ("nightly", "morning")]
    applications = found.tables.applications.assign(name=names)
    figure = executors(found.tables.with_(applications=applications), found.waits)
    named = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert any(name.endswith(", idle") for name in named)
    assert figure.layout.margin.t == legend_above(named)["margin"]["t"]


def test_one_application_alone_has_no_such_picture(tmp_path: Path) -> None:
    found = iqcar.diagnose(read([contended_log()], tmp_path), expected=False)
    assert "shared a cluster" in executors(found.tables, found.waits).layout.annotations[0].text
    assert 'id="executors-series"' not in render_page(found)
