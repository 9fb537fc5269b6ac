"""Student's t and the gamma function's derivatives are those of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from iqcar.comparison.stats.student_t import digamma, log_gamma, t_quantile, t_tail, trigamma

positive = np.geomspace(1e-2, 1e4, 500)


def test_the_gamma_function_is_scipys() -> None:
    np.testing.assert_allclose(log_gamma(positive), special.gammaln(positive), 1e-11, 1e-12)
    np.testing.assert_allclose(digamma(positive), special.digamma(positive), 1e-12, 1e-13)
    np.testing.assert_allclose(trigamma(positive), special.polygamma(1, positive), 1e-13)


@given(st.floats(-40, 40), st.floats(0.1, 5000))
def test_the_tail_of_t_is_scipys(t: float, df: float) -> None:
    np.testing.assert_allclose(t_tail(np.array(t), np.array(df)), special.stdtr(df, -t), 1e-9)


def test_the_tail_has_its_limits_and_keeps_unknowns() -> None:
    t = np.array([-np.inf, 0.0, np.inf, np.nan])
    np.testing.assert_array_equal(t_tail(t, np.full(4, 3.0)), [1.0, 0.5, 0.0, np.nan])


@pytest.mark.parametrize("tail", [0.499999, 0.4999, 0.4, 0.05, 0.025, 1e-6, 1e-9])
def test_a_quantile_is_where_the_tail_is_that_probability(tail: float) -> None:
    df = np.array([0.1, 0.2, 0.3, 1.0, 1.0, 2.5, 40.0, 5000.0])
    np.testing.assert_allclose(
        t_quantile((tail, 0.1), df), -special.stdtrit(df, [[tail], [0.1]]), 1e-9
    )
