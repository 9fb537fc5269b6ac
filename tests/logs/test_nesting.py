"""Lines that nest without end are left out before they are decoded; the rest of the log is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs import read_logs
from iqcar.logs.events.nesting import MAX_DEPTH, brackets, is_too_deep
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog
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
@pytest.mark.parametrize("before", BEFORE)
def test_a_bomb_of_brackets_takes_little_memory_and_the_rest_is_read(
    before: str, tmp_path: Path
) -> None:
    """Beyond what it takes without bombs the process may take eight times the line."""
    paths = []
    for name, opening in OPENING.items():
        line = BEFORE[before] + opening * (LINE_BYTES // len(opening))
        paths.append(str(tmp_path / name))
        Path(paths[-1]).write_bytes(zstandard.compress(with_bomb(line).bytes(), 1))
    program = (
        "import resource, sys\n"
        "from iqcar.logs import read_logs\n"
        "read_logs([sys.argv[1]], processes=1)\n"
        "first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "tables = [read_logs([path], processes=1) for path in sys.argv[2:]]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first)\n"
        "print(min(len(one.tasks) for one in tables), min(len(one.queries) for one in tables))"
    )
    plain = contended_log().write(tmp_path / "plain")
    done = subprocess.run(
        [sys.executable, "-c", program, str(plain), *paths],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    grown, *rest = map(int, done.stdout.split())
    assert grown * 1024 < 8 * LINE_BYTES
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
