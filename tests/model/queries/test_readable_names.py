"""Names that people know: what the query says of itself, else what it does; what matches stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.diagnosis import find_query
from iqcar.model.queries.readable_names import readable_name
from iqcar.pipeline import diagnose, read
from iqcar.rules.rule_file import dump_compiled
from iqcar.say.findings import find_findings
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info

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


@pytest.mark.parametrize("told", [PYTHON, "# only\n# comments", "import x", "", "\n"])
def test_where_nothing_says_what_it_does_the_recorded_name_stays(told: str) -> None:
    assert readable_name(told, "") == told


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
