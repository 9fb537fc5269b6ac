"""What queries of a real Spark wait for in the driver, with the plugin's phases and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind
from iqcar.say.findings import find_findings
from iqcar.tables import DRIVER_PHASES
from tests.support import SUPPORT
from tests.support.driver_jobs import FILES
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "driver_jobs.py"


@pytest.fixture(scope="module", params=spark_params())
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """The diagnosis of the jobs with the plugin's records."""

    def run_jobs(folder: Path) -> App:
        job = [str(JOB), str(folder / "data")]
        return run(request.param, folder, job, master="local[2]", conf=PLUGIN)

    folder = tmp_path_factory.mktemp("driver")
    done = recorded_app("driver", request.param, folder, run_jobs, JOB, PLUGIN)
    assert done.exit_code == 0, done.errors[-3000:]
    return iqcar.diagnose(iqcar.read([folder / "log"]))


@pytest.fixture(scope="module")
def plain(measured: Diagnosis) -> Diagnosis:
    """The diagnosis without the phases."""
    return iqcar.diagnose(measured.tables.with_(driver_phases=DRIVER_PHASES.empty()))


def work_of(found: Diagnosis, name: str) -> dict[tuple[str, str], float]:
    """Time by part and work of the SQL query of a name."""
    queries = found.tables.queries
    (row,) = np.flatnonzero(((queries["name"] == name) & (queries["kind"] == "sql")).to_numpy())
    work = found.driver.work[(found.driver.work["query"] == row).to_numpy()]
    return dict(zip(zip(work["part"], work["work"], strict=True), work["time_ms"], strict=True))


def test_parts_sum_to_the_time_without_tasks(measured: Diagnosis) -> None:
    tables, driver = measured.tables, measured.driver
    known = np.flatnonzero(np.isfinite(driver.total))
    assert len(known) >= 4
    for query in known.tolist():
        start, end = (int(tables.queries[name].iloc[query]) for name in ("start_ms", "end_ms"))
        busy = np.zeros(end - start, bool)
        stages = tables.stages[(tables.stages["query"] == query).to_numpy()]
        over = tables.tasks.groupby("stage")["finish_ms"].max()[stages.index]
        for began, ended in zip(stages["submission_ms"], over, strict=True):
            busy[int(max(began - start, 0)) : int(max(ended - start, 0))] = True
        assert driver.total[query] == (~busy).sum()
        work = driver.work[(driver.work["query"] == query).to_numpy()]
        assert work["time_ms"].sum() == pytest.approx(driver.total[query])


def test_a_long_plan_is_named_as_such_with_the_plugin_only(
    measured: Diagnosis, plain: Diagnosis
) -> None:
    planning = {"analysis", "optimization", "planning", "compiling"}
    seen, unseen = (work_of(found, "plan") for found in (measured, plain))
    early = [
        float(found.queries["planned_before_ms"][(found.queries["name"] == "plan")].sum())
        for found in (measured, plain)
    ]
    planned = sum(ms for (_, work), ms in seen.items() if work in planning)
    assert planned + early[0] > sum(seen.values()) / 2
    assert not {work for _, work in unseen} & planning
    assert early[1] == 0
    assert sum(seen.values()) == pytest.approx(sum(unseen.values()))


@pytest.mark.parametrize(("name", "work"), [("broadcast", "broadcast"), ("commit", "commit")])
def test_metrics_name_what_the_driver_did(measured: Diagnosis, name: str, work: str) -> None:
    assert any(did == work for _, did in work_of(measured, name))


def test_files_are_counted(measured: Diagnosis) -> None:
    work = measured.driver.work
    of_listing = work[(work["work"] == "listing").to_numpy()]
    assert of_listing["files"].max() == FILES


def test_a_finding_says_that_executors_do_not_help(measured: Diagnosis) -> None:
    said = [one for one in find_findings(measured) if one.kind is FindingKind.DRIVER]
    (plan,) = (one for one in said if one.subject.startswith("plan"))
    assert "before its first stage" in plan.sentence
    assert "More executors do not help." in plan.sentence
