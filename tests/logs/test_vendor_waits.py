"""Vendors' own metrics, in the spelling of their logs, tell what tasks waited for."""

from __future__ import annotations

import json
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request
from iqcar.logs import read_logs
from iqcar.logs.events.sql_collect import MetricColumns
from iqcar.logs.events.wait_metrics import EVERY, Wait, find_waits
from iqcar.logs.tasks.task_lines import TaskDecoder
from iqcar.model.doubts import find_doubts
from iqcar.model.waits.columns import ESTIMATED, MISSING, REPORTED, evidence_column, wait_column
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.event_log import SyntheticLog, node, sql_update, stage_info, task_metrics
from tests.support.small_log import read

Metrics = list[tuple[str, str, str]]


def gpu(name: str, update: str) -> dict[str, Any]:
    """An accumulator of RAPIDS that is no SQL metric."""
    return {
        "ID": 1010, "Name": name, "Update": update, "Value": "03:13:31.359", "Internal": False,
        "Count Failed Values": True,
    }  # fmt: skip


def log_of(scan: str, metrics: Metrics, tasks: int = 1, **task: Any) -> SyntheticLog:
    """Tasks that ran for 900 ms, 600 on the CPU; metrics are (name, type, update)."""
    declared = [(10 + n, name, kind) for n, (name, kind, _) in enumerate(metrics) if kind]
    log = SyntheticLog().app().sql(0, node("Exchange", None, node(scan, metrics=declared)))
    properties = {"spark.sql.execution.id": "0"}
    log.job(0, [stage_info(0)], properties=properties).stage(stage_info(0), properties)
    updates = [
        sql_update(10 + n, name, update) if kind else gpu(name, update)
        for n, (name, kind, update) in enumerate(metrics)
    ]
    quiet = task_metrics()
    quiet.update({"JVM GC Time": 0})
    quiet["Shuffle Read Metrics"]["Fetch Wait Time"] = 0
    quiet["Shuffle Write Metrics"]["Shuffle Write Time"] = 0
    for number in range(tasks):
        log.task(number, accumulables=updates, metrics=quiet, **task)
    return log.end()


def waited(tables: Tables, request: Request, task: int = 0) -> tuple[float, int]:
    """A task's wait in ms, and its evidence."""
    row = measure_waits(tables).iloc[task]
    return float(row[wait_column(request)]), int(row[evidence_column(request)])


SCAN, BUFFER = ("scan time", "timing", "250"), ("buffer time", "nsTiming", "120000000")
SAMPLED = ("filesystem read time (sampled)", "timing", "80")
CLOUD = ("cloud storage request duration", "timing", "140")


@pytest.mark.parametrize(
    ("scan", "metrics", "wait", "evidence"),
    [
        pytest.param("Scan parquet ", [SCAN], 250, REPORTED, id="Spark"),
        pytest.param("Scan parquet ", [SAMPLED], 80, ESTIMATED, id="Databricks, early"),
        pytest.param("Scan parquet ", [SAMPLED, CLOUD], 140, ESTIMATED, id="never summed"),
        pytest.param("Scan parquet ", [CLOUD, SAMPLED, SCAN], 250, REPORTED, id="Databricks"),
        pytest.param(
            "PhotonScan parquet ", [("cumulative time", "timing", "90")], 90, REPORTED, id="Photon"
        ),
        pytest.param("GpuScan parquet ", [BUFFER, SCAN], 120, REPORTED, id="RAPIDS"),
        pytest.param(
            "GpuScan parquet ",
            [BUFFER, ("time to read fs data", "nsTiming", "70000000"), SCAN],
            70,
            REPORTED,
            id="RAPIDS, in detail",
        ),
        pytest.param("GpuScan parquet ", [BUFFER], 120, ESTIMATED, id="RAPIDS, without scan"),
        pytest.param(
            "FileSourceScanExecTransformer",
            [("io wait time", "timing", "30000000")],
            30,
            REPORTED,
            id="Gluten",
        ),
        pytest.param(
            "BatchScan bigquery",
            [("scan time for BQ in milli sec", "v2Custom_x.Spark32BigQueryScanTimeMetric", "60")],
            60,
            REPORTED,
            id="BigQuery",
        ),
    ],
)
def test_the_wait_for_input(
    scan: str, metrics: Metrics, wait: float, evidence: int, tmp_path: Path
) -> None:
    tables = read(log_of(scan, metrics), tmp_path)
    assert waited(tables, Request.IO_READ) == (pytest.approx(wait), evidence)


def test_times_of_many_threads_fill_no_more_than_the_tasks_time_off_the_cpu(
    tmp_path: Path,
) -> None:
    tables = read(log_of("Scan parquet ", [("cloud storage request duration", "timing", "99999")]),
        tmp_path)  # fmt: skip
    waits = measure_waits(tables).iloc[0]
    assert waits[wait_column(Request.IO_READ)] == 300
    parts = [name for name in waits.index if name.endswith("_ms") and name != "duration_ms"]
    inside = [name for name in parts if name != wait_column(Request.SLOT_WAIT)]
    assert waits[inside].sum() == pytest.approx(waits["duration_ms"])


def test_the_wait_for_the_gpu_is_its_own_and_the_rest_is_no_wait_for_the_cpu(
    tmp_path: Path,
) -> None:
    tables = read(log_of("GpuScan parquet ", [("gpuSemaphoreWait", "", "00:00:00.192")]), tmp_path)
    assert waited(tables, Request.NOTIFICATION_WAIT) == (192, REPORTED)
    assert waited(tables, Request.RUN_QUEUE)[1] == MISSING
    waits = measure_waits(tables).iloc[0]
    assert waits["unattributed_ms"] >= 300 - 192


@pytest.mark.parametrize(("update", "ms"), [("01:02:03.004", 3_723_004), ("00:00:00.000", 0)])
def test_the_wait_for_the_gpu_is_written_as_hours_minutes_and_seconds(
    update: str, ms: float, tmp_path: Path
) -> None:
    log = log_of("GpuScan parquet ", [("gpuSemaphoreWait", "", update)], tasks=2)
    assert read(log, tmp_path).tasks["gpu_wait_ms"].tolist() == [ms, ms]


def test_photon_writes_shuffle_files_itself(tmp_path: Path) -> None:
    name = "cumulative time as part of shuffle file write"
    log = log_of("PhotonShuffleExchangeSink", [(name, "nsTiming", "45000000")])
    assert waited(read(log, tmp_path), Request.IO_WRITE) == (45, REPORTED)


def test_time_in_photons_other_operators_is_no_wait(tmp_path: Path) -> None:
    log = log_of("PhotonGroupingAgg", [("cumulative time", "timing", "90")])
    assert np.isnan(waited(read(log, tmp_path), Request.IO_READ)[0])


def photon_log(metrics: Metrics, gc_ms: int, **task: Any) -> SyntheticLog:
    """A task that ran for 900 ms, 600 on the CPU, beside a garbage collection."""
    log = log_of("PhotonScan parquet ", metrics, **task)
    event = json.loads(log.lines[-2])
    event["Task Metrics"].update(
        {"JVM GC Time": gc_ms, "Disk Bytes Spilled": 0, "Peak Execution Memory": 0}
    )
    log.lines[-2] = json.dumps(event, separators=(",", ":")).encode()
    return log


@pytest.mark.parametrize(
    ("name", "read_ms", "gc"), [("cumulative time", 250, 50), ("x", None, 300)]
)
def test_garbage_collection_does_not_stop_photon(
    name: str, read_ms: float | None, gc: float, tmp_path: Path
) -> None:
    tables = read(photon_log([(name, "timing", "250")], 300), tmp_path)
    assert measure_waits(tables)["gc_ms"].tolist() == [gc]
    if read_ms is not None:
        assert waited(tables, Request.IO_READ) == (read_ms, REPORTED)


def test_photon_counts_its_own_time_memory_and_spill(tmp_path: Path) -> None:
    metrics = [
        ("cumulative time", "nsTiming", "250000000"),
        ("cumulative time", "nsTiming", "90000000"),
        ("peak memory usage", "size", "4096"),
        ("peak memory usage", "size", "8192"),
        ("num bytes spilled to disk due to memory pressure", "size", "100"),
        ("num bytes spilled to disk due to memory pressure", "size", "11"),
    ]
    tables = read(photon_log(metrics, 0), tmp_path)
    told = tables.tasks[["native_ms", "peak_memory_bytes", "disk_spilled_bytes"]]
    assert told.to_numpy().tolist() == [[250, 8192, 111]]
    names = set(texts(tables.sql_metrics, "metric"))
    assert names == {name for name, _, _ in metrics}
    doubts = " ".join(find_doubts(tables, measure_waits(tables)))
    assert "100 % of all task time ran in Photon" in doubts


def test_where_photons_tasks_tell_nothing_a_doubt_says_so(tmp_path: Path) -> None:
    log = log_of("PhotonScan parquet ", [("number of output rows", "sum", "5")])
    told = [{"ID": 10, "Name": "number of output rows", "Value": "5", "Metadata": "sql"}]
    log.stage_end({**stage_info(0), "Accumulables": told})
    tables = read(log, tmp_path)
    assert tables.tasks["native_ms"].isna().all()
    doubts = " ".join(find_doubts(tables, measure_waits(tables)))
    assert "stages with operators of Photon whose tasks log no time in them" in doubts


def test_a_scan_time_is_used_whatever_the_stage_and_its_plan_say(tmp_path: Path) -> None:
    log = SyntheticLog().app().sql(0, node("Exchange")).job(0, [0]).stage(0)
    log.task(0, accumulables=[sql_update(7, "scan time", 20)]).end()
    assert read(log, tmp_path).tasks["scan_ms"].tolist() == [20]


def test_a_metric_that_few_tasks_of_a_block_report_is_found_in_all_that_do() -> None:
    text, tasks = b"", []
    count = 3 * EVERY
    for number in range(count):
        start = len(text)
        if number % 7 == 1:
            text += b'[{"ID":3,"Name":"buffer time","Update":"%d","Value":"9"}]' % number
        tasks.append((number, 0.0, float(number == 8), start, len(text)))
    found = set(find_waits(text, tasks)[::4])
    assert found == {number for number in range(count) if number % 7 == 1}


def test_reads_are_known_in_a_log_of_databricks_without_scan_times(shared_logs: Path) -> None:
    tables = read_logs([shared_logs / "databricks.json.gz"], processes=1)
    waits = measure_waits(tables)
    reads = (tables.tasks["input_bytes"] > 0).to_numpy()
    evidence = waits[evidence_column(Request.IO_READ)].to_numpy()
    assert reads.sum() == 252
    assert (evidence[reads] == ESTIMATED).all()
    assert 0 < waits[wait_column(Request.IO_READ)][reads].sum() < waits["duration_ms"].sum() / 10


def test_the_id_of_another_accumulable_is_not_taken() -> None:
    text = b'[{"ID":5,"Name":"a","Update":"1"},{"Name":"scan time","Update":"7","ID":6}]'
    row, kind, number, update = find_waits(text, [(0, 0.0, 0.0, 0, len(text))])
    assert (row, kind, update) == (0, Wait.SCAN, 7)
    assert np.isnan(number)


def test_each_task_of_a_block_has_its_own_metrics_whatever_stands_between(tmp_path: Path) -> None:
    log = SyntheticLog().app().sql(0, node("Exchange")).job(0, [0]).stage(0)
    failed = {"Task End Reason": {"Reason": "ExceptionFailure", "Description": "x"}}
    other_ids = [(7, 20), (7, 30), (1234567, 40), (7, 50)]
    for number, (key, update) in enumerate(other_ids):
        more = failed if number == 1 else {}
        log.task(number, accumulables=[sql_update(key, "scan time", update)], more=more)
    text = b"".join(line + b"\n" for line in log.end().bytes().splitlines())
    assert read(log, tmp_path).tasks["scan_ms"].tolist() == [20, 30, 40, 50]
    waits = np.frombuffer(TaskDecoder().decode(text).waits).reshape(-1, 4)
    rows = {int(row): (int(key), int(update)) for row, _, key, update in waits}
    assert rows == dict(enumerate(other_ids))


@pytest.mark.parametrize(
    ("update", "found"), [("9" * 18, [float("9" * 18)]), ("9" * 19, []), ("-1", []), ("", [])]
)
def test_an_update_is_a_number_of_at_most_18_digits(update: str, found: list[float]) -> None:
    for shown in (update, f'"{update}"'):
        text = b'{"ID":7,"Name":"scan time","Update":%s,"Value":"1"}' % shown.encode()
        assert list(find_waits(text, [(0, 0.0, 0.0, 0, len(text))])[3::4]) == found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.sampled_from(["stage", "driver"]), st.integers(0, 30), st.floats(0, 2.0**64)),
        st.tuples(st.just("forget"), st.sets(st.integers(0, 30)), st.none()),
    ),
    max_size=20,
)


@given(STEPS)
def test_columns_hold_what_a_list_of_metrics_holds(steps: list[tuple]) -> None:
    columns, naive, accumulator = MetricColumns(), {}, 0
    for kind, first, second in steps:
        if kind == "add":
            ids = range(accumulator, accumulator + second)
            accumulator += second
            told = [(f"node {one}", f"name {one}", f"unit {one}", one / 2) for one in ids]
            columns.add(ids, first, *zip(*told, strict=True))
            naive |= {one: [first, *more, nan, nan] for one, more in zip(ids, told, strict=True)}
        elif kind == "forget":
            columns.forget(first)
            naive = {one: metric for one, metric in naive.items() if one not in first}
        elif first in naive:
            if kind == "stage":
                columns.told_by_stage(first, second)
                naive[first][5] = second
            else:
                columns.told_by_driver(first, second)
                before = naive[first][6]
                naive[first][6] = second if isnan(before) else before + second
    assert len(columns) == len(naive)
    assert columns.rows == {one: row for row, one in enumerate(naive)}
    assert all(count > 0 for _, count in columns.runs)
    executions = [execution for execution, count in columns.runs for _ in range(count)]
    found = zip(
        executions, columns.nodes, columns.names, columns.units, columns.factors, strict=True
    )
    assert list(map(list, found)) == [metric[:5] for metric in naive.values()]
    values = [driver if isnan(stage) else stage for *_, stage, driver in naive.values()]
    expected = [
        value * metric[4] if value < 2.0**63 else nan
        for value, metric in zip(values, naive.values(), strict=True)
    ]
    np.testing.assert_array_equal(columns.totals(), expected)
