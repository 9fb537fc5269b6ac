"""An experiment on an embedded Spark: SQL under hogs until Ctrl-C, and whatif with its curves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import psutil
import pytest

from iqcar_lab.experiment.curves_file import curves_schema
from tests.support.command import iqcar
from tests.support.listener_spark import build_jar, environment, spark_params

pytestmark = [pytest.mark.long("analyzer/iqcar_lab", "listener/src"), pytest.mark.spark]

PATIENCE_S = 600
WORK = "SELECT k, sum(crc32(cast(id AS string))) AS s FROM numbers GROUP BY k"
PLAN: dict[str, Any] = {
    "master": "local[2]",
    "setup": [
        "CREATE TEMPORARY VIEW numbers AS SELECT id, id % 7 AS k FROM range(0, 1500000, 1, 4)"
    ],
    "queries": [
        {"name": "work", "sql": WORK},
        {"name": "broken", "sql": "SELECT * FROM nothing"},
    ],
    "resources": {"cpu": {"processes": 2}},
    "levels": [0, 1],
    "repeats": 100,
    "budget": "10m",
    "hosts": ["localhost"],
}
ENOUGH_PAIRS = 2


class Stopped(NamedTuple):
    """What an experiment left that was stopped by Ctrl-C."""

    folder: Path
    exit_code: int
    said: str
    alive: list[psutil.Process]
    found: dict[str, Any]


@pytest.fixture(scope="module", params=spark_params())
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """The one start of Spark: stopped after some pairs, while a hog and a query run."""
    build_jar()
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "plan.json").write_text(json.dumps(PLAN), "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "iqcar_lab", "experiment", "plan.json", "--yes", "--out", "out"],
        cwd=folder,
        env=environment(request.param),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = []
        for line in process.stderr or ():
            lines.append(line)
            if line.startswith(f"pair {ENOUGH_PAIRS + 2}"):
                break
        descendants = until(process, lambda names: any("inject.hog" in name for name in names))
        process.send_signal(signal.SIGINT)
        said, rest = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    alive = psutil.wait_procs(descendants, timeout=PATIENCE_S)[1]
    curves = folder / "out" / "curves.json"
    assert curves.exists(), "".join(lines) + rest
    found = json.loads(curves.read_text("utf-8"))
    return Stopped(folder, process.returncode, said, alive, found)


def until(
    process: subprocess.Popen[str], wanted: Callable[[list[str]], bool]
) -> list[psutil.Process]:
    """The descendants once their command lines are as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        children = psutil.Process(process.pid).children(recursive=True)
        lines = []
        for child in children:
            with suppress(psutil.NoSuchProcess):  # it has ended, or is a zombie
                lines.append(" ".join(child.cmdline()))
        if wanted(lines):
            return children
        time.sleep(0.02)
    raise AssertionError("nothing of the kind ran")


def test_ctrl_c_leaves_nothing_running(stopped: Stopped) -> None:
    assert stopped.exit_code == 128 + signal.SIGINT
    assert stopped.alive == []
    assert not list((stopped.folder / "out" / "eventlogs").glob("*.inprogress"))


def test_what_was_measured_is_written_with_a_curve_of_the_query_and_its_stages(
    stopped: Stopped,
) -> None:
    found = stopped.found
    jsonschema.validate(found, json.loads(curves_schema()))
    assert found["ended_by"] == "SIGINT"
    query = next(curve for curve in found["curves"] if curve["of"] == "query")
    assert (query["query"], query["resource"]) == ("work", "cpu")
    assert query["pairs"] >= ENOUGH_PAIRS
    stages = [curve for curve in found["curves"] if curve["of"] == "stage"]
    assert any("Range" in curve["label"] for curve in stages)
    assert all(0 < curve["tasks_at_once"] <= 2 for curve in stages)
    assert "work" in stopped.said


def test_a_query_that_fails_marks_its_cell_and_the_others_go_on(stopped: Stopped) -> None:
    runs = stopped.found["runs"]
    broken = [run for run in runs if run["query"] == "broken" and run["pair"]]
    assert len(broken) == 1 and "nothing" in broken[0]["failed"]
    assert not any(run["failed"] for run in runs if run["query"] == "work")


def test_hogs_used_processors_beside_the_query(stopped: Stopped) -> None:
    loaded = [run for run in stopped.found["runs"] if run["level"] > 0 and not run["failed"]]
    assert all(run["cores"] > 0 and run["k"] == 1 for run in loaded)


def test_whatif_takes_the_curves_for_stages_of_these_labels(stopped: Stopped) -> None:
    """Whether a slowdown is certain depends on the machine: the curves are set to be."""
    curves = stopped.folder / "certain.json"
    certain = [{**curve, "identified": True} for curve in stopped.found["curves"]]
    curves.write_text(json.dumps({**stopped.found, "curves": certain}), "utf-8")
    log = stopped.folder / "out" / "eventlogs"
    asked = ("whatif", log, "--cpu", "2x", "--curves", curves, "--json", "-")
    done = iqcar(*asked)
    assert done.returncode == 0, done.stderr
    (said,) = [one for one in json.loads(done.stdout)["assumptions"] if "experiment" in one]
    assert "own rates of 0 of" not in said
