"""Measure the heap of task records in Spark's store of the UI (driver, History Server).

    scripts/bench record_heap          10^5 tasks;  --full: 10^6 (8 GB of heap)

Spark itself replays a made-up log into its own store: without records, with them, and with records
not marked as SQL's, which shows that the measurement sees them.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from scripts.benchmarks import parser_of, sized

RECORD = json.dumps({"v": 1, "profile": "x" * 500})
"""As long as the record of a short task."""
VARIANTS: dict[str, dict[str, str] | None] = {
    "without records": None,
    "with records": {"Metadata": "sql"},
    "with records not marked": {},
}


def write_log(path: Path, tasks: int, more: dict[str, str] | None) -> None:
    """Write the starts and ends of one stage's tasks."""
    with path.open("w", encoding="utf-8") as file:
        for task in range(tasks):
            info: dict[str, Any] = {
                "Task ID": task,
                "Index": task,
                "Attempt": 0,
                "Launch Time": 1_700_000_000_000,
                "Executor ID": "1",
                "Host": "h",
                "Locality": "ANY",
                "Speculative": False,
                "Getting Result Time": 0,
                "Finish Time": 0,
                "Failed": False,
                "Killed": False,
                "Accumulables": [],
            }
            start = {"Event": "SparkListenerTaskStart", "Stage ID": 0, "Stage Attempt ID": 0}
            file.write(json.dumps({**start, "Task Info": info}) + "\n")
            info["Finish Time"] = 1_700_000_000_100
            if more is not None:
                update = {
                    "ID": 0,
                    "Name": "iqcar.task",
                    "Update": RECORD.replace("x", "y", task % 7),
                }
                counts = {"Internal": False, "Count Failed Values": True}
                info["Accumulables"] = [{**update, "Value": f"n={task}", **counts, **more}]
            end = {**start, "Event": "SparkListenerTaskEnd", "Task Type": "ResultTask"}
            reason = {"Task End Reason": {"Reason": "Success"}, "Task Info": info}
            file.write(json.dumps({**end, **reason}) + "\n")


def held_bytes(jvm: Any, log: Path, tasks: int) -> int:
    """Return the heap that Spark's store of the UI takes after it has replayed the log."""
    spark = jvm.org.apache.spark
    conf = spark.SparkConf(False).set("spark.ui.retainedTasks", str(tasks + 1))

    def used() -> int:
        for _ in range(3):
            jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())

    before = used()
    memory = spark.util.kvstore.InMemoryStore()
    store = spark.status.ElementTrackingStore(memory, conf)
    none = jvm.scala.Option.empty()
    listener = spark.status.AppStatusListener(store, conf, False, none, none)
    bus = spark.scheduler.ReplayListenerBus()
    bus.addListener(listener)
    started = jvm.java.io.FileInputStream(str(log))
    bus.replay(started, str(log), False, getattr(bus, "replay$default$4")())
    held = used() - before
    kept = memory.count(jvm.java.lang.Class.forName("org.apache.spark.status.TaskDataWrapper"))
    assert kept == tasks, f"{kept} tasks of {tasks} are in the store"
    store.close(False)
    return held


def main() -> None:
    """Print the bytes a task of each variant, and the ratio to the first."""
    options = parser_of(__doc__, full="10^6 tasks").parse_args()
    tasks = sized(options, quick=5_000, usual=100_000, full=1_000_000)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {max(1, tasks // 125_000)}g pyspark-shell"
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    first = 0
    with tempfile.TemporaryDirectory(prefix="iqcar-record-heap-") as folder:
        log = Path(folder) / "log"
        write_log(log, 1000, {})
        held_bytes(gateway.jvm, log, 1000)  # loads classes
        for name, more in VARIANTS.items():
            write_log(log, tasks, more)
            held = held_bytes(gateway.jvm, log, tasks)
            first = first or held
            print(f"{name:24} {held / tasks:7,.0f} bytes a task   {held / first:.3f}", flush=True)
    gateway.shutdown()


if __name__ == "__main__":
    main()
