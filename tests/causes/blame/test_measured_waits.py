"""A measured wait names who held the processor, whatever else is analysed."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import QUERY
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.measure import measure_waits
from iqcar.pipeline import read
from tests.support.fleet_logs import fleet_log

ON = REQUESTS.index(Request.RUN_QUEUE)


def lost_to_queries(*paths: Path) -> float:
    """Task time that the first application lost to other queries while it waited to compute."""
    tables = read(paths)
    blame = attribute(tables, measure_waits(tables))
    waited = blame.demands.iloc[blame.sources["demand"].to_numpy()].reset_index(drop=True)
    first = tables.stages["app"].to_numpy()[waited["stage"].to_numpy()] == 0
    named = (blame.sources["kind"] == QUERY).to_numpy()
    return float(blame.sources["lost_ms"][first & named & (waited["request"] == ON)].sum())


def test_an_application_without_the_plugin_takes_no_name_from_measured_waits(
    tmp_path: Path,
) -> None:
    recorded = fleet_log("app-d", 4, ("sampled",), recorded=True).write(tmp_path / "app-d")
    plain = fleet_log("app-c", 3, ("alone",)).write(tmp_path / "app-c")
    alone = lost_to_queries(recorded)
    assert alone > 0
    assert lost_to_queries(recorded, plain) == pytest.approx(alone, rel=1e-3)
