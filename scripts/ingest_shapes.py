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
    rdd,
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


def spark_4_queries(path: Path) -> None:
    """Queries of one task, each with another constant, with all that Spark 4 writes of them."""
    log = SyntheticLog("app-shape").app("shape").executor("1", "h1", 8)
    options = " ".join(f"--add-opens=java.base/java.p{n}=ALL-UNNAMED" for n in range(24))
    session = {"spark.driver.extraJavaOptions": options, "spark.executor.extraJavaOptions": options}
    session |= {f"spark.setting.{n}": f"value {n}" for n in range(24)}
    log.environment(**{key.replace(".", "_"): value for key, value in session.items()})
    draw = random.Random(1).randrange
    for query in range(3_000):
        first = query * 100
        stage = {**_spark_4_stage(query), "Accumulables": []}
        properties = {
            **session,
            "callSite.short": "collect at job.py:11",
            "spark.job.tags": f"{_SESSION}-execution-root-id-{query},{_SESSION}",
            "spark.rdd.scope": json.dumps({"id": str(query), "name": "collect"}),
            "spark.sql.execution.id": str(query),
            "spark.sql.execution.root.id": str(query),
        }
        plan, text = _spark_4_plan(query, first)
        log.sql(query, plan, details=_CALLS, physicalPlanDescription=text, modifiedConfigs={})
        log.job(query, [stage], 1000, properties).stage(stage, properties)
        metrics = task_metrics()
        updates = realistic_accumulables(draw, first, metrics)
        log.task_start(query, query).task(query, query, metrics=metrics, accumulables=updates)
        sums = [{k: v for k, v in one.items() if k != "Update"} for one in updates]
        log.stage_end({**stage, "Accumulables": sums}).job_end(query).sql_end(query)
    path.write_bytes(log.end().bytes())


_SESSION = "spark-session-7c93bda2-6301-45fc-aa04-abb49480c684"
_CALLS = "\n".join(
    f"org.apache.spark.sql.classic.Call{n}.run(Call{n}.scala:{n})" for n in range(12)
)


def _spark_4_stage(query: int) -> dict[str, Any]:
    level = dict.fromkeys(("Use Disk", "Use Memory", "Use Off Heap", "Deserialized"), False)
    rdds = [
        {
            **rdd(4 * query + n, kind, scope),
            "Scope": json.dumps({"id": f"spark_plan_{13 * query + n}", "name": scope}),
            "Callsite": "collect at job.py:11",
            "Parent IDs": [4 * query + n - 1] if n else [],
            "Storage Level": {**level, "Replication": 1},
            "Barrier": False,
            "DeterministicLevel": "DETERMINATE",
            "Number of Partitions": 1,
            "Number of Cached Partitions": 0,
            "Memory Size": 0,
            "Disk Size": 0,
        }
        for n, (kind, scope) in enumerate(
            (
                ("FileScanRDD", "Scan parquet "),
                ("MapPartitionsRDD", "Scan parquet "),
                ("MapPartitionsRDD", "WholeStageCodegen (1)"),
                ("MapPartitionsRDD", "WholeStageCodegen (1)"),
            )
        )
    ]
    more = {"Resource Profile Id": 0, "Shuffle Push Enabled": False}
    return stage_info(query, rdds=rdds, submission=1000, Details=_CALLS, **more)


def _spark_4_plan(query: int, first: int) -> tuple[dict[str, Any], str]:
    """A filter on a scan, as a tree and as a text."""
    condition = f"(isnotnull(id#{first}L) AND (id#{first}L > {query}))"
    pushed = f"[IsNotNull(id), GreaterThan(id,{query})]"
    place = "InMemoryFileIndex(1 paths)[file:/data/t]"
    text = (
        f"FileScan parquet [id#{first}L,v#{first + 1}] Batched: true, DataFilters: "
        f"[isnotnull(id#{first}L), (id#{first}L > {query})], Format: Parquet, Location: {place}, "
        f"PartitionFilters: [], PushedFilters: {pushed}, ReadSchema: struct<id:bigint,v:string>"
    )
    names = ("scan time", "number of files read", "metadata time", "size of files read")
    metrics = [(first + n, name, "timing") for n, name in enumerate(names)]
    plan = node("Scan parquet ", text, metrics=metrics)
    for n, (name, said) in enumerate(
        (
            ("InputAdapter", "InputAdapter"),
            ("ColumnarToRow", "ColumnarToRow"),
            ("Filter", f"Filter {condition}"),
            ("WholeStageCodegen (1)", "WholeStageCodegen (1)"),
        )
    ):
        rows = [(first + 10 + n, "number of output rows", "sum")] if n else []
        plan = node(name, said, plan, metrics=rows)
    formatted = (
        f"== Physical Plan ==\n* Filter (3)\n+- * ColumnarToRow (2)\n   +- Scan parquet (1)\n\n\n"
        f"(1) Scan parquet\nOutput [2]: [id#{first}L, v#{first + 1}]\nBatched: true\n"
        f"Location: {place}\nPushedFilters: {pushed}\nCondition : {condition}\n"
    )
    return plan, formatted


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
    "queries of Spark 4": spark_4_queries,
    "5,000 hosts": _scaled("many_hosts", 5_000),
}
