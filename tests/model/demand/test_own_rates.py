"""Own rates of stages: which data tell them, and the sums against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.model.demand.device import Device, Grid, errors_of
from iqcar.model.demand.estimate import StageRates, contention
from tests.support import naive_demand
from tests.support.examples import examples
from tests.support.hand_device import fair, load_of

CAPACITY = 4e5
CROWD = np.linspace(0, 9, 30)


def device(contended: float = 1.0, noise: float = 0.2) -> Device:
    grid = Grid.over(np.log(2e3), np.log(4e6))
    return Device(np.log(CAPACITY), np.log(CAPACITY), contended, noise, grid, np.zeros(1), 30, 0.0)


def rates_of(speed: np.ndarray, crowd: np.ndarray, **known: float) -> StageRates:
    return contention(load_of(speed, crowd), device(**known))[1]


def test_the_own_rate_of_a_stage_that_always_runs_at_it_is_identified() -> None:
    # The least share is 4e4; this stage never gets to it.
    found = rates_of(np.full(30, 2e4), CROWD)
    assert found.identified[0]
    assert found.rate[0] == pytest.approx(2e4, rel=0.15)
    assert found.low[0] > 1.2e4
    assert found.high[0] < 3.3e4


def test_of_a_stage_that_always_was_at_its_share_only_a_lower_bound_is_known() -> None:
    crowd = np.linspace(4, 9, 30)
    found = rates_of(fair(CAPACITY, crowd, np.inf), crowd)
    assert not found.identified[0]
    # Its best speed was 8e4; anything from there up is possible.
    assert found.low[0] > 6e4
    assert found.high[0] > 1e6


def test_a_stage_that_is_contended_now_and_then_shows_its_rate_in_between() -> None:
    speed = np.minimum(1e5, fair(CAPACITY, CROWD, np.inf))
    found = rates_of(speed, CROWD)
    assert found.identified[0]
    assert found.rate[0] == pytest.approx(1e5, rel=0.2)


def test_where_nobody_waits_for_another_every_stage_runs_at_its_own_rate() -> None:
    crowd = np.linspace(4, 9, 30)
    found = rates_of(fair(CAPACITY, crowd, np.inf), crowd, contended=0.0)
    assert found.identified[0]
    assert 4e4 < found.rate[0] < 8e4


def test_a_stage_much_faster_than_its_share_does_not_use_the_device() -> None:
    crowd = np.linspace(4, 9, 30)
    load = load_of(np.full(30, 2e6), crowd)
    chance = device().own_rates_of(*device().relative(load), np.zeros(30, np.int64), 1)
    assert chance.free.sum() > 0.99
    assert contention(load, device())[0].to_others.max() < 0.01


def test_probabilities_of_own_rates_sum_to_one_and_bounds_are_in_order() -> None:
    rng = np.random.default_rng(1)
    load = load_of(rng.uniform(1e4, 1e6, 60), rng.uniform(0, 9, 60), stage=rng.integers(0, 9, 60))
    names, stage = np.unique(load.stage, return_inverse=True)
    chance = device().own_rates_of(*device().relative(load), stage, len(names))
    np.testing.assert_allclose((chance.shared + chance.free).sum(axis=1), 1.0)
    rates = contention(load, device())[1]
    assert (rates.low <= rates.rate).all()
    assert (rates.rate <= rates.high).all()
    np.testing.assert_array_equal(rates.tasks, np.bincount(load.stage))


def test_a_grid_covers_its_range_and_its_prior_sums_to_one() -> None:
    for lowest, highest, most in ((0.0, 3.0, 0.0), (-2.0, 30.0, 0.5), (1.0, 1.01, 0.5)):
        grid = Grid.over(lowest, highest, most)
        assert grid.rates[0] <= lowest
        assert grid.rates[-1] == pytest.approx(highest)
        assert grid.prior.sum() == pytest.approx(1.0)
        shares = np.linspace(lowest - 1, highest + 1, 50)
        rates = np.append(grid.rates, np.inf)
        first = grid.first_above(shares)
        assert (rates[first] >= shares - 1e-9).all()


ERRORS = st.lists(
    st.tuples(st.integers(0, 2), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0)), min_size=1, max_size=9
)


@examples(60)
@given(ERRORS, st.sampled_from([0.2, 0.35, 0.6]), st.booleans())
def test_the_likelihood_of_every_rate_is_that_of_the_errors_task_by_task(
    tasks: list[tuple[int, float, float]], noise: float, shared: bool
) -> None:
    stage, speed, share = (np.array(part) for part in zip(*tasks, strict=True))
    grid = Grid.over(-3.5, 3.5)
    found = errors_of(speed, stage, 3, grid, share if shared else None).log_likelihood(noise)
    for s in np.unique(stage):
        mine = stage == s
        for rate, value in zip(grid.rates, found[s], strict=True):
            ideal = np.minimum(rate, share[mine]) if shared else rate
            want = naive_demand.log_likelihood(list(speed[mine] - ideal), noise)
            assert value == pytest.approx(want, rel=1e-6, abs=1e-6)
