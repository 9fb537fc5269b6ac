"""A small writer of event logs in the shape of Spark 3 and 4, for tests and benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SQL = "org.apache.spark.sql.execution.ui."
INTERNAL = (
    ("executorDeserializeTime", "Executor Deserialize Time"),
    ("executorDeserializeCpuTime", "Executor Deserialize CPU Time"),
    ("executorRunTime", "Executor Run Time"),
    ("executorCpuTime", "Executor CPU Time"),
    ("resultSize", "Result Size"),
    ("jvmGCTime", "JVM GC Time"),
    ("resultSerializationTime", "Result Serialization Time"),
    ("peakExecutionMemory", "Peak Execution Memory"),
)
SQL_METRICS = (
    "number of output rows", "data size", "shuffle bytes written", "shuffle records written",
    "shuffle write time", "duration", "number of output rows", "peak memory",
    "time in aggregation build", "number of output rows", "scan time", "local bytes read",
    "fetch wait time", "records read", "spill size", "sort time",
)  # fmt: skip


class SyntheticLog:
    """Builds an event log line by line; every method appends one event and returns ``self``.

    Times are in ms. Any field of an event can be replaced by a keyword with its name in Spark, or
    left out by giving it the value ``...``.
    """

    def __init__(self, app_id: str = "app-1", version: str | None = "4.0.0") -> None:
        self.app_id = app_id
        self.lines: list[bytes] = []
        if version is not None:
            self.event("SparkListenerLogStart", {"Spark Version": version})

    def event(self, name: str, fields: dict[str, Any]) -> SyntheticLog:
        """Append an event of any name."""
        fields = {key: value for key, value in fields.items() if value is not ...}
        self.lines.append(json.dumps({"Event": name, **fields}, separators=(",", ":")).encode())
        return self

    def raw(self, line: bytes) -> SyntheticLog:
        """Append a line as it is."""
        self.lines.append(line)
        return self

    def app(self, name: str = "app", start: float = 1000, **more: Any) -> SyntheticLog:
        """The application's start."""
        fields = {"App Name": name, "App ID": self.app_id, "Timestamp": start, "User": "ann"}
        return self.event("SparkListenerApplicationStart", {**fields, **more})

    def environment(self, **properties: str) -> SyntheticLog:
        """Settings; an underscore in a name stands for a dot."""
        spark = {key.replace("_", "."): value for key, value in properties.items()}
        return self.event(
            "SparkListenerEnvironmentUpdate",
            {"JVM Information": {}, "Spark Properties": spark, "System Properties": {}},
        )

    def executor(
        self, executor: str = "1", host: str = "h1", cores: int = 4, time: float = 1000
    ) -> SyntheticLog:
        """An executor is there."""
        info = {"Host": host, "Total Cores": cores, "Log Urls": {}}
        return self.event(
            "SparkListenerExecutorAdded",
            {"Timestamp": time, "Executor ID": executor, "Executor Info": info},
        )

    def executor_removed(
        self, executor: str = "1", time: float = 9000, reason: str = ""
    ) -> SyntheticLog:
        """An executor is gone."""
        return self.event(
            "SparkListenerExecutorRemoved",
            {"Timestamp": time, "Executor ID": executor, "Removed Reason": reason},
        )

    def sql(
        self,
        execution: int,
        plan: dict[str, Any] | None = None,
        description: str = "collect at App.scala:1",
        time: float = 1000,
        **more: Any,
    ) -> SyntheticLog:
        """An SQL query begins."""
        fields = {
            "executionId": execution,
            "description": description,
            "details": "org.apache.spark.sql.Dataset.collect(Dataset.scala:1)",
            "physicalPlanDescription": "== Physical Plan ==",
            "sparkPlanInfo": plan if plan is not None else node("Scan"),
            "time": time,
        }
        return self.event(f"{SQL}SparkListenerSQLExecutionStart", {**fields, **more})

    def sql_end(self, execution: int, time: float = 9000, error: str | None = "") -> SyntheticLog:
        """An SQL query ends."""
        return self.event(
            f"{SQL}SparkListenerSQLExecutionEnd",
            {"executionId": execution, "time": time, "errorMessage": error},
        )

    def job(
        self,
        job: int,
        stages: list[dict[str, Any]] | list[int],
        time: float = 1000,
        properties: dict[str, str] | None = None,
        **more: Any,
    ) -> SyntheticLog:
        """A job begins with stages, given as infos or numbers."""
        infos = [one if isinstance(one, dict) else stage_info(one) for one in stages]
        fields = {
            "Job ID": job,
            "Submission Time": time,
            "Stage Infos": infos,
            "Stage IDs": [info["Stage ID"] for info in infos],
            "Properties": properties or {},
        }
        return self.event("SparkListenerJobStart", {**fields, **more})

    def job_end(self, job: int, time: float = 9000, ok: bool = True) -> SyntheticLog:
        """A job ends."""
        result = {"Result": "JobSucceeded" if ok else "JobFailed"}
        return self.event(
            "SparkListenerJobEnd", {"Job ID": job, "Completion Time": time, "Job Result": result}
        )

    def stage(
        self, info: dict[str, Any] | int, properties: dict[str, str] | None = None, **more: Any
    ) -> SyntheticLog:
        """A stage is submitted."""
        info = info if isinstance(info, dict) else stage_info(info)
        return self.event(
            "SparkListenerStageSubmitted", {"Stage Info": info, "Properties": properties, **more}
        )

    def stage_end(self, info: dict[str, Any] | int, time: float = 9000) -> SyntheticLog:
        """A stage is complete."""
        info = info if isinstance(info, dict) else stage_info(info)
        return self.event(
            "SparkListenerStageCompleted", {"Stage Info": {**info, "Completion Time": time}}
        )

    def task_start(self, task: int, stage: int = 0, **more: Any) -> SyntheticLog:
        """A task begins."""
        info = task_info(task, **more)
        info.update({"Finish Time": 0, "Accumulables": []})
        return self.event(
            "SparkListenerTaskStart", {"Stage ID": stage, "Stage Attempt ID": 0, "Task Info": info}
        )

    def task(
        self,
        task: int,
        stage: int = 0,
        attempt: int = 0,
        reason: str = "Success",
        metrics: dict[str, Any] | None = None,
        accumulables: list[dict[str, Any]] | None = None,
        more: dict[str, Any] | None = None,
        **info: Any,
    ) -> SyntheticLog:
        """A task ends."""
        task_fields = task_info(task, **info)
        task_fields["Accumulables"] = accumulables or []
        fields = {
            "Stage ID": stage,
            "Stage Attempt ID": attempt,
            "Task Type": "ResultTask",
            "Task End Reason": {"Reason": reason},
            "Task Info": task_fields,
            "Task Metrics": task_metrics() if metrics is None else metrics,
        }
        return self.event("SparkListenerTaskEnd", {**fields, **(more or {})})

    def end(self, time: float = 10_000) -> SyntheticLog:
        """The application's end."""
        return self.event("SparkListenerApplicationEnd", {"Timestamp": time})

    def bytes(self) -> bytes:
        """The whole log."""
        return b"".join(line + b"\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        """Write a file, and the folders that it is in."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.bytes())
        return path


def node(
    name: str,
    text: str | None = None,
    *children: dict[str, Any],
    metrics: list[tuple[int, str, str]] | None = None,
) -> dict[str, Any]:
    """A node of ``sparkPlanInfo``; metrics are (accumulator id, name, type)."""
    return {
        "nodeName": name,
        "simpleString": name if text is None else text,
        "children": list(children),
        "metadata": {},
        "metrics": [
            {"name": metric, "accumulatorId": number, "metricType": kind}
            for number, metric, kind in metrics or []
        ],
    }


def rdd(number: int, name: str = "MapPartitionsRDD", scope: str = "map") -> dict[str, Any]:
    """An RDD of a stage."""
    return {
        "RDD ID": number,
        "Name": name,
        "Scope": json.dumps({"id": "1", "name": scope}),
        "Parent IDs": [],
    }


def stage_info(
    stage: int,
    attempt: int = 0,
    parents: list[int] | None = None,
    rdds: list[dict[str, Any]] | None = None,
    submission: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What events say of a stage."""
    info = {
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Stage Name": f"collect at App.scala:{stage}",
        "Number of Tasks": 1,
        "RDD Info": rdds if rdds is not None else [rdd(stage)],
        "Parent IDs": parents or [],
        "Details": "",
        "Accumulables": [],
        **more,
    }
    if submission is not None:
        info["Submission Time"] = submission
    return info


def task_info(
    task: int,
    launch: Any = 2000,
    finish: Any = 3000,
    host: str = "h1",
    executor: str = "1",
    index: int | None = None,
    attempt: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """What events say of a task, beside its metrics."""
    return {
        "Task ID": task,
        "Index": task if index is None else index,
        "Attempt": attempt,
        "Partition ID": task if index is None else index,
        "Launch Time": launch,
        "Executor ID": executor,
        "Host": host,
        "Locality": "PROCESS_LOCAL",
        "Speculative": False,
        "Getting Result Time": 0,
        "Finish Time": finish,
        "Failed": False,
        "Killed": False,
        **more,
    }


def task_metrics(**more: Any) -> dict[str, Any]:
    """Task metrics in Spark 4's shape; keywords are names in Spark with spaces as underscores."""
    metrics: dict[str, Any] = {
        "Executor Deserialize Time": 10,
        "Executor Deserialize CPU Time": 8_000_000,
        "Executor Run Time": 900,
        "Executor CPU Time": 600_000_000,
        "Peak Execution Memory": 1024,
        "Result Size": 2000,
        "JVM GC Time": 20,
        "Result Serialization Time": 1,
        "Memory Bytes Spilled": 0,
        "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": {
            "Remote Blocks Fetched": 2,
            "Local Blocks Fetched": 3,
            "Fetch Wait Time": 40,
            "Remote Bytes Read": 5000,
            "Remote Bytes Read To Disk": 0,
            "Local Bytes Read": 6000,
            "Total Records Read": 70,
        },
        "Shuffle Write Metrics": {
            "Shuffle Bytes Written": 8000,
            "Shuffle Write Time": 9_000_000,
            "Shuffle Records Written": 100,
        },
        "Input Metrics": {"Bytes Read": 11_000, "Records Read": 120},
        "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
        "Updated Blocks": [],
    }
    metrics.update({name.replace("_", " "): value for name, value in more.items()})
    return {name: value for name, value in metrics.items() if value is not ...}


def sql_update(number: int, name: str, update: object, value: object = None) -> dict[str, Any]:
    """An accumulable of a SQL metric as task ends and completed stages carry it."""
    fields: dict[str, Any] = {"ID": number, "Name": name}
    if update is not None:
        fields["Update"] = str(update)
    fields["Value"] = str(update if value is None else value)
    return {**fields, "Internal": True, "Count Failed Values": True, "Metadata": "sql"}


def realistic_accumulables(draw: Any, first: int, metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """About 25 accumulables, as a task of a SQL query on Spark 4 has; ``draw(n)`` is below n."""
    found = []
    for offset, name in enumerate(SQL_METRICS):
        update = draw(1_000_000)
        found.append(sql_update(first + offset, name, update, update + draw(10_000_000)))
    for offset, (name, metric) in enumerate(INTERNAL):
        update = metrics[metric]
        found.append(
            {
                "ID": first + 40 + offset,
                "Name": f"internal.metrics.{name}",
                "Update": update,
                "Value": update + draw(10_000_000),
                "Internal": True,
                "Count Failed Values": True,
            }
        )
    return found


FLUSHED_LINES = 2_000
TASK_MS = 800


class StreamedLog(SyntheticLog):
    """A log that is written as it grows, in memory that does not depend on its size."""

    def __init__(self, path: Path, app_id: str = "app-scale") -> None:
        self._file = path.open("wb")
        super().__init__(app_id)
        self._start, self._end = _task_templates()
        self._tasks = 0

    def event(self, name: str, fields: dict[str, Any]) -> StreamedLog:
        """Append an event of any name."""
        super().event(name, fields)
        if len(self.lines) >= FLUSHED_LINES:
            self.flush()
        return self

    def flush(self) -> None:
        """Write what has come."""
        self._file.write(self.bytes())
        self.lines.clear()

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        self._file.close()

    def run_task(
        self, stage: int, launch: int, where: tuple[str, str], ms: int = TASK_MS, attempt: int = 0
    ) -> None:
        """Add the start and the end of a task on (host, executor)."""
        task = self._tasks
        self._tasks += 1
        run = ms - 20
        values = {
            "stage": stage, "attempt": attempt, "task": task, "launch": launch,
            "finish": launch + ms, "run": run, "cpu": run * 1_000_000 // (2 + task % 3),
            "wait": task % 97, "bytes": 10_000 + task % 9, "host": where[0], "executor": where[1],
        }  # fmt: skip
        self.raw(self._start % values).raw(self._end % values)
        if len(self.lines) >= FLUSHED_LINES:
            self.flush()

    def raw(self, line: bytes | str) -> StreamedLog:
        """Append a line as it is."""
        super().raw(line if isinstance(line, bytes) else line.encode())
        return self


_NUMBERS = {
    "stage": 900_001, "task": 900_002, "launch": 900_003, "finish": 900_004, "run": 900_005,
    "cpu": 900_006, "wait": 900_007, "bytes": 900_008, "attempt": 900_009,
}  # fmt: skip
"""What stands in a template for a number; json.dumps for each task takes ten times as long."""


def _task_templates() -> tuple[str, str]:
    n = _NUMBERS
    metrics = task_metrics(Executor_Run_Time=n["run"], Executor_CPU_Time=n["cpu"])
    metrics["Shuffle Read Metrics"] |= {"Fetch Wait Time": n["wait"]}
    metrics["Input Metrics"] |= {"Bytes Read": n["bytes"]}
    where = {"launch": n["launch"], "host": "HOST", "executor": "EXECUTOR", "index": n["task"]}
    log = SyntheticLog(version=None).task_start(n["task"], n["stage"], **where)
    log.task(n["task"], n["stage"], n["attempt"], metrics=metrics, finish=n["finish"], **where)
    start, end = (line.decode() for line in log.lines)
    attempt = '"Stage Attempt ID":'
    start = start.replace(f"{attempt}0", f"{attempt}{n['attempt']}")
    return _template(start), _template(end)


def _template(line: str) -> str:
    line = line.replace("%", "%%").replace("HOST", "%(host)s").replace("EXECUTOR", "%(executor)s")
    for name, number in _NUMBERS.items():
        line = line.replace(str(number), f"%({name})d")
    return line
