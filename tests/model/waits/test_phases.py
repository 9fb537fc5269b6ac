"""Phases of tasks: runs of like intervals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.waits.phases import PHASE_NAMES, phases_of
from iqcar.tables import INTERVALS, TASKS, Tables
from iqcar_lab.clusters.frames import frame

COLUMN = {
    "read": "io_read_ms",
    "compute": "cpu_ms",
    "fetch": "shuffle_fetch_ms",
    "write": "io_write_ms",
    "wait": "run_queue_ms",
}
STEP_MS = 100.0


def tables_of(tasks: list[list[str]], spilled: float = 0.0) -> Tables:
    """Tasks whose intervals of 100 ms are each spent mostly on one thing."""
    rows = [(task, at, name) for task, names in enumerate(tasks) for at, name in enumerate(names)]
    columns = {name: np.zeros(len(rows)) for name in INTERVALS.column_names()}
    for row, (task, at, name) in enumerate(rows):
        columns["task"][row] = task
        columns["start_ms"][row], columns["end_ms"][row] = at * STEP_MS, (at + 1) * STEP_MS
        columns[COLUMN[name]][row] = 80.0
    return Tables.empty().with_(
        tasks=frame(TASKS, len(tasks), disk_spilled_bytes=np.full(len(tasks), spilled)),
        intervals=INTERVALS.frame(columns),
    )


def said(tables: Tables) -> list[list[tuple[str, float]]]:
    """Name and length of each task's phases."""
    phases = phases_of(tables)
    found: list[list[tuple[str, float]]] = [[] for _ in range(len(tables.tasks))]
    for row in phases.itertuples():
        found[row.task].append((PHASE_NAMES[row.phase], row.end_ms - row.start_ms))
    return found


@given(st.lists(st.lists(st.sampled_from(sorted(COLUMN)), min_size=1, max_size=12), max_size=5))
def test_neighbours_in_which_the_same_dominates_are_one_phase(tasks: list[list[str]]) -> None:
    expected = []
    for names in tasks:
        merged: list[tuple[str, float]] = []
        for name in names:
            if merged and merged[-1][0] == name:
                merged[-1] = (name, merged[-1][1] + STEP_MS)
            else:
                merged.append((name, STEP_MS))
        expected.append(merged)
    assert said(tables_of(tasks)) == expected


def test_the_order_of_rows_changes_nothing() -> None:
    tables = tables_of([["read", "compute", "compute", "write"], ["fetch", "compute"]])
    mixed = tables.with_(intervals=tables.intervals.sample(frac=1, random_state=3))
    assert phases_of(mixed).equals(phases_of(tables))


def test_what_a_task_writes_before_its_last_computing_is_spilled() -> None:
    names = ["read", "write", "compute", "write"]
    assert [n for n, _ in said(tables_of([names], spilled=1e6))[0]] == [
        "read", "spill", "compute", "write",
    ]  # fmt: skip
    assert [n for n, _ in said(tables_of([names]))[0]] == names


def test_no_profile_no_phases() -> None:
    assert len(phases_of(Tables.empty())) == 0
