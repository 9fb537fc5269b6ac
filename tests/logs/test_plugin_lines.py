"""What iqcar's own Spark plugin wrote into a log is kept, each task's record once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iqcar.logs.collect import Collector
from iqcar.logs.plugin.record_columns import RecordColumns
from iqcar.logs.tasks.record_scanner import RecordScanner
from iqcar.logs.tasks.task_lines import TaskDecoder
from iqcar_lab.clusters.event_log import SyntheticLog, sql_update

FIELDS = {"v": 1, "host": 'a"b\\', "start_ms": 5, "wall_ns": 9, "cpu_ns": 2, "pool": "h\u00e9"}
RECORD = json.dumps(FIELDS)
READ = "h\u00e9"
"""The pool of the record."""


def carrier(update: Any = RECORD, name: str = "iqcar.task", **more: Any) -> dict[str, Any]:
    fields = {"ID": 0, "Name": name, "Update": update, "Value": "n=1", **more}
    return {key: value for key, value in fields.items() if value is not ...}


def read(log: SyntheticLog, *, scanned: bool = True) -> Collector:
    found = Collector()
    found.task_intake.scanner = RecordScanner() if scanned else None
    block = log.bytes()
    found.add(block, TaskDecoder().decode(block))
    return found


def records(log: SyntheticLog) -> list[tuple[float, str]]:
    """Task ids and pools of the records, the same whichever way the lines are read."""
    scanned, decoded = (_pools(read(log, scanned=one).task_records) for one in (True, False))
    assert scanned == decoded
    return scanned


def _pools(found: RecordColumns) -> list[tuple[float, str]]:
    texts = list(found.texts)
    task_ids, chunk = found.columns()
    return [
        (task, texts[code][0])
        for task, code in zip(task_ids.tolist(), chunk.texts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_record_is_found_wherever_it_is_among_the_accumulables(place: int) -> None:
    around = [sql_update(5, "scan time", 7), sql_update(6, "iqcar.tasks", 1)]
    log = SyntheticLog().task(0)
    for task in (1, 2):
        log.task(task, 3, 1, accumulables=[*around[:place], carrier(), *around[place:]])
    assert records(log) == [(1.0, READ), (2.0, READ)]


def test_another_spelling_of_the_line_hides_no_record() -> None:
    log = SyntheticLog().task(4, accumulables=[carrier()])
    log.lines = [
        json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in log.lines
    ]
    assert records(log) == [(4.0, READ)]


@pytest.mark.parametrize("reason", ["ExceptionFailure", "TaskKilled"])
@pytest.mark.parametrize("where", ["both", "reason", "info"])
def test_the_record_of_a_task_that_failed_is_taken_once(reason: str, where: str) -> None:
    end = {"Reason": reason, "Accumulator Updates": [carrier()] if where != "info" else []}
    accumulables = [carrier()] if where != "reason" else []
    log = SyntheticLog().task(1, accumulables=accumulables, more={"Task End Reason": end})
    assert records(log) == [(1.0, READ)]


@pytest.mark.parametrize(
    "update", [carrier(...), carrier(7), carrier(None), carrier(name="iqcar.tasks"), {"Name": 5}]
)
def test_what_is_no_update_of_a_record_is_none(update: dict[str, Any]) -> None:
    log = SyntheticLog().task(1, accumulables=[update])
    log.task(2, accumulables=[update], reason="TaskKilled")
    assert records(log) == []


def test_a_resubmission_repeats_no_record() -> None:
    log = SyntheticLog().task(1, accumulables=[carrier()])
    log.task(1, reason="Resubmitted", accumulables=[carrier()])
    assert len(records(log)) == 1


def test_events_of_the_plugin_are_known_and_two_kinds_are_kept() -> None:
    prefix = "org.iqcar.spark.IqcarEvent"
    log = SyntheticLog()
    for kind in ("Scheduler", "Samples", "FromTheFuture"):
        log.event(prefix + kind, {"version": 1})
    log.event("org.iqcar.spark.Another", {})
    found = read(log)
    assert found.plugin_events == log.lines[1:3]
    assert (found.events, found.skipped) == (5, 1)
