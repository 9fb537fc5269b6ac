"""What is over is dropped from a growing log; what is left says the same as the whole log."""

from __future__ import annotations

import pandas as pd
import pytest

from iqcar.diagnosis import Settings
from iqcar.live import growing_log
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window import Window, window_of
from iqcar.logs.events.task_structs import PLUGIN
from iqcar.logs.find.layouts import EventLog, LogPart
from iqcar.logs.ingest import LineTally
from iqcar_lab.clusters.event_log import SyntheticLog, node, sql_update, stage_info, task_metrics

WINDOW_MS = 20_000.0
QUERIES, METRICS = 60, 4
PLACE = EventLog("local-1", (LogPart("local-1", "local-1", 0),), in_progress_hint=True)


def many_queries() -> SyntheticLog:
    """Queries of two tasks, one every second, on two slots; each with metrics of its own."""
    log = SyntheticLog().app().executor("1", "host-a", 2, 1000)
    pool = {"name": "gold", "mode": "FIFO", "weight": 3, "minShare": 2}
    log.event(f"{PLUGIN}Scheduler", {"timeMs": 1500, "pools": [pool]})
    for query in range(QUERIES):
        begin = 2000 + 1000 * query
        first = METRICS * query
        metrics = [(first + n, name, "nsTiming") for n, name in enumerate(("scan time", "x", "y"))]
        info = stage_info(query, submission=begin, **{"Number of Tasks": 2})
        properties = {"spark.sql.execution.id": str(query)}
        log.sql(query, node("Scan parquet", metrics=metrics), f"q{query}", begin)
        log.job(query, [info], begin, properties).stage(info, properties)
        for task in range(2):
            log.task(
                2 * query + task, query, launch=begin + 700, finish=begin + 1900, host="host-a",
                index=task, metrics=task_metrics(Executor_Run_Time=1100),
                accumulables=[sql_update(first, "scan time", "300000000")],
            )  # fmt: skip
        end = begin + 1900
        log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        planned = [{"name": "planning", "startMs": begin, "endMs": begin + 500}]
        log.event(f"{PLUGIN}Phases", {"executionId": query, "phases": planned})
    return log


def followed(blocks: list[bytes]) -> tuple[GrowingLog, Window]:
    growing = GrowingLog(WINDOW_MS)
    for block in blocks:
        growing.take(block)
    found = window_of(growing, PLACE, LineTally(), Settings())
    assert found is not None
    return growing, found


def test_a_log_that_came_line_by_line_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = many_queries()
    _, at_once = followed([log.bytes()])
    monkeypatch.setattr(growing_log, "ROWS_TO_FORGET", 5)
    growing, by_line = followed([line + b"\n" for line in log.lines])
    assert growing.forgotten.jobs > QUERIES / 2
    for name in ("demands", "sources", "stages"):
        pd.testing.assert_frame_equal(
            getattr(by_line.diagnosis.blame, name), getattr(at_once.diagnosis.blame, name)
        )
    pd.testing.assert_frame_equal(by_line.diagnosis.waits, at_once.diagnosis.waits)
    # Metrics that were declared in ns stay in ns, however much was dropped.
    assert set(by_line.tables.tasks["scan_ms"]) == {300.0}
    # Phases of many queries do not push out the last state of the pools.
    monkeypatch.setattr(growing_log, "MOST_STATES", 1)
    _, again = followed([line + b"\n" for line in log.lines])
    assert set(again.tables.pools["name"]) == {"gold"}
    assert len(again.tables.driver_phases) == len(again.tables.sql_executions)


def test_what_is_kept_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_log, "ROWS_TO_FORGET", 5)
    lines = [line + b"\n" for line in many_queries().lines]
    sizes = []
    for part in (len(lines) // 2, len(lines)):
        log = followed(lines[:part])[0].log
        sql = log.sql
        sizes.append(
            [
                len(one)
                for one in (
                    log.plugin_events, log.jobs, log.stages, log.last_rdd,
                    log.jobs_of_stages._listed, sql.executions,
                    sql.metrics, sql.metrics.runs, sql.metrics.nodes, sql.seen, sql._declared,
                    sql.declared_waits.nanoseconds, sql.operators._group, sql.operators._names,
                )
            ]
        )  # fmt: skip
        assert log.tasks.rows <= 2 * (WINDOW_MS / 1000 + 3)
    assert max(after - before for before, after in zip(*sizes, strict=True)) <= METRICS
