"""Runs a mix of queries on an embedded Spark, in a process of its own."""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from iqcar.apps.demo.mix import Query
from iqcar.base.files.derived import open_derived, write_derived
from iqcar.base.workers import usable_cores
from iqcar.errors import IqcarError
from iqcar.logs.attach.spark_conf import SparkConf, listener_jar

DRIVER_MEMORY = "2g"
LEAST_SLOTS = 2
"""With one slot the queries would run one task at a time."""
ENVIRONMENT_OF_ANOTHER_SPARK = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
)


SETTINGS = {
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "true",
    "spark.eventLog.compression.codec": "zstd",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of every run; its own folders, the plugin's and those of the caller come on top."""


@dataclass(frozen=True)
class Run:
    """One run of a mix."""

    log: Path
    spark: str
    slots: int
    duration_s: dict[str, float] = field(default_factory=dict)
    runs: int = 1

    @property
    def total_s(self) -> float:
        """Sum over all queries."""
        return sum(self.duration_s.values())


def slots_here() -> int:
    """Return the task slots of the embedded Spark: the processors that the process may use."""
    return max(LEAST_SLOTS, len(usable_cores()))


def run_mix(
    queries: Sequence[Query],
    data: Path,
    out: Path,
    *,
    name: str,
    conf: Mapping[str, str] | None = None,
    master: str = "",
    plugin: bool = True,
    runs: int = 1,
    within_s: float = math.inf,
    say: Callable[[str], None] = print,
) -> Run:
    """Run queries at their start times, one or more times, and record an event log.

    Raises IqcarError if Spark does not start, or a query fails.

    data: TPC-DS data (:func:`iqcar.apps.demo.mix.make_data`).
    out: folder for the event log (``eventlogs/``) and Spark's messages; created if missing.
    master: Spark master; by default embedded, with :func:`slots_here` slots.
    runs: after ``within_s`` seconds.
    """
    logs = out / "eventlogs"
    logs.mkdir(parents=True, exist_ok=True)
    plan, result, spark_log = (out / f"{name}.{part}" for part in ("plan.json", "json", "log"))
    result.unlink(missing_ok=True)
    order = {
        "data": str(data),
        "output": str(out / "output"),
        "result": str(result),
        "queries": [asdict(query) for query in queries],
        "runs": runs,
        "within_s": within_s,
    }
    write_derived(plan, json.dumps(order, indent=1))
    recording = {
        "spark.app.name": f"iqcar demo {name}",
        "spark.eventLog.dir": logs.resolve().as_uri(),
        "spark.sql.warehouse.dir": (out / "warehouse").resolve().as_uri(),
    }
    attached = SparkConf(jar=str(listener_jar())).settings() if plugin else {}
    environment = _environment(master, {**SETTINGS, **recording, **attached, **(conf or {})})
    with open_derived(spark_log) as messages:
        process = subprocess.Popen(
            [sys.executable, "-m", "iqcar.apps.demo.workload", str(plan)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        )
        try:
            for line in process.stdout or ():
                say(line.rstrip("\n"))
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.terminate()
            process.wait()
    if process.returncode != 0 or not result.is_file():
        raise IqcarError(
            f"the Spark application ended with exit code {process.returncode}",
            str(spark_log),
            "its last lines say why",
        )
    return _outcome(result, spark_log, logs)


def _environment(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which pyspark starts Spark with these settings."""
    words = ["--master", master or f"local[{slots_here()}]"]
    for key, value in settings.items():
        words += ["--conf", f"{key}={value}"]
    environment = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT_OF_ANOTHER_SPARK}
    # All processes are local, so a host name that does not resolve must not matter.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*words, "pyspark-shell"]))
    return environment


def _outcome(result: Path, spark_log: Path, logs: Path) -> Run:
    """Read what the workload wrote; raises IqcarError if a query failed."""
    outcome = json.loads(result.read_text("utf-8"))
    failed = [f"{q['name']}: {q['failure']}" for q in outcome["queries"] if "failure" in q]
    if failed:
        raise IqcarError(f"a query failed: {'; '.join(failed)}", str(spark_log))
    (log,) = logs.glob(f"{outcome['log']}*")
    took: dict[str, list[float]] = {}
    for query in outcome["queries"]:
        took.setdefault(query["name"], []).append(query["duration_s"])
    return Run(
        log=log,
        spark=outcome["spark"],
        slots=outcome["slots"],
        duration_s={name: sum(times) / len(times) for name, times in took.items()},
        runs=max(map(len, took.values())),
    )
