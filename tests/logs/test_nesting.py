"""Lines that nest without end are left out before they are decoded; the rest of the log is read."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.logs import read_logs
from iqcar.logs.events import lenient
from iqcar.logs.events.lenient import (
    DENSE_BYTES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_ELEMENTS_OF_A_LOG,
    DenseLines,
    brackets,
    decode_deep,
    dense_elements,
    is_too_deep,
)
from iqcar.logs.events.operators import hash_plan, nodes_of
from iqcar.logs.events.structs import SqlAdaptive, SqlStart
from iqcar.logs.events.task_structs import PLUGIN_KEPT
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import iqcar as iqcar_command
from tests.support.contended_log import contended_log

OPENING = {
    "lists": b"[",
    "objects": b'{"a":',
    "both": b'[{"children":',
    "lists side by side": b"[],",
    "objects side by side": b'{"a":0},',
}
BEFORE = {
    "a job": b'{"Event":"SparkListenerJobStart","Job ID":',
    "properties": b'{"Event":"SparkListenerJobStart","Job ID":7,"Properties":',
    "a stage": b'{"Event":"SparkListenerStageCompleted","Stage Info":{"RDD Info":[',
    "a plan": b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",'
    b'"executionId":3,"sparkPlanInfo":',
    "a task": b'{"Event":"SparkListenerTaskEnd","Stage ID":',
    "accumulables": b'{"Event":"SparkListenerTaskEnd","Stage ID":1,"Task Info":{"Accumulables":[',
    "an event of the plugin": b'{"Event":"org.apache.spark.scheduler.IqcarEventSamples","x":',
    "an unknown event": b'{"Event":"org.example.Other","x":',
    "another spelling": b'{ "Event" : "SparkListenerJobStart", "Job ID" : ',
    "no event": b"",
}
LINE_BYTES = 40_000_000


def with_bomb(line: bytes) -> SyntheticLog:
    log = contended_log()
    log.lines.insert(3, line)
    return log


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    "before",
    [one if one == "a plan" else pytest.param(one, marks=pytest.mark.long) for one in BEFORE],
)
def test_a_bomb_of_brackets_takes_little_memory_and_the_rest_is_read(
    before: str, tmp_path: Path
) -> None:
    """Beyond what it takes without bombs the process may take five times the line.

    (What `getrusage` says begins with what the process had before it ran this program.)
    """
    paths = []
    for name, opening in OPENING.items():
        line = BEFORE[before] + opening * (LINE_BYTES // len(opening))
        paths.append(str(tmp_path / name))
        Path(paths[-1]).write_bytes(zstandard.compress(with_bomb(line).bytes(), 1))
    program = (
        "import sys\n"
        "from iqcar.logs import read_logs\n"
        "def most():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return int(status.partition('VmHWM:')[2].split()[0])\n"
        "read_logs([sys.argv[1]], processes=1)\n"
        "first = most()\n"
        "tables = [read_logs([path], processes=1) for path in sys.argv[2:]]\n"
        "print(most() - first)\n"
        "print(min(len(one.tasks) for one in tables), min(len(one.queries) for one in tables))"
    )
    plain = contended_log().write(tmp_path / "plain")
    done = subprocess.run(
        [sys.executable, "-c", program, str(plain), *paths],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    grown, *rest = map(int, done.stdout.split())
    assert grown * 1024 < 5 * LINE_BYTES
    assert rest[0] == 4


def test_a_line_that_nests_too_deep_is_counted_and_one_that_nests_deep_is_read(
    tmp_path: Path,
) -> None:
    start = (
        b'{"Event":"SparkListenerJobStart","Job ID":77,"Stage IDs":[],"Submission Time":1500,"x":'
    )
    for depth, jobs, said in ((MAX_DEPTH - 1, 3, ""), (MAX_DEPTH, 2, "1 line that is no event")):
        line = start + b"[" * depth + b"]" * depth + b"}"
        tables = read_logs([with_bomb(line).write(tmp_path / "app-1")], processes=1)
        assert len(tables.jobs) == jobs
        (message,) = texts(tables.inputs, "message")
        assert said in message


def test_brackets_in_texts_do_not_nest(tmp_path: Path) -> None:
    text = json.dumps('\\\\"[{' * MAX_DEPTH).encode()
    line = b'{"Event":"SparkListenerJobStart","Job ID":77,"Stage IDs":[],"x":' + text + b"}"
    assert not is_too_deep(line)
    assert len(read_logs([with_bomb(line).write(tmp_path / "app-1")], processes=1).jobs) == 3


nested = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\\\ab') | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='[]{}"\\\\a'), inner),
)


@given(nested)
def test_the_depth_of_a_line_is_that_of_what_it_decodes_to(value: object) -> None:
    def depth(one: object) -> int:
        inner = one if isinstance(one, list) else one.values() if isinstance(one, dict) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    found = brackets(json.dumps(value).encode())
    assert found.depths.max(initial=0) == depth(value)
    assert not len(found.depths) or found.depths[-1] == 0


HARMLESS = ("Project [a#1]", 'quo"te', "{[", "]}", "\\", '\\"]}', "é☃", "a\nb", '"children":[', "")


def chain(levels: int, rng: random.Random, blank: str = "") -> str:
    """A plan of so many levels as JSON, here and there with a branch."""
    heads, tails = [], []
    for level in range(levels):
        text = json.dumps(rng.choice(HARMLESS), ensure_ascii=False)
        heads.append(f'{{"nodeName":"P{level}",{blank}"simpleString":{text},"children":{blank}[')
        leaf = '{"nodeName":"leaf","children":[],"metrics":[]}'
        side = rng.random()
        if side < 0.1:
            heads.append(leaf + ",")
        metrics = f'[{{"name":"spill size","accumulatorId":{level},"metricType":"size"}}]'
        after = "," + leaf if side > 0.9 else ""
        tails.append(f'{after}],{blank}"metadata":{{"k":"[{{"}},"metrics":{metrics}}}')
    scan = '{"nodeName":"Scan","simpleString":"s","children":[]}'
    return "".join(heads) + scan + "".join(reversed(tails))


def event(plan: str) -> bytes:
    return f'{{"Event":"x","executionId":7,"description":"d[","sparkPlanInfo":{plan}}}'.encode()


def flat(plan: object) -> list[object]:
    return [
        (node.name, node.text, len(node.children), [(m.name, m.id, m.type) for m in node.metrics])
        for node in nodes_of(plan)
    ]


@pytest.mark.parametrize("levels", [100, 149, 150, 151, 199, 200, 201, 777, 3000])
@pytest.mark.parametrize("kind", [SqlStart, SqlAdaptive])
def test_a_deep_plan_is_what_the_lenient_decoder_makes_of_it(
    levels: int, kind: type[SqlStart]
) -> None:
    line = event(chain(levels, random.Random(levels), " " * (levels % 2)))
    expected = lenient.fit(kind, lenient.parse(line), lenient.BadNumbers())
    found = decode_deep(line, kind)
    if found is None:
        assert levels < 150  # short enough for one piece
        return
    assert found.execution == expected.execution
    assert flat(found.plan) == flat(expected.plan)
    assert hash_plan(nodes_of(found.plan)) == hash_plan(nodes_of(expected.plan))


DEEP = chain(400, random.Random(1))


@pytest.mark.parametrize(
    "line",
    [
        event(DEEP)[:-2],
        event(DEEP) + b"}",
        event(DEEP).replace(b'"P300",', b'"P300"', 1),
        event(DEEP).replace(b'"nodeName":"P300"', b'"nodeName":3', 1),
        event(DEEP).replace(b'"P300"', b'"P300', 1),
        event(DEEP.replace('"leaf"', r'"\u0001cut 1"')),
        event(DEEP.replace('"leaf"', r'"\u0001cut 99999999999999999999"')),
        event(DEEP.replace('"metadata":{"k":"[{"}', '"children":[]', 300)),
        event('{"nodeName":"x","metrics":' + "[{" * 2 + "}]" * 2 + ',"m":' + DEEP + "}"),
        b"[" * 4000 + b"]" * 4000,
        b"{" * 4000,
        b"",
    ],
)
def test_what_cannot_be_put_together_is_left_to_the_lenient_decoder(line: bytes) -> None:
    assert decode_deep(line, SqlStart) is None


def test_a_line_of_too_many_brackets_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    line = event(DEEP)
    assert decode_deep(line, SqlStart) is not None
    monkeypatch.setattr(lenient, "MAX_DEPTH", 100)
    assert decode_deep(line, SqlStart) is None


def test_the_typed_decoder_reads_the_pieces_of_no_shallow_line() -> None:
    line = event(chain(40, random.Random(3)))
    assert decode_deep(line, SqlStart) is None
    assert msgspec.json.decode(line, type=SqlStart).plan is not None


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


def values_one_by_one(line: bytes) -> int:
    """Signs that stand in no text, told by going through all bytes."""
    found, inside, escaped = 0, False, False
    for byte in line:
        if escaped:
            escaped = False
        elif byte == ord("\\"):
            escaped = True
        elif byte == ord('"'):
            inside = not inside
        else:
            found += not inside and byte in b",[{"
    return found


@given(st.text(alphabet=',[{"\\a', min_size=1, max_size=9), st.integers(0, 9))
def test_values_of_a_dense_line_are_those_outside_of_texts(part: str, shift: int) -> None:
    """The line is longer than what is counted at a time, and texts go on from one to the next."""
    line = b" " * shift + part.encode() * (2 * lenient._BLOCK // len(part) + 1)
    expected = values_one_by_one(line)
    assert dense_elements(line) == (expected if expected > len(line) // lenient.DENSE else 0)


def test_what_the_plugin_writes_does_not_count_for_the_log() -> None:
    line = dense(b'{"Event":"%s",' % min(PLUGIN_KEPT).encode(), b"x", b"1", MAX_ELEMENTS - 9)
    lines = DenseLines()
    assert not any(lines.has_too_many(line, counts=False) for _ in range(9))
    assert lines.has_too_many(dense(JOB, b"x", b"1", MAX_ELEMENTS), counts=False)


def test_no_line_of_an_ordinary_log_is_dense() -> None:
    lines = contended_log().lines
    wide = json.dumps({"Event": "x", "nodes": [{"name": "number of rows", "id": 7}] * 9999})
    assert not any(map(dense_elements, [*lines, wide.encode()]))
