"""From jobs to queries: identity, name, fingerprint and times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iqcar.diagnosis import find_query
from iqcar.enums import QueryBy
from iqcar.model.queries.identify import NAME_IN_FINGERPRINT, identify, readable_name
from iqcar.pipeline import diagnose, read
from iqcar.rules.compile_pools import dump_compiled
from iqcar.say.findings import find_findings
from iqcar.tables import QUERIES, Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info
from tests.rules.test_rules_check import NAMES, workload
from tests.support.replayed_log import write_log
from tests.support.tiny_tables import tiny_tables

MIX = {
    "sql_executions": [
        {"execution_id": 7, "root_execution_id": 7, "description": "q39b", "user_named": True,
         "plan_hash": "abc", "start_ms": 900.0, "end_ms": 5000.0},
        {"execution_id": 8, "root_execution_id": 7, "description": "inner", "plan_hash": "def",
         "start_ms": 1000.0, "end_ms": 4000.0},
        {"execution_id": 9, "root_execution_id": 9, "description": "collect at A.scala:3",
         "plan_hash": "fed", "start_ms": 2000.0, "end_ms": np.nan},
    ],
    "jobs": [
        {"job_id": 0, "sql_execution": 0, "pool": "gold"},
        {"job_id": 1, "sql_execution": 1},
        {"job_id": 2, "sql_execution": 2, "job_group": "etl"},
        {"job_id": 3, "connect_operation": "op-1", "description": "report"},
        {"job_id": 4, "job_group": "etl"},
        {"job_id": 5, "job_group": "etl", "succeeded": False},
        {"job_id": 6},
    ],
    "stages": [
        *({"stage_id": n, "job": n, "name": f"count at B.scala:{n}"} for n in range(7)),
        {"stage_id": 7, "job": -1, "name": "lost"},
    ],
    "tasks": [{"stage": n, "launch_ms": 1500.0, "finish_ms": 2500.0} for n in (0, 1, 1, 4, 7)],
}  # fmt: skip


def test_a_query_is_root_sql_else_connect_else_job_group_else_job() -> None:
    tables = identify(tiny_tables(**MIX))
    assert tables.queries["query_id"].tolist() == [
        "app-1/sql-7",
        "app-1/sql-9",
        "app-1/connect-op-1",
        "app-1/job-group-etl",
        "app-1/job-6",
        "app-1/stage-7",
    ]
    assert tables.jobs["query"].tolist() == [0, 0, 1, 2, 3, 3, 4]
    assert tables.stages["query"].tolist() == [0, 0, 1, 2, 3, 3, 4, 5]
    assert tables.tasks["query"].tolist() == [0, 0, 0, 3, 5]
    assert tables.queries["tasks"].tolist() == [3, 0, 0, 1, 0, 1]
    assert tables.queries["failed"].tolist() == [False, False, False, True, False, False]
    assert tables.queries["pool"].iloc[0] == "gold"


def test_fingerprints_are_the_users_name_else_the_plan() -> None:
    queries = identify(tiny_tables(**MIX)).queries
    assert queries["fingerprint"].tolist() == [
        "name:q39b",
        "plan:fed",
        "name:report",
        "group:etl",
        "call:count at B.scala:6",
        "call:lost",
    ]
    assert queries["name"].tolist()[:2] == ["q39b", "collect at A.scala:3"]


def test_queries_that_share_the_line_that_started_them_are_told_apart_by_the_id_of_a_run() -> None:
    def run(number: int, plan: str, app: int = 0) -> dict[str, object]:
        return {
            "app": app, "execution_id": number, "root_execution_id": number, "plan_hash": plan,
            "description": "collect at x.py:25", "user_named": False,
        }  # fmt: skip

    tables = tiny_tables(
        applications=[{}, {}],
        sql_executions=[run(0, "a"), run(1, "b"), run(2, "a"), run(0, "a", app=1)],
        jobs=[{"app": int(n == 3), "job_id": n, "sql_execution": n} for n in range(4)],
    )
    queries = identify(tables).queries
    assert queries["name"].tolist() == [
        "collect at x.py:25 (sql-0)",
        "collect at x.py:25 (sql-1)",
        "collect at x.py:25 (sql-0)",
        "collect at x.py:25",
    ]
    assert find_query(queries, "collect at x.py:25 (sql-0)") == (0, 2)
    assert find_query(queries.iloc[:3], "collect at x.py:25") == (0, 1, 2)


def test_how_queries_were_grouped_stays_with_the_tables() -> None:
    tables = identify(tiny_tables(**MIX), QueryBy.JOB)
    assert tables.query_by is QueryBy.JOB
    assert tables.with_(pools=tables.pools).query_by is QueryBy.JOB


def test_a_diagnosis_says_how_its_tables_were_grouped(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", workload(), names=NAMES)
    assert diagnose(read(log, query_by="job")).settings.query_by is QueryBy.JOB


def test_a_group_that_is_new_in_every_run_is_no_fingerprint() -> None:
    group = "0e0f6e9a-7c1f-4a55-9d54-1f1f0f4c2b11"
    tables = tiny_tables(
        jobs=[{"job_group": group}], stages=[{"name": "save at C.scala:1", "job": 0}]
    )
    assert identify(tables).queries["fingerprint"].tolist() == ["call:save at C.scala:1"]


def test_a_broadcast_outside_sql_belongs_to_the_query_before_it_in_its_pool() -> None:
    run = "fb098b05-da7e-4bc9-9864-594443088fd0"
    broadcast = {"job_group": run, "description": f"broadcast exchange (runId {run})"}
    tables = tiny_tables(
        jobs=[
            {"job_id": 0, "job_group": "train", "pool": "a"},
            {"job_id": 1, "job_group": "other", "pool": "b"},
            {"job_id": 2, **broadcast, "pool": "a"},
            {"job_id": 3, **broadcast, "pool": "c"},
        ]
    )
    tables = identify(tables)
    assert tables.jobs["query"].tolist() == [0, 1, 0, 2]
    assert tables.queries["fingerprint"].iloc[2] == "name:broadcast exchange (runId *)"


def test_a_query_named_with_a_date_recurs_tomorrow() -> None:
    names = ["daily_sales 20261001", "daily_sales 20261002", "daily_returns 20261001"]
    jobs = [{"job_id": n, "description": name} for n, name in enumerate(names)]
    queries = identify(tiny_tables(jobs=jobs)).queries
    assert queries["name"].tolist() == names
    assert queries["family"].tolist() == ["daily_sales *"] * 2 + ["daily_returns *"]
    assert queries["fingerprint"].tolist() == ["name:daily_sales *"] * 2 + ["name:daily_returns *"]


def test_a_name_of_nothing_but_a_date_is_no_fingerprint() -> None:
    sql = [
        {"description": "2026-10-01", "user_named": True, "plan_hash": hashed, "execution_id": n,
         "root_execution_id": n}
        for n, hashed in enumerate(("abc", ""))
    ]  # fmt: skip
    jobs = [
        *({"job_id": n, "sql_execution": n} for n in range(2)),
        {"job_id": 2, "sql_execution": -1, "description": "20261001", "job_group": "etl"},
        {"job_id": 3, "sql_execution": -1, "job_group": "20261001"},
    ]
    stages = [{"stage_id": 0, "job": 3, "name": "save at C.scala:1"}]
    queries = identify(tiny_tables(jobs=jobs, stages=stages, sql_executions=sql)).queries
    assert queries["fingerprint"].tolist() == [
        "plan:abc",
        "",
        "group:etl",
        "call:save at C.scala:1",
    ]
    assert queries["name"].tolist()[2] == "20261001"


def test_a_long_name_is_hashed_in_the_fingerprint() -> None:
    sql = "select " + "a, " * NAME_IN_FINGERPRINT
    fingerprints = [
        identify(tiny_tables(jobs=[{"description": text}])).queries["fingerprint"].iloc[0]
        for text in (sql, sql.replace(" ", "  "), sql + "b")
    ]
    assert fingerprints[0].startswith("name-sha256:")
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_a_query_that_did_not_end_lasts_to_the_end_of_its_application() -> None:
    queries = identify(tiny_tables(**MIX)).queries
    assert queries["end_ms"].tolist()[:2] == [5000.0, 10_000.0]
    assert queries["ended"].tolist()[:2] == [True, False]
    assert queries["duration_ms"].tolist()[:2] == [4100.0, 8000.0]


@pytest.mark.parametrize(
    ("query_by", "kinds"),
    [
        (QueryBy.JOB, ["job"] * 7 + ["stage"]),
        (QueryBy.JOB_GROUP, ["job", "job", "job-group", "job", "job", "stage"]),
        (QueryBy.APP, ["app"]),
    ],
)
def test_queries_can_be_coarser_or_finer(query_by, kinds) -> None:
    tables = identify(tiny_tables(**MIX), query_by)
    assert tables.queries["kind"].tolist() == kinds
    assert (tables.tasks["query"] >= 0).all()


def test_identifying_again_replaces_the_earlier_grouping() -> None:
    tables = tiny_tables(**MIX)
    once = identify(tables, QueryBy.SQL)
    again = identify(identify(tables, QueryBy.APP), QueryBy.SQL)
    for (_, left), (_, right) in zip(once, again, strict=True):
        assert left.equals(right)


def test_two_runs_of_one_application_id_have_different_query_ids() -> None:
    tables = tiny_tables(
        applications=[{}, {}, {"attempt_id": "2"}], jobs=[{"app": n} for n in range(3)]
    )
    ids = identify(tables).queries["query_id"].tolist()
    assert ids == ["app-1/job-0", "app-1#2/job-0", "app-1_2/job-0"]


def test_no_jobs_give_no_queries() -> None:
    tables = identify(Tables.empty())
    assert list(tables.queries.columns) == QUERIES.column_names()
    assert len(tables.queries) == 0


CELL = "\nimport tempfile\nfile = tempfile.NamedTemporary..."
PYTHON = "parquet at NativeMethodAccessorImpl.java:0"
DOES = "join of trips, zones"


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("q39b", "q39b"),
        ("# 1 of the charts", "# 1 of the charts"),
        ("collect at App.scala:12", "collect at App.scala:12"),
        ("from sales to stock", "from sales to stock"),
        ("load\nand check", "load\nand check"),
        ("Listing files for 2 paths:<br/>gs://a", "Listing files for 2 paths: gs://a"),
        (CELL, DOES),
        ("//num_round = default (100), max_depth = defaul...", DOES),
        ("from x import y", DOES),
        ("-- by day\n\n  SELECT day\nFROM trips", "SELECT day FROM trips"),
        ("/* by day */ SELECT day FROM trips", "/* by day */ SELECT day FROM trips"),
        (PYTHON, f"parquet: {DOES}"),
        ("showString at NativeMethodAccessorImpl.java:0", f"show: {DOES}"),
        ("collect at <stdin>:1", f"collect: {DOES}"),
        ("count at <console>:25", f"count: {DOES}"),
        ("copy_local_properties at /usr/lib/python3.11/threading.py:982", DOES),
        ("$anonfun$run$1 at CompletableFuture.java:1604", DOES),
    ],
)
def test_imports_comments_and_empty_call_sites_are_no_names(told: str, name: str) -> None:
    assert readable_name(told, DOES) == name


@pytest.mark.parametrize("told", ["# only\n# comments", "import x", "", "\n"])
def test_where_nothing_says_what_it_does_the_recorded_name_stays(told: str) -> None:
    assert readable_name(told, "") == told


def test_a_line_of_a_shell_is_no_name() -> None:
    assert readable_name("count at <console>:25", "") == "count"


def logged(folder: Path, described: str) -> Tables:
    """Four queries of one description: two plans over two tables."""
    log = SyntheticLog().app().executor()
    for at, (plan, table) in enumerate(
        [("Sort", "trips"), ("SortMergeJoin", "trips"), ("Sort", "zones"), ("Sort", "trips")]
    ):
        info = stage_info(at, submission=2000)
        scan = f"FileScan parquet [a#1] Location: InMemoryFileIndex [file:/data/{table}]"
        leaf = node("Scan parquet ", scan)
        log.sql(at, node(plan, plan, leaf), described, time=1000 + at)
        log.job(at, [info], properties={"spark.sql.execution.id": str(at)}).stage(info)
        log.task(at, stage=at).stage_end(info).job_end(at).sql_end(at)
    return read([log.end().write(folder / "app-1")])


@pytest.mark.parametrize("described", [CELL, PYTHON])
def test_names_differ_where_plans_do_and_fingerprints_stay(described: str, tmp_path: Path) -> None:
    queries = logged(tmp_path, described).queries
    names, prints = texts(queries, "name"), texts(queries, "fingerprint")
    call = "parquet: " if described == PYTHON else ""
    wanted = ["read of trips", "join of trips", "read of zones", "read of trips"]
    assert names == [call + name for name in wanted]
    told = " ".join(described.split())
    assert set(texts(queries, "family")) == {told}
    if described == CELL:
        assert set(prints) == {f"name:{told}"}
    else:
        assert all(one.startswith("plan:") for one in prints)
        assert [one == prints[0] for one in prints] == [True, False, False, True]


def test_a_query_is_found_by_the_name_that_was_recorded(tmp_path: Path) -> None:
    queries = logged(tmp_path, PYTHON).queries
    assert find_query(queries, PYTHON) == (0, 1, 2, 3)
    assert find_query(queries, f"{PYTHON} (sql-2)") == (2,)
    assert find_query(queries, "parquet: read of trips") == (0, 3)


def test_queries_of_one_description_are_not_called_runs_of_one(tmp_path: Path) -> None:
    found = diagnose(logged(tmp_path, CELL))
    said = " ".join(one.subject for one in find_findings(found))
    assert "runs" not in said
    assert '"rules"' in str(dump_compiled(found.tables, found.rules))
