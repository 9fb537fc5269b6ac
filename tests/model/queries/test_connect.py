"""Queries that come through Spark Connect: what they are called, and which of them recur."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iqcar.logs import read_logs
from iqcar.logs.events.settings import connect_operation, connect_request, connect_tags
from iqcar.model.queries.identify import identify
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info

SESSIONS = ("0a1b2c3d-0000-4000-8000-0123456789ab", "1a1b2c3d-0000-4000-8000-0123456789ab")
STARTED = "org.apache.spark.sql.connect.service.SparkListenerConnectOperationStarted"
SALES = node(
    "HashAggregate",
    "HashAggregate(keys=[item#1], functions=[sum(price#2)])",
    node("Scan parquet lake.sales", "FileScan parquet lake.sales[item#1,price#2]"),
)
ITEMS = node("Scan parquet lake.items", "FileScan parquet lake.items[id#7]")


def own(session: str, plan_id: int) -> str:
    """How Spark Connect describes a request."""
    return (
        f'Spark Connect - session_id: "{session}"\nuser_context {{\n  user_id: "ann"\n}}\n'
        f"plan {{\n  root {{\n    common {{\n      plan_id: {plan_id}"
    )


def operation(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-0123456789ab"


def run(
    log: SyntheticLog,
    number: int,
    plan: dict[str, Any] | None,
    *,
    session: str = SESSIONS[0],
    plan_id: int = 3,
    tags: tuple[str, ...] = (),
    sql: str = "",
    description: str | None = None,
) -> SyntheticLog:
    """One request with one job; without a plan it is no SQL execution."""
    name = own(session, plan_id)
    user = f"User_ann_Session_{session}"
    job_tags = [f"SparkConnect_SessionTag_{user}_Tag_{tag}" for tag in tags]
    job_tags.append(f"SparkConnect_OperationTag_{user}_Operation_{operation(number)}")
    statement = f"common {{\n  plan_id: {plan_id}\n}}\n"
    statement += f'sql {{\n  query: "{sql}"\n}}\n' if sql else "range {\n  end: 1000\n}\n"
    if plan is None and not tags:
        model = 'name: "org.apache.spark.ml.clustering.KMeans"\n      uid: "KMeans_ca59da59abb4"'
        statement = f"ml_command {{\n  fit {{\n    estimator {{\n      {model}\n    }}\n  }}\n}}\n"
    log.event(STARTED, {
        "jobTag": job_tags[-1], "operationId": operation(number), "eventTime": 1000,
        "sessionId": session, "userId": "ann", "userName": "ann", "statementText": statement,
        "sparkSessionTags": list(tags), "extraTags": {},
    })  # fmt: skip
    properties = {
        "spark.job.tags": ",".join(job_tags), "spark.job.description": description or name,
        "callSite.short": name,
    }  # fmt: skip
    if plan is not None:
        log.sql(number, plan, description=name)
        properties["spark.sql.execution.id"] = str(number)
    info = stage_info(number, **{"Stage Name": name})
    return log.job(number, [info], properties=properties).stage(info).task(number, number)


def read(log: SyntheticLog, folder: Path) -> Tables:
    return identify(read_logs([log.end().write(folder / log.app_id)], processes=1))


def test_one_query_sent_in_two_sessions_recurs_and_another_of_its_plan_id_does_not(
    tmp_path: Path,
) -> None:
    log = run(SyntheticLog().app(), 0, SALES, plan_id=3)
    run(log, 1, SALES, session=SESSIONS[1], plan_id=7)
    run(log, 2, ITEMS, plan_id=3)
    queries = read(log, tmp_path).queries
    first, second, other = texts(queries, "fingerprint")
    assert first == second != other
    assert first.startswith("plan:")
    assert texts(queries, "name") == [
        "aggregate of lake.sales",
        "aggregate of lake.sales",
        "read of lake.items",
    ]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"sql": "SELECT \\\"a\\\"\\n\\303\\251"}, 'SELECT "a"\né'),
        ({"sql": "SELECT 1", "tags": ("nightly", "etl")}, "etl, nightly"),
        ({"tags": ("nightly",), "description": "q39b"}, "q39b"),
        ({"tags": ("nightly",), "description": "broadcast exchange (runId 1)"}, "nightly"),
    ],
)  # fmt: skip
def test_the_users_words_name_the_query_and_the_plan_identifies_it(
    given: dict[str, Any], name: str, tmp_path: Path
) -> None:
    log = run(SyntheticLog().app(), 0, SALES)
    queries = read(run(log, 1, SALES, **given), tmp_path).queries
    assert texts(queries, "name")[1] == name
    plain, named = texts(queries, "fingerprint")
    assert plain == named


def test_jobs_outside_sql_recur_by_the_clients_tag_only(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    for number, tags in enumerate([("train",), ("train",), (), ()]):
        run(log, number, None, tags=tags)
    tables = read(log, tmp_path)
    assert texts(tables.queries, "fingerprint") == ["name:train", "name:train", "", ""]
    assert texts(tables.queries, "name")[2:] == ["fit KMeans", "fit KMeans"]
    assert set(texts(tables.stages, "name")) == {"Spark Connect"}


def test_requests_of_two_servers_stay_apart_whatever_ids_they_share(tmp_path: Path) -> None:
    logs = []
    for app in ("one", "two"):
        log = run(run(SyntheticLog(app).app(), 0, None), 1, SALES)
        logs.append(log.end().write(tmp_path / app))
    queries = identify(read_logs(logs, processes=1)).queries
    assert sorted(texts(queries, "query_id")) == [
        f"{app}/{query}" for app in ("one", "two") for query in (f"connect-{operation(0)}", "sql-1")
    ]


def test_a_part_of_a_request_gives_its_words_to_the_whole(tmp_path: Path) -> None:
    log = SyntheticLog().app().sql(0, SALES, description=own(SESSIONS[0], 1))
    log.sql(1, ITEMS, description=own(SESSIONS[0], 1), rootExecutionId=0)
    tag = f"SparkConnect_SessionTag_User_ann_Session_{SESSIONS[0]}_Tag_nightly"
    log.job(0, [0], properties={"spark.sql.execution.id": "1", "spark.job.tags": tag}).stage(0)
    assert texts(read(log, tmp_path).queries, "name") == ["nightly"]


def test_operation_and_tags_are_found_whatever_a_user_is_called() -> None:
    user = f"User_a_Session_b_Tag_c_Session_{SESSIONS[0]}"
    tags = f"SparkConnect_SessionTag_{user}_Tag_x_Tag_y"
    tags += f",SparkConnect_OperationTag_{user}_Operation_{operation(5)}"
    assert connect_operation(None, tags) == operation(5)
    assert connect_tags(tags) == "x_Tag_y"
    assert connect_tags("my,own,tags") == ""
    assert connect_request('filter {\n  condition {\n    unparsed: "sql"\n  }\n}\n') == ""
    assert connect_request('sql_command {\n  sql: "SHOW TABLES"\n}\n') == "SHOW TABLES"
