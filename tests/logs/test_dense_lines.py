"""A line, and a log, of more values than any event has costs little, and is said to."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.logs.events.lenient import (
    DENSE_BYTES,
    MAX_ELEMENTS,
    MAX_ELEMENTS_OF_A_LOG,
    DenseLines,
    dense_elements,
)
from iqcar.logs.events.task_structs import PLUGIN_KEPT
from tests.support.command import iqcar as iqcar_command
from tests.support.contended_log import contended_log

JOB = b'{"Event":"SparkListenerJobStart","Job ID":9,'
TASK = b'{"Event":"SparkListenerTaskEnd","Task Info":{"Task ID":9},"Task Metrics":{'


def dense(start: bytes, name: bytes, value: bytes, count: int) -> bytes:
    return start + b'"%s":[' % name + (value + b",") * count + value + b"]}"


def read_with(lines: list[bytes], folder: Path) -> dict[str, Any]:
    """Read a log with these lines before its last one; return what became of it."""
    log = contended_log()
    log.lines[-1:-1] = lines
    (row,) = iqcar.read(log.write(folder / "log")).inputs.to_dict("records")
    assert (row["tasks"], row["jobs"]) == (4, 2)
    return {"status": row["status"], "message": row["message"]}


LEFT_OUT = "of more values than are read of one line or log left out"


@pytest.mark.parametrize(
    "line",
    [
        dense(JOB, b"Stage IDs", b"1", MAX_ELEMENTS),
        dense(JOB, b"Stage Infos", b"{}", MAX_ELEMENTS // 2),
        dense(JOB, b"nobody reads", b"[]", MAX_ELEMENTS // 2),
        dense(TASK, b"Updated Blocks", b"{}", MAX_ELEMENTS // 2) + b"}",
    ],
    ids=["numbers", "objects", "lists", "task"],
)
def test_a_line_of_too_many_values_is_left_out_and_said_to_be(line: bytes, tmp_path: Path) -> None:
    assert read_with([line], tmp_path) == {"status": "truncated", "message": f"1 line {LEFT_OUT}"}


def test_a_log_of_too_many_values_keeps_its_other_lines(tmp_path: Path) -> None:
    values = MAX_ELEMENTS_OF_A_LOG // 8
    line = dense(b'{"Event":"SparkListenerJobEnd",', b"x", b"1", values)
    assert read_with([line] * 20, tmp_path) == {
        "status": "truncated",
        "message": f"13 lines {LEFT_OUT}",
    }


def test_many_numbers_in_a_small_file_need_little_memory(tmp_path: Path) -> None:
    log = contended_log()
    log.lines[-1:-1] = [dense(JOB, b"Stage IDs", b"1", 30_000_000)]
    (tmp_path / "log.gz").write_bytes(gzip.compress(log.bytes(), 1))
    ran = iqcar_command("queries", tmp_path, "--json", "-", memory_limit=1 << 30)
    assert ran.returncode == 3, ran.stderr
    assert len(json.loads(ran.stdout)["queries"]) == 2


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    text = json.dumps({"Event": "x", "text": 'a, [b], {c}, \\"d", "e": ' * DENSE_BYTES}).encode()
    assert dense_elements(text) == 0
    assert dense_elements(b'{"x":[' + b"1," * DENSE_BYTES + b"1]}") == DENSE_BYTES + 2


def test_what_the_plugin_writes_does_not_count_for_the_log() -> None:
    line = dense(b'{"Event":"%s",' % min(PLUGIN_KEPT).encode(), b"x", b"1", MAX_ELEMENTS - 9)
    lines = DenseLines()
    assert not any(lines.has_too_many(line, counts=False) for _ in range(9))
    assert lines.has_too_many(dense(JOB, b"x", b"1", MAX_ELEMENTS), counts=False)


def test_no_line_of_an_ordinary_log_is_dense() -> None:
    lines = contended_log().lines
    wide = json.dumps({"Event": "x", "nodes": [{"name": "number of rows", "id": 7}] * 9999})
    assert not any(map(dense_elements, [*lines, wide.encode()]))
