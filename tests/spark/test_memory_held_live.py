"""On a real Spark: who waits for the memory of a holder is found, by the plugin and without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Request, Resource
from iqcar.model.waits.columns import ESTIMATED, MEASURED, evidence_column, wait_column
from iqcar.tables import INTERVALS, SAMPLES, TASK_RECORDS
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run_alone, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "memory_holder_jobs.py"
CONF = {**PLUGIN, "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}
RUNS = range(3)
WAIT, EVIDENCE = wait_column(Request.EXECUTION_MEMORY), evidence_column(Request.EXECUTION_MEMORY)


@pytest.fixture(scope="module", params=spark_params())
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """What the plugin recorded of the jobs, read once."""

    def hold(folder: Path) -> App:
        return run_alone(request.param, folder, [str(JOB)], master="local[3]", conf=CONF)

    folder = tmp_path_factory.mktemp("memory")
    done = recorded_app("memory-held", request.param, folder, hold, JOB, CONF)
    assert done.exit_code == 0, done.errors[-3000:]
    return iqcar.read([folder / "log"], query_by="job-group")


@pytest.fixture(scope="module")
def measured(tables: iqcar.Tables) -> Diagnosis:
    """The diagnosis with the plugin's records."""
    return iqcar.diagnose(tables)


@pytest.fixture(scope="module")
def plain(tables: iqcar.Tables) -> Diagnosis:
    """The diagnosis of what a log without the plugin says."""
    without = {"task_records": TASK_RECORDS, "intervals": INTERVALS, "samples": SAMPLES}
    return iqcar.diagnose(tables.with_(**{name: spec.empty() for name, spec in without.items()}))


def waited(found: Diagnosis, name: str, evidence: int) -> float:
    """How long the tasks of a query waited for execution memory, in ms."""
    mine = (found.tables.tasks["query"] == found.find_query(name)[0]).to_numpy()
    mine = mine & (found.waits[EVIDENCE] == evidence).to_numpy()
    return float(found.waits.loc[mine, WAIT].sum())


def lost_to(found: Diagnosis, name: str) -> dict[str, float]:
    """What a query lost to other queries for memory, in ms of its run."""
    rows = found.graph.blame_rows(found.find_query(name)[0])
    memory = str(Resource.MEMORY)
    return {
        str(one["source_name"]): one["by_resource"].get(memory, 0.0)
        for one in rows
        if one["kind"] == "query"
    }


@pytest.mark.parametrize("run", RUNS)
def test_a_plain_log_tells_the_wait_that_the_plugin_measured(
    measured: Diagnosis, plain: Diagnosis, run: int
) -> None:
    name = f"victim-beside-{run}"
    true = waited(measured, name, MEASURED)
    assert true > 1000
    assert waited(plain, name, ESTIMATED) == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("run", RUNS)
def test_the_holder_is_blamed_with_what_its_removal_gains(
    measured: Diagnosis, plain: Diagnosis, run: int
) -> None:
    name, holder = f"victim-beside-{run}", f"holder-{run}"
    queries = plain.queries.set_index("name")["duration_ms"]
    alone = [queries[f"victim-{when}-{number}"] for when in ("alone", "again") for number in RUNS]
    gained = queries[name] - float(np.median(alone))
    for found, least in ((measured, 0.5), (plain, 0.6)):
        lost = lost_to(found, name)
        assert lost[holder] > 0.95 * sum(lost.values())
        assert least * gained < lost[holder] < 1.2 * gained


def test_who_is_alone_or_wants_no_memory_waited_for_none(plain: Diagnosis) -> None:
    beside = [plain.find_query(f"victim-beside-{run}")[0] for run in RUNS]
    others = ~plain.tables.tasks["query"].isin(beside).to_numpy()
    assert np.nan_to_num(plain.waits.loc[others, WAIT]).sum() == 0.0
