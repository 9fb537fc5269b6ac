"""RATP, capacity, slowdown and use, on inputs small enough to check by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from iqcar.blame import KNOWN, OWN, QUERY, UNATTRIBUTED, attribute, capacities
from iqcar.capacity import ENOUGH_TASKS, best_seen, host_capacity
from iqcar.grouping import Schedule, schedule
from iqcar.kinds import REQUESTS, Request, SourceUsage
from iqcar.ratp import TaskColumns, data_processed, measure_loss
from iqcar.sweep import (
    SOURCE_ENDS,
    SOURCE_STARTS,
    TARGET_ENDS,
    TARGET_STARTS,
)
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, QUERIES, STAGES, TASKS, Tables
from iqcar.usage import used_share
from random_tables import EPOCH_MS, frame, waits_frame


def cluster(
    waits: dict[Request, Any],
    *,
    launch: list[float],
    finish: list[float],
    cores: float = 2.0,
    added: float = 0.0,
    compute_ms: Any = np.nan,
    gc_ms: Any = 0.0,
    apps: int = 1,
    **columns: Any,
) -> tuple[Tables, pd.DataFrame]:
    """One host; task k belongs to stage k, which belongs to query k."""
    n = len(launch)
    app = np.arange(n) % apps
    zeros = {name: np.zeros(n) for name in _BYTES if name not in columns}
    tasks = frame(
        TASKS,
        n,
        app=app,
        stage=np.arange(n),
        query=np.arange(n),
        host=np.zeros(n),
        executor=app,
        launch_ms=EPOCH_MS + np.array(launch, dtype=float),
        finish_ms=EPOCH_MS + np.array(finish, dtype=float),
        **zeros,
        **columns,
    )
    tables = Tables.empty().with_(
        applications=frame(APPLICATIONS, apps, task_cpus=np.ones(apps)),
        hosts=frame(HOSTS, 1, host=["localhost"]),
        executors=frame(
            EXECUTORS,
            apps,
            app=np.arange(apps),
            host=np.zeros(apps),
            cores=np.full(apps, cores),
            added_ms=np.full(apps, EPOCH_MS + added),
        ),
        queries=frame(QUERIES, n, start_ms=tasks["launch_ms"], end_ms=tasks["finish_ms"]),
        stages=frame(STAGES, n, app=app, query=np.arange(n)),
        tasks=tasks,
    )
    return tables, waits_frame(tasks, waits, compute_ms, gc_ms)


_BYTES = (
    "input_bytes",
    "output_bytes",
    "remote_bytes",
    "local_bytes",
    "shuffle_write_bytes",
    "disk_spilled_bytes",
    "peak_memory_bytes",
)


def by_host(columns: TaskColumns) -> Schedule:
    return schedule(
        columns.host,
        (columns.launch, TARGET_STARTS | SOURCE_STARTS),
        (columns.finish, TARGET_ENDS | SOURCE_ENDS),
    )


def parts(
    tables: Tables, waits: pd.DataFrame, stage: int, request: Request, **options: Any
) -> dict[tuple[int, int], tuple[float, float]]:
    """β and lost ms of one demand, by (kind, source stage)."""
    blame = attribute(tables, waits, **options)
    demands = blame.demands
    row = demands.index[
        (demands["stage"] == stage) & (demands["request"] == REQUESTS.index(request))
    ]
    mine = blame.sources[blame.sources["demand"] == row[0]]
    keys = zip(mine["kind"].tolist(), mine["source_stage"].tolist(), strict=True)
    return dict(zip(keys, zip(mine["beta"], mine["lost_ms"], strict=True), strict=True))


# --- capacity


def test_capacity_is_the_speed_of_undisturbed_tasks() -> None:
    data = np.full(40, 1e6)
    wait = np.where(np.arange(40) < 30, 10.0, 40.0)
    known = host_capacity(data, wait, np.zeros(40, dtype=int), 1)
    assert known.per_host[0] == pytest.approx(1e5)
    assert known.tasks == 40
    assert not known.borrowed[0]


def test_reads_from_the_page_cache_do_not_set_the_capacity() -> None:
    # Half of all bytes come at 40 times the disk's speed.
    data = np.full(80, 1e7)
    wait = np.where(np.arange(80) < 40, 100.0, 2.5)
    known = host_capacity(data, wait, np.zeros(80, dtype=int), 1)
    assert known.per_host[0] == pytest.approx(1e5)


def test_a_disk_that_is_always_crowded_shows_its_capacity_by_how_crowding_slows_it() -> None:
    crowd = np.linspace(1.0, 5.0, 40)
    wait = 10.0 * (1 + crowd)
    host = np.zeros(40, dtype=int)
    known = host_capacity(np.full(40, 1e6), wait, host, 1, crowd)
    assert known.per_host[0] == pytest.approx(1e5)


def test_a_store_that_crowding_does_not_slow_keeps_the_speed_that_was_seen() -> None:
    crowd = np.linspace(0.0, 5.0, 40)
    host = np.zeros(40, dtype=int)
    known = host_capacity(np.full(40, 1e6), np.full(40, 10.0), host, 1, crowd)
    assert known.per_host[0] == pytest.approx(1e5)


def test_slow_hosts_are_not_taken_for_crowded_ones() -> None:
    host = np.arange(80) // 40
    wait = np.where(host == 0, 10.0, 40.0)
    known = host_capacity(np.full(80, 1e6), wait, host, 2, crowd=host * 3.0)
    np.testing.assert_allclose(known.per_host, [1e5, 2.5e4])


def test_a_host_with_few_tasks_takes_the_capacity_of_all_hosts() -> None:
    host = np.array([0] * 20 + [1] * (ENOUGH_TASKS - 1))
    known = host_capacity(np.full(len(host), 1e6), np.where(host == 0, 10.0, 20.0), host, 3)
    assert list(known.borrowed) == [False, True, True]
    assert known.per_host[1] == known.per_host[2] == pytest.approx(1e5)


def test_one_task_is_evidence_where_there_is_no_more() -> None:
    known = host_capacity(np.array([10.0]), np.array([1.0]), np.array([0]), 1)
    assert known.per_host[0] == 10.0
    assert known.tasks == 1


def test_nothing_moved_leaves_the_capacity_unknown() -> None:
    known = host_capacity(np.array([0.0, np.nan]), np.array([5.0, 5.0]), np.zeros(2, int), 1)
    assert np.isnan(known.per_host[0])


def test_best_seen_is_the_highest_speed_of_the_domain() -> None:
    best = best_seen(np.array([10.0, 30.0, 7.0]), np.array([1.0, 2.0, 1.0]), np.array([0, 0, 2]), 3)
    np.testing.assert_array_equal(best, [15.0, np.nan, 7.0])


# --- RATP, slowdown, lost time


def test_a_read_at_a_quarter_of_the_capacity_is_slowed_down_by_three() -> None:
    tables, waits = cluster(
        {Request.IO_READ: [10.0, 40.0]}, launch=[0, 0], finish=[50, 50], input_bytes=[1e6, 1e6]
    )
    columns = TaskColumns.of(tables, waits)
    speeds = capacities(columns, by_host(columns))
    speeds[Request.IO_READ].per_host[0] = 1e5
    loss = measure_loss(columns, Request.IO_READ, speeds, SourceUsage.ACTIVE)
    np.testing.assert_allclose(loss.ratp, [1e-5, 4e-5])
    np.testing.assert_allclose(loss.slowdown, [0, 3])
    np.testing.assert_allclose(loss.lost, [0, 30])


def test_a_task_that_waited_as_long_as_it_computed_has_lost_its_waiting_time() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [40.0]}, launch=[0], finish=[100], compute_ms=[50.0], gc_ms=[10.0]
    )
    columns = TaskColumns.of(tables, waits)
    loss = measure_loss(
        columns, Request.RUN_QUEUE, capacities(columns, by_host(columns)), SourceUsage.ACTIVE
    )
    assert loss.slowdown[0] == pytest.approx(1.0)
    assert loss.known[0] == pytest.approx(0.2)
    assert loss.lost[0] == pytest.approx(50)


def test_garbage_collection_is_a_known_cause() -> None:
    found = parts(
        *cluster(
            {Request.RUN_QUEUE: [0.0]}, launch=[0], finish=[100], compute_ms=[50.0], gc_ms=[10.0]
        ),
        stage=0,
        request=Request.RUN_QUEUE,
    )
    assert found == {(KNOWN, -1): (0.2, 10.0), (UNATTRIBUTED, -1): (0.0, 0.0)}


def test_without_its_waiting_time_a_task_is_not_blamed_on_garbage_collection() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [np.nan]}, launch=[0], finish=[100], compute_ms=[50.0], gc_ms=[10.0]
    )
    assert len(attribute(tables, waits).demands) == 0


def test_a_wait_without_data_is_a_wait_but_nothing_lost() -> None:
    tables, waits = cluster(
        {Request.IO_READ: [10.0, 40.0]}, launch=[0, 0], finish=[50, 50], input_bytes=[1e6, np.nan]
    )
    blame = attribute(tables, waits)
    assert list(blame.demands["wait_ms"]) == [10.0, 40.0]
    assert list(blame.demands["lost_ms"]) == [0.0, 0.0]
    assert any("80 % of io_read has no data volume" in doubt for doubt in blame.doubts)


def test_cpu_by_data_is_input_else_what_was_written() -> None:
    tables, waits = cluster(
        {},
        launch=[0, 0],
        finish=[9, 9],
        input_bytes=[5.0, 0.0],
        remote_bytes=[2.0, 0.0],
        shuffle_write_bytes=[50.0, 70.0],
    )
    found = data_processed(TaskColumns.of(tables, waits), Request.RUN_QUEUE)
    assert list(found) == [7.0, 70.0]


# --- slots


def test_a_slot_wait_is_blamed_on_those_who_held_the_slots() -> None:
    # Two slots: tasks 0 and 1 hold them for 100 and 50 ms; task 2 gets the second one.
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 0.0, 50.0]}, launch=[0, 0, 50], finish=[100, 50, 150]
    )
    found = parts(tables, waits, 2, Request.SLOT_WAIT)
    # S = 50 / 100; each held half of the slots all the time.
    assert found[QUERY, 0] == pytest.approx((0.25, 25.0))
    assert found[QUERY, 1] == pytest.approx((0.25, 25.0))
    assert found[UNATTRIBUTED, -1] == pytest.approx((0.0, 0.0), abs=1e-9)


def test_waiting_beside_an_idle_slot_is_unattributed() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 50.0]}, launch=[0, 50], finish=[100, 150], cores=2.0
    )
    found = parts(tables, waits, 1, Request.SLOT_WAIT)
    assert found[QUERY, 0] == pytest.approx((0.25, 25.0))
    assert found[UNATTRIBUTED, -1] == pytest.approx((0.25, 25.0))


def test_waiting_for_the_first_executor_is_known() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [50.0]}, launch=[50], finish=[150], cores=1.0, added=30.0
    )
    found = parts(tables, waits, 0, Request.SLOT_WAIT)
    assert found[KNOWN, -1] == pytest.approx((0.3, 30.0))
    assert found[UNATTRIBUTED, -1] == pytest.approx((0.2, 20.0))


def test_executors_of_unknown_size_have_the_most_slots_they_ever_filled() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 0.0, 50.0]},
        launch=[0, 0, 50],
        finish=[100, 50, 150],
        cores=np.nan,
    )
    found = parts(tables, waits, 2, Request.SLOT_WAIT)
    assert found[QUERY, 0] == pytest.approx((0.25, 25.0))
    assert any("cores of 1 executor" in doubt for doubt in attribute(tables, waits).doubts)


def test_data_of_a_slot_wait_is_the_slots_handed_out_meanwhile() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 5.0, 30.0, np.nan]},
        launch=[0, 10, 20, 25],
        finish=[100, 100, 100, 100],
    )
    offered = data_processed(TaskColumns.of(tables, waits), Request.SLOT_WAIT)
    np.testing.assert_array_equal(offered, [1.0, 1.0, 3.0, np.nan])


def test_applications_do_not_hold_each_others_slots() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 50.0]}, launch=[0, 50], finish=[100, 150], apps=2, cores=1.0
    )
    found = parts(tables, waits, 1, Request.SLOT_WAIT)
    assert set(found) == {(KNOWN, -1), (UNATTRIBUTED, -1)}


# --- use


def used(request: Request, usage: SourceUsage, *data: Any) -> np.ndarray:
    columns = TaskColumns.of(*data)
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


def test_own_tasks_in_each_others_way_are_own() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [50.0, 50.0]}, launch=[0, 0], finish=[100, 100], compute_ms=[50.0, 50.0]
    )
    tables.stages["query"] = np.zeros(2, dtype=np.int32)
    assert parts(tables, waits, 0, Request.RUN_QUEUE)[OWN, 1] == pytest.approx((1.0, 50.0))


# --- doubts


def test_unknown_waits_are_named_with_their_share_of_task_time() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [1.0, np.nan]}, launch=[0, 0], finish=[75, 25], compute_ms=[50.0, 20.0]
    )
    doubts = attribute(tables, waits).doubts
    assert "Waits for run_queue are unknown for 25 % of task time." in doubts


def test_applications_on_localhost_are_said_to_share_it() -> None:
    tables, waits = cluster({}, launch=[0, 0], finish=[9, 9], apps=2)
    assert any(
        "2 applications ran on a host called localhost" in d
        for d in attribute(tables, waits).doubts
    )


def test_a_capacity_from_one_task_is_a_guess() -> None:
    tables, waits = cluster({Request.IO_READ: [10.0]}, launch=[0], finish=[50], input_bytes=[1e6])
    assert any("io_read rests on 1 task" in d for d in attribute(tables, waits).doubts)
