"""Event logs of unusual shapes and old spellings: what `scripts/bench ingest --shapes` reads.

Every writer takes a file and fills it with some tens of megabytes.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import scale_logs
from tests.support.synthetic_log import (
    SyntheticLog,
    node,
    realistic_accumulables,
    sql_update,
    stage_info,
    task_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCKS, ACCUMULABLES = 900, 2_000
"""Updated blocks of a task, which make a line of 170 KB, and accumulables of one."""


def _tasks(
    path: Path, tasks: int, line_of: Callable[[SyntheticLog, int], Any], version: str
) -> None:
    log = SyntheticLog("app-shape", version).app("shape").environment(spark_task_cpus="1")
    log.executor("1", "h1", 8)
    info = stage_info(0, **{"Number of Tasks": tasks})
    log.stage(info)
    with path.open("wb") as file:
        for task in range(tasks):
            log.task_start(task)
            line_of(log, task)
            file.write(log.bytes())
            log.lines.clear()
        file.write(log.stage_end(info).end().bytes())


def updated_blocks(path: Path) -> None:
    """Spark 2.0 tasks that tell of thousands of cached blocks."""
    level = {
        "Use Disk": True, "Use Memory": True, "Deserialized": False, "Replication": 1,
    }  # fmt: skip
    rng = random.Random(1)

    def add(log: SyntheticLog, task: int) -> None:
        blocks = [
            {
                "Block ID": f"rdd_{task}_{block}",
                "Status": {"Storage Level": level, "Memory Size": rng.randrange(9**9)},
            }
            for block in range(rng.randrange(BLOCKS, 2 * BLOCKS))
        ]  # fmt: skip
        log.task(task, metrics={**task_metrics(), "Updated Blocks": blocks})

    _tasks(path, 120, add, "2.0.2")


def accumulables(path: Path) -> None:
    """Tasks with thousands of accumulables, as of plans with a thousand operators."""

    def add(log: SyntheticLog, task: int) -> None:
        names = ("number of output rows", "duration", "scan time", "spill size")
        found = [sql_update(n, names[n % 4], task + n) for n in range(ACCUMULABLES)]
        log.task(task, accumulables=found)

    _tasks(path, 100, add, "4.0.0")


def failed_tasks(path: Path) -> None:
    """Tasks that failed, whose accumulables stand twice in a line."""
    draw = random.Random(1).randrange

    def add(log: SyntheticLog, task: int) -> None:
        metrics = task_metrics()
        updates = realistic_accumulables(draw, 0, metrics)
        reason = {
            "Reason": "ExceptionFailure", "Class Name": "java.io.IOException", "Description": "x",
            "Full Stack Trace": "at a.b.C(D.java:1)\n" * 40, "Accumulator Updates": updates,
        }  # fmt: skip
        log.task(task, metrics=metrics, accumulables=updates, more={"Task End Reason": reason})

    _tasks(path, 2_000, add, "3.5.0")


def spark_1(path: Path) -> None:
    """Spark 1.x: metrics only where there are any, a host among them, updates as text."""

    def add(log: SyntheticLog, task: int) -> None:
        metrics = {"Host Name": "h1"} | {
            key: value
            for key, value in task_metrics().items()
            if not isinstance(value, (dict, list)) and key != "Peak Execution Memory"
        }
        if task % 2:
            metrics["Input Metrics"] = {"Data Read Method": "Hadoop", "Bytes Read": task}
        found = [{"ID": n, "Name": f"rows {n}", "Update": "7", "Value": "9"} for n in range(20)]
        log.task(task, metrics=metrics, accumulables=found)

    _tasks(path, 6_000, add, "1.3.1")


def spark_2(path: Path) -> None:
    """Spark 2.x: peak memory only among the accumulables."""
    draw = random.Random(1).randrange

    def add(log: SyntheticLog, task: int) -> None:
        metrics = task_metrics()
        found = realistic_accumulables(draw, 0, metrics)
        del metrics["Peak Execution Memory"]
        log.task(task, metrics=metrics, accumulables=found)

    _tasks(path, 4_000, add, "2.4.8")


def other_spelling(path: Path) -> None:
    """Tasks whose keys stand in another order, as other programs write them again."""
    draw = random.Random(1).randrange

    def add(log: SyntheticLog, task: int) -> None:
        metrics = task_metrics()
        log.task(task, metrics=metrics, accumulables=realistic_accumulables(draw, 0, metrics))
        line = log.lines[-1]
        start = line.index(b',"Task Metrics"')
        log.lines[-1] = line[:30] + line[start:-1] + line[30:start] + b"}"

    _tasks(path, 4_000, add, "4.0.0")


def wide_plans(path: Path) -> None:
    """Queries whose plans are unions of hundreds of scans, each adapted once."""
    log = SyntheticLog("app-shape").app("shape").executor("1", "h1", 8)
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate"
    for query in range(30):
        first = query * 10_000
        scans = [
            node(
                "Scan parquet",
                f"FileScan parquet t{n}[a#{first + n},b#{first + n + 1}] Batched: true,"
                f" DataFilters: [(a#{first + n} > {query})], Location: [file:/data/t{n}]",
                metrics=[(first + 3 * n + m, name, "timing") for m, name in enumerate(_METRICS)],
            )
            for n in range(600)
        ]
        plan = node("Union", "Union", *scans)
        log.sql(query, plan, f"wide {query}")
        log.event(name, {"executionId": query, "sparkPlanInfo": plan})
        info = stage_info(query)
        properties = {"spark.sql.execution.id": str(query)}
        log.job(query, [info], 1000, properties).stage(info, properties)
        log.task(query, query).stage_end(info).job_end(query).sql_end(query)
    path.write_bytes(log.end().bytes())


_METRICS = ("scan time", "number of output rows", "spill size")


def deep_plans(path: Path) -> None:
    """Queries whose plans are chains of 400 operators, which come again with other constants."""
    log = SyntheticLog("app-shape").app("shape").executor("1", "h1", 8)
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    for query in range(120):
        head = json.dumps({"Event": name, "executionId": query, "description": "", "time": 1000})
        plan = scale_logs._deep_plan(400, query)
        log.raw(f'{head[:-1]},"sparkPlanInfo":{plan}}}'.encode())
        info = stage_info(query)
        properties = {"spark.sql.execution.id": str(query)}
        log.job(query, [info], 1000, properties).stage(info, properties)
        log.task(query, query).stage_end(info).job_end(query).sql_end(query)
    path.write_bytes(log.end().bytes())


def long_descriptions(path: Path) -> None:
    """Queries that are described by SQL of 100 KB, which their job repeats."""
    log = SyntheticLog("app-shape").app("shape").executor("1", "h1", 8)
    text = "SELECT " + ", ".join(f"column_{n} AS c{n}" for n in range(4_000)) + " FROM t"
    for query in range(60):
        info = stage_info(query)
        properties = {"spark.sql.execution.id": str(query), "spark.job.description": text}
        log.sql(query, node("Scan parquet"), f"{text} WHERE x = {query}")
        log.job(query, [info], 1000, properties).stage(info, properties)
        log.task(query, query).stage_end(info).job_end(query).sql_end(query)
    path.write_bytes(log.end().bytes())


def _scaled(case: str, size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        folder = path.parent / "scaled"
        folder.mkdir()
        scale_logs.CASES[case].write(folder, size)
        next(folder.iterdir()).rename(path)
        folder.rmdir()

    return write


SHAPES: dict[str, Callable[[Path], None]] = {
    "updated blocks": updated_blocks,
    "accumulables": accumulables,
    "failed tasks": failed_tasks,
    "Spark 1.3": spark_1,
    "Spark 2.4": spark_2,
    "other spelling": other_spelling,
    "wide plans": wide_plans,
    "plans of 400 levels": deep_plans,
    "plans of 4,000 levels": _scaled("deep_plans", 4_000),
    "long descriptions": long_descriptions,
    "50,000 stages": _scaled("many_stages", 50_000),
    "20,000 queries": _scaled("short_queries", 20_000),
    "5,000 hosts": _scaled("many_hosts", 5_000),
}
