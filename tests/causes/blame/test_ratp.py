"""RATP, slowdown and lost time, on inputs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import KNOWN, QUERY, UNATTRIBUTED
from iqcar.causes.blame.ratp import Loss, data_processed, measure_loss
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import Request
from iqcar.model.demand.estimate import Contention
from iqcar_lab.clusters.frames import EPOCH_MS
from tests.support.hand_cluster import cluster, parts

# --- RATP, slowdown, lost time


def read_of_two(to_tasks: list[float], to_host: list[float]) -> Loss:
    """Two tasks that waited 10 and 40 ms for 1 MB each."""
    tables, waits = cluster(
        {Request.IO_READ: [10.0, 40.0]}, launch=[0, 0], finish=[50, 50], input_bytes=[1e6, 1e6]
    )
    found = {Request.IO_READ: Contention(np.array(to_tasks), np.zeros(2), np.array(to_host))}
    columns = BlameColumns.from_tables(tables, waits)
    return measure_loss(columns, Request.IO_READ, found)


def test_a_read_that_lost_three_quarters_of_its_time_is_slowed_down_by_three() -> None:
    loss = read_of_two([0.0, 0.75], [0.0, 0.0])
    np.testing.assert_allclose(loss.ratp, [1e-5, 4e-5])
    np.testing.assert_allclose(loss.slowdown, [0, 3])
    np.testing.assert_allclose(loss.stretch, [1, 4])
    np.testing.assert_allclose(loss.lost, [0, 30])
    np.testing.assert_array_equal(loss.known, [0, 0])


def test_a_slow_host_is_a_known_cause_of_what_others_left() -> None:
    # Half of the speed is lost to others, and half of the rest to the host: a quarter is left.
    loss = read_of_two([0.5, 0.0], [0.5, 0.75])
    np.testing.assert_allclose(loss.slowdown, [3, 3])
    np.testing.assert_allclose(loss.known, [1, 3])
    np.testing.assert_allclose(loss.lost, [7.5, 30])


def test_a_wait_is_never_lost_completely() -> None:
    loss = read_of_two([1.0, 1.0], [0.0, 1.0])
    np.testing.assert_allclose(loss.lost, [9.99, 39.96])
    assert np.isfinite(loss.slowdown).all()


def test_nothing_is_lost_in_a_device_of_which_nothing_is_known() -> None:
    tables, waits = cluster(
        {Request.IO_READ: [10.0, 40.0]}, launch=[0, 0], finish=[50, 50], input_bytes=[1e6, 1e6]
    )
    columns = BlameColumns.from_tables(tables, waits)
    loss = measure_loss(columns, Request.IO_READ, {})
    np.testing.assert_array_equal(loss.lost, [0, 0])
    np.testing.assert_array_equal(loss.wait, [10, 40])


def test_a_task_that_waited_as_long_as_it_computed_has_lost_its_waiting_time() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [40.0]}, launch=[0], finish=[100], compute_ms=[50.0], gc_ms=[10.0]
    )
    columns = BlameColumns.from_tables(tables, waits)
    loss = measure_loss(columns, Request.RUN_QUEUE, {})
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


@pytest.mark.parametrize("request_", [Request.THROTTLED, Request.PAGE_FAULT])
def test_a_limit_or_a_page_is_a_known_cause_whoever_ran_beside_it(request_: Request) -> None:
    tables, waits = cluster(
        {request_: [40.0, 0.0]}, launch=[0, 0], finish=[100, 100], compute_ms=[60.0, 90.0]
    )
    found = parts(tables, waits, stage=0, request=request_)
    assert found[KNOWN, -1] == pytest.approx((40 / 60, 40.0))
    assert sum(lost for _, lost in found.values()) == pytest.approx(40.0)


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
    found = data_processed(BlameColumns.from_tables(tables, waits), Request.RUN_QUEUE)
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
    offered = data_processed(BlameColumns.from_tables(tables, waits), Request.SLOT_WAIT)
    np.testing.assert_array_equal(offered, [1.0, 1.0, 3.0, np.nan])


def test_applications_do_not_hold_each_others_slots() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 50.0]}, launch=[0, 50], finish=[100, 150], apps=2, cores=1.0
    )
    found = parts(tables, waits, 1, Request.SLOT_WAIT)
    assert set(found) == {(KNOWN, -1), (UNATTRIBUTED, -1)}


def test_slot_clocks_read_the_same_whatever_ran_before_in_other_applications() -> None:
    """Executors whose clock was never set were added decades before the tasks ran."""
    asked, ran = np.repeat([0.1, 0.4, 20.7], 40), np.tile(np.arange(40.0), 3)
    tables, waits = cluster(
        {Request.SLOT_WAIT: np.where(ran < 3, 0.0, ran / 3)},
        launch=list(asked + ran / 3),
        finish=list(asked + ran / 3 + 7.3),
        apps=40,
        added=-EPOCH_MS + 1000.0,
        cores=3.0,
    )
    app = np.arange(120) % 40
    slots = BlameColumns.from_tables(tables, waits).slots
    for one in range(40):
        mine = np.flatnonzero(app == one)
        alone = tables.with_(tasks=tables.tasks.iloc[mine].reset_index(drop=True))
        there = BlameColumns.from_tables(alone, waits.iloc[mine].reset_index(drop=True)).slots
        for readings in ("asked", "launched", "finished"):
            found, expected = getattr(slots, readings)[mine], getattr(there, readings)
            np.testing.assert_array_equal(found, expected)
        assert there.finished.max() < 60.0
