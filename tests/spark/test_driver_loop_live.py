"""What is said where a real driver's event loop, or its listeners, were held up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind
from iqcar.say.finding_driver import driver_section
from iqcar.say.findings import find_findings
from tests.support import SUPPORT
from tests.support.held_loop_jobs import STAGES
from tests.support.listener_spark import PLUGIN, App, run, spark_params

pytestmark = [pytest.mark.long, pytest.mark.spark]

PAUSE_MS = 3_000


@pytest.fixture(scope="module", params=spark_params())
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> App:
    folder = tmp_path_factory.mktemp("loop")
    job = [str(SUPPORT / "held_loop_jobs.py"), str(folder), str(PAUSE_MS)]
    app = run(request.param, folder, job, conf=PLUGIN)
    assert app.exit_code == 0, app.errors[-3000:]
    return app


@pytest.fixture(scope="module")
def found(ran: App) -> Diagnosis:
    return iqcar.diagnose(iqcar.read([ran.log]))


def scheduled_ms(found: Diagnosis, name: str) -> float:
    queries = found.tables.queries
    (row,) = np.flatnonzero(((queries["name"] == name) & (queries["kind"] == "sql")).to_numpy())
    work = found.driver.work
    mine = (work["query"] == row) & (work["work"] == "scheduling")
    return float(work["time_ms"][mine.to_numpy()].sum())


def idle_in_jobs(events: list[dict[str, Any]], name: str) -> int:
    """Milliseconds, by the raw log, in which a job of a description was there and no stage of it
    ran or waited."""
    jobs, stages, last = {}, {}, {}
    for event in events:
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            if event["Properties"].get("spark.job.description") == name:
                jobs[event["Job ID"]] = [event["Submission Time"], 0]
                stages.update(dict.fromkeys(event["Stage IDs"]))
        elif kind == "SparkListenerJobEnd" and event["Job ID"] in jobs:
            jobs[event["Job ID"]][1] = event["Completion Time"]
        elif kind == "SparkListenerTaskEnd":
            stage, end = event["Stage ID"], event["Task Info"]["Finish Time"]
            last[stage] = max(end, last.get(stage, end))
        elif kind == "SparkListenerStageCompleted" and event["Stage Info"]["Stage ID"] in stages:
            info = event["Stage Info"]
            stages[info["Stage ID"]] = (info["Submission Time"], last[info["Stage ID"]])
    zero = min(start for start, _ in jobs.values())
    idle = np.zeros(max(end for _, end in jobs.values()) - zero, bool)
    for start, end in jobs.values():
        idle[start - zero : end - zero] = True
    for span in filter(None, stages.values()):
        idle[span[0] - zero : span[1] - zero] = False
    return int(idle.sum())


@pytest.mark.parametrize("name", ["held", "tiny"])
def test_scheduling_is_the_time_of_jobs_in_which_no_stage_ran(
    ran: App, found: Diagnosis, name: str
) -> None:
    assert scheduled_ms(found, name) == idle_in_jobs(ran.events, name) > 0


def test_tiny_stages_are_one_job(ran: App) -> None:
    jobs = [e for e in ran.events if e["Event"] == "SparkListenerJobStart"]
    (tiny,) = (e for e in jobs if e["Properties"].get("spark.job.description") == "tiny")
    assert len(tiny["Stage IDs"]) > STAGES


def test_a_query_that_another_one_s_closure_held_up_is_told_so(found: Diagnosis) -> None:
    said = [one for one in find_findings(found) if one.kind is FindingKind.DRIVER]
    (held,) = (one for one in said if one.subject.startswith("held"))
    assert "scheduling stages" in held.sentence
    assert "smaller closures" in held.action


def test_late_listeners_are_told(found: Diagnosis) -> None:
    (note,) = driver_section(found, 10).notes
    assert "listeners were up to" in note
