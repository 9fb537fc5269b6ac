"""Fair shares by hand, the sample that devices are estimated from, and loads pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import find_loads
from iqcar.causes.blame.task_intervals import BlameColumns, DomainSchedules, Pieces
from iqcar.enums import Request
from iqcar.model.demand.device import MOST_STAGES, TASKS_OF_STAGE, Device, Grid, Load, errors_of
from iqcar.model.demand.estimate import StageRates, contention
from tests.support import naive_demand
from tests.support.examples import examples
from tests.support.hand_device import fair, load_of
from tests.support.naive_blame import NaiveBlame
from tests.support.naive_demand import Use, fair_share
from tests.support.random_tables import RandomInput, tables_and_waits


def beside(others: list[float], levels: list[float]) -> Load:
    """One task beside others of these own rates."""
    taken = [sum(min(rate, level) for rate in others) for level in levels]
    one = np.zeros(1, np.int64)
    return Load(
        np.ones(1), np.ones(1), np.full(1, len(others)), np.zeros(1), np.ones(1),
        np.array([levels]), np.array([taken]), one, one, np.zeros(1),
    )  # fmt: skip


def share(others: list[float], capacity: float) -> float:
    load = beside(others, [10.0, 100.0])
    return float(np.exp(load.log_fair_share(np.array([capacity])))[0])


# --- fair shares


def test_what_a_slow_task_leaves_is_divided_equally_among_the_fast_ones() -> None:
    # λ + 10 + 2 λ … the two fast ones and this one divide 90 − 10.
    assert share([10.0, 100.0, 100.0], 90.0) == pytest.approx(80 / 3)


def test_below_everybodys_own_rate_all_get_the_same() -> None:
    assert share([10.0, 100.0, 100.0], 20.0) == pytest.approx(5.0)


def test_a_capacity_above_the_demand_leaves_all_that_nobody_takes() -> None:
    assert share([10.0, 100.0, 100.0], 1000.0) == pytest.approx(790.0)


def test_a_task_alone_gets_the_capacity() -> None:
    for capacity in (3.0, 50.0, 1000.0):
        assert share([], capacity) == pytest.approx(capacity)


RATES = st.lists(st.floats(0.5, 500.0), max_size=6)


@given(RATES, st.lists(st.floats(0.1, 600.0), min_size=1, max_size=6), st.floats(0.5, 2000.0))
def test_the_share_solves_the_balance_of_the_device(
    others: list[float], levels: list[float], capacity: float
) -> None:
    levels = sorted(set(levels))
    load = beside(others, levels)
    found = float(np.exp(load.log_fair_share(np.array([capacity])))[0])
    use = Use(1.0, 1.0, 0.0, 1.0, 0, 0, len(others), tuple(levels), tuple(load.taken[0]))
    assert found == pytest.approx(fair_share(use, capacity), rel=1e-9)
    assert found <= capacity * (1 + 1e-12)
    more = beside([*others, 1.0], levels)
    assert float(np.exp(more.log_fair_share(np.array([capacity])))[0]) <= found * (1 + 1e-9)


# --- the sample


def random_load(tasks: list[int], seed: int) -> Load:
    """Stages of these sizes with continuous data."""
    rng = np.random.default_rng(seed)
    n = sum(tasks)
    levels = np.sort(rng.random((n, 2)), axis=1)
    stage = np.repeat(np.arange(len(tasks)), tasks)
    data, wait = 1e6 * rng.random(n) + 1e6, 1e3 * rng.random(n) + 2
    host = rng.integers(0, 3, n)
    return Load(data, wait, *rng.random((3, n)), levels, levels * 2, host, stage, rng.random(n))


def _all(load: Load) -> np.ndarray:
    return np.arange(len(load.data))


def _again(load: Load) -> Load:
    return load.sample(_all(load))


def rows_of(load: Load) -> list[tuple[float, ...]]:
    columns = (load.data, load.wait_ms, load.others, load.taken[:, 0], load.host, load.stage)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@examples(50)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=5), st.integers(0, 2**32))
def test_the_sample_does_not_depend_on_the_order_of_tasks(tasks: list[int], seed: int) -> None:
    load = random_load(tasks, seed)
    order = np.random.default_rng(seed).permutation(sum(tasks))
    found = rows_of(load.sample(_all(load)))
    assert rows_of(load.sample(order)) == found
    assert rows_of(_again(load.sample(_all(load)))) == found
    assert set(found) <= set(rows_of(load))


def test_small_stages_are_sampled_whole_and_large_ones_in_part() -> None:
    load = random_load([TASKS_OF_STAGE, 5, 20_000], 3)
    size = np.bincount(load.sample(_all(load)).stage)
    assert size[0] == TASKS_OF_STAGE
    assert size[1] == 5
    # A binomial count: its standard deviation is the root of its mean.
    assert abs(size[2] - TASKS_OF_STAGE) < 4 * TASKS_OF_STAGE**0.5


def test_of_many_stages_those_are_sampled_that_spent_most_time() -> None:
    load = random_load([2] * (MOST_STAGES + 50), 4)
    load = load._replace(wait_ms=np.where(load.stage < 50, 1.0, load.wait_ms))
    assert np.array_equal(np.unique(load.sample(_all(load)).stage), np.arange(50, MOST_STAGES + 50))


def test_of_a_large_stage_of_like_tasks_some_are_sampled_and_not_all() -> None:
    for wait_ms in range(2, 12):
        load = random_load([1000], 5)
        load = load._replace(data=np.full(1000, 1.28e8), wait_ms=np.full(1000, float(wait_ms)))
        assert TASKS_OF_STAGE / 4 < len(load.sample(_all(load)).data) < TASKS_OF_STAGE * 4


# --- loads of the tasks of a log, against pairs of tasks


@pytest.mark.slow
@examples(100)
@given(tables_and_waits(20))
def test_the_load_of_every_task_is_the_sum_over_pairs_of_tasks(random: RandomInput) -> None:
    columns = BlameColumns.from_tables(random.tables, random.waits)
    pieces = Pieces.one_each(columns)
    schedules = DomainSchedules(pieces)
    loads = find_loads(pieces, schedules)
    naive = NaiveBlame(random.tables, random.waits, {})
    assert (Request.RUN_QUEUE in loads) == naive.has_estimates()
    for request, load in loads.items():
        uses = naive.uses(request)
        np.testing.assert_allclose(load.data, [use.data for use in uses])
        np.testing.assert_allclose(load.wait_ms, [use.wait for use in uses])
        np.testing.assert_allclose(load.others, [use.others for use in uses], atol=1e-9)
        np.testing.assert_allclose(load.own, [use.own for use in uses], atol=1e-9)
        np.testing.assert_allclose(load.busy, [use.busy for use in uses])
        for row, use in enumerate(uses):
            # Levels that rounding makes two are one.
            at = [min(range(len(use.levels)), key=lambda k: abs(use.levels[k] - level))
                  for level in load.levels]  # fmt: skip
            np.testing.assert_allclose(load.levels, [use.levels[k] for k in at], rtol=1e-9)
            scale = max(use.levels) * max(use.others, 1.0)
            want = [use.taken[k] for k in at]
            np.testing.assert_allclose(load.taken[row], want, atol=1e-9 * scale)


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
