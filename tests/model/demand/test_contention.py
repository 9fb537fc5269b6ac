"""What tasks lost to others and to a slow host: by hand, and against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.demand.device import Device, Grid
from iqcar.model.demand.estimate import ENOUGH_BYTES, ENOUGH_MS, contention, usable
from tests.support import naive_demand
from tests.support.examples import examples
from tests.support.hand_device import load_of

CAPACITY = 4e5


def only_rate(rate: float, *, contended: float = 1.0, slower: float = 0.0) -> Device:
    """A device in which every stage has this own rate."""
    grid = Grid(float(np.log(rate)), 1.0, np.log([rate]), np.ones(1))
    log_capacity = float(np.log(CAPACITY))
    return Device(log_capacity, log_capacity, contended, 0.2, grid, np.array([slower]), 30, 0.0)


def to_others(crowd: float, device: Device) -> float:
    load = load_of(np.full(40, CAPACITY / (1 + crowd)), crowd)
    return float(contention(load, device)[0].to_others[0])


def test_a_task_of_high_own_rate_lost_what_the_share_is_below_the_capacity() -> None:
    assert to_others(3.0, only_rate(1e7)) == pytest.approx(0.75, abs=0.001)


def test_others_cost_what_the_share_is_below_that_among_the_tasks_of_its_own_query() -> None:
    load = load_of(np.full(40, CAPACITY / 8), 7.0)._replace(own=np.full(40, 3.0))
    found = contention(load, only_rate(1e7))[0]
    np.testing.assert_allclose(found.to_tasks, 7 / 8, atol=0.001)
    np.testing.assert_allclose(found.to_others, 1 / 2, atol=0.001)


def test_alone_the_tasks_of_a_query_are_in_the_device_for_less_of_their_lives() -> None:
    load = load_of(np.full(40, CAPACITY / 8), 7.0)._replace(own=np.full(40, 3.0))
    busy = load._replace(busy=np.full(40, 0.5))
    found = [contention(one, only_rate(1e7))[0].to_others for one in (load, busy)]
    # Without the half that others cost, a third of their lives instead of half: 2 of them, not 3.
    np.testing.assert_allclose(found, [[1 / 2] * 40, [1 - 3 / 8] * 40], atol=0.001)


def test_a_query_that_fits_alone_lost_everything_to_others() -> None:
    load = load_of(np.full(40, CAPACITY / 8), 7.0)._replace(own=np.full(40, 3.0))
    found = contention(load, only_rate(CAPACITY / 5))[0]
    np.testing.assert_allclose(found.to_others, found.to_tasks)
    np.testing.assert_allclose(found.to_others, 1 - 5 / 8, atol=0.001)


def test_a_task_of_low_own_rate_lost_what_the_share_is_below_its_rate() -> None:
    assert to_others(3.0, only_rate(2e5)) == pytest.approx(0.5, abs=0.001)


def test_a_task_slower_than_its_share_lost_nothing() -> None:
    assert to_others(3.0, only_rate(5e4)) == 0.0


def test_a_task_alone_lost_nothing() -> None:
    assert to_others(0.0, only_rate(1e7)) == pytest.approx(0.0, abs=1e-9)


def test_a_loss_counts_as_far_as_contention_is_likely() -> None:
    assert to_others(3.0, only_rate(1e7, contended=0.1)) == pytest.approx(0.075, abs=1e-4)


def test_a_host_at_half_the_speed_of_the_others_costs_half_of_what_others_left() -> None:
    load = load_of([CAPACITY / 8], [3.0])
    found = contention(load, only_rate(1e7, slower=float(np.log(0.5))))[0]
    assert found.to_host[0] == pytest.approx(0.5)
    assert found.to_others[0] == pytest.approx(0.75, abs=0.001)
    assert contention(load, only_rate(1e7, slower=0.3))[0].to_host[0] == 0.0


def test_small_or_short_transfers_and_those_of_unknown_place_say_nothing_of_speed() -> None:
    load = load_of(np.full(5, 1e5), 0.0)
    load = load._replace(
        data=np.array([ENOUGH_BYTES, ENOUGH_BYTES - 1, 1e8, 1e8, 1e8]),
        wait_ms=np.array([ENOUGH_MS, 10.0, ENOUGH_MS / 2, 10.0, 10.0]),
        host=np.array([0, 0, 0, -1, 0]),
        stage=np.array([0, 0, 0, 0, -1]),
    )
    assert list(usable(load)) == [0]


TASKS = st.lists(
    st.tuples(
        st.floats(1.0, 14.0), st.floats(0.0, 12.0), st.integers(0, 3), st.integers(0, 1)
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@pytest.mark.slow
@examples(60)
@given(
    TASKS,
    st.floats(8.0, 14.0),
    st.floats(0.0, 1.0),
    st.sampled_from([0.2, 0.6]),
    st.sampled_from([0.0, -0.9, 0.4]),
    st.sampled_from([0.0, 0.5]),
)
def test_losses_are_those_of_the_formulas_rate_by_rate(
    tasks: list[tuple[float, float, int, int]],
    log_capacity: float,
    contended: float,
    noise: float,
    slower: float,
    at_most: float,
) -> None:
    log_speed, crowd, stage, host = (np.array(part) for part in zip(*tasks, strict=True))
    own = crowd * np.linspace(0.0, 1.0, len(crowd))
    busy = np.linspace(1.0, 0.1, len(crowd))
    load = load_of(np.exp(log_speed), crowd, each=2e4, stage=stage, host=host)
    load = load._replace(own=own, busy=busy)
    grid = Grid.over(2.0, 15.0, at_most)
    device = Device(log_capacity, 12.0, contended, noise, grid, np.array([0.0, slower]), 30, 0.0)
    uses = [
        naive_demand.Use(
            float(load.data[k]), float(load.wait_ms[k]), 0.0, 1.0, int(host[k]), int(stage[k]),
            float(crowd[k]), tuple(load.levels[k]), tuple(load.taken[k]), own=float(own[k]),
            busy=float(busy[k]),
        )
        for k in range(len(tasks))
    ]  # fmt: skip
    found = contention(load, device)[0]
    want = naive_demand.losses(uses, device)
    for values, expected in zip(found, zip(*want, strict=True), strict=True):
        np.testing.assert_allclose(values, expected, atol=1e-6)
    assert ((found.to_others >= 0) & (found.to_others <= found.to_tasks)).all()
    assert (found.to_tasks <= contended).all()
