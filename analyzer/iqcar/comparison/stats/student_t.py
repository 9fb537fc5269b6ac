"""Computes tail and quantile of Student's t, and logarithmic derivatives of the gamma function.

Written with numpy alone: numba imports SciPy wherever it is installed, so a dependency on it would
slow down the start of every command. Relative errors against SciPy are below 1e-11
(tests/comparison/test_student_t.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from iqcar.tables.arrays import Floats

SHIFT = 12
"""Recurrences raise the argument by this before an asymptotic series: errors below 1e-15."""
MOST_TERMS = 500
"""Terms of the continued fraction at most; it needs about the root of the degrees of freedom."""
FARTHEST_START = 60.0
"""Logarithm of a square of Student's t over its degrees of freedom from which a search may start:
below one degree of freedom an approximation can be beyond what a number holds."""
LOG_GAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
"""Coefficients of 1/z², 1/z⁴, … in the asymptotic series (Abramowitz & Stegun 6.1.41, 6.3.18,
6.4.12)."""


def log_gamma(x: Floats) -> Floats:
    """Logarithm of the gamma function; x > 0, of any shape."""
    z = x + SHIFT
    product = np.prod([x + k for k in range(SHIFT)], axis=0)
    series = _series(LOG_GAMMA, z) * z  # the first power is 1/z
    stirling = (z - 0.5) * np.log(z) - z + 0.5 * np.log(2 * np.pi) + series
    return np.asarray(stirling - np.log(product))


def digamma(x: Floats) -> Floats:
    """First derivative of :func:`log_gamma`; x > 0, of any shape."""
    z = x + SHIFT
    before = np.sum([1 / (x + k) for k in range(SHIFT)], axis=0)
    return np.asarray(np.log(z) - 0.5 / z - _series(DIGAMMA, z) - before)


def trigamma(x: Floats) -> Floats:
    """Second derivative of :func:`log_gamma`; x > 0, of any shape."""
    z = x + SHIFT
    before = np.sum([1 / (x + k) ** 2 for k in range(SHIFT)], axis=0)
    return np.asarray(1 / z + 0.5 / z**2 + _series(TRIGAMMA, z) / z + before)


def _series(coefficients: tuple[float, ...], z: Floats) -> Floats:
    inverse = 1 / z**2
    total = np.zeros_like(z)
    for coefficient in reversed(coefficients):
        total = (total + coefficient) * inverse
    return total


def t_tail(t: Floats, df: Floats) -> Floats:
    """Probability that Student's t is at least ``t``.

    ``df``: degrees of freedom, > 0, not necessarily whole; broadcasts with ``t``. NaN where an
    argument is NaN.
    """
    t, df = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(df, np.float64))
    square = t * t
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.where(np.isinf(square), 1.0, square / (df + square))
    beyond = 0.5 * _regularized_beta(far, df / (df + square), df)
    return np.where(t < 0, 1.0 - beyond, beyond)


def _regularized_beta(far: Floats, near: Floats, df: Floats) -> Floats:
    """Incomplete beta function I_near(df/2, 1/2), with far = 1 − near."""
    half = np.full_like(df, 0.5)
    swap = near > (df / 2 + 1) / (df / 2 + 2.5)  # where the other side converges sooner
    a, b = np.where(swap, half, df / 2), np.where(swap, df / 2, half)
    x, rest = np.where(swap, far, near), np.where(swap, near, far)
    beta = log_gamma(df / 2) + log_gamma(half) - log_gamma(df / 2 + 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        front = np.exp(a * np.log(x) + b * np.log(rest) - beta) / a
        value = np.where(x == 0, 0.0, front * _continued_fraction(a, b, x))
    return np.where(swap, 1.0 - value, value)


def _continued_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Continued fraction of the incomplete beta function (A&S 26.5.8), by Lentz' method."""
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / np.where(d == 0, tiny, d)
    step = np.ones_like(x)
    value: Floats = d.copy()
    for m in range(1, MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            c = 1 + term / np.where(c == 0, tiny, c)
            d = 1 / np.where(d == 0, tiny, d)
            step = d * c
            value *= step
        if not (np.abs(step - 1) > 1e-15).any():
            break
    return value


def t_quantile(tails: Sequence[float], df: Floats) -> Floats:
    """Values that Student's t exceeds with each probability of ``tails``, < 1/2.

    Newton's method on the logarithms of tail and value, from Wallace's approximation (1959: the
    normal quantile, stretched): far out the tail is a power of the value, so a few steps are enough
    however far the solution is. Each distinct number of degrees of freedom is solved once.

    Returns (n_tails, *shape of df).
    """
    distinct, place = np.unique(df, return_inverse=True)
    tail = np.array(tails)[:, None]
    normal = np.array([NormalDist().inv_cdf(1 - one) for one in tails])[:, None]
    stretched = normal * (8 * distinct + 3) / (8 * distinct + 1)
    t = np.sqrt(distinct * np.expm1(np.minimum(stretched**2 / distinct, FARTHEST_START)))
    scale = np.exp(log_gamma((distinct + 1) / 2) - log_gamma(distinct / 2))
    scale /= np.sqrt(np.pi * distinct)
    for _ in range(MOST_TERMS):
        density = scale * np.exp(-(distinct + 1) / 2 * np.log1p(t * t / distinct))
        beyond = t_tail(t, distinct)
        step = t * np.expm1(beyond / (t * density) * np.log(beyond / tail))
        t += step
        if not (np.abs(step) > 1e-7 * t).any():  # the next step would square that
            break
    return t[:, place].reshape(len(tails), *np.shape(df))
