"""Every line becomes its event, whatever shape it is in, and nothing that is damaged raises."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs import read_logs
from iqcar.logs.decode.streams import Codec, DamageError, check_foreign, detect
from iqcar.tables import SPECS, Tables, texts
from iqcar_lab.clusters.event_log import (
    SyntheticLog,
    node,
    realistic_accumulables,
    stage_info,
    task_metrics,
)
from tests.support.small_log import only_input, read, small_log

# -- counting ------------------------------------------------------------------------------------


def test_every_kind_of_event_is_counted_once(tmp_path: Path) -> None:
    log = small_log(3).sql(0).sql_end(0).sql(7)
    log.task(9, stage=4, host="h2", executor="2")
    log.event("SparkListenerBlockUpdated", {"Block Updated Info": {}})
    log.event("SparkListenerFromTheFuture", {"x": 1}).event("com.nvidia.SparkRapidsEvent", {})
    log.end()
    row = only_input(read(log, tmp_path))
    assert row["status"] == "complete"
    assert row["events"] == len(log.lines)
    assert row["skipped_events"] == 2
    assert row["malformed_lines"] == 0
    assert (row["tasks"], row["stages"], row["jobs"]) == (4, 2, 1)
    assert (row["sql_executions"], row["hosts"], row["executors"]) == (2, 2, 2)


def test_stages_that_a_job_lists_but_nobody_ran_are_not_counted(tmp_path: Path) -> None:
    log = SyntheticLog().app().job(0, [0, 1, 2]).stage(2).stage_end(2).end()
    tables = read(log, tmp_path)
    assert only_input(tables)["stages"] == 1
    assert tables.stages["stage_id"].tolist() == [2]


# -- spelling ------------------------------------------------------------------------------------


def test_spaces_and_another_order_of_keys_change_nothing(tmp_path: Path) -> None:
    metrics = task_metrics()
    accumulables = realistic_accumulables(random.Random(1).randrange, 0, metrics)
    log = SyntheticLog().app()
    log.task_start(0).task(0, metrics=metrics, accumulables=accumulables)
    log.task(1, metrics=metrics, accumulables=accumulables[:3]).end()
    plain = read(log, tmp_path)
    spaced = SyntheticLog()
    spaced.lines = [
        json.dumps(dict(reversed(json.loads(line).items())), indent=None).encode()
        for line in log.lines
    ]
    other = read(spaced, tmp_path, "app-2")
    assert plain.tasks["scan_ms"].notna().all()
    for name, frame in plain:
        if name != "inputs":
            assert frame.equals(getattr(other, name)), name


def test_a_scheduler_event_with_its_package_is_the_same_event(tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0).end()
    log.lines = [
        line.replace(b'"Spark', b'"org.apache.spark.scheduler.Spark', 1) for line in log.lines
    ]
    row = only_input(read(log, tmp_path))
    assert (row["status"], row["tasks"], row["skipped_events"]) == ("complete", 1, 0)


# -- damage --------------------------------------------------------------------------------------


BAD_NUMBERS = (
    "NaN", "Infinity", "-Infinity", "null", '"12x"', '"NaN"', "-5", "1e400", "9" * 5000, "[]",
    "true", '{"a":1}', str(2**70),
)  # fmt: skip


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_a_bad_number_becomes_unknown_and_the_task_is_kept(bad: str, tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0).task(1).end()
    line = log.lines[2].replace(b'"Executor Run Time":900', f'"Executor Run Time":{bad}'.encode())
    log.lines[2] = line
    tables = read(log, tmp_path)
    assert np.isnan(tables.tasks["run_ms"][0])
    assert tables.tasks["run_ms"][1] == 900
    assert tables.tasks["fetch_wait_ms"].tolist() == [40, 40]
    row = only_input(tables)
    assert (row["tasks"], row["malformed_lines"]) == (2, 0)
    assert "1 number" in row["message"]


def test_a_number_written_as_text_is_a_number(tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0).end()
    log.lines[2] = log.lines[2].replace(b'"Executor Run Time":900', b'"Executor Run Time":"900"')
    assert read(log, tmp_path).tasks["run_ms"].tolist() == [900]


def test_a_wrong_type_in_one_field_loses_only_that_field(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    log.task(0, more={"Task End Reason": "Success", "Stage ID": 5})
    log.job(0, [1]).job(1, [2], properties=17)  # type: ignore[arg-type]
    log.stage(stage_info(1, **{"RDD Info": "none", "Parent IDs": {"a": 1}})).end()
    tables = read(log, tmp_path)
    assert tables.tasks["run_ms"].tolist() == [900]
    assert texts(tables.tasks, "status") == ["success"]
    assert tables.jobs["job_id"].tolist() == [0, 1]
    assert sorted(tables.stages["stage_id"]) == [1, 5]
    assert only_input(tables)["malformed_lines"] == 0


@pytest.mark.parametrize(
    ("launch", "finish"),
    [(3000, 2000), (-1, 2000), (2000, -1), (float("nan"), 2000), (2000, 1e300), (None, None)],
)
def test_impossible_times_become_possible_and_are_mentioned(
    launch: Any, finish: Any, tmp_path: Path
) -> None:
    log = SyntheticLog().app().task(0, launch=launch, finish=finish).task(1).end()
    tables = read(log, tmp_path)
    times = tables.tasks[["launch_ms", "finish_ms"]].to_numpy()
    assert np.isfinite(times).all()
    assert (times[:, 1] >= times[:, 0]).all()
    assert times.max() < 1e6
    assert "1 task with an impossible start or end" in only_input(tables)["message"]


def test_a_plan_of_a_thousand_levels_is_read(tmp_path: Path) -> None:
    text = '{"nodeName":"Union","simpleString":"Union","metadata":{},"metrics":[],"children":['
    deep = text * 5000 + "]}" * 5000
    log = SyntheticLog().app()
    log.raw(
        b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",'
        b'"executionId":1,"description":"deep","time":5,"sparkPlanInfo":' + deep.encode() + b"}"
    )
    log.raw(b'{"Event":"SparkListenerUnpersistRDD","x":' + b"[" * 9000 + b"]" * 9000 + b"}")
    log.sql(2, node("Union")).end()
    tables = read(log, tmp_path)
    row = only_input(tables)
    assert (row["status"], row["sql_executions"]) == ("complete", 2)
    deep_hash, flat_hash = texts(tables.sql_executions, "plan_hash")
    assert deep_hash
    assert deep_hash != flat_hash


def test_bad_utf8_in_a_description_does_not_lose_the_execution(tmp_path: Path) -> None:
    log = SyntheticLog().app().sql(1, description="caf\u00e9").end()
    log.lines[2] = log.lines[2].replace(b"caf\\u00e9", b"caf\xe9")
    tables = read(log, tmp_path)
    assert texts(tables.sql_executions, "description") == ["caf\ufffd"]


# -- properties ----------------------------------------------------------------------------------


def mixed_log() -> SyntheticLog:
    metrics = task_metrics()
    draw = random.Random(3).randrange
    plan = node("Scan", None, metrics=[(10, "scan time", "timing")])
    log = SyntheticLog().app().environment(spark_task_cpus="2").executor().sql(0, plan)
    log.job(0, [0, 1], properties={"spark.sql.execution.id": "0"}).stage(0)
    for task in range(6):
        log.task_start(task)
        log.task(task, metrics=metrics, accumulables=realistic_accumulables(draw, 0, metrics))
    log.stage_end(0).stage(stage_info(1, parents=[0])).task(6, stage=1, reason="TaskKilled")
    return log.task_start(7, stage=1).stage_end(1).job_end(0).sql_end(0).end()


MIXED = mixed_log().lines
BASE_TASKS = sum(b"TaskEnd" in line[:40] for line in MIXED)


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "app-1"


def read_lines(lines: list[bytes], path: Path) -> Tables:
    path.write_bytes(b"\n".join(lines) + b"\n")
    tables = read_logs([path], processes=1)
    for spec in SPECS:
        assert list(getattr(tables, spec.name).columns) == spec.column_names()
    return tables


@pytest.mark.slow
@given(order=st.permutations(range(6)))
def test_the_order_of_task_ends_changes_only_the_order_of_rows(
    order: list[int], log_path: Path
) -> None:
    ends = [n for n, line in enumerate(MIXED) if b"TaskEnd" in line[:40]][:6]
    lines = list(MIXED)
    for place, source in zip(ends, order, strict=True):
        lines[place] = MIXED[ends[source]]
    plain, shuffled = read_lines(MIXED, log_path), read_lines(lines, log_path)
    by_id = [tables.tasks.sort_values("task_id").reset_index(drop=True) for tables in
             (plain, shuffled)]  # fmt: skip
    assert by_id[0].equals(by_id[1])
    assert plain.stages.equals(shuffled.stages)


@given(data=st.data())
def test_deleted_and_garbled_lines_never_raise(data: st.DataObject, log_path: Path) -> None:
    lines = list(MIXED)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    what = data.draw(st.sampled_from(["delete", "cut", "flip", "insert", "repeat"]))
    at = data.draw(st.integers(0, len(line) - 1))
    if what == "delete":
        del lines[number]
    elif what == "cut":
        lines[number] = line[:at]
    elif what == "flip":
        lines[number] = line[:at] + data.draw(st.binary(min_size=1, max_size=1)) + line[at + 1 :]
    elif what == "insert":
        lines[number] = line[:at] + data.draw(st.binary(max_size=20)) + line[at:]
    else:
        lines.insert(number, line)
    row = only_input(read_lines(lines, log_path))
    if is_plain(lines[0]):  # else all is said to be damaged
        assert abs(row["tasks"] - BASE_TASKS) <= 1


def is_plain(head: bytes) -> bool:
    """Whether a file that starts so is not taken for a compressed one."""
    try:
        check_foreign(head)
    except DamageError:
        return False
    return detect(head) is Codec.PLAIN


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


IDS = {"Job ID", "Stage ID", "Stage IDs", "Stage Attempt ID", "Parent IDs", "executionId"}


def is_impossible_id(key: str, value: Any) -> bool:
    """Whether Spark cannot have given an id that this field names: its event is malformed."""
    values = value if isinstance(value, list) else [value]
    return key in IDS and any(type(v) in (int, float) and not 0 <= v < 2**31 for v in values)


@given(data=st.data())
def test_any_value_but_an_impossible_id_never_raises_and_keeps_the_event(
    data: st.DataObject, log_path: Path
) -> None:
    lines = list(MIXED)
    number = data.draw(st.integers(0, len(lines) - 1))
    event = json.loads(lines[number])
    inside = event
    while True:
        key = data.draw(st.sampled_from([k for k in inside if k != "Event"] or ["other"]))
        value = inside.get(key)
        if isinstance(value, dict) and value and data.draw(st.booleans()):
            inside = value
            continue
        inside[key] = data.draw(JSON)
        break
    lines[number] = json.dumps(event).encode()
    row = only_input(read_lines(lines, log_path))
    assert row["malformed_lines"] <= is_impossible_id(key, inside[key])
    assert row["events"] == len(MIXED) - row["malformed_lines"]
    assert row["tasks"] == BASE_TASKS
