"""Compare live sets of runs of an embedded Spark, before and after one change at a time.

    .venv/bin/python scripts/experiments/compare_live.py [--quick] [--runs 4] [--again]

Each run is an application that runs TPC-DS queries one after another; runs before and after take
turns, so that a drift of the machine hits both. Measured arms are kept, and the result is written
after each: a run that was ended goes on with the next arm. `--quick` runs two arms with two runs a
side.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import functools
import itertools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from arms import OUT, REPO, options, save
from cluster import ended_after, start_application, wait_until
from tables import compare_live

import iqcar
from iqcar.apps.demo.mix import make_data
from iqcar.comparison.comparison import Comparison
from tests.support import quick_spark

WARM_UP = """
    SELECT count(*), sum(place), sum(score(ss_quantity, ss_net_paid)) FROM (
        SELECT s.*, row_number() OVER (PARTITION BY ss_addr_sk ORDER BY ss_net_paid) place
        FROM store_sales s JOIN date_dim ON ss_sold_date_sk = d_date_sk
        WHERE ss_item_sk % 20 = 0)"""
"""Loads and compiles what the queries need, so that the first of them does not."""
RANKS = """
    SELECT count(*), sum(place), max(paid_before), max(xxhash64(
        ss_sold_date_sk, ss_sold_time_sk, ss_customer_sk, ss_store_sk, ss_quantity, ss_list_price,
        ss_sales_price, ss_net_profit)) FROM (
        SELECT s.*, row_number() OVER w place, lag(ss_net_paid) OVER w paid_before
        FROM store_sales s
        WINDOW w AS (PARTITION BY ss_addr_sk ORDER BY ss_net_paid, ss_item_sk, ss_ticket_number))"""
"""Sorts all sales by address: no aggregate makes them fewer before they are exchanged."""
SCORES = "SELECT sum(score(ss_quantity, ss_net_paid)) FROM store_sales WHERE ss_item_sk % 4 = 0"
"""Calls a Python function for every fourth sale."""
NEIGHBOUR = """
    SELECT sum(length(sha2(sha2(sha2(cast(id AS string), 256), 256), 256)))
    FROM range(0, 160000, 1, 16)"""
"""Only computes."""
TPCDS = {"q97": "97", "q51": "51", "q96": "96"}
"""Queries of TPC-DS, by their names here."""
WARM_UP_NAME, NEIGHBOUR_NAME = "warm-up", "neighbour"
EXCHANGED = (WARM_UP_NAME, "q97", "q51", "ranks")
"""Queries that exchange data by key: their stages have as many tasks as the setting says."""
JOINED = (WARM_UP_NAME, "q97", "q51", "q96")
"""Queries that join a table which is sent to all."""
OF_STORE_SALES = (WARM_UP_NAME, "q97", "q51", "q96", "ranks", "scores")
EVERY = (*JOINED, "ranks", "scores")


@dataclass(frozen=True)
class Setup:
    """How an application runs.

    conf: Spark settings beyond those of all.
    data: plain, doubled or skewed store sales.
    rounds: of the Python function, for each row.
    beside: ``query`` of the same application, or another ``application``; empty for nothing.
    spark: a line of Spark releases (``scripts/sparks``); empty for the installed one.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    data: str = "plain"
    rounds: int = 20
    beside: str = ""
    spark: str = ""


@dataclass(frozen=True)
class Arm:
    """One change, and the queries that it concerns with the causes that are right for them."""

    name: str
    change: str
    after: Setup
    planted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    before: Setup = Setup()


def planted(queries: tuple[str, ...], *causes: str) -> dict[str, tuple[str, ...]]:
    """Return the same causes for several queries; each is the beginning of a right one."""
    return dict.fromkeys(queries, causes)


PARTITIONS = "spark.sql.shuffle.partitions"
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
MEMORY = "spark.driver.memory"
BASE = Setup()
PLAIN_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""Without the archive of loaded classes, which fits the installed Spark alone."""
ARMS = (
    Arm("nothing", "nothing", BASE),
    Arm(
        "partitions", f"`{PARTITIONS}` 8 → 32", Setup({PARTITIONS: "32"}),
        planted(EXCHANGED, "partitions", f"conf:{PARTITIONS}"),
    ),
    Arm(
        "broadcast", f"`{THRESHOLD}` 10 MB → −1", Setup({THRESHOLD: "-1"}),
        planted(JOINED, "plan:", f"conf:{THRESHOLD}"),
    ),
    Arm(
        "memory", f"`{MEMORY}` 1 GB → 480 MB", Setup({MEMORY: "480m"}),
        planted(EVERY, "metric:spill_bytes", "metric:gc_ms", f"conf:{MEMORY}"),
    ),
    Arm("data", "store sales twice", Setup(data="doubled"), planted(OF_STORE_SALES, "data:")),
    Arm(
        "skew", "three of four sales have one address", Setup(data="skewed"),
        planted((WARM_UP_NAME, "ranks"), "skew:"),
    ),
    Arm(
        "function", "a Python function computes three times as long",
        replace(BASE, rounds=60), planted((WARM_UP_NAME, "scores"), "metric:cpu_ms"),
    ),
    Arm(
        "query beside", "a new query of the same application", Setup(beside="query"),
        planted(EVERY, f"query:{NEIGHBOUR_NAME}"),
    ),
    Arm(
        "application beside", "a new application on the same cores",
        Setup(beside="application"), planted(EVERY, f"query:{NEIGHBOUR_NAME}"),
    ),
    Arm(
        "version", "Spark 3.5 → the installed one", Setup(PLAIN_JVM),
        planted(EVERY, "version:"), Setup(PLAIN_JVM, spark="3.5"),
    ),
    Arm("nothing again", "nothing", BASE),
)  # fmt: skip


Durations = Mapping[str, Sequence[float]]
"""Seconds of a query in each run, by its name, by the driver's clock."""


def arm_result(
    arm: Arm, comparison: Comparison, before: Durations, after: Durations
) -> dict[str, Any]:
    """What was planted in each query, how long it took, and what the comparison says of it."""
    said = said_of(comparison)
    names = [*before, *(name for name in said if name not in before)]
    return {
        "arm": arm.name,
        "change": arm.change,
        "queries": [
            {
                "query": name,
                "planted": list(
                    ("added",) if name == NEIGHBOUR_NAME else arm.planted.get(name, ())
                ),
                "before_s": [round(value, 3) for value in before.get(name, ())],
                "after_s": [round(value, 3) for value in after.get(name, ())],
                **said[name],
            }
            for name in names
        ],
        "settings": [str(one) for one in comparison.different.settings],
        "versions": comparison.different.versions,
        "doubts": list(comparison.doubts),
    }


def said_of(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Verdict, kind and causes of each query, by name."""
    effects, changes, causes = comparison.effects, comparison.changes, comparison.causes
    found = {}
    for category in comparison.queries.tolist():
        effect = effects.iloc[category]
        found[comparison.name(category)] = {
            "verdict": str(effect["verdict"]),
            "listed": False,
            "kind": "",
            "causes": [],
            "before_ms": round(float(effect["before_ms"]), 1),
            "after_ms": round(float(effect["after_ms"]), 1),
            "runs_needed": int(effect["runs_needed"]),
            "stages": [],
        }
    for row, change in enumerate(changes.to_dict("records")):
        name = comparison.name(int(change["category"]))
        why = causes[causes["change"] == row]
        said = {
            "kind": str(change["kind"]),
            "causes": list(zip(why["cause"], why["sentence"], strict=True)),
            "evidence": str(change["evidence"]),
            "q_value": None if np.isnan(change["q_value"]) else round(change["q_value"], 4),
        }
        if change["parent"] < 0:
            last = found[name]
            last |= {"listed": True, **said}
        else:
            last["stages"].append({"stage": name, **said})
    return found


def quiet_results(sets: Mapping[str, iqcar.Tables]) -> list[dict[str, Any]]:
    """Compare equal sets of runs that were not measured in turns: each two of them."""
    found = []
    for first, second in itertools.combinations(sets, 2):
        comparison = iqcar.compare(sets[first], sets[second])
        said = said_of(comparison)
        found.append(
            {
                "before": first,
                "after": second,
                "listed": [
                    {"query": name, "kind": one["kind"], "causes": [c for c, _ in one["causes"]]}
                    for name, one in said.items()
                    if one["listed"]
                ],
            }
        )
    return found


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
    "spark.driver.extraJavaOptions": quick_spark.options(),
    "spark.memory.fraction": "0.13",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.openCostInBytes": "128m",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.minPartitionNum": "1",
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
def variables_of(line: str) -> Mapping[str, str]:
    """Variables with which Python finds a line of Spark releases; none for the installed one."""
    if not line:
        return {}
    sparks = [str(REPO / "scripts" / "sparks"), line]
    done = subprocess.run(sparks, capture_output=True, text=True, check=True)
    home = Path(done.stdout.split()[-1])
    return {"SPARK_HOME": str(home), "PYTHONPATH": str(home.parent)}


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
    with (
        _neighbour(plan, setup, folder, name),
        ended_after(_start(plan, setup, folder, name)) as process,
    ):
        failed = process.wait(timeout=LONGEST_S)
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
    with ended_after(_start({**plan, **ours}, setup, folder, f"{name}-neighbour")) as process:
        wait_until(ready.exists, f"neighbour, see {folder / name}-neighbour.log", [process])
        yield
        stop.touch()
        process.wait(timeout=LONGEST_S)


def _start(plan: dict[str, Any], setup: Setup, folder: Path, name: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.plan.json"
    file.write_text(json.dumps(plan, indent=1), "utf-8")
    called = NEIGHBOUR_NAME if plan["stop"] else "suite"
    conf = {**CONF, "spark.app.name": called, **setup.conf}
    words = [str(Path(__file__).with_name("compare_live_jobs.py")), str(file)]
    return start_application(words, "local[2]", folder, name, conf, variables_of(setup.spark))


EXPERIMENT = "compare_live"
QUICK = ("nothing", "partitions")
MEASURED = "measured.json"
SIDES = ("before", "after")


def measure(arm: Arm, tables: dict[str, Any], folder: Path, runs: int) -> None:
    """Run both sides of an arm in turns: before, after, after, before, and so on."""
    shutil.rmtree(folder, ignore_errors=True)
    took: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
    spark = {}
    for number in range(runs):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            setup = arm.before if side == "before" else arm.after
            began = time.monotonic()
            outcome = run_once(tables, setup, folder / side, str(number))
            spark[side] = outcome["spark"]
            for query, seconds in outcome["duration_s"].items():
                took[side].setdefault(query, []).append(seconds)
            total = sum(outcome["duration_s"].values())
            print(
                f"{EXPERIMENT}: {arm.name}, {side} {number + 1}: {total:.1f} s over all queries, "
                f"{time.monotonic() - began:.1f} s in all",
                flush=True,
            )
    content = {"spark": spark, "duration_s": took}
    (folder / MEASURED).write_text(json.dumps(content), "utf-8")


def compare_all(out: Path) -> dict[str, Any]:
    """Compare the arms that are measured, and those of their sets before that are alike."""
    found, alike = [], {}
    spark = ""
    for arm in ARMS:
        file = out / arm.name / MEASURED
        if not file.is_file():
            continue
        measured = json.loads(file.read_text("utf-8"))
        spark = measured["spark"]["after"]
        before, after = (iqcar.read([out / arm.name / side / "eventlogs"]) for side in SIDES)
        took = measured["duration_s"]
        comparison = iqcar.compare(before, after)
        found.append(arm_result(arm, comparison, took["before"], took["after"]))
        if arm.before == BASE:
            alike[arm.name] = before
    return {"spark": spark, "arms": found, "quiet": quiet_results(alike)}


def main() -> None:
    """Measure the arms that are missing; compare all after each."""
    named = [arm.name for arm in ARMS]
    chosen = options(__doc__, "quick", "fresh", "again", arms=named, runs=4)
    names = QUICK if chosen.quick else chosen.arms
    wanted = [arm for arm in ARMS if arm.name in names]
    out = OUT / (f"{EXPERIMENT}_quick" if chosen.quick else EXPERIMENT)
    if chosen.fresh:
        for arm in wanted:
            shutil.rmtree(out / arm.name, ignore_errors=True)
    missing = [arm for arm in wanted if not (out / arm.name / MEASURED).is_file()]
    if missing and not chosen.again:
        tables = prepare(OUT / "compare_live_tables")
        for arm in missing:
            measure(arm, tables, out / arm.name, 2 if chosen.quick else chosen.runs)
    save(EXPERIMENT, out if chosen.quick else chosen.results, compare_all(out), compare_live)


if __name__ == "__main__":
    main()
