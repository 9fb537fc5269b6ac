"""The event loop with shared devices agrees with its definition, and keeps what must be kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.loop_input import Devices, Shares, Slots, Steps, Work
from tests.support.naive_sharing import NaiveRun, capacity_beside, random_input, speeds

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_the_loop_agrees_with_its_definition(seed: int) -> None:
    given = random_input(seed)
    found, expected = run(*given), NaiveRun(*given)
    np.testing.assert_array_equal(found.host, expected.host)
    for name in ("released", "done", "launched", "ended", "spent", "lacked_memory", "short"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-6, err_msg=name
        )


def in_worlds(devices: Devices, slots: Slots, app: np.ndarray) -> Devices:
    """Give each application hosts of its own, alike in all but who runs there."""
    worlds = int(app.max(initial=0)) + 1
    places = np.tile(np.diff(devices.user_start), worlds)
    return devices._replace(
        capacity=np.tile(devices.capacity, worlds), slowing=np.tile(devices.slowing, worlds),
        user_start=np.append(0, np.cumsum(places)), world=app * slots.hosts,
    )  # fmt: skip


@given(SEEDS)
def test_worlds_do_not_see_each_other(seed: int) -> None:
    """In a world of its own, an application runs as if the others used no device at all."""
    steps, work, slots, shares, devices = random_input(seed)
    app = shares.pool_app[shares.pool[work.step]]
    apart = run(steps, work, slots, shares, in_worlds(devices, slots, app))
    for one in np.unique(app):
        idle = devices.alone.copy()
        idle[app != one] = [0.0, 0.0, 0.0, 10.0, 0.0]
        by_itself = run(steps, work, slots, shares, devices._replace(alone=idle))
        mine = app == one
        for name in ("launched", "ended", "spent", "short", "host"):
            np.testing.assert_allclose(
                getattr(apart, name)[mine], getattr(by_itself, name)[mine], rtol=1e-9, atol=1e-6,
                err_msg=name,
            )  # fmt: skip


@given(SEEDS)
def test_the_loop_agrees_with_its_definition_in_worlds(seed: int) -> None:
    *given, devices = random_input(seed)
    _, work, slots, shares = given
    apart = in_worlds(devices, slots, shares.pool_app[shares.pool[work.step]])
    found, expected = run(*given, apart), NaiveRun(*given, apart)
    for name in ("ended", "spent", "short"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-6, err_msg=name
        )


@given(SEEDS)
def test_nobody_is_short_for_longer_than_the_time_spent_nor_where_all_is_plenty(seed: int) -> None:
    given = random_input(seed)
    found, devices = run(*given), given[-1]
    assert (found.short >= 0).all()
    assert (found.short <= found.spent * (1 + 1e-9) + 1e-9).all()
    assert not found.short[:, 3].any(), "phase 3 waits for nothing that is shared"
    # Who got less than wanted took longer, and nobody else did.
    longer = found.spent > devices.alone * (1 + 1e-9) + 1e-9
    np.testing.assert_array_equal(longer, found.short > 1e-6)
    plenty = devices._replace(capacity=np.full(len(devices.capacity), np.inf))
    assert not run(*given[:-1], plenty).short.any()


@given(st.floats(0.0, 0.5), st.integers(1, 12), st.booleans())
def test_a_disk_loses_a_part_with_each_further_user(
    slowing: float, users: int, proportional: bool
) -> None:
    """n alike tasks that begin at once all end when the slowed device has moved all."""
    n, rate, capacity = users, 3.0, 4.0
    steps, work, slots, shares, devices = alike_tasks(n)
    devices = devices._replace(
        use=np.where(devices.alone > 0, rate, 0.0), capacity=np.array([capacity, 1e9, 1e9]),
        slowing=np.array([slowing, 0.0, 0.0]), proportional=proportional,
    )  # fmt: skip
    found = run(steps, work, slots, shares, devices)
    left = capacity_beside(capacity, slowing, n)
    lasts = 100.0 * max(1.0, n * rate / left)
    np.testing.assert_allclose(found.ended - found.launched, lasts, rtol=1e-9)
    np.testing.assert_allclose(found.short[:, 0], lasts if n * rate > left else 0.0, rtol=1e-9)


def test_short_is_the_time_below_what_a_task_wants_counted_millisecond_by_millisecond() -> None:
    """A reader that wants little is never short; the greedy are, while they are two."""
    steps, work, slots, shares, devices = alike_tasks(3)
    alone = np.zeros((3, 5))
    alone[:, 0] = [400.0, 100.0, 200.0]
    use = np.zeros((3, 5))
    use[:, 0] = [1.0, 4.0, 4.0]
    devices = devices._replace(alone=alone, use=use, capacity=np.array([5.0, 1.0, 1.0]))
    found = run(steps, work, slots, shares, devices)
    moved, short, tick = alone[:, 0] * use[:, 0], np.zeros(3), 0.01
    while (moved > 1e-6).any():
        active = np.flatnonzero(moved > 1e-6)
        got = np.zeros(3)
        got[active] = use[active, 0] * speeds(use[active, 0].tolist(), 5.0, False)
        short += tick * ((got < use[:, 0] - 1e-12) & (moved > 1e-6))
        moved = moved - got * tick
    np.testing.assert_allclose(found.short[:, 0], short, atol=0.05)
    assert found.short[0, 0] == 0.0


def alike_tasks(n: int) -> tuple[Steps, Work, Slots, Shares, Devices]:
    """n steps of one task each, all at once on one host; each reads for 100 ms."""
    order, nothing = np.arange(n), np.zeros(0, np.int64)
    steps = Steps(
        missing=np.zeros(n, np.int64), delay=np.zeros(n), ready=np.zeros(n), tail=np.zeros(n),
        counted=np.ones(n, np.int64), first_task=np.arange(n + 1), first_late=order + 1,
        follower_start=np.zeros(n + 1, np.int64), follower=nothing, job=order,
        recorded=np.zeros(n),
    )  # fmt: skip
    work = Work(
        order, np.zeros(n), np.ones(n, bool), np.full(n, -1), np.zeros(n, bool), np.zeros(n),
        np.zeros(n, np.int64),
    )  # fmt: skip
    slots = Slots(
        np.zeros(1), np.array([n]), np.zeros(1, bool), np.zeros(1, np.int64),
        np.zeros(1, np.int64), np.zeros(1),
    )  # fmt: skip
    shares = Shares(
        np.array([False]), np.zeros(1, np.int64), np.array([0, 1]), np.zeros(n, np.int64), order,
        order, np.array([False]), np.ones(1), np.zeros(1), np.zeros(1, np.int64), np.full(n, -1),
        nothing, np.zeros(0), np.zeros(0, bool),
    )  # fmt: skip
    alone = np.zeros((n, 5))
    alone[:, 0] = 100.0
    devices = Devices(
        alone, np.zeros((n, 5)), np.full(3, 1e9), np.arange(4) * (n + 1), 1, False, np.zeros(3),
        np.zeros(n, np.int64),
    )  # fmt: skip
    return steps, work, slots, shares, devices


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
