"""Formats side by side on free cores of a real Spark blame nobody; beside a hog they blame it."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.model.demand.host_samples import outside_load
from iqcar.tables import INTERVALS, SAMPLES, TASK_RECORDS
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "format_jobs.py"

FORMATS = ("parquet", "orc", "csv", "json", "text")
HARDLY = 0.05
"""Share of its run that a query may lose to others where nothing is short."""

OUTSIDE = 0.2
"""Share of the processors that programs outside of Spark use on a machine that is busy."""


@pytest.fixture(scope="module", params=spark_params())
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """What the plugin recorded of the jobs, read once."""

    def read_formats(folder: Path) -> App:
        job = [str(JOB), str(folder / "data")]
        return run(request.param, folder, job, master="local[16]", conf=PLUGIN, two_cores=True)

    folder = tmp_path_factory.mktemp("formats")
    done = recorded_app("formats", request.param, folder, read_formats, JOB, PLUGIN)
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


def shares_lost(found: Diagnosis, prefix: str) -> dict[str, float]:
    """Share of its run that each query of these lost to other queries."""
    queries = found.queries
    mine = queries["name"].astype(str).str.startswith(prefix)
    lost = queries["lost_to_others_ms"][mine] / queries["duration_ms"][mine]
    return dict(zip(queries["name"][mine].astype(str), lost, strict=True))


def test_formats_side_by_side_on_free_cores_blame_nobody(
    tables: iqcar.Tables, measured: Diagnosis, plain: Diagnosis
) -> None:
    """A plain log cannot tell that it was programs outside of Spark that held the cores."""
    free = (outside_load(tables).share or 0.0) < OUTSIDE
    for found in (measured, plain) if free else (measured,):
        lost = shares_lost(found, "quiet-")
        assert len(lost) == len(FORMATS)
        assert max(lost.values()) <= HARDLY, lost


def test_beside_a_hog_it_is_the_hog_that_is_blamed(measured: Diagnosis) -> None:
    lost = shares_lost(measured, "loud-")
    assert min(lost.values()) > HARDLY, lost
    (hog,) = measured.find_query("hog")
    for name in lost:
        (row,) = measured.find_query(name)
        others = [one for one in measured.graph.blame_rows(row) if one["kind"] == "query"]
        worst = max(others, key=lambda one: one["lost_ms"])
        assert worst["source_query_id"] == measured.tables.queries["query_id"].iloc[hog]
