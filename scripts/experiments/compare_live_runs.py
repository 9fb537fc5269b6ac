"""Run the applications of the live comparison, each in a process and a JVM of its own."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arms import REPO
from compare_live_arms import (
    NEIGHBOUR,
    NEIGHBOUR_NAME,
    RANKS,
    SCORES,
    TPCDS,
    WARM_UP,
    WARM_UP_NAME,
    Setup,
)

from iqcar.apps.demo.mix import make_data
from iqcar.apps.demo.run_mix import ENVIRONMENT_OF_ANOTHER_SPARK
from iqcar.logs.attach.spark_conf import SparkConf, listener_jar
from tests.support import quick_spark

SCALE = 0.2
FILES = 8
"""Of each fact table; one task reads a file."""
FACTS = ("store_sales", "catalog_sales", "web_sales", "inventory")
STORE_SALES = {
    "doubled": "SELECT * FROM {sales} UNION ALL SELECT * FROM {sales}",
    "skewed": "SELECT * REPLACE (CASE WHEN ss_ticket_number % 4 > 0 THEN 7 ELSE ss_addr_sk END"
    " AS ss_addr_sk) FROM {sales}",
}
"""Changed store sales."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": quick_spark.options(),
    "spark.memory.fraction": "0.13",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.openCostInBytes": "128m",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.minPartitionNum": "1",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""One task per file, as many partitions as the setting says, and a JVM that is soon warm."""
LONGEST_S = 180.0
"""A run takes ten seconds; only a hang takes longer."""

Tables = dict[str, tuple[str, str]]


def prepare(folder: Path) -> dict[str, Any]:
    """Divide the fact tables into even files, read the queries, and archive Spark's classes.

    Returns ``queries``: SQL by name; and by kind of data, path and schema of each table.
    """
    quick_spark.make_archive()
    data = make_data(REPO / "build" / "demo", SCALE)
    schemas = json.loads((data / "schemas.json").read_text("utf-8"))
    texts = json.loads((data / "queries.json").read_text("utf-8"))
    plain = {name: str(data / f"{name}.parquet") for name in schemas}
    wanted = {("plain", name): "SELECT * FROM {sales}" for name in FACTS}
    wanted |= {(kind, "store_sales"): text for kind, text in STORE_SALES.items()}
    with duckdb.connect() as connection:
        for (kind, name), text in wanted.items():
            if not (folder / kind / name).exists():
                rows = text.format(sales=f"'{plain[name]}'")
                _write_even(connection, rows, folder / kind / name)
    plain |= {name: str(folder / kind / name) for kind, name in wanted if kind == "plain"}
    found: dict[str, Any] = {
        kind: {
            name: (str(folder / kind / name) if (kind, name) in wanted else path, schemas[name])
            for name, path in plain.items()
        }
        for kind in ("plain", *STORE_SALES)
    }
    tpcds = {name: texts[number].strip().rstrip(";") for name, number in TPCDS.items()}
    return found | {"queries": {WARM_UP_NAME: WARM_UP, **tpcds, "ranks": RANKS, "scores": SCORES}}


def _write_even(connection: duckdb.DuckDBPyConnection, rows: str, into: Path) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE even AS {rows}")
    into.mkdir(parents=True)
    for number in range(FILES):
        part = f"SELECT * FROM even WHERE rowid % {FILES} = {number} ORDER BY rowid"
        file = into / f"part-{number}.parquet"
        connection.execute(f"COPY ({part}) TO '{file}' (COMPRESSION zstd)")


@functools.cache
def environment(line: str) -> Mapping[str, str]:
    """Variables with which Python finds a line of Spark releases; the installed one if empty."""
    kept = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT_OF_ANOTHER_SPARK}
    kept |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    if not line:
        return kept
    sparks = [str(REPO / "scripts" / "sparks"), line]
    done = subprocess.run(sparks, capture_output=True, text=True, check=True)
    home = Path(done.stdout.split()[-1])
    return kept | {"SPARK_HOME": str(home), "PYTHONPATH": str(home.parent)}


def run_once(tables: dict[str, Any], setup: Setup, folder: Path, name: str) -> dict[str, Any]:
    """Run one application, and its neighbour; return Spark's version and seconds by query.

    tables: from :func:`prepare`.
    folder: gets ``eventlogs/``.
    name: of the run's files.
    """
    result = folder / f"{name}.json"
    plan = {
        "tables": tables[setup.data], "queries": tables["queries"], "rounds": setup.rounds,
        "neighbour": (NEIGHBOUR_NAME, NEIGHBOUR if setup.beside == "query" else ""), "stop": "",
        "result": str(result),
    }  # fmt: skip
    with _neighbour(plan, setup, folder, name):
        process = _start(plan, setup, folder, name)
        try:
            failed = process.wait(timeout=LONGEST_S)
        finally:
            process.kill()
            process.wait()
    if failed:
        raise SystemExit(f"compare_live: the application failed, see {folder / name}.log")
    outcome: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return outcome


@contextmanager
def _neighbour(plan: dict[str, Any], setup: Setup, folder: Path, name: str) -> Iterator[None]:
    """Run another application as long as this one, where the setup has one."""
    if setup.beside != "application":
        yield
        return
    stop, ready = (folder / f"{name}.{word}" for word in ("stop", "ready"))
    for file in (stop, ready):
        file.unlink(missing_ok=True)
    ours = {"stop": str(stop), "ready": str(ready), "neighbour": (NEIGHBOUR_NAME, NEIGHBOUR)}
    process = _start({**plan, **ours}, setup, folder, f"{name}-neighbour")
    try:
        deadline = time.monotonic() + LONGEST_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"compare_live: no neighbour, see {folder / name}-neighbour.log")
            time.sleep(0.1)
        yield
        stop.touch()
        process.wait(timeout=LONGEST_S)
    finally:
        process.kill()
        process.wait()


def _start(plan: dict[str, Any], setup: Setup, folder: Path, name: str) -> subprocess.Popen[bytes]:
    logs = folder / "eventlogs"
    logs.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.plan.json"
    file.write_text(json.dumps(plan, indent=1), "utf-8")
    settings = {
        **SparkConf(jar=str(listener_jar()), log_dir=str(logs)).settings(),
        **CONF,
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.app.name": NEIGHBOUR_NAME if plan["stop"] else "suite",
        **setup.conf,
    }
    words = ["--master", "local[2]"]
    for key, value in settings.items():
        words += ["--conf", f"{key}={value}"]
    submit = {"PYSPARK_SUBMIT_ARGS": " ".join(map(shlex.quote, [*words, "pyspark-shell"]))}
    program = Path(__file__).with_name("compare_live_jobs.py")
    with (folder / f"{name}.log").open("wb") as messages:
        return subprocess.Popen(
            [sys.executable, str(program), str(file)],
            env={**environment(setup.spark), **submit},
            stdout=messages,
            stderr=messages,
        )
