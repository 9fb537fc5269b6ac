"""The shrunken t test straight from its papers, one category at a time."""

from __future__ import annotations

import math
import statistics

import scipy
from scipy.special import polygamma, psi

Row = tuple[int, int, float]
"""Category, side, value."""


def logs_of(rows: list[Row], category: int, side: int) -> list[float]:
    """Logarithms of the known values of one category on one side."""
    return [
        math.log(value)
        for number, at, value in rows
        if (number, at) == (category, side) and math.isfinite(value) and value > 0
    ]


def variance_of(before: list[float], after: list[float]) -> tuple[float, int]:
    """Variance pooled over both sides, and its degrees of freedom."""
    squares = sum(
        (x - statistics.fmean(logs)) ** 2 for logs in (before, after) if logs for x in logs
    )
    df = sum(max(len(logs) - 1, 0) for logs in (before, after))
    return (squares / df if df else math.nan), df


def prior_of(
    variances: list[tuple[float, int]], default: tuple[float, float]
) -> tuple[float, float, float]:
    """s0², d0, and the most degrees of freedom of a test."""
    known = [(variance, df) for variance, df in variances if df > 0]
    if len(known) < 5:
        total = sum(df for _, df in known)
        pooled = sum(v * df for v, df in known) / total if total else 0.0
        return max(default[0], pooled), default[1], math.inf
    e = [math.log(max(v, 1e-6)) - psi(df / 2) + math.log(df / 2) for v, df in known]
    spread = statistics.variance(e) - statistics.fmean(polygamma(1, df / 2) for _, df in known)
    d0 = 50.0
    if spread > polygamma(1, 25.0):
        least = polygamma(1, 0.1)
        d0 = (
            0.2
            if spread >= least
            else scipy.optimize.brentq(lambda d: polygamma(1, d / 2) - spread, 0.2, 50)
        )
    s0 = math.exp(statistics.fmean(e) + psi(d0 / 2) - math.log(d0 / 2))
    return s0, d0, sum(df for _, df in known)


def judge_naively(
    rows: list[Row], n: int, margin: float, alpha: float, default: tuple[float, float]
) -> list[dict[str, float | str]]:
    """Difference, interval, p, q, verdict of every category; without p where a side has no run."""
    logs = [(logs_of(rows, c, 0), logs_of(rows, c, 1)) for c in range(n)]
    variances = [variance_of(*both) for both in logs]
    s0, d0, most = prior_of(variances, default)
    found: list[dict[str, float | str]] = []
    for (before, after), (variance, df) in zip(logs, variances, strict=True):
        if not before or not after:
            found.append({"verdict": "cannot_tell"})
            continue
        posterior = (d0 * s0 + (df * variance if df else 0)) / (d0 + df)
        error = math.sqrt(posterior * (1 / len(before) + 1 / len(after)))
        freedom = min(d0 + df, most)
        difference = statistics.fmean(after) - statistics.fmean(before)
        least = math.log1p(margin)
        tails = [scipy.stats.t.sf((abs(difference) + s * least) / error, freedom) for s in (-1, 1)]
        width = scipy.stats.t.isf(alpha / 2, freedom) * error
        same = abs(difference) + scipy.stats.t.isf(alpha, freedom) * error <= least
        found.append(
            {
                "difference": difference,
                "low": difference - width,
                "high": difference + width,
                "p": min(sum(tails), 1.0),
                "verdict": "same" if same else "cannot_tell",
            }
        )
    tested = [one for one in found if "p" in one]
    if tested:
        for one, q in zip(
            tested, scipy.stats.false_discovery_control([o["p"] for o in tested]), strict=True
        ):
            one["q"] = float(q)
            if q <= alpha:
                one["verdict"] = "changed"
    return found
