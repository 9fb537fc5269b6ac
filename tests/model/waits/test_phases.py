"""Phases of tasks: runs of like intervals, and the hidden Markov model beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.waits.phases import PHASE_NAMES, FindStates, phases_of
from iqcar.papers.phase_model import fit, most_likely_states
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


def said(tables: Tables, **options: FindStates) -> list[list[tuple[str, float]]]:
    """Name and length of each task's phases."""
    phases = phases_of(tables, **options)
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


def planted(seed: int, tasks: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sequences that stay in one of three states for ten intervals on average."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    lengths = rng.integers(5, 60, tasks)
    states, first = [], []
    for length in lengths:
        first.append(len(states))
        now = int(rng.integers(3))
        for _ in range(length):
            if rng.random() < 0.1:
                now = int(rng.integers(3))
            states.append(now)
    truth = np.array(states)
    return means[truth] + 0.1 * rng.standard_normal((len(truth), 3)), np.array(first), truth


def test_planted_states_are_found() -> None:
    """Noise of .1 between means .7 apart: nearly every interval is told."""
    evidence, first, truth = planted(4)
    state, means = most_likely_states(evidence, first)
    name = means.argmax(axis=1)
    assert sorted(name.tolist()) == [0, 1, 2]
    assert np.mean(name[state] == truth) > 0.97


def test_no_round_of_the_fit_makes_the_record_less_likely() -> None:
    evidence, first, _ = planted(5)
    lengths = np.diff(np.append(first, len(evidence)))
    _, history = fit(evidence, first, lengths)
    assert len(history) > 2
    assert (np.diff(history) > -1e-6 * abs(history[0])).all()


def test_the_likelihood_is_the_sum_over_all_paths() -> None:
    """Written out for one task of four intervals."""
    evidence, _, _ = planted(6, tasks=1)
    evidence = evidence[:4]
    model, _ = fit(evidence, np.array([0]), np.array([4]))
    from itertools import product

    from iqcar.papers.phase_model import _round

    def density(state: int, seen: np.ndarray) -> float:
        variance = model.variance[state]
        off = (seen - model.mean[state]) ** 2 / variance
        return float(np.exp(-0.5 * (off + np.log(2 * np.pi * variance)).sum()))

    total = 0.0
    for path in product(range(3), repeat=4):
        chance = model.start[path[0]] * density(path[0], evidence[0])
        for t in range(1, 4):
            chance *= model.move[path[t - 1], path[t]] * density(path[t], evidence[t])
        total += chance
    _, likelihood = _round(model, evidence[None], np.ones((1, 4), bool))
    assert likelihood == pytest.approx(np.log(total))


def test_both_methods_agree_where_states_are_clear() -> None:
    tasks = [["read"] * 8 + ["compute"] * 8 + ["write"] * 4, ["compute"] * 12 + ["write"] * 6]
    tables = tables_of(tasks * 5)
    assert said(tables, find_states=most_likely_states) == said(tables)
