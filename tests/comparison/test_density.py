"""Variation of categories and density of durations."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from iqcar.comparison.stats.density import density, variation

rows = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 5.5, 1e6, math.nan])))


@given(rows, st.randoms(use_true_random=False))
def test_variation_is_the_variance_over_the_squared_mean(
    table: list[tuple[int, float]], random: Any
) -> None:
    found = variation(*columns(table), 4)
    np.testing.assert_array_equal(found, variation(*columns(random.sample(table, len(table))), 4))
    for category in range(4):
        values = [value for at, value in table if at == category and not math.isnan(value)]
        if len(values) < 2 or not sum(values):
            assert math.isnan(found[category])
        else:
            mean = statistics.fmean(values)
            expected = statistics.variance(values) / mean**2
            assert found[category] == pytest.approx(expected, abs=1e-12)


def columns(table: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Categories and values."""
    return np.array([at for at, _ in table], np.int64), np.array([v for _, v in table], np.float64)


def test_variation_does_not_depend_on_the_unit() -> None:
    category, value = np.zeros(5, np.int64), np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    assert variation(category, value * 1000, 1) == pytest.approx(variation(category, value, 1))


durations = st.lists(st.floats(0.1, 1e8), min_size=1, max_size=200)


@given(durations)
def test_a_density_integrates_to_one(ms: list[float]) -> None:
    found = density(np.array(ms))
    step = np.diff(np.log2(found.ms))[0]
    assert found.density.sum() * step == pytest.approx(1, abs=1e-3)


def test_a_density_is_that_of_all_kernels() -> None:
    random = np.random.default_rng(4)
    ms = np.exp2(np.concatenate([random.normal(6, 0.3, 400), random.normal(11, 0.5, 200)]))
    found = density(ms)
    kernels = scipy.stats.norm.pdf(
        np.log2(found.ms)[:, None], np.log2(ms)[None, :], found.bandwidth
    ).mean(axis=1)
    # Counting on a grid moves each duration by less than a fiftieth of the bandwidth.
    np.testing.assert_allclose(found.density, kernels, atol=0.01 * kernels.max())


def test_modes_of_a_density_are_found_again() -> None:
    random = np.random.default_rng(8)
    ms = np.exp2(np.concatenate([random.normal(6, 0.3, 4000), random.normal(11, 0.3, 4000)]))
    # The means of logarithms are found to a few hundredths; the bandwidth is about a half.
    assert np.log2(density(ms).modes()) == pytest.approx([6, 11], abs=0.2)


def test_what_is_not_a_duration_is_left_out() -> None:
    known = np.array([10.0, 20.0, 40.0])
    others = np.array([0.0, -5.0, np.nan, np.inf])
    for one, other in zip(density(np.concatenate([known, others])), density(known), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(density(others).ms) == 0


def test_equal_durations_have_one_mode() -> None:
    assert density(np.full(9, 250.0)).modes() == pytest.approx([250.0], rel=0.01)
