"""What real failures cost: a late error, a speculative copy, an executor killed in a shuffle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.say import find_verdict
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import App, run, spark_params
from tests.support.standalone_cluster import ONE_SLOT_EACH, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.golden]

CONF = {
    **ONE_SLOT_EACH,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "5",
}


JOBS = SUPPORT / "life_jobs.py"


@pytest.fixture(scope="module", params=spark_params())
def hurt(
    request: pytest.FixtureRequest,
    clusters: Callable[[Path], Cluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Diagnosis:
    """The diagnosis of one application on two hosts, one slot each, that is hurt in three ways."""

    def hurt_it(folder: Path) -> App:
        cluster = clusters(request.param)
        job = [str(JOBS), "speculate", "fail_late", "die_in_shuffle"]
        return run(cluster.home, folder, job, master=cluster.master, conf=CONF)

    folder = tmp_path_factory.mktemp("wasted")
    app = recorded_app("hurt", request.param, folder, hurt_it, JOBS, CONF)
    assert app.output.count("RESULT") == 3, app.errors[-3000:]
    return iqcar.diagnose(iqcar.read(folder / "log", query_by="job-group"), expected=False)


def wasted(hurt: Diagnosis, name: str) -> dict[str, dict[str, Any]]:
    """What was wasted of one query, by cause."""
    (query,) = hurt.find_query(name)
    rows = hurt.wasted.by_query
    mine = rows[rows["query"] == query].astype({"cause": str})
    return {row["cause"]: row for row in mine.to_dict("records")}


def test_a_task_that_fails_after_seconds_costs_them(hurt: Diagnosis) -> None:
    found = wasted(hurt, "fail_late")["task-failed"]
    assert found["attempts"] == 1
    assert found["task_ms"] >= 3000
    # The other task ends while it fails: what is left is its second attempt.
    assert 1500 <= found["elapsed_ms"] <= found["task_ms"] + 1500
    assert found["message"] == "PythonException: ValueError: late, with password=*(redacted)"


def test_the_attempt_that_lost_against_a_copy_delays_nobody(hurt: Diagnosis) -> None:
    found = wasted(hurt, "speculate")["speculation"]
    assert found["attempts"] == 1
    assert found["task_ms"] > 500
    assert found["elapsed_ms"] == 0


def test_a_killed_executor_costs_what_ran_and_what_lay_on_it(hurt: Diagnosis) -> None:
    found = wasted(hurt, "die_in_shuffle")["executor-lost"]
    assert found["again"] >= 1
    assert found["attempts"] > found["again"]
    assert found["executors"] == 1
    assert "137" in found["message"]
    # Three tasks of a second each wrote on it, and ran again on one or two slots.
    assert found["elapsed_ms"] >= 1500
    (query,) = hurt.find_query("die_in_shuffle")
    assert found["elapsed_ms"] < hurt.tables.queries["duration_ms"].iloc[query]


def test_the_verdict_names_the_killed_executor_and_what_helps(hurt: Diagnosis) -> None:
    verdict = find_verdict(hurt)
    (line,) = (one for one in verdict.wasted if one.cause_name == "a killed executor")
    assert "die_in_shuffle ended about" in line.sentence
    assert "had to run again" in line.sentence
    assert "memory" in line.advice
    assert "die_in_shuffle ended" in verdict.headline
    assert not verdict.quiet
