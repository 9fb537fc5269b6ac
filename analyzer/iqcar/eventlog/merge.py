"""Putting the tables of several logs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar import tables as tb

if TYPE_CHECKING:
    from collections.abc import Sequence

POINTS_TO: dict[str, dict[str, str]] = {
    "inputs": {"app": "applications"},
    "executors": {"app": "applications", "host": "hosts"},
    "sql_executions": {"app": "applications"},
    "jobs": {"app": "applications", "sql_execution": "sql_executions"},
    "stages": {"app": "applications", "job": "jobs"},
    "stage_parents": {"stage": "stages", "parent": "stages"},
    "tasks": {
        "app": "applications",
        "stage": "stages",
        "host": "hosts",
        "executor": "executors",
    },
    "task_failures": {"task": "tasks", "source": "executors"},
    "sql_metrics": {"app": "applications", "sql_execution": "sql_executions"},
    "conf": {"app": "applications", "sql_execution": "sql_executions"},
    "job_properties": {"job": "jobs"},
    "task_records": {"task": "tasks"},
    "intervals": {"task": "tasks"},
    "pools": {"app": "applications"},
    "rule_changes": {"app": "applications"},
    "executor_targets": {"app": "applications"},
    "samples": {"app": "applications", "host": "hosts", "executor": "executors"},
}
"""Columns that hold row numbers of another table."""


def merge(several: Sequence[tb.Tables]) -> tb.Tables:
    """Put tables together: rows are renumbered, hosts of the same name become one.

    Parameters
    ----------
    several : sequence of Tables
        One per input, in the order of the result; ``queries`` must be empty.

    Returns
    -------
    Tables
        The same application read twice stays two applications.
    """
    if not several:
        return tb.Tables.empty()
    if len(several) == 1:
        return several[0]
    hosts: dict[str, int] = {}
    rows: dict[str, int] = dict.fromkeys((spec.name for spec in tb.SPECS), 0)
    pieces: dict[str, list[pd.DataFrame]] = {spec.name: [] for spec in tb.SPECS}
    for tables in several:
        frames = dict(tables)
        row_of_host = np.array(
            [hosts.setdefault(host, len(hosts)) for host in tb.texts(tables.hosts, "host")],
            np.int32,
        )
        for name, frame in frames.items():
            if name in ("hosts", "queries"):
                continue
            moved = {}
            for column, target in POINTS_TO.get(name, {}).items():
                old = frame[column].to_numpy()
                if target == "hosts":
                    new = row_of_host[old] if len(row_of_host) else old
                else:
                    new = old + np.int32(rows[target])
                moved[column] = np.where(old >= 0, new, tb.NONE).astype(np.int32)
            pieces[name].append(frame.assign(**moved) if moved else frame)
        for name, frame in frames.items():
            rows[name] += len(frame)
    merged = {spec.name: _join(spec, pieces.pop(spec.name)) for spec in tb.SPECS}
    merged["hosts"] = tb.HOSTS.frame({"host": list(hosts)})
    return tb.Tables(**merged)


def _join(spec: tb.TableSpec, frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Join frames column by column, which needs no more memory than one column at a time."""
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        return spec.empty()
    if len(frames) == 1:
        only: pd.DataFrame = frames[0].reset_index(drop=True)
        return only
    columns: dict[str, object] = {}
    for column in spec.columns:
        parts = [frame[column.name] for frame in frames]
        if column.dtype == "category":
            columns[column.name] = pd.Categorical(_union(parts))
        else:
            columns[column.name] = np.concatenate([part.to_numpy() for part in parts])
    return spec.frame(columns)


def _union(parts: list[pd.Series]) -> pd.Categorical:
    """Join categorical columns; the categories are those of any part, in order of appearance."""
    codes: dict[str, int] = {}
    joined = []
    for part in parts:
        row = np.array(
            [codes.setdefault(str(name), len(codes)) for name in part.cat.categories], np.int32
        )
        old = part.cat.codes.to_numpy()
        joined.append(np.where(old >= 0, row[old] if len(row) else old, -1))
    return pd.Categorical.from_codes(np.concatenate(joined), pd.Index(list(codes), dtype=object))
