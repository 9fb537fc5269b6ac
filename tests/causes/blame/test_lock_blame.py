"""Waits for locks: blamed on who held them, as far as a task beside the waiting one can have."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import OWN, QUERY, UNATTRIBUTED
from iqcar.enums import REQUESTS, Request
from iqcar_lab.clusters.frames import waits_frame
from tests.support.tiny_tables import tiny_tables

WAITER, MATE, HOLDER, BESIDE, ELSEWHERE, LATER = range(6)
WAIT_MS = 400.0


def lost_of_waiter(*owners: tuple[int, float]) -> dict[tuple[int, int], float]:
    """Time that a task lost to a lock, by kind and source stage, with owners as (task, ms)."""
    ran = {"launch_ms": 1000.0, "finish_ms": 2000.0, "executor": 0}
    tasks = [
        {**ran, "stage": 0, "query": 0},
        {**ran, "stage": 0, "query": 0},
        {**ran, "stage": 1, "query": 1},
        {**ran, "stage": 2, "query": 2},
        {**ran, "stage": 3, "query": 3, "executor": 1},
        {**ran, "stage": 4, "query": 4, "launch_ms": 1900.0, "finish_ms": 3000.0},
    ]
    tables = tiny_tables(
        tasks=tasks,
        executors=[{}, {}],
        stages=[{"query": query} for query in range(5)],
        queries=[{"query_id": f"q{query}"} for query in range(5)],
        lock_owners=[{"task": WAITER, "owner": owner, "wait_ms": ms} for owner, ms in owners],
    )
    wait = np.where(np.arange(len(tasks)) == WAITER, WAIT_MS, 0.0)
    blame = attribute(tables, waits_frame(tables.tasks, {Request.MONITOR_BLOCKED: wait}))
    ((_, demand),) = blame.demands.iterrows()
    assert demand["request"] == REQUESTS.index(Request.MONITOR_BLOCKED)
    assert demand["lost_ms"] == WAIT_MS
    assert blame.sources["lost_ms"].sum() == pytest.approx(WAIT_MS)
    rows = blame.sources[blame.sources["lost_ms"] > 0]
    places = zip(rows["kind"], rows["source_stage"], strict=True)
    return dict(zip(places, rows["lost_ms"].tolist(), strict=True))


NOBODY = {(UNATTRIBUTED, -1): WAIT_MS}


def test_each_holder_gets_the_time_that_it_held_the_lock_and_the_rest_is_unattributed() -> None:
    found = lost_of_waiter((HOLDER, 250.0), (MATE, 50.0))
    expected = {(QUERY, 1): 250.0, (OWN, 0): 50.0, (UNATTRIBUTED, -1): 100.0}
    assert found == pytest.approx(expected)


def test_without_a_known_holder_nobody_is_blamed() -> None:
    assert lost_of_waiter() == NOBODY


def test_holders_share_the_wait_where_they_claim_more() -> None:
    found = lost_of_waiter((HOLDER, 600.0), (BESIDE, 200.0))
    assert found == pytest.approx({(QUERY, 1): 300.0, (QUERY, 2): 100.0})


def test_nobody_held_a_lock_for_longer_than_it_ran_beside_the_waiting_task() -> None:
    found = lost_of_waiter((LATER, 1e12))
    assert found == pytest.approx({(QUERY, 4): 100.0, (UNATTRIBUTED, -1): 300.0})


@pytest.mark.parametrize(
    "owner",
    [
        (ELSEWHERE, 100.0), (WAITER, 100.0), (-1, 100.0), (99, 100.0), (HOLDER, -100.0),
        (HOLDER, 0.0), (HOLDER, np.nan),
    ],
)  # fmt: skip
def test_a_holder_that_cannot_be_is_nobody(owner: tuple[int, float]) -> None:
    """On another executor, itself, unknown, not there, or for no time."""
    assert lost_of_waiter(owner) == NOBODY
