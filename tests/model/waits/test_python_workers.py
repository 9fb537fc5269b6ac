"""Python workers that no record measured: samples of executors tell what they computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, MEASURED, evidence_column, wait_column
from iqcar.model.waits.python_workers import with_python_waits
from iqcar.tables import SAMPLES, STAGES, TASK_RECORDS, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame

QUEUE = wait_column(Request.RUN_QUEUE)


def run_of(
    python_cpu: Any, seen: tuple[int, ...] = (), told: str = "python_cpu_ms"
) -> tuple[Tables, pd.DataFrame]:
    """Two tasks of 4 s that feed workers, and one that does not; each computes 1 s and waits 1 s.

    seen: tasks whose worker the plugin measured.
    told: what it tells of them.
    """
    tasks = frame(
        TASKS, 3, stage=[0, 0, 1], executor=np.zeros(3, int), host=np.zeros(3, int),
        launch_ms=np.full(3, EPOCH_MS), finish_ms=np.full(3, EPOCH_MS + 4000.0),
    )  # fmt: skip
    samples = frame(
        SAMPLES, 4, executor=np.zeros(4, int), host=np.zeros(4, int),
        time_ms=EPOCH_MS + 1000.0 * np.arange(1, 5), duration_ms=np.full(4, 1000.0),
        python_cpu_ms=np.broadcast_to(python_cpu, 4),
    )  # fmt: skip
    records = frame(TASK_RECORDS, len(seen), task=list(seen), **{told: np.full(len(seen), 500.0)})
    tables = Tables.empty().with_(
        tasks=tasks, samples=samples, task_records=records,
        stages=frame(STAGES, 2, python=[True, False]),
    )  # fmt: skip
    waits = waits_frame(tasks, {Request.RUN_QUEUE: [1000.0] * 3}, np.full(3, 1000.0))
    return tables, waits


def test_tasks_that_feed_workers_share_what_these_computed() -> None:
    found = with_python_waits(*run_of(500.0))
    assert found["compute_ms"].tolist() == pytest.approx([2000.0, 2000.0, 1000.0])
    # The second that is left may be a wait for the processor, as in any other task.
    assert found[QUEUE].tolist() == pytest.approx([2000.0, 2000.0, 1000.0])
    codes = found[evidence_column(Request.RUN_QUEUE)].tolist()
    assert codes == [ESTIMATED, ESTIMATED, MEASURED]


def test_no_task_computes_for_longer_than_nothing_else_explains() -> None:
    found = with_python_waits(*run_of(1e6))
    assert found["compute_ms"].tolist() == pytest.approx([3000.0, 3000.0, 1000.0])
    assert found[QUEUE].tolist() == pytest.approx([1000.0] * 3)


@pytest.mark.parametrize("told", ["python_cpu_ms", "python_run_queue_ms", "python_other_ms"])
def test_a_worker_that_was_measured_stays_as_it_is(told: str) -> None:
    tables, waits = run_of(500.0, seen=(0,), told=told)
    found = with_python_waits(tables, waits)
    assert found["compute_ms"].tolist() == pytest.approx([1000.0, 3000.0, 1000.0])
    everything = run_of(500.0, seen=(0, 1), told=told)
    assert with_python_waits(*everything) is everything[1]


@pytest.mark.parametrize("cpu", [0.0, -5.0, np.nan])
def test_without_usable_samples_nothing_changes(cpu: float) -> None:
    tables, waits = run_of(cpu)
    assert with_python_waits(tables, waits) is waits
    none = run_of(500.0)[0].with_(samples=SAMPLES.empty())
    assert with_python_waits(none, waits) is waits


def test_a_gap_in_the_samples_counts_as_no_computing() -> None:
    found = with_python_waits(*run_of([500.0, np.nan, 500.0, 500.0]))
    assert found["compute_ms"].tolist() == pytest.approx([1750.0, 1750.0, 1000.0])
