"""What sources used, whom that clears, and what is said when it is doubtful."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import OWN, QUERY, UNATTRIBUTED
from iqcar.causes.blame.ratp import doubts_of, measure_loss, most_explicable, used_share
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.estimate import Contention, Demand, StageRates
from iqcar.model.waits.columns import ESTIMATED, MEASURED
from tests.support.hand_cluster import cluster, known_device, parts
from tests.support.tiny_tables import tiny_tables

# --- use


DEVICES = {Request.SHUFFLE_FETCH: known_device(2e4), Request.IO_WRITE: known_device(1e5)}


def used(request: Request, *data: Any) -> np.ndarray:
    return used_share(BlameColumns.from_tables(*data), request, Demand(DEVICES))


def test_reads_and_writes_keep_one_disk_busy() -> None:
    data = cluster(
        {Request.IO_READ: [20.0], Request.IO_WRITE: [30.0]},
        launch=[0],
        finish=[100],
        input_bytes=[1e6],
        shuffle_write_bytes=[1e6],
    )
    for request in (Request.IO_READ, Request.IO_WRITE):
        assert used(request, *data)[0] == pytest.approx(0.5)


def test_an_unknown_time_in_the_resource_is_told_from_its_data() -> None:
    data = cluster(
        {Request.SHUFFLE_FETCH: [50.0, np.nan, 0.0]},
        launch=[0, 0, 0],
        finish=[100, 100, 100],
        remote_bytes=[1e6, 5e5, 0.0],
    )
    np.testing.assert_allclose(used(Request.SHUFFLE_FETCH, *data), [0.5, 0.25, 0.0])


def test_of_a_contended_device_a_source_used_what_it_moved_unless_it_bypassed_it() -> None:
    data = cluster(
        {Request.SHUFFLE_FETCH: [90.0, 90.0, np.nan]},
        launch=[0] * 3,
        finish=[100] * 3,
        remote_bytes=[1e6, 1e6, 5e5],
    )
    one = np.ones(2)
    rates = StageRates(np.arange(2), one, one, one, one, one > 0, np.array([1.0, 0.1]), one)
    demand = Demand(DEVICES, rates={Request.SHUFFLE_FETCH: rates})
    columns = BlameColumns.from_tables(*data)
    share = used_share(columns, Request.SHUFFLE_FETCH, demand)
    np.testing.assert_allclose(share, [0.5, 0.05, 0.25])


def test_an_unknown_speed_of_reading_is_that_of_writing_to_the_same_disk() -> None:
    data = cluster({}, launch=[0], finish=[100], input_bytes=[2e6], output_bytes=[3e6])
    assert used(Request.IO_READ, *data)[0] == pytest.approx(0.5)


def test_who_moved_data_in_a_device_of_which_nothing_is_known_used_it_while_it_waited() -> None:
    data = cluster(
        {Request.SHUFFLE_FETCH: [90.0, np.nan]},
        launch=[0, 0],
        finish=[100, 100],
        remote_bytes=[1e6, 1e6],
    )
    columns = BlameColumns.from_tables(*data)
    share = used_share(columns, Request.SHUFFLE_FETCH, Demand())
    np.testing.assert_allclose(share, [0.9, 0.0])


def test_the_processor_is_used_in_cores() -> None:
    data = cluster({}, launch=[0, 0], finish=[100, 100], compute_ms=[80.0, np.nan])
    np.testing.assert_allclose(used(Request.RUN_QUEUE, *data), [0.8, 0.0])


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
    np.testing.assert_allclose(BlameColumns.from_tables(tables, waits).held(), [0, 3e6, 0, 1e6])
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


def doubts(contended: float | None) -> str:
    tables, waits = cluster({Request.IO_READ: [10.0]}, launch=[0], finish=[50], input_bytes=[1e6])
    devices = {}
    if contended is not None:
        devices = {Request.IO_READ: known_device(1e5, contended=contended)}
    return " ".join(attribute(tables, waits, devices=devices).doubts)


def test_what_too_few_tasks_lost_is_unknown() -> None:
    assert "too few tasks show how fast reading is" in doubts(None)


def test_an_amount_that_load_does_not_tell_is_a_doubt_and_one_that_it_tells_is_none() -> None:
    assert "the load hardly varied while tasks waited for reading" in doubts(0.5)
    for sure in (0.01, 0.99):
        assert "reading" not in doubts(sure)


# --- an estimated CPU wait is blamed on others only as far as the load of the processor explains it


def explicable(lost: float | None, evidence: int) -> float:
    """Of S = 1: a task that computed for 50 ms and waited for 50 ms."""
    tables, waits = cluster(
        {Request.RUN_QUEUE: [50.0]}, launch=[0], finish=[100], compute_ms=[50.0]
    )  # fmt: skip
    waits["run_queue_evidence"] = np.int8(evidence)
    columns = BlameColumns.from_tables(tables, waits)
    loss = measure_loss(columns, Request.RUN_QUEUE, {})
    found = None if lost is None else Contention(np.array([lost]), np.zeros(1), np.zeros(1))
    return float(most_explicable(columns, loss, found)[0])


def test_others_explain_of_an_estimated_cpu_wait_what_was_lost_at_the_processor() -> None:
    # A tenth of the 100 ms at the processor was lost: a fifth of the 50 ms waited.
    assert explicable(0.1, ESTIMATED) == pytest.approx(0.2)
    assert explicable(0.9, ESTIMATED) == pytest.approx(1.0)
    assert explicable(None, ESTIMATED) == 0.0


def test_a_measured_cpu_wait_is_blamed_in_full_whatever_the_processor_was_like() -> None:
    assert explicable(0.1, MEASURED) == explicable(None, MEASURED) == np.inf


def test_the_rest_of_an_estimated_cpu_wait_is_lost_and_unattributed() -> None:
    tables, waits = cluster(
        {Request.RUN_QUEUE: [50.0, 50.0]}, launch=[0, 0], finish=[100, 100], compute_ms=[50.0, 50.0]
    )
    assert parts(tables, waits, 0, Request.RUN_QUEUE)[QUERY, 1] == pytest.approx((1.0, 50.0))
    waits["run_queue_evidence"] = np.int8(ESTIMATED)
    # Two tasks say nothing of the processor.
    found = parts(tables, waits, 0, Request.RUN_QUEUE)
    assert (QUERY, 1) not in found
    assert found[UNATTRIBUTED, -1] == pytest.approx((1.0, 50.0))


@pytest.mark.parametrize(("waited_for_slots", "said"), [(100.0, True), (10_000.0, False)])
def test_over_attribution_of_a_small_part_of_all_losses_is_no_doubt(
    waited_for_slots: float, said: bool
) -> None:
    tables, waits = cluster(
        {
            Request.EXECUTION_MEMORY: [50.0, 0.0, 0.0, 0.0, 0.0],
            Request.SLOT_WAIT: [0.0, 0.0, 0.0, 0.0, waited_for_slots],
        },
        launch=[0, 0, 0, 0, 0],
        finish=[100] * 5,
        peak_memory_bytes=[1e6, 9e9, 1e6, 1e6, 1e6],
    )
    blame = attribute(tables, waits)
    memory = blame.demands["request"] == REQUESTS.index(Request.EXECUTION_MEMORY)
    blame.demands.loc[memory, "over_attribution"] = 10.0
    columns = BlameColumns.from_tables(tables, waits)
    doubts = doubts_of(columns, blame.demand, blame.demands)
    assert any("time lost to execution memory" in doubt for doubt in doubts) == said
