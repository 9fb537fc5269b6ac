"""Bad input: one clear line or a doubt in the result; never a traceback, hang or memory hunger."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.command import iqcar
from tests.support.contended_log import contended_log
from tests.support.examples import examples

MEMORY_LIMIT = 1 << 31
"""Bytes of memory (data segment) that any bad input may take; twice what a start needs."""


def analyze(path: Path, *more: str, limited: bool = True) -> subprocess.CompletedProcess[str]:
    limit = MEMORY_LIMIT if limited else None
    words = ("analyze", path, "--json", "-", *more)
    done = iqcar(*words, env={"OPENBLAS_NUM_THREADS": "1"}, memory_limit=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def one_line_of_error(path: Path) -> str:
    done = analyze(path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("iqcar: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def result_of(path: Path, code: int = 0) -> dict:
    done = analyze(path)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"# Readme\nThis is no log.\n",
        b'{"a": 1}\n{"b": 2}\n',
        bytes(range(256)) * 40,
        b"\x28\xb5\x2f\xfd" + bytes(100),
        b"\x1f\x8b\x08" + bytes(100),
        b"LZ4Block" + b"\xff" * 100,
        b"\x82SNAPPY\x00" + b"\xff" * 100,
        b"ZV\x01" + b"\xff" * 100,
        b"PK\x03\x04" + b"\xff" * 100,
    ],
    ids=["empty", "blank", "text", "json", "binary", "zstd", "gzip", "lz4", "snappy", "lzf", "zip"],
)
def test_what_is_no_event_log_ends_in_one_line_that_names_it(tmp_path: Path, content) -> None:
    path = tmp_path / "thing"
    path.write_bytes(content)
    assert str(path) in one_line_of_error(path)


def test_a_folder_without_logs_ends_in_one_line(tmp_path: Path) -> None:
    assert "no event log" in one_line_of_error(tmp_path).lower()


def test_a_path_that_does_not_exist_ends_in_one_line(tmp_path: Path) -> None:
    assert "nowhere" in one_line_of_error(tmp_path / "nowhere")


def test_one_bad_log_among_good_ones_is_named_and_the_rest_analysed(tmp_path: Path) -> None:
    good = contended_log().write(tmp_path / "app-1")
    bad = tmp_path / "bad"
    bad.write_bytes(b"rubbish\n")
    done = analyze(good, str(bad))
    assert done.returncode == 3
    statuses = {i["path"]: i["status"] for i in json.loads(done.stdout)["inputs"]}
    assert statuses == {str(good): "complete", str(bad): "failed"}


def test_a_log_without_any_point_in_time_says_no_time(tmp_path: Path) -> None:
    path = tmp_path / "app-1"
    path.write_text('{"Event":"SparkListenerLogStart","Spark Version":"3.5.0"}\n')
    (read,) = json.loads(analyze(path).stdout)["inputs"]
    assert read["message"].startswith("no end of the application:")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up rights to read a file")
def test_a_log_that_may_not_be_read_ends_in_one_line(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    log.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    # A first run loads all modules: the interpreter itself may lie where only root can read.
    code = (
        "import os, sys\n"
        "from iqcar.apps.cli.main import main\n"
        "_, readable, log = sys.argv\n"
        "sys.argv = ['iqcar', 'analyze', readable]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "sys.argv = ['iqcar', 'analyze', log]\n"
        "main()"
    )
    readable = contended_log().write(tmp_path / "app-2")
    done = subprocess.run(
        [sys.executable, "-c", code, str(readable), str(log)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ermission" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.slow
def test_a_line_of_200_mb_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    lines = contended_log().lines
    path = tmp_path / "app-1"
    with path.open("wb") as file:
        for line in lines[:-1]:
            file.write(line + b"\n")
        file.write(b'{"Event":"SparkListenerEnvironmentUpdate","x":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + lines[-1] + b"\n")
    result = result_of(path, code=3)
    assert result["inputs"][0]["tasks"] == 4
    assert result["inputs"][0]["status"] == "truncated"
    assert result["inputs"][0]["message"]


@pytest.mark.long
@pytest.mark.parametrize("filler", [b"\0", b"\n", b'{"Event":"x"}\n'], ids=["one", "blank", "tiny"])
def test_a_decompression_bomb_is_stopped(tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "app-1.zstd"
    compressor = zstandard.ZstdCompressor(level=1)
    block = filler * (16_000_000 // len(filler))
    with path.open("wb") as file, compressor.stream_writer(file) as writer:
        writer.write(contended_log().bytes())
        for _ in range(600):  # 10 GB
            writer.write(block)
    assert path.stat().st_size < 10_000_000
    (read,) = result_of(path, code=3)["inputs"]
    assert read["status"] == "truncated"
    assert read["tasks"] == 4


def test_numbers_that_make_no_sense_leave_a_whole_result(tmp_path: Path) -> None:
    log = SyntheticLog().app().executor().job(0, [stage_info(0, submission=1000.0)])
    log.stage(stage_info(0, submission=1000.0))
    for task, value in enumerate([-5, 10**30, "x", None, 1e308, True, [1]]):
        metrics = task_metrics(Executor_Run_Time=value, Executor_CPU_Time=value)
        log.task(task, metrics=metrics).task(task + 100, launch=value).task(
            task + 200, finish=value
        )
    log.raw(b'{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task Info":{"Task ID":900,'
            b'"Launch Time":NaN,"Finish Time":Infinity}}')  # fmt: skip
    done = analyze(log.end().write(tmp_path / "app-1"))
    assert done.returncode in (0, 3)
    result = json.loads(done.stdout)
    assert result["inputs"][0]["message"]
    for query in result["queries"]:
        assert math.isfinite(query["lost_ms"])
        assert query["lost_ms"] >= 0


def test_a_task_that_ends_before_it_starts_is_kept(tmp_path: Path) -> None:
    log = SyntheticLog().app().executor().job(0, [0]).stage(0)
    log.task(0, launch=5000, finish=2000)
    result = result_of(log.end().write(tmp_path / "app-1"))
    assert result["inputs"][0]["tasks"] == 1


def test_unknown_events_and_absent_fields_are_counted_not_fatal(tmp_path: Path) -> None:
    log = contended_log()
    log.lines[3:3] = [
        b'{"Event":"com.example.Custom","x":{"y":[1,2]}}',
        b'{"Event":"SparkListenerTaskEnd"}',
        b'{"Event":"SparkListenerJobStart"}',
        b'{"Event":"SparkListenerStageSubmitted","Stage Info":{}}',
        b'{"Event":"SparkListenerExecutorAdded"}',
        b'{"Event":7}',
        b"[]",
        b'{"Event"',
    ]
    done = analyze(log.write(tmp_path / "app-1"))
    assert done.returncode in (0, 3)
    (read,) = json.loads(done.stdout)["inputs"]
    assert read["skipped_events"] == 1
    assert read["malformed_lines"] >= 3
    assert read["tasks"] >= 4


def test_queries_that_never_overlap_blame_nobody(tmp_path: Path) -> None:
    log = SyntheticLog().app().executor()
    for n, time in enumerate((1000, 5000)):
        info = stage_info(n, submission=float(time))
        log.job(n, [info], time).stage(info).task(n, stage=n, launch=time + 10, finish=time + 900)
        log.stage_end(info, time + 900).job_end(n, time + 900)
    result = result_of(log.end().write(tmp_path / "app-1"))
    assert not [b for q in result["queries"] for b in q["blame"] if b["kind"] == "query"]
    assert result["rules"] == []
    assert any("nothing here can be blamed on another query" in doubt for doubt in result["doubts"])


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [0, 1])
def test_hardly_any_tasks(tmp_path: Path, tasks: int) -> None:
    log = SyntheticLog().app().executor().job(0, [0]).stage(0)
    for task in range(tasks):
        log.task(task)
    result = result_of(log.end().write(tmp_path / "app-1"))
    assert result["inputs"][0]["tasks"] == tasks
    assert iqcar_text(tmp_path / "app-1")


def iqcar_text(path: Path) -> str:
    done = iqcar("analyze", path)
    done.check_returncode()
    return done.stdout


# Each reads and diagnoses a whole log; `test_fuzz` damages more kinds of logs in more ways.
@pytest.mark.slow
@examples(20)
@given(st.data())
def test_any_damage_to_a_log_leaves_a_result_or_a_reason(tmp_path_factory, data) -> None:
    import iqcar
    from iqcar.show.json.analyze import to_json

    content = bytearray(contended_log().bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = min(len(content), start + data.draw(st.sampled_from([0, 1, 7, 300, 5000])))
        content[start:stop] = data.draw(st.binary(max_size=12))
    path = tmp_path_factory.mktemp("damaged") / "app-1"
    path.write_bytes(content)
    tables = iqcar.read(path)
    (status,) = tables.inputs["status"]
    assert status in ("complete", "in_progress", "truncated", "failed")
    if status in ("truncated", "failed"):
        assert tables.inputs["message"].iloc[0]
    json.loads(to_json(iqcar.diagnose(tables)))
