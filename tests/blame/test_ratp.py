"""RATP, capacity, slowdown and use, on inputs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.blame.attribute import KNOWN, QUERY, UNATTRIBUTED, attribute, capacities
from iqcar.blame.ratp import TaskColumns, data_processed, measure_loss
from iqcar.demand.capacity import ENOUGH_TASKS, best_seen, host_capacity
from iqcar.enums import Request, SourceUsage
from tests.support.hand_cluster import by_host, cluster, parts

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
    columns = TaskColumns.from_tables(tables, waits)
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
    columns = TaskColumns.from_tables(tables, waits)
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
    assert any("80 % of the wait for reading" in doubt for doubt in blame.doubts)


def test_cpu_by_data_is_input_else_what_was_written() -> None:
    tables, waits = cluster(
        {},
        launch=[0, 0],
        finish=[9, 9],
        input_bytes=[5.0, 0.0],
        remote_bytes=[2.0, 0.0],
        shuffle_write_bytes=[50.0, 70.0],
    )
    found = data_processed(TaskColumns.from_tables(tables, waits), Request.RUN_QUEUE)
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
    offered = data_processed(TaskColumns.from_tables(tables, waits), Request.SLOT_WAIT)
    np.testing.assert_array_equal(offered, [1.0, 1.0, 3.0, np.nan])


def test_applications_do_not_hold_each_others_slots() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 50.0]}, launch=[0, 50], finish=[100, 150], apps=2, cores=1.0
    )
    found = parts(tables, waits, 1, Request.SLOT_WAIT)
    assert set(found) == {(KNOWN, -1), (UNATTRIBUTED, -1)}
