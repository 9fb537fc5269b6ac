"""Logs of one small application in tests, read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iqcar.logs import read_logs
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog


def read(log: SyntheticLog, folder: Path, name: str = "app-1") -> Tables:
    return read_logs([log.write(folder / name)], processes=1)


def only_input(tables: Tables) -> dict[str, Any]:
    assert len(tables.inputs) == 1
    return tables.inputs.iloc[0].to_dict()


def small_log(tasks: int = 3) -> SyntheticLog:
    log = SyntheticLog().app().executor().job(0, [0]).stage(0)
    for task in range(tasks):
        log.task_start(task).task(task)
    return log.stage_end(0).job_end(0)
