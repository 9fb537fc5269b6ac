"""Devices: contention is what varies with load, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.demand import device as devices
from iqcar.model.demand.device import ENOUGH_TASKS, Load, fit_device
from iqcar.model.demand.estimate import contention
from tests.support.examples import examples
from tests.support.hand_device import BYTES, fair, load_of
from tests.support.naive_demand import Use, fit_one_host

CAPACITY = 4e5
FOUR = np.repeat(np.arange(4), 20)
CROWD = np.tile(np.linspace(0, 9, 20), 4)
"""The crowd of each of 20 tasks of four stages."""


def noisy(speed: np.ndarray, sigma: float, seed: int) -> np.ndarray:
    return speed * np.exp(sigma * np.random.default_rng(seed).standard_normal(len(speed)))


def lost(load: Load, n_hosts: int = 1) -> float:
    """The mean share of the time that was lost to others."""
    device = fit_device(load, n_hosts)
    assert device is not None
    return float(contention(load, device)[0].to_others.mean())


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.3])
def test_speeds_that_fall_as_the_crowd_grows_show_the_capacity(sigma: float) -> None:
    load = load_of(noisy(fair(CAPACITY, CROWD, np.inf), sigma, 1), CROWD, stage=FOUR)
    device = fit_device(load, 1)
    assert device is not None
    assert device.contended > 0.9
    # The grid of capacities is as wide as the speeds; noise adds its share.
    assert device.log_capacity == pytest.approx(np.log(CAPACITY), abs=0.1 + sigma / 2)
    true = 1 - 1 / (1 + CROWD)
    found = contention(load, device)[0].to_others
    assert np.abs(found - true).mean() < 0.05 + sigma / 4


def test_a_capacity_is_found_among_stages_of_slower_own_rates() -> None:
    rate = np.array([2e4, 6e4, np.inf, np.inf])[FOUR]
    share = fair(CAPACITY, CROWD, np.inf)
    load = load_of(np.minimum(rate, share), CROWD, stage=FOUR)
    device = fit_device(load, 1)
    assert device is not None
    assert device.contended > 0.9
    assert device.log_capacity == pytest.approx(np.log(CAPACITY), abs=0.15)
    found = contention(load, device)[0].to_others
    # The least share is 4e4: the slowest stage never lost anything.
    assert found[FOUR == 0].max() < 0.05
    assert found[FOUR == 2].mean() > 0.5


@pytest.mark.parametrize("stages", [1, 4])
def test_a_crowd_that_never_changes_beside_one_speed_says_little(stages: int) -> None:
    stage = np.repeat(np.arange(stages), 20)
    assert lost(load_of(np.full(len(stage), 8e4), 4.0, stage=stage)) < 0.25


@pytest.mark.parametrize("seed", range(5))
def test_noise_on_a_device_where_crowds_change_nothing_is_no_contention(seed: int) -> None:
    rate = np.array([2e4, 5e4, 5e4, 1.2e5])[FOUR]
    load = load_of(noisy(rate, 0.3, seed), CROWD, stage=FOUR)
    device = fit_device(load, 1)
    assert device is not None
    assert device.contended < 0.5
    assert lost(load) < 0.02


def test_a_slow_host_is_slow_and_not_contended() -> None:
    host = np.tile([0, 1], 40)
    rate = np.array([2e4, 5e4, 8e4, 1.2e5])[FOUR] * np.array([1.0, 0.4])[host]
    load = load_of(noisy(rate, 0.1, 1), CROWD, stage=FOUR, host=host)
    device = fit_device(load, 2)
    assert device is not None
    assert device.contended < 0.5
    assert device.slower[1] - device.slower[0] == pytest.approx(np.log(0.4), abs=0.1)
    found = contention(load, device)[0]
    assert found.to_others.max() < 0.05
    slowest = device.slower.min()
    np.testing.assert_allclose(found.to_host[host == 1], -np.expm1(min(slowest, 0.0)))


def test_what_a_slow_host_costs_is_told_from_the_others() -> None:
    host = np.tile(np.arange(4), 20)
    rate = np.array([2e4, 5e4, 8e4, 1.2e5])[FOUR] * np.array([1.0, 1.0, 1.0, 0.4])[host]
    load = load_of(noisy(rate, 0.1, 1), CROWD, stage=FOUR, host=host)
    device = fit_device(load, 4)
    assert device is not None
    found = contention(load, device)[0]
    np.testing.assert_allclose(found.to_host[host == 3], 0.6, atol=0.05)
    np.testing.assert_array_equal(found.to_host[host < 3], 0.0)


def test_a_host_alike_is_not_said_to_be_slow() -> None:
    host = np.tile([0, 1, 2, 0], 20)
    load = load_of(noisy(np.full(80, 5e4), 0.3, 2), CROWD, stage=FOUR, host=host)
    device = fit_device(load, 4)
    assert device is not None
    np.testing.assert_array_equal(device.slower, np.zeros(4))


def test_a_slow_host_among_contended_ones_is_told_from_contention() -> None:
    host = np.tile([0, 1, 2], 27)[:80]
    speed = np.array([1.0, 1.0, 0.4])[host]
    load = load_of(fair(CAPACITY, CROWD, np.inf) * speed, CROWD, stage=FOUR, host=host)
    device = fit_device(load, 3)
    assert device is not None
    assert device.contended > 0.9
    assert device.slower[2] == pytest.approx(np.log(0.4), abs=0.2)
    assert device.log_capacity == pytest.approx(np.log(CAPACITY), abs=0.25)


def test_tasks_alone_lose_nothing_whatever_their_speeds() -> None:
    speed = np.exp(np.random.default_rng(3).uniform(np.log(1e4), np.log(1e6), 80))
    assert lost(load_of(speed, np.zeros(80), stage=FOUR)) < 1e-3


def test_nothing_is_said_of_a_device_that_few_tasks_used() -> None:
    few = np.full(ENOUGH_TASKS - 1, 1e5)
    assert fit_device(load_of(few, 1.0), 1) is None
    assert fit_device(load_of(np.append(few, 1e5), 1.0), 1) is not None


def test_the_order_of_tasks_changes_a_device_by_rounding_alone() -> None:
    load = load_of(noisy(fair(CAPACITY, CROWD, np.inf), 0.2, 4), CROWD, stage=FOUR)
    order = np.random.default_rng(5).permutation(80)
    one, two = fit_device(load, 1), fit_device(load.some(order), 1)
    assert one is not None
    assert two is not None
    assert two.log_capacity == pytest.approx(one.log_capacity, rel=1e-12)
    assert two.contended == pytest.approx(one.contended, abs=1e-9)


@pytest.mark.parametrize("at_once", [1, 2**10, 2**30])
def test_how_many_capacities_are_tried_at_once_changes_a_device_by_rounding_alone(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = np.tile([0, 1, 2], 27)[:80]
    speed = noisy(fair(CAPACITY, CROWD, np.inf), 0.2, 6) * np.array([1.0, 1.0, 0.4])[host]
    load = load_of(speed, CROWD, stage=FOUR, host=host)
    one = fit_device(load, 3)
    monkeypatch.setattr(devices, "NUMBERS_AT_ONCE", at_once)
    two = fit_device(load, 3)
    assert one is not None
    assert two is not None
    assert two.log_capacity == one.log_capacity
    assert two.contended == pytest.approx(one.contended, rel=1e-9)
    np.testing.assert_allclose(two.slower, one.slower, atol=1e-12)
    assert one.slower.any()


@pytest.mark.slow
@examples(4)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.5]), st.booleans())
def test_a_device_is_that_of_the_formulas_task_by_task(
    seed: int, sigma: float, contended: bool
) -> None:
    crowd, stage = CROWD[::8], FOUR[::8]
    ideal = fair(CAPACITY, crowd, np.inf) if contended else np.full(10, 5e4)
    load = load_of(noisy(ideal, sigma, seed), crowd, stage=stage)
    device = fit_device(load, 1)
    assert device is not None
    uses = [
        Use(BYTES, float(load.wait_ms[k]), 0.0, 1.0, 0, int(stage[k]), float(crowd[k]),
            tuple(np.broadcast_to(load.levels, load.taken.shape)[k]), tuple(load.taken[k]))
        for k in range(10)
    ]  # fmt: skip
    capacity, chance, noise = fit_one_host(uses)
    assert device.contended == pytest.approx(chance, rel=1e-6)
    assert device.log_capacity == pytest.approx(capacity, rel=1e-9)
    assert device.noise == noise
