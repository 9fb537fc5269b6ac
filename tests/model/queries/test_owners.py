"""Whom queries belong to: user, pool, session, application, or the value of a Spark property."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.errors import UsageError
from iqcar.logs import read_logs
from iqcar.logs.events.settings import MAX_PROPERTY
from iqcar.logs.merge import leave_out
from iqcar.model.queries.identify import identify, owners
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog

SESSION = "0a1b2c3d-0000-4000-8000-0123456789ab"
THRIFT = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"
TEAM = "spark.acme.team"


def read(folder: Path, *logs: SyntheticLog) -> Tables:
    for number, log in enumerate(logs):
        log.write(folder / f"log-{number}")
    return identify(read_logs([str(folder)]))


def log_of(app_id: str = "app-1", **settings: str) -> SyntheticLog:
    return SyntheticLog(app_id).app(f"name of {app_id}").environment(**settings)


def job(log: SyntheticLog, number: int, **properties: str) -> SyntheticLog:
    own = {key.replace("__", "."): value for key, value in properties.items()}
    own = {"spark.jobGroup.id": f"group {number}", **own}
    return log.job(number, [number], properties=own).stage(number).stage_end(number).job_end(number)


def test_a_pool_is_the_jobs_and_none_is_said(tmp_path: Path) -> None:
    log = job(job(log_of(), 0, spark__scheduler__pool="etl"), 1)

    assert owners(read(tmp_path, log), "pool") == ["etl", "(no pool)"]


def test_a_query_whose_jobs_are_in_several_pools_is_in_none_of_them(tmp_path: Path) -> None:
    log = log_of()
    for number, pool in enumerate(("a", "b")):
        group = {"spark__jobGroup__id": "same"}
        job(log, number, spark__scheduler__pool=pool, **group)

    assert owners(read(tmp_path, log), "pool") == ["(several pools)"]


def test_a_thrift_session_tells_the_user_and_others_are_the_applications(tmp_path: Path) -> None:
    log = log_of()
    log.event(THRIFT, {"groupId": "group 0", "sessionId": SESSION, "userName": "bob", "id": "x"})
    tables = read(tmp_path, job(job(log, 0), 1))

    assert owners(tables, "user") == ["bob", "ann"]
    assert owners(tables, "session") == [SESSION, "(no session)"]


def test_a_connect_session_is_in_the_tags_of_jobs(tmp_path: Path) -> None:
    tag = f"SparkConnect_OperationTag_User_eve_Session_{SESSION}_Operation_{SESSION}"
    tables = read(tmp_path, job(log_of(), 0, spark__job__tags=tag))

    assert owners(tables, "user") == ["eve"]
    assert owners(tables, "session") == [SESSION]


def test_a_property_of_a_job_goes_before_that_of_its_application(tmp_path: Path) -> None:
    mixed = job(job(log_of("app-1", spark_acme_team="red"), 0), 1, spark__acme__team="blue")
    without = job(log_of("app-2"), 0)
    tables = read(tmp_path, mixed, without)

    assert owners(tables, TEAM) == ["red", "blue", f"(no {TEAM})"]
    assert owners(tables, "application") == ["name of app-1", "name of app-1", "name of app-2"]
    assert texts(tables.job_properties, "key") == [TEAM]


def test_only_what_a_job_sets_otherwise_is_kept(tmp_path: Path) -> None:
    log = job(log_of(spark_acme_team="red"), 0, spark__acme__team="red", spark__rdd__scope="{}")

    assert not len(read(tmp_path, log).job_properties)


@pytest.mark.parametrize("length", [500, 501, 1_000, 1_001, 4_000])
def test_a_long_setting_of_the_application_is_not_one_of_its_jobs(
    tmp_path: Path, length: int
) -> None:
    """Spark 4 gives every JVM more than a thousand characters of options."""
    options = ("-Dx=y password=hunter2 " * 200)[:length]
    log = log_of(spark_driver_extraJavaOptions=options)
    job(log, 0, spark__driver__extraJavaOptions=options)
    tables = read(tmp_path, job(log, 1, spark__driver__extraJavaOptions=f"-Da=b {options}"))

    (own,) = texts(tables.job_properties, "value")
    assert own.startswith("-Da=b -Dx=y password=*(redacted)")
    assert len(own) <= MAX_PROPERTY


def test_secrets_are_no_names_of_owners(tmp_path: Path) -> None:
    log = log_of("app-1", **dict.fromkeys(("spark_acme_password",), "hunter2"))
    own = {"spark__acme__password": "hunter3"}
    tables = read(tmp_path, job(job(log, 0), 1, **own))

    assert owners(tables, "spark.acme.password") == ["(redacted)", "(redacted)"]
    assert "hunter" not in tables.job_properties.to_csv()


def test_properties_stay_with_their_jobs_where_applications_are_left_out(tmp_path: Path) -> None:
    logs = [job(log_of(f"app-{n}"), 0, spark__acme__team=f"team {n}") for n in range(3)]
    tables = leave_out(read(tmp_path, *logs), {1: "too large"})

    assert owners(tables, TEAM) == ["team 0", "team 2"]


@pytest.mark.parametrize("properties", [None, 3, [], {"spark.scheduler.pool": 7, "x": None}])
def test_a_job_with_odd_properties_is_read(tmp_path: Path, properties: object) -> None:
    log = log_of().job(0, [0], Properties=properties).stage(0).stage_end(0).job_end(0)

    assert len(owners(read(tmp_path, log), "pool")) == 1


def test_a_word_that_is_no_property_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be grouped by 'queue'"):
        owners(read(tmp_path, job(log_of(), 0)), "queue")
