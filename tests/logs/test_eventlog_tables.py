"""What the log says is what the tables hold: units, links, zero and unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iqcar.logs import read_logs
from iqcar.tables import SPECS, Tables, texts
from iqcar_lab.clusters.event_log import (
    SQL,
    SyntheticLog,
    node,
    rdd,
    sql_update,
    stage_info,
    task_metrics,
)
from tests.support.small_log import read


def first_task(tables: Tables) -> dict[str, Any]:
    return tables.tasks.iloc[0].to_dict()


def test_every_table_has_its_declared_columns_and_dtypes(tmp_path: Path) -> None:
    tables = read(SyntheticLog().app().job(0, [0]).stage(0).task(0).end(), tmp_path)
    for spec in SPECS:
        frame = getattr(tables, spec.name)
        assert list(frame.columns) == spec.column_names()
        for column in spec.columns:
            expected = "object" if column.dtype == "str" else column.dtype
            assert str(frame[column.name].dtype) == expected, (spec.name, column.name)


def test_nanoseconds_become_milliseconds_and_bytes_stay(tmp_path: Path) -> None:
    row = first_task(read(SyntheticLog().app().task(0).end(), tmp_path))
    expected = {
        "deserialize_ms": 10, "deserialize_cpu_ms": 8, "run_ms": 900, "cpu_ms": 600, "gc_ms": 20,
        "result_serialize_ms": 1, "result_bytes": 2000, "peak_memory_bytes": 1024,
        "memory_spilled_bytes": 0, "disk_spilled_bytes": 0, "input_bytes": 11_000,
        "input_records": 120, "output_bytes": 0, "output_records": 0, "remote_bytes": 5000,
        "local_bytes": 6000, "remote_blocks": 2, "local_blocks": 3, "fetch_wait_ms": 40,
        "shuffle_read_records": 70, "shuffle_write_bytes": 8000, "shuffle_write_ms": 9,
        "shuffle_write_records": 100, "launch_ms": 2000, "finish_ms": 3000, "getting_result_ms": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_getting_the_result_lasts_from_its_start_to_the_end(tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0, **{"Getting Result Time": 2900}).end()
    assert first_task(read(log, tmp_path))["getting_result_ms"] == 100


def test_a_task_without_metrics_is_unknown_not_zero(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    log.task(0, reason="ExecutorLostFailure", more={"Task Metrics": ...}, Failed=True).end()
    row = first_task(read(log, tmp_path))
    assert row["status"] == "failed"
    for name in ("run_ms", "cpu_ms", "fetch_wait_ms", "input_bytes", "peak_memory_bytes"):
        assert np.isnan(row[name]), name


def spark_1(**more: Any) -> dict[str, Any]:
    return {
        "Host Name": "h1", "Executor Deserialize Time": 1, "Executor Run Time": 9,
        "Result Size": 1, "JVM GC Time": 0, "Result Serialization Time": 0,
        "Memory Bytes Spilled": 0, "Disk Bytes Spilled": 0, **more,
    }  # fmt: skip


def test_spark_1_leaves_out_what_a_task_did_not_do(tmp_path: Path) -> None:
    read_metrics = {
        "Remote Blocks Fetched": 1,
        "Local Blocks Fetched": 1,
        "Fetch Wait Time": 4,
        "Remote Bytes Read": 10,
    }
    log = SyntheticLog(version=None).app().task(0, metrics=spark_1())
    log.task(1, metrics=spark_1(**{"Shuffle Read Metrics": read_metrics})).end()
    tasks = read(log, tmp_path).tasks
    assert tasks["fetch_wait_ms"].tolist() == [0, 4]
    assert tasks["input_bytes"].tolist() == [0, 0]
    assert tasks["shuffle_write_ms"].tolist() == [0, 0]
    assert tasks["local_bytes"][0] == 0
    assert np.isnan(tasks["local_bytes"][1])
    assert tasks["cpu_ms"].isna().all()


def test_later_sparks_always_write_all_groups_so_absent_is_unknown(tmp_path: Path) -> None:
    metrics = task_metrics(Input_Metrics=...)
    row = first_task(read(SyntheticLog().app().task(0, metrics=metrics).end(), tmp_path))
    assert np.isnan(row["input_bytes"])
    assert row["fetch_wait_ms"] == 40


@pytest.mark.parametrize("padding", [0, 1000], ids=["cut out", "decoded whole"])
def test_peak_memory_before_3_1_is_an_accumulable(padding: int, tmp_path: Path) -> None:
    metrics = task_metrics(Peak_Execution_Memory=...)
    peak = sql_update(9, "internal.metrics.peakExecutionMemory", 777)
    other = sql_update(8, "internal.metrics.resultSize", 3)
    log = SyntheticLog(version="2.4.0").app()
    for task, accumulables in enumerate(([other, peak], [other], [])):
        log.task(task, metrics=metrics, accumulables=accumulables, Locality="ANY" + "x" * padding)
    peaks = read(log.end(), tmp_path).tasks["peak_memory_bytes"].tolist()
    assert peaks[:2] == [777, 0]
    assert np.isnan(peaks[2])


# -- status --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "flags", "status"),
    [
        ("Success", {}, "success"),
        ("TaskKilled", {"Killed": True}, "killed"),
        ("ExceptionFailure", {"Failed": True}, "failed"),
        ("ExceptionFailure", {"Failed": True, "Killed": True}, "killed"),
        ("FetchFailed", {"Failed": True}, "failed"),
        ("TaskCommitDenied", {"Failed": True}, "failed"),
        ("", {"Killed": True}, "killed"),
        ("", {"Failed": True}, "failed"),
    ],
)
def test_the_reason_decides_how_a_task_ended(
    reason: str, flags: dict[str, bool], status: str, tmp_path: Path
) -> None:
    log = SyntheticLog().app().task(0, reason=reason, **flags).end()
    assert first_task(read(log, tmp_path))["status"] == status


def test_a_task_that_never_ended_runs_to_the_last_event(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0]).stage(0)
    log.task_start(0, launch=2500, host="h9", executor="9").task_start(1).task(1, finish=7000)
    tables = read(log, tmp_path)
    running = tables.tasks[tables.tasks["task_id"] == 0].iloc[0]
    assert (running["status"], running["launch_ms"], running["finish_ms"]) == (
        "running",
        2500,
        7000,
    )
    assert np.isnan(running["run_ms"])
    assert texts(tables.hosts, "host")[running["host"]] == "h9"
    assert tables.inputs["tasks"].tolist() == [1]
    assert tables.stages["completion_ms"].tolist() == [7000]


def test_a_resubmission_is_counted_but_is_no_second_task(tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0).task(0, reason="Resubmitted", more={"Task Metrics": ...})
    tables = read(log.end(), tmp_path)
    assert tables.inputs["tasks"].tolist() == [2]
    assert texts(tables.tasks, "status") == ["success"]
    assert tables.tasks["run_ms"].tolist() == [900]


# -- scan time and SQL metrics -------------------------------------------------------------------


def scan_log(kind: str = "timing", name: str = "scan time") -> SyntheticLog:
    plan = node("WholeStageCodegen", None, node("Scan parquet", metrics=[(5, name, kind)]))
    properties = {"spark.sql.execution.id": "0"}
    info = stage_info(0, rdds=[rdd(0, "FileScanRDD")])
    return (
        SyntheticLog()
        .app()
        .sql(0, plan)
        .job(0, [info], properties=properties)
        .stage(info, properties)
    )


@pytest.mark.parametrize(
    ("kind", "name", "factor"),
    [
        ("timing", "scan time", 1),
        ("timing", "scan time total (min, med, max)", 1),
        ("nsTiming", "scan time", 1e-6),
    ],
)
def test_scan_times_of_a_task_are_summed_in_ms(
    kind: str, name: str, factor: float, tmp_path: Path
) -> None:
    updates = [sql_update(5, name, 3_000_000), sql_update(6, "number of output rows", 9)]
    second = sql_update(5, name, 4_000_000)
    log = scan_log(kind, name).task(0, accumulables=[*updates, second]).task(1).end()
    assert read(log, tmp_path).tasks["scan_ms"].tolist() == [7_000_000 * factor, 0]


def test_a_stage_whose_scans_report_nothing_has_unknown_scan_time(tmp_path: Path) -> None:
    log = scan_log(name="other").task(0, accumulables=[sql_update(1, "sort time", 1)]).end()
    assert read(log, tmp_path).tasks["scan_ms"].isna().all()


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 1000])
def test_a_scan_time_counts_in_whatever_stage_and_block_it_is(
    chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iqcar.logs.decode.streams.CHUNK_BYTES", chunk_bytes)
    log = SyntheticLog().app()
    for stage, name in enumerate(("FileScanRDD", "ShuffledRowRDD")):
        log.stage(stage_info(stage, rdds=[rdd(stage, name)]))
        for task in range(10 * stage, 10 * stage + 10):
            log.task(task, stage, accumulables=[sql_update(5, "scan time", 3)])
    assert read(log.end(), tmp_path).tasks["scan_ms"].tolist() == [3] * 20


def test_sql_metrics_are_sparks_sums_in_ms(tmp_path: Path) -> None:
    metrics = [
        (1, "shuffle write time", "nsTiming"), (2, "fetch wait time", "timing"),
        (3, "spill size", "size"), (4, "time to collect", "timing"),
        (5, "number of output rows", "sum"), (6, "scan time", "timing"),
    ]  # fmt: skip
    log = SyntheticLog().app().sql(3, node("Exchange", None, metrics=metrics))
    done = [sql_update(1, "shuffle write time", None, 5_000_000), sql_update(3, "x", None, 70)]
    log.stage_end(stage_info(0, Accumulables=done[:1]))
    done[0] = sql_update(1, "shuffle write time", None, 8_000_000)
    log.stage_end(stage_info(1, Accumulables=done))
    log.event(f"{SQL}SparkListenerDriverAccumUpdates", {
        "executionId": 3, "accumUpdates": [[4, 20], [4, 5], [99, 1]]})  # fmt: skip
    table = read(log.end(), tmp_path).sql_metrics
    found = dict(zip(texts(table, "metric"), table["total"], strict=True))
    assert found["shuffle write time"] == 8
    assert found["spill size"] == 70
    assert found["time to collect"] == 25
    assert np.isnan(found["fetch wait time"])
    assert np.isnan(found["scan time"])
    assert "number of output rows" not in found
    assert set(texts(table, "unit")) == {"ms", "bytes"}


# -- jobs, stages, executions ----------------------------------------------------------------------


def test_a_stage_belongs_to_the_first_active_job_that_lists_it(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0, 1]).job(1, [1, 2])
    log.stage(1).stage(0).job_end(0).stage(2).job(2, [3]).job(3, [3]).job_end(2).stage(3)
    log.task(0, stage=9).end()
    tables = read(log, tmp_path)
    job = dict(zip(tables.stages["stage_id"], tables.stages["job"], strict=True))
    assert job == {1: 0, 0: 0, 2: 1, 3: 3, 9: -1}


def test_jobs_carry_what_identifies_their_query(tmp_path: Path) -> None:
    log = SyntheticLog().app().sql(4, rootExecutionId=...).sql(5, rootExecutionId=4)
    log.sql(6, rootExecutionId=None)
    properties = {
        "spark.sql.execution.id": "6", "spark.sql.execution.root.id": "4",
        "spark.jobGroup.id": "g", "spark.job.description": "d", "spark.scheduler.pool": "gold",
    }  # fmt: skip
    log.job(0, [0], properties=properties).stage(0).job(1, []).job_end(0, ok=False).end()
    tables = read(log, tmp_path)
    job = tables.jobs.iloc[0]
    assert tables.sql_executions["execution_id"].tolist() == [4, 5, 6]
    assert tables.sql_executions["root_execution_id"].tolist() == [4, 4, 4]
    assert (job["sql_execution"], job["job_group"], job["description"]) == (2, "g", "d")
    assert (job["pool"], job["succeeded"], job["completion_ms"]) == ("gold", False, 9000)
    assert texts(tables.stages, "pool") == ["gold"]
    assert np.isnan(tables.jobs["completion_ms"][1])


def test_an_execution_only_jobs_name_is_in_the_table_but_not_counted(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0], properties={"spark.sql.execution.id": "8"}).end()
    tables = read(log, tmp_path)
    assert tables.sql_executions["execution_id"].tolist() == [8]
    assert tables.inputs["sql_executions"].tolist() == [0]
    assert tables.jobs["sql_execution"].tolist() == [0]


def edges(tables: Tables) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    key = list(zip(tables.stages["stage_id"], tables.stages["attempt"], strict=True))
    rows = tables.stage_parents
    return {(key[s], key[p]) for s, p in zip(rows["stage"], rows["parent"], strict=True)}


def test_a_skipped_parent_is_the_stage_that_did_its_work(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    shuffle = [rdd(2, "ShuffledRowRDD"), rdd(7)]
    wrote = stage_info(0, rdds=[rdd(7), rdd(3)], submission=1000)
    log.job(0, [wrote]).stage(wrote).stage_end(wrote).job_end(0)
    skipped = stage_info(1, rdds=shuffle)
    unknown = stage_info(2, rdds=[rdd(50)])
    reads = stage_info(3, parents=[1, 2], rdds=[rdd(9)], submission=2000)
    log.job(1, [skipped, unknown, reads]).stage(reads).stage_end(reads).end()
    assert edges(read(log, tmp_path)) == {((3, 0), (0, 0))}


def test_a_retried_stage_reads_from_the_attempts_before_it(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0, 1])
    for stage, attempt, time in ((0, 0, 1000), (1, 0, 2000), (0, 1, 3000), (1, 1, 4000)):
        info = stage_info(stage, attempt, parents=[0] if stage else [], submission=time)
        log.stage(info).stage_end(info)
    found = edges(read(log.end(), tmp_path))
    assert found == {((1, 0), (0, 0)), ((1, 1), (0, 1))}


def test_every_parent_in_a_real_adaptive_log_is_found(shared_logs: Path) -> None:
    path = shared_logs / "local-1642039451826"
    last_rdd: dict[int, int] = {}
    parents: dict[int, list[int]] = {}
    for line in path.read_bytes().splitlines():
        event = json.loads(line)
        for info in [*event.get("Stage Infos", []), event.get("Stage Info")]:
            if info:
                last_rdd[info["Stage ID"]] = max(one["RDD ID"] for one in info["RDD Info"])
        if event["Event"] == "SparkListenerStageSubmitted":
            parents[event["Stage Info"]["Stage ID"]] = event["Stage Info"]["Parent IDs"]
    skipped = {one for named in parents.values() for one in named} - parents.keys()
    ran = {rdd_id: stage for stage, rdd_id in last_rdd.items() if stage in parents}
    expected = {
        ((stage, 0), (one if one in parents else ran[last_rdd[one]], 0))
        for stage, named in parents.items()
        for one in named
    }
    assert len(skipped) == 4
    assert edges(read_logs([path])) == expected


def test_edges_of_real_logs_lead_to_earlier_stages_of_the_same_application(
    shared_logs: Path,
) -> None:
    tables = read_logs([shared_logs])
    stage, parent = tables.stage_parents["stage"], tables.stage_parents["parent"]
    app, submitted = (tables.stages[name].to_numpy() for name in ("app", "submission_ms"))
    assert (app[stage] == app[parent]).all()
    assert (submitted[parent] <= submitted[stage]).all()


@pytest.mark.parametrize(
    ("name", "scope", "python"),
    [
        ("PythonRDD", "", True),
        ("MapPartitionsRDD", "BatchEvalPython", True),
        ("MapPartitionsRDD", "ArrowEvalPython", True),
        ("MapPartitionsRDD", "FlatMapGroupsInPandas", True),
        ("MapPartitionsRDD", "MapInArrow", True),
        ("MapPartitionsRDD", "WholeStageCodegen (1)", False),
    ],
)
def test_a_stage_that_runs_python_is_marked(
    name: str, scope: str, python: bool, tmp_path: Path
) -> None:
    log = SyntheticLog().app().stage(stage_info(0, rdds=[rdd(0), rdd(1, name, scope)])).end()
    assert read(log, tmp_path).stages["python"].tolist() == [python]
