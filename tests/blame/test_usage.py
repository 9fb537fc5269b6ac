"""What sources used, whom that clears, and what is said when it is doubtful."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iqcar.blame.attribute import OWN, QUERY, UNATTRIBUTED, attribute, capacities
from iqcar.blame.ratp import TaskColumns
from iqcar.blame.source_usage import used_share
from iqcar.enums import Request, SourceUsage
from iqcar.waits import ESTIMATED, MEASURED
from tests.support.hand_cluster import by_host, cluster, parts
from tests.support.tiny_tables import tiny_tables

# --- use


def used(request: Request, usage: SourceUsage, *data: Any) -> np.ndarray:
    columns = TaskColumns.from_tables(*data)
    speeds = capacities(columns, by_host(columns))
    return used_share(columns, request, speeds, usage)


def test_reads_and_writes_keep_one_disk_busy() -> None:
    data = cluster(
        {Request.IO_READ: [20.0], Request.IO_WRITE: [30.0]},
        launch=[0],
        finish=[100],
        input_bytes=[1e6],
        shuffle_write_bytes=[1e6],
    )
    for request in (Request.IO_READ, Request.IO_WRITE):
        assert used(request, SourceUsage.ACTIVE, *data)[0] == pytest.approx(0.5)


def test_an_unknown_time_in_the_resource_is_told_from_its_data() -> None:
    data = cluster(
        {Request.SHUFFLE_FETCH: [50.0, np.nan, 0.0]},
        launch=[0, 0, 0],
        finish=[100, 100, 100],
        remote_bytes=[1e6, 5e5, 0.0],
    )
    np.testing.assert_allclose(
        used(Request.SHUFFLE_FETCH, SourceUsage.ACTIVE, *data), [0.5, 0.25, 0.0]
    )


def test_the_processor_is_used_in_cores() -> None:
    data = cluster({}, launch=[0, 0], finish=[100, 100], compute_ms=[80.0, np.nan])
    for usage in (SourceUsage.ACTIVE, SourceUsage.RATE):
        np.testing.assert_allclose(used(Request.RUN_QUEUE, usage, *data), [0.8, 0.0])


def test_as_the_paper_prints_it_a_source_used_what_it_got_while_it_waited() -> None:
    data = cluster(
        {Request.SHUFFLE_FETCH: [10.0, 40.0, 0.0, 5.0]},
        launch=[0] * 4,
        finish=[100] * 4,
        remote_bytes=[1e6, 1e6, 1e6, 0.0],
    )
    np.testing.assert_allclose(
        used(Request.SHUFFLE_FETCH, SourceUsage.PAPER, *data), [1.0, 0.25, 1.0, 0.0]
    )


# --- memory, once somebody measures it


def test_memory_waits_are_blamed_on_those_who_held_the_memory() -> None:
    tables, waits = cluster(
        {Request.EXECUTION_MEMORY: [50.0, 0.0, 0.0]},
        launch=[0, 0, 0],
        finish=[100, 100, 100],
        peak_memory_bytes=[1e6, 2e6, 1e6],
    )
    found = parts(tables, waits, 0, Request.EXECUTION_MEMORY)
    # S = 50 / 50; held 1/2 and 1/4 of what was ever held, times C / c_tt = 2, scaled to S.
    assert found[QUERY, 1] == pytest.approx((2 / 3, 100 / 3))
    assert found[QUERY, 2] == pytest.approx((1 / 3, 50 / 3))


def test_held_memory_that_was_seen_counts_and_not_the_peaks_of_operators() -> None:
    tables, waits = cluster(
        {Request.EXECUTION_MEMORY: [50.0, 0.0, 0.0, 0.0]},
        launch=[0] * 4,
        finish=[100] * 4,
        peak_memory_bytes=[0.0, 0.0, 9e9, 1e6],
    )
    seen = [{"task": 1, "mean_held_bytes": 4e6, "wall_ms": 75.0}]
    seen += [{"task": 2, "mean_held_bytes": 0.0, "wall_ms": 100.0}]
    seen += [{"task": 3, "mean_held_bytes": np.nan, "wall_ms": 100.0}]
    tables = tables.with_(task_records=tiny_tables(task_records=seen).task_records)
    np.testing.assert_allclose(TaskColumns.from_tables(tables, waits).held(), [0, 3e6, 0, 1e6])
    found = parts(tables, waits, 0, Request.EXECUTION_MEMORY)
    assert found[QUERY, 1] == pytest.approx((0.75, 37.5))
    assert found[QUERY, 3] == pytest.approx((0.25, 12.5))
    assert (QUERY, 2) not in found


def test_own_tasks_in_each_others_way_are_own() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [50.0, 50.0]}, launch=[0, 0], finish=[100, 100], compute_ms=[50.0, 50.0]
    )
    tables.stages["query"] = np.zeros(2, dtype=np.int32)
    assert parts(tables, waits, 0, Request.RUN_QUEUE)[OWN, 1] == pytest.approx((1.0, 50.0))


# --- doubts


def test_applications_on_localhost_are_said_to_share_it() -> None:
    tables, waits = cluster({}, launch=[0, 0], finish=[9, 9], apps=2)
    assert any(
        "2 applications ran on a host called localhost" in d
        for d in attribute(tables, waits).doubts
    )


def test_a_capacity_from_one_task_is_a_guess() -> None:
    tables, waits = cluster({Request.IO_READ: [10.0]}, launch=[0], finish=[50], input_bytes=[1e6])
    assert any("reading is known from 1 task" in d for d in attribute(tables, waits).doubts)


# --- an estimated CPU wait is blamed on others only as far as cores were in use


@pytest.mark.parametrize(("evidence", "cores", "blamed"), [
    (ESTIMATED, 4.0, 0.25), (ESTIMATED, 1.0, 1.0), (ESTIMATED, np.nan, 1.0), (MEASURED, 4.0, 1.0),
])  # fmt: skip
def test_idle_cores_clear_the_neighbours_of_an_estimated_wait(evidence, cores, blamed) -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [50.0, 50.0]}, launch=[0, 0], finish=[100, 100], compute_ms=[50.0, 50.0]
    )
    waits["run_queue_evidence"] = np.int8(evidence)
    executors = tiny_tables(executors=[{"cores": cores, "host": 0}]).executors
    tables = tables.with_(executors=executors)
    found = parts(tables, waits, 0, Request.RUN_QUEUE)
    assert found[QUERY, 1] == pytest.approx((blamed, 50.0 * blamed))
    assert found[UNATTRIBUTED, -1] == pytest.approx((1 - blamed, 50.0 * (1 - blamed)))
