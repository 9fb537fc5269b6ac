"""What is said to have changed with a recurring query, and the stages that a store keeps for it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from iqcar.history import add, changes, trend
from iqcar.history.stored_files import STAGES
from iqcar.history.stored_rows import rows_of
from iqcar.pipeline import diagnose, read
from iqcar_lab.clusters.event_log import SyntheticLog, rdd, stage_info, task_metrics
from tests.support.command import iqcar
from tests.support.contended_log import NO_IO
from tests.support.nightly_logs import DAY_MS, FIRST_MS
from tests.support.stored_stages import check_stored_stages

pytestmark = pytest.mark.slow

RUNS, CHANGED = 20, 10


SLOWER: dict[str, dict[str, float]] = {
    "join slower": {"join": 9_000.0},
    "join quicker": {"join": -6_000.0},
    "driver slower": {"driver": 9_000.0},
    "much slower": {"scan": 6_000.0, "driver": 1_000.0, "join": 9_000.0},
    "as ever": {},
}
"""Queries, and how much longer parts of them take from the run CHANGED on."""


def load_run(number: int, queries: dict[str, dict[str, float]]) -> SyntheticLog:
    """Queries, one after the other, on one slot.

    Each is a scan of 5 s, 2 s of the driver, a join of 12 s and a write of 50 ms.
    """
    noise = random.Random(number).uniform(0.97, 1.03)
    now = FIRST_MS + number * DAY_MS
    log = SyntheticLog(f"app-{number:03d}").app("load", now).environment()
    log.executor("1", "host-a", 1, now)
    stage = 0
    for execution, (query, slower) in enumerate(queries.items()):
        parts = {"scan": 5_000.0, "driver": 2_000.0, "join": 12_000.0, "write": 50.0}
        if number >= CHANGED:
            parts = {name: ms + slower.get(name, 0.0) for name, ms in parts.items()}
        properties = {"spark.sql.execution.id": str(execution), "spark.job.description": query}
        log.sql(execution, description=query, time=now)
        for name, part in parts.items():
            ms = part * noise
            now += ms
            if name == "driver":
                continue
            start = now - ms
            info = stage_info(stage, rdds=[rdd(stage, scope=name)], submission=start)
            log.job(stage, [info], start, properties).stage(info, properties)
            metrics = task_metrics(
                Executor_Run_Time=int(ms - 5), Executor_CPU_Time=int((ms - 5) * 1e6), **NO_IO
            )
            log.task(stage, stage=stage, metrics=metrics, launch=start, finish=now, host="host-a")
            log.stage_end(info, now).job_end(stage, now)
            stage += 1
        log.sql_end(execution, now)
    return log.end(now)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of all runs of all queries."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "logs").mkdir()
    for number in range(RUNS):
        load_run(number, SLOWER).write(folder / "logs" / f"app-{number:03d}")
    add(str(folder / "store"), [folder / "logs"], processes=1)
    return folder / "store"


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> str:
    """A copy of it that a test may change."""
    return str(shutil.copytree(kept, tmp_path / "store"))


def why(store: Path | str) -> dict[str, list[str]]:
    """What is said of stages and driver of each query that changed."""
    return {
        change.name: [one for one in change.why if "stage" in one or "driver" in one]
        for change in changes(str(store)).changes
    }


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("join slower", ['its stage "join" takes 9 s longer']),
        ("join quicker", ['its stage "join" takes 6 s less']),
        ("driver slower", ["its driver takes 9 s longer"]),
        (
            "much slower",
            ['its stage "join" takes 9 s longer', 'its stage "scan" takes 6 s longer'],
        ),
    ],
)
def test_the_parts_that_took_longer_are_named_the_largest_first(
    kept: Path, query: str, said: list[str]
) -> None:
    parts = why(kept)[query]
    rounded = [" ".join(_whole_seconds(word) for word in one.split()) for one in parts]
    assert rounded == said


def test_a_query_that_runs_as_ever_has_not_changed(kept: Path) -> None:
    assert why(kept).keys() == SLOWER.keys() - {"as ever"}


def _whole_seconds(word: str) -> str:
    try:
        return f"{float(word):.0f}"
    except ValueError:
        return word


def test_runs_without_stored_stages_say_nothing_of_them(store: str) -> None:
    for folder in Path(store, STAGES.name).rglob("day=*"):
        shutil.rmtree(folder)
    found = why(store)
    assert found.keys() == SLOWER.keys() - {"as ever"}
    assert not any(found.values())


def test_small_stages_are_summed_and_all_sum_to_the_query(tmp_path: Path) -> None:
    found = diagnose(read([load_run(0, {"load": {}}).write(tmp_path / "app-0")]))
    check_stored_stages(found)
    stages = rows_of(found, {}, "")[STAGES.name].set_index("stage")
    assert sorted(stages.index) == ["", "join", "scan"]
    noise = random.Random(0).uniform(0.97, 1.03)
    assert stages["elapsed_ms"].to_dict() == pytest.approx(
        {"": 50 * noise, "scan": 5_000 * noise, "join": 12_000 * noise}, abs=1.0
    )


def test_a_run_that_had_not_ended_is_shown_and_not_compared(store: str, tmp_path: Path) -> None:
    before = why(store)
    logs = []
    for number in range(RUNS, RUNS + 3):  # enough for a change
        lines = load_run(number, {"as ever": {}}).bytes().splitlines(keepends=True)
        second = [at for at, line in enumerate(lines) if b"SparkListenerJobStart" in line][1]
        logs.append(tmp_path / f"app-{number:03d}.inprogress")
        logs[-1].write_bytes(b"".join(lines[:second]))
    assert add(store, logs, processes=1).partial == 3
    runs = trend(store, "as ever")
    assert runs["ended"].tolist() == [True] * RUNS + [False] * 3
    assert (runs["duration_ms"].tail(3) < 6_000).all()
    assert why(store) == before
    shown = iqcar("history", "trend", store, "as ever").stdout
    assert shown.count(" s … ") == 3
