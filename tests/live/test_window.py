"""A window over a growing log says what `iqcar analyze` says of the same span."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import iqcar
from iqcar.diagnosis import Settings
from iqcar.live.watch import Watch
from iqcar.live.window import Window, cut_before
from iqcar.model.waits.columns import ESTIMATED
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.contended_log import contended_log
from tests.support.tiny_tables import tiny_tables

ALL_MS = 1e9


def window(path: Path, window_ms: float) -> Window:
    watch = Watch(str(path), Settings(), window_ms)
    watch.read()
    found = watch.window()
    assert found is not None
    return found


def lost_to(found: Window, source: str = "etl", target: str = "report") -> float:
    rows = found.diagnosis.graph.who_hurts_whom()
    return float(
        rows["lost_ms"][(rows["source_name"] == source) & (rows["target_name"] == target)].sum()
    )


def test_a_window_over_a_whole_log_equals_the_analysis(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "local-1")
    analysed = iqcar.diagnose(iqcar.read(log))
    found = window(log, ALL_MS).diagnosis
    pd.testing.assert_frame_equal(found.waits, analysed.waits)
    pd.testing.assert_frame_equal(found.blame.demands, analysed.blame.demands)
    pd.testing.assert_frame_equal(found.blame.sources, analysed.blame.sources)
    pd.testing.assert_frame_equal(found.graph.who_hurts_whom(), analysed.graph.who_hurts_whom())
    assert found.rules[0].fingerprint == analysed.rules[0].fingerprint
    assert found.doubts == analysed.doubts


def test_a_wait_that_began_before_the_window_counts_from_its_start(tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "local-1")
    assert lost_to(window(log, ALL_MS)) == 9000.0
    assert lost_to(window(log, 5000.0)) == 4000.0
    assert lost_to(window(log, 500.0)) == 0.0


def test_a_task_that_is_cut_keeps_of_its_holders_what_it_keeps_of_its_wait() -> None:
    """It waited 1.5 s before the window and 0.5 s in it, by its profile, but for half of that."""
    ran = {"launch_ms": 0.0, "finish_ms": 4000.0}
    at = [{"start_ms": 1000.0 * n, "end_ms": 1000.0 * n + 1000.0} for n in range(4)]
    waits = (1000.0, 500.0, 500.0, 0.0)
    tables = tiny_tables(
        tasks=[ran, ran], stages=[{}], queries=[{}],
        task_records=[{"start_ms": 0.0, "wall_ms": 4000.0, "monitor_blocked_ms": 2000.0}],
        intervals=[{**one, "monitor_blocked_ms": ms} for one, ms in zip(at, waits, strict=True)],
        lock_owners=[{"task": 0, "owner": 1, "wait_ms": 1000.0}],
    )  # fmt: skip
    cut = cut_before(tables, 2000.0)
    assert cut.task_records["monitor_blocked_ms"].tolist() == [500.0]
    assert cut.lock_owners.to_numpy().tolist() == [[0, 1, 250.0]]


def queue() -> SyntheticLog:
    """`etl` runs in both slots since 1000; `report` asks for two at 2000; it is 6000 now."""
    lines = contended_log().lines
    log = SyntheticLog(version=None)
    log.lines = lines[:7]
    for task in range(2):
        log.task_start(task, launch=1000, index=task, host="host-a")
    log.lines += lines[12:15]
    return log.executor("2", "host-b", 2, 6000)


def test_tasks_that_run_and_that_wait_count_until_now(tmp_path: Path) -> None:
    found = window(queue().write(tmp_path / "local-1.inprogress"), ALL_MS)
    tables = found.diagnosis.tables
    assert found.waiting.tolist() == [0, 2]
    waits = found.diagnosis.waits[(tables.tasks["status"] == "waiting").to_numpy()]
    assert waits["slot_wait_ms"].tolist() == [4000.0, 4000.0]
    assert set(waits["slot_wait_evidence"]) == {ESTIMATED}
    assert lost_to(found) == 4000.0


def test_what_is_over_is_dropped_and_counted(tmp_path: Path) -> None:
    log = SyntheticLog("app-1")
    log.lines = contended_log().lines[:-1]
    later = contended_log("app-1", 100_000).lines[4:-1]
    log.lines += later
    found = window(log.write(tmp_path / "local-1.inprogress"), 60_000.0)
    assert (found.forgotten.tasks, found.forgotten.jobs) == (4, 0)
    assert len(found.tables.tasks) == 4
