"""What is said to have changed with a recurring query, and the stages that a store keeps for it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from iqcar.history import add, changes, trend
from iqcar.history.stored_rows import rows_of
from iqcar.history.stored_tables import STAGES
from iqcar.pipeline import diagnose, read
from tests.support.command import iqcar
from tests.support.contended_log import NO_IO
from tests.support.nightly_logs import DAY_MS, FIRST_MS
from tests.support.stored_stages import check_stored_stages
from tests.support.synthetic_log import SyntheticLog, rdd, stage_info, task_metrics

pytestmark = pytest.mark.slow

RUNS, CHANGED = 20, 10


def load_run(number: int, slower: dict[str, float]) -> SyntheticLog:
    """One query on one slot: a scan of 5 s, 2 s of the driver, a join of 12 s, a write of 50 ms."""
    noise = random.Random(number).uniform(0.97, 1.03)
    parts = {"scan": 5_000.0, "driver": 2_000.0, "join": 12_000.0, "write": 50.0}
    if number >= CHANGED:
        parts = {name: ms + slower.get(name, 0.0) for name, ms in parts.items()}
    now = start = FIRST_MS + number * DAY_MS
    log = SyntheticLog(f"app-{number:03d}").app("load", start).environment()
    log.executor("1", "host-a", 1, start)
    properties = {"spark.sql.execution.id": "0", "spark.job.description": "load"}
    log.sql(0, description="load", time=start)
    for stage, name in enumerate(parts):
        if name == "driver":
            now += parts[name] * noise
            continue
        info = stage_info(stage, rdds=[rdd(stage, scope=name)], submission=now)
        log.job(stage, [info], now, properties).stage(info, properties)
        ms = parts[name] * noise
        metrics = task_metrics(
            Executor_Run_Time=int(ms - 5), Executor_CPU_Time=int((ms - 5) * 1e6), **NO_IO
        )
        log.task(stage, stage=stage, metrics=metrics, launch=now, finish=now + ms, host="host-a")
        now += ms
        log.stage_end(info, now).job_end(stage, now)
    return log.sql_end(0, now).end(now)


def store_of(folder: Path, slower: dict[str, float]) -> str:
    (folder / "logs").mkdir()
    for number in range(RUNS):
        load_run(number, slower).write(folder / "logs" / f"app-{number:03d}")
    add(str(folder / "store"), [folder / "logs"], processes=1)
    return str(folder / "store")


@pytest.mark.parametrize(
    ("slower", "said"),
    [
        ({"join": 9_000.0}, ['its stage "join" takes 9 s longer']),
        ({"join": -6_000.0}, ['its stage "join" takes 6 s less']),
        ({"driver": 9_000.0}, ["its driver takes 9 s longer"]),
        (
            {"scan": 6_000.0, "driver": 1_000.0, "join": 9_000.0},
            ['its stage "join" takes 9 s longer', 'its stage "scan" takes 6 s longer'],
        ),
    ],
)
def test_the_parts_that_took_longer_are_named_the_largest_first(
    tmp_path: Path, slower: dict[str, float], said: list[str]
) -> None:
    (change,) = changes(store_of(tmp_path, slower)).changes
    parts = [one for one in change.why if "stage" in one or "driver" in one]
    rounded = [" ".join(_whole_seconds(word) for word in one.split()) for one in parts]
    assert rounded == said


def _whole_seconds(word: str) -> str:
    try:
        return f"{float(word):.0f}"
    except ValueError:
        return word


def test_runs_without_stored_stages_say_nothing_of_them(tmp_path: Path) -> None:
    store = store_of(tmp_path, {"join": 9_000.0})
    for folder in Path(store, STAGES.name).rglob("day=*"):
        shutil.rmtree(folder)
    (change,) = changes(store).changes
    assert not any("stage" in one or "driver" in one for one in change.why)


def test_small_stages_are_summed_and_all_sum_to_the_query(tmp_path: Path) -> None:
    found = diagnose(read([load_run(0, {}).write(tmp_path / "app-0")]))
    check_stored_stages(found)
    stages = rows_of(found, {}, "")[STAGES.name].set_index("stage")
    assert sorted(stages.index) == ["", "join", "scan"]
    noise = random.Random(0).uniform(0.97, 1.03)
    assert stages["elapsed_ms"].to_dict() == pytest.approx(
        {"": 50 * noise, "scan": 5_000 * noise, "join": 12_000 * noise}, abs=1.0
    )


def test_a_run_that_had_not_ended_is_shown_and_not_compared(tmp_path: Path) -> None:
    store = store_of(tmp_path, {})
    for number in range(RUNS, RUNS + 3):  # enough for a change
        lines = load_run(number, {}).bytes().splitlines(keepends=True)
        second = [at for at, line in enumerate(lines) if b"SparkListenerJobStart" in line][1]
        log = tmp_path / "logs" / f"app-{number:03d}.inprogress"
        log.write_bytes(b"".join(lines[:second]))
    assert add(store, [tmp_path / "logs"], processes=1).partial == 3
    runs = trend(store, "load")
    assert runs["ended"].tolist() == [True] * RUNS + [False] * 3
    assert (runs["duration_ms"].tail(3) < 6_000).all()
    assert changes(store).changes == ()
    shown = iqcar("history", "trend", store, "load").stdout
    assert shown.count(" so far ") == 3
