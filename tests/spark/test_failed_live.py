"""What really fails is said first: by its name, with Spark's error in a line, and what it wants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind, QueryStatus
from iqcar.rules.vocabulary import error_key
from iqcar.say import Finding, find_verdict
from iqcar.say.sentences import query_statuses
from iqcar.tables import texts
from tests.support import SUPPORT
from tests.support.listener_spark import run, spark_params
from tests.support.standalone_cluster import ONE_SLOT_EACH, Cluster

pytestmark = pytest.mark.spark

JOBS = SUPPORT / "failing_jobs.py"
WAYS = ("udf_error", "damaged", "missing", "late_broadcast", "cancelled")


@pytest.fixture(scope="module", params=spark_params())
def failed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """One application, local, with a query for each way to fail."""
    folder = tmp_path_factory.mktemp("failed")
    app = run(request.param, folder, [str(JOBS), *WAYS], master="local[2]")
    assert app.output.count("FAILED") == len(WAYS), app.errors[-3000:]
    return iqcar.diagnose(iqcar.read(folder / "log"))


def finding(found: Diagnosis, name: str) -> Finding:
    (one,) = [one for one in find_verdict(found).findings if one.subject.startswith(name)]
    assert one.kind is FindingKind.FAILED
    return one


def status(found: Diagnosis, name: str) -> tuple[QueryStatus, str, str]:
    """Status of the query of a name, its error, and the kind of that."""
    names = texts(found.tables.queries, "name")
    (row,) = [row for row, one in enumerate(names) if one.startswith(name)]
    error = texts(found.tables.queries, "error")[row]
    return query_statuses(found.tables)[row], error, error_key(error)


def test_failures_come_first_and_no_saving_is_the_headline(failed: Diagnosis) -> None:
    verdict = find_verdict(failed)
    kinds = [one.kind for one in verdict.findings]
    assert kinds[: len(WAYS)] == [FindingKind.FAILED] * len(WAYS)
    assert FindingKind.FAILED not in kinds[len(WAYS) :]
    assert verdict.headline.startswith(f"FAILED: {len(WAYS)} of {len(failed.tables.queries)} ")
    assert "would save" not in verdict.headline
    assert not verdict.quiet


def test_an_error_in_a_python_function_is_that_of_python(failed: Diagnosis) -> None:
    said = (QueryStatus.FAILED, "PythonException: ValueError: row 3 has no price", "python")
    assert status(failed, "udf_error") == said
    assert "ValueError: row 3 has no price" in finding(failed, "udf_error").sentence


def test_the_innermost_cause_is_what_happened_to_a_file(failed: Diagnosis) -> None:
    became, error, kind = status(failed, "damaged")
    assert (became, kind) == (QueryStatus.FAILED, "bad-file")
    assert error.startswith("RuntimeException: ")
    assert "is not a Parquet file" in error


def test_a_query_that_fails_before_its_first_job_is_there(failed: Diagnosis) -> None:
    became, error, kind = status(failed, "missing")
    assert (became, kind) == (QueryStatus.FAILED, "already-exists")
    assert "already exists" in error


def test_a_broadcast_that_took_too_long_is_named(failed: Diagnosis) -> None:
    became, error, kind = status(failed, "late_broadcast")
    assert (became, kind) == (QueryStatus.FAILED, "broadcast-timeout")
    assert "1 sec" in error
    assert "spark.sql.broadcastTimeout" in finding(failed, "late_broadcast").action


def test_a_cancelled_job_group_is_somebodys_decision(failed: Diagnosis) -> None:
    became, error, _ = status(failed, "cancelled")
    assert became is QueryStatus.CANCELLED
    assert "cancelled" in error
    assert "was cancelled after" in finding(failed, "cancelled").sentence


@pytest.mark.parametrize("home", spark_params())
def test_lost_executors_are_told_with_the_query_that_they_ended(
    home: Path, clusters: Callable[[Path], Cluster], tmp_path: Path
) -> None:
    cluster = clusters(home)
    conf = {**ONE_SLOT_EACH, "spark.task.maxFailures": "2"}
    app = run(cluster.home, tmp_path, [str(JOBS), "lost"], master=cluster.master, conf=conf)
    assert "FAILED lost" in app.output, app.errors[-3000:]
    verdict = find_verdict(iqcar.diagnose(iqcar.read(tmp_path / "log")))
    first = verdict.findings[0]
    assert first.kind is FindingKind.FAILED
    assert verdict.headline.startswith("FAILED: lost")
    assert "137" in first.sentence
    assert "lost" in first.sentence.partition("Before, ")[2]
    assert FindingKind.WASTED not in {one.kind for one in verdict.findings}
