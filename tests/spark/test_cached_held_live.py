"""On a real Spark: who waits while cached blocks are driven out is told whose these were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.causes.blame.demand_weights import OWN, QUERY, UNATTRIBUTED
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, Request
from iqcar.show.json.analyze import to_json
from iqcar.tables import CACHED
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run_alone, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "cached_holder_jobs.py"
CONF = {
    **PLUGIN,
    "spark.driver.memory": "1g",
    "spark.eventLog.logBlockUpdates.enabled": "true",
}
HELD_BYTES = 380_000_000


@pytest.fixture(scope="module", params=spark_params())
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """What the plugin and Spark recorded of the jobs, read once."""

    def hold(folder: Path) -> App:
        return run_alone(request.param, folder, [str(JOB)], master="local[3]", conf=CONF)

    folder = tmp_path_factory.mktemp("cached")
    done = recorded_app("cached-held", request.param, folder, hold, JOB, CONF)
    assert done.exit_code == 0, done.errors[-3000:]
    return iqcar.read([folder / "log"], query_by="job-group")


def lost_in_storage(found: Diagnosis) -> dict[tuple[int, str], float]:
    """Task time that the victim lost to storage memory, by kind and name of the source."""
    demands, sources = found.blame.demands, found.blame.sources
    victim = found.find_query("victim")[0]
    storage = demands["request"] == REQUESTS.index(Request.STORAGE_MEMORY)
    mine = (storage & (demands["query"] == victim)).to_numpy()
    query = np.append(found.tables.stages["query"].to_numpy(), -1)
    names = [*found.tables.queries["name"], ""]
    lost: dict[tuple[int, str], float] = {}
    for row in sources[mine[sources["demand"]]].itertuples():
        key = (row.kind, names[query[row.source_stage]])
        lost[key] = lost.get(key, 0.0) + row.lost_ms
    return {key: ms for key, ms in lost.items() if ms > 0}


def test_the_query_whose_cached_blocks_filled_the_memory_is_blamed(tables: iqcar.Tables) -> None:
    lost = lost_in_storage(iqcar.diagnose(tables, expected=False))
    total = sum(lost.values())
    assert total > 300
    assert lost[QUERY, "holder"] > 0.4 * total
    assert lost[QUERY, "holder"] + lost[OWN, "victim"] > 0.95 * total
    assert (QUERY, "bystander") not in lost


def test_the_blamed_query_is_said_to_hold_its_cached_table(tables: iqcar.Tables) -> None:
    found = iqcar.diagnose(tables, expected=False)
    (data,) = found.cached[found.find_query("holder")[0]]
    assert data.name == "table_of_holder"
    assert data.bytes == pytest.approx(HELD_BYTES, rel=0.02)
    (held,) = (one for one in json.loads(to_json(found))["queries"] if one["name"] == "holder")
    assert held["cached"] == [data._asdict()]


def test_without_block_updates_nobody_is_blamed_and_the_setting_is_named(
    tables: iqcar.Tables,
) -> None:
    found = iqcar.diagnose(tables.with_(cached=CACHED.empty()), expected=False)
    assert {kind for kind, _ in lost_in_storage(found)} == {UNATTRIBUTED}
    assert any("spark.eventLog.logBlockUpdates.enabled=true" in doubt for doubt in found.doubts)
