"""The event loop with shared devices agrees with its definition, and keeps what must be kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.replay.loop.event_loop import run
from tests.support.naive_sharing import NaiveRun, random_input, speeds

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_the_loop_agrees_with_its_definition(seed: int) -> None:
    given = random_input(seed)
    found, expected = run(*given), NaiveRun(*given)
    np.testing.assert_array_equal(found.host, expected.host)
    for name in ("released", "done", "launched", "ended", "spent", "lacked_memory"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-6, err_msg=name
        )


@given(SEEDS)
def test_tasks_get_all_the_time_alone_that_they_ask_for(seed: int) -> None:
    """Nobody is faster than alone, and where nothing is short everybody is as fast."""
    given = random_input(seed)
    devices = given[-1]
    assert (run(*given).spent >= devices.alone * (1 - 1e-9)).all()
    plenty = devices._replace(capacity=np.full(len(devices.capacity), np.inf))
    np.testing.assert_allclose(run(*given[:-1], plenty).spent, devices.alone, rtol=1e-9)


@given(SEEDS)
def test_a_device_never_moves_more_than_it_can(seed: int) -> None:
    """Bytes moved are bytes asked for; on each host they take at least as long as its device."""
    given = random_input(seed)
    devices, found = given[-1], run(*given)
    moved = devices.alone * devices.use
    for host in range(given[2].hosts):
        there = found.host == host
        if there.any():
            lasted = found.ended[there].max() - found.launched[there].min()
            for device, phases in ((0, [0, 4]), (1, [1]), (2, [2])):
                needs = moved[there][:, phases].sum() / devices.capacity[3 * host + device]
                assert needs <= lasted * (1 + 1e-9)


@given(SEEDS)
def test_another_disk_moves_nobody_who_needs_none(seed: int) -> None:
    """Applications have slots of their own: who only waits is not touched by the others."""
    steps, work, slots, shares, devices = random_input(seed)
    app = shares.pool_app[shares.pool[work.step]]
    devices.alone[app == 0] = [0.0, 0.0, 0.0, 10.0, 0.0]
    capacity = devices.capacity.copy()
    capacity[0::3] *= 3.0
    before = run(steps, work, slots, shares, devices)
    after = run(steps, work, slots, shares, devices._replace(capacity=capacity))
    np.testing.assert_array_equal(before.ended[app == 0], after.ended[app == 0])


def test_more_of_a_device_hardly_ever_makes_a_run_longer() -> None:
    """Graham's anomalies: a task that ends earlier can change who gets which slot."""
    longer = 0
    for seed in range(200):
        given = random_input(seed)
        devices = given[-1]
        more = devices._replace(
            capacity=2 * devices.capacity, memory_capacity=2 * devices.memory_capacity
        )
        longer += run(*given[:-1], more).done.max() > run(*given).done.max() * (1 + 1e-9)
    assert longer <= 10


@given(SEEDS)
def test_enough_memory_is_like_none_that_is_shared(seed: int) -> None:
    given = random_input(seed)
    devices = given[-1]
    plenty = devices._replace(memory_capacity=np.full(len(devices.memory_capacity), 1e9))
    without = devices._replace(memory=np.zeros(0), memory_capacity=np.zeros(0))
    found = run(*given[:-1], plenty)
    assert not found.lacked_memory.any()
    np.testing.assert_array_equal(found.ended, run(*given[:-1], without).ended)


@given(SEEDS)
def test_a_task_waits_for_memory_before_it_does_anything(seed: int) -> None:
    given = random_input(seed)
    found = run(*given)
    if len(given[-1].memory):
        np.testing.assert_allclose(
            found.ended - found.launched, found.lacked_memory + found.spent.sum(axis=1), rtol=1e-9
        )


def test_max_min_gives_the_slow_what_they_want() -> None:
    assert speeds([1.0, 4.0, 4.0], 5.0, False) == [1.0, 0.5, 0.5]
    assert speeds([1.0, 4.0], 2.5, True) == [0.5, 0.5]
