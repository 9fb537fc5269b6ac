"""Experiments with commands: real hogs and processes, without a Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from iqcar.replay.whatif.curves import read_curves
from iqcar_lab.experiment.curves_file import curves_schema
from tests.support.command import iqcar_lab

pytestmark = pytest.mark.slow

PATIENCE_S = 120
WORK = [sys.executable, "-c", "sum(range(2_000_000))"]
BUDGET, HALF_OF_BUDGET = "4s", [sys.executable, "-c", "import time; time.sleep(2)"]
LONG = [sys.executable, "-c", "import time; time.sleep(600)"]
THIRD_WAITS = [
    sys.executable,
    "-c",
    """
import signal, time
with open("runs", "a") as file:
    file.write("x")
    runs = file.tell()
if runs >= 3:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
""",
]
"""The second pair begins with the run under load: it is the third."""


def plan_file(folder: Path, queries: list[dict[str, Any]], **changes: Any) -> Path:
    file = folder / "plan.json"
    plan = {
        "queries": queries, "resources": {"cpu": {"processes": 1}}, "hosts": ["localhost"],
        "budget": "60s", "levels": [0.5, 1], "repeats": 1, "warm_up": 0, **changes,
    }  # fmt: skip
    file.write_text(json.dumps(plan), "utf-8")
    return file


def started(file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "iqcar_lab", "experiment", str(file), "--yes", "--out", "out"],
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_each_cell_is_a_pair_and_the_file_is_as_described(tmp_path: Path) -> None:
    file = plan_file(tmp_path, [{"name": "work", "command": WORK}], repeats=2, warm_up=1)
    done = iqcar_lab("experiment", str(file), "--yes", "--out", "out", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(curves_schema()))
    assert found == json.loads((tmp_path / "out" / "curves.json").read_text("utf-8"))
    runs = found["runs"]
    assert [run["pair"] for run in runs] == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    order = [[run["level"] > 0 for run in runs if run["pair"] == pair] for pair in (1, 2, 3, 4)]
    assert order == [[False, True], [True, False]] * 2
    (curve,) = read_curves(str(tmp_path / "out" / "curves.json")).curves
    assert (curve.of, curve.query, curve.resource, curve.pairs) == ("query", "work", "cpu", 4)
    assert [row["level"] for row in found["validation"]] == [0.5, 1]
    again = iqcar_lab("experiment", str(file), "--yes", "--out", "out", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr


@pytest.mark.long
def test_a_query_that_fails_marks_its_cells_and_others_go_on(tmp_path: Path) -> None:
    queries = [{"name": "bad", "command": ["false"]}, {"name": "good", "command": WORK}]
    done = iqcar_lab("experiment", str(plan_file(tmp_path, queries)), "--yes", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    found = json.loads((tmp_path / "iqcar-experiment" / "curves.json").read_text("utf-8"))
    assert {run["failed"] for run in found["runs"] if run["query"] == "bad"} == {"exit code 1"}
    assert {curve["query"] for curve in found["curves"]} == {"good"}
    assert "failed: bad" in done.stdout


@pytest.mark.long
def test_nothing_begins_after_the_budget(tmp_path: Path) -> None:
    query = {"name": "pair", "command": HALF_OF_BUDGET}
    file = plan_file(tmp_path, [query], budget=BUDGET, repeats=50)
    done = iqcar_lab("experiment", str(file), "--yes", "--json", "-", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["ended_by"] == "budget"
    assert {run["pair"] for run in found["runs"]} == {1}  # the one that ran then, finished


def test_a_run_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    file = plan_file(tmp_path, [{"name": "long", "command": LONG}], longest_run="200ms")
    done = iqcar_lab("experiment", str(file), "--yes", cwd=tmp_path)
    assert done.returncode == 1
    assert "nothing was measured" in done.stderr and "longer than 0.2 s" in done.stderr


@pytest.fixture
def under_load(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A command whose first pair is done and whose second waits under hogs; its descendants."""
    process = started(plan_file(tmp_path, [{"name": "third", "command": THIRD_WAITS}]))
    descendants = tree_with_hogs(process)
    yield process, descendants
    for left in [psutil.Process(process.pid)] if process.poll() is None else []:
        left.kill()
    for child in descendants:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def hogs_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    return running("iqcar_lab.inject.hog", processes)


def running(words: str, processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if words in " ".join(process.cmdline()):
                found.append(process)
    return found


def tree_with_hogs(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The descendants once the third run of the query waits, and a hog beside it."""
    until = time.monotonic() + PATIENCE_S
    for line in process.stderr or ():
        if line.startswith("pair 1") and "under" in line:
            break
    while time.monotonic() < until:
        children = psutil.Process(process.pid).children(recursive=True)
        if hogs_of(children) and running("time.sleep(600)", children):
            return children
        time.sleep(0.05)
    raise AssertionError("no hog began")


@pytest.mark.long
def test_after_ctrl_c_nothing_is_left_and_what_was_measured_is_written(
    under_load: tuple[subprocess.Popen[str], list[psutil.Process]], tmp_path: Path
) -> None:
    process, descendants = under_load
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT, errors
    assert psutil.wait_procs(descendants, timeout=PATIENCE_S)[1] == []
    found = json.loads((tmp_path / "out" / "curves.json").read_text("utf-8"))
    assert found["ended_by"] == "SIGINT"
    assert {run["pair"] for run in found["runs"]} == {1}
    assert [curve["pairs"] for curve in found["curves"]] == [1]


@pytest.mark.long
@pytest.mark.alone
def test_a_second_ctrl_c_ends_at_once_what_does_not_end(
    under_load: tuple[subprocess.Popen[str], list[psutil.Process]], tmp_path: Path
) -> None:
    """The query's command ignores SIGTERM, so that the first Ctrl-C waits for it."""
    process, descendants = under_load
    process.send_signal(signal.SIGINT)
    assert psutil.wait_procs(hogs_of(descendants), timeout=PATIENCE_S)[1] == []
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert psutil.wait_procs(descendants, timeout=PATIENCE_S)[1] == []
    assert not (tmp_path / "out" / "curves.json").exists()


@pytest.mark.long
def test_a_run_whose_hogs_are_lost_has_failed(
    under_load: tuple[subprocess.Popen[str], list[psutil.Process]], tmp_path: Path
) -> None:
    process, descendants = under_load
    hogs_of(descendants)[0].kill()
    assert psutil.wait_procs(hogs_of(descendants), timeout=PATIENCE_S)[1] == []
    (query,) = running("time.sleep(600)", descendants)
    query.kill()
    process.communicate(timeout=PATIENCE_S)
    found = json.loads((tmp_path / "out" / "curves.json").read_text("utf-8"))
    assert found["runs"][2]["failed"].startswith("hogs: hog ")


@pytest.mark.long
def test_hogs_end_with_a_command_that_is_killed(
    under_load: tuple[subprocess.Popen[str], list[psutil.Process]],
) -> None:
    process, descendants = under_load
    process.kill()
    process.wait()
    assert psutil.wait_procs(hogs_of(descendants), timeout=PATIENCE_S)[1] == []
