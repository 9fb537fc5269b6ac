"""Helping processes change nothing of what is read, whatever becomes of them."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from iqcar.base import workers
from iqcar.logs import ingest, read_logs
from iqcar.logs.tasks import task_lines
from iqcar.logs.tasks.task_lines import BlockPool, TaskBlock, TaskDecoder
from iqcar_lab.clusters.event_log import SyntheticLog, realistic_accumulables, task_metrics
from tests.support.plugin_record import plugin_record

BARE = b'{"Event":"SparkListenerTaskEnd","Stage ID":0}\n'
"""A line that is shorter than what is decoded of it."""


def blocks(count: int = 40, tasks: int = 20) -> list[bytes]:
    """Blocks of different tasks; every seventh is bare, every ninth not of tasks."""
    draw = random.Random(3).randrange
    found = []
    for number in range(count):
        log = SyntheticLog(version=None)
        for task in range(number * tasks, (number + 1) * tasks):
            metrics = task_metrics(Executor_Run_Time=draw(10**6))
            log.task_start(task).task(task, metrics=metrics, host=f"h{draw(9)}")
        text = BARE * 9 if number % 7 == 3 else log.bytes()
        found.append(b'{"Event":"Other"}\n' if number % 9 == 5 else text)
    return found


def pooled(found: list[bytes], helpers: int) -> list[TaskBlock]:
    with BlockPool(helpers) as pool:
        decoded = list(pool.decoded(iter(found), lambda: True))
    assert [block for block, _ in decoded] == found
    return [tasks for _, tasks in decoded]


def alone(found: list[bytes]) -> list[TaskBlock]:
    decoder = TaskDecoder()
    return [decoder.decode(block) for block in found]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a block was taken, each time one was offered to a helper that had started."""
    start, give, taken = BlockPool._start, task_lines._Helper.give, []

    def start_and_wait(pool: BlockPool) -> None:
        start(pool)
        for helper in pool._helpers:
            assert select.select([helper.process.stdout], [], [], 60)[0]

    def give_and_tell(helper: task_lines._Helper, *what: object) -> bool:
        taken.append(give(helper, *what))
        return taken[-1]

    monkeypatch.setattr(BlockPool, "_start", start_and_wait)
    monkeypatch.setattr(task_lines._Helper, "give", give_and_tell)
    return taken


def test_a_helper_starts_without_packages_that_are_slow_to_import() -> None:
    slow = {"numpy", "pandas", "pyarrow"}
    program = f"import sys, {task_lines.__name__}; print({slow} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_blocks_come_back_decoded_in_their_order(helpers: int, given: list[bool]) -> None:
    found = blocks()
    assert pooled(found, helpers) == alone(found)
    assert any(given) == (helpers > 0)


@pytest.mark.parametrize(
    "program",
    [
        "",
        "os.read(0, 16)",
        "os.read(0, 16); os.write(1, b'123')",
        "os.read(0, 16); os.kill(os.getpid(), 9)",
        "raise ImportError",
        "os.read(0, 16); os.write(1, (-1).to_bytes(8, 'little', signed=True))",
    ],
)
@pytest.mark.usefixtures("given")
def test_a_helper_that_dies_costs_nothing(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RUN", f"import os; os.write(1, bytes(8)); {program}")
    found = blocks()
    assert pooled(found, 2) == alone(found)


@pytest.mark.parametrize("program", ["raise ImportError", "import time; time.sleep(600)"])
def test_nothing_waits_for_a_helper_that_has_not_started(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RUN", program)
    found = blocks()
    assert pooled(found, 2) == alone(found)


def test_a_block_that_no_slot_holds_is_decoded_here(
    monkeypatch: pytest.MonkeyPatch, given: list[bool]
) -> None:
    monkeypatch.setattr(task_lines, "SLOT_BYTES", 16 << 10)
    found = [*blocks(4, 2), *blocks(4, 40)]
    assert len(found[0]) < 16 << 10 < max(map(len, found))
    assert pooled(found, 1) == alone(found)
    assert True in given
    assert False in given


def test_no_process_outlives_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    helper = task_lines._Helper

    def start(*where: int) -> task_lines._Helper:
        started.append(helper(*where))
        return started[-1]

    monkeypatch.setattr(task_lines, "_Helper", start)
    with pytest.raises(KeyboardInterrupt), BlockPool(2) as pool:
        for _ in pool.decoded(iter(blocks()), lambda: True):
            raise KeyboardInterrupt
    assert [one.process.poll() is not None for one in started] == [True, True]


def test_no_process_is_started_for_a_small_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_lines, "_Helper", lambda *_: pytest.fail("started"))
    read_logs([SyntheticLog().app().task(0).end().write(tmp_path / "app-1")], processes=8)


def test_a_large_log_is_read_the_same_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[bool]
) -> None:
    draw = random.Random(1).randrange
    log = SyntheticLog().app().stage(0)
    for task in range(600):
        metrics = task_metrics(Executor_Run_Time=draw(10**6))
        record = plugin_record(draw, 1_700_000_000_000, 900)
        carrier = {
            "ID": 0,
            "Name": "iqcar.task",
            "Update": json.dumps(record, separators=(",", ":")),
            "Value": "n=1",
        }
        accumulables = [carrier, *realistic_accumulables(draw, 0, metrics)]
        log.task_start(task).task(task, metrics=metrics, accumulables=accumulables)
        if task % 50 == 7:
            log.raw(log.lines[-1].replace(b'"Index":0', b'"Index": "x"')).raw(b"no event")
    log.task_start(9999)
    path = log.end().write(tmp_path / "app-1")
    monkeypatch.setattr("iqcar.logs.ingest.CHUNK_BYTES", 100_000)
    small = read_logs([path], processes=1)
    monkeypatch.setattr(ingest, "LARGE_LOG_BYTES", 0)
    large = read_logs([path], processes=3)
    for (name, one), (_, other) in zip(small, large, strict=True):
        pd.testing.assert_frame_equal(one, other, obj=name)
    assert len(small.task_records) == 600
    assert any(given)
