"""Categories are judged by runs: as the formulas say, the same for any order, honest on noise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iqcar.comparison.shrunken_t import (
    MOST_PRIOR_DF,
    MOST_RUNS_NEEDED,
    Prior,
    Verdicts,
    adjusted,
    fit_prior,
    judge,
)
from iqcar.enums import VERDICTS
from tests.support.naive_shrunken_t import Row, judge_naively

ONE_RUN = Prior(0.15**2, 4.0)
CATEGORIES = 8

rows = st.lists(
    st.tuples(
        st.integers(0, CATEGORIES - 1),
        st.integers(0, 1),
        st.one_of(st.floats(1.0, 1e7), st.sampled_from([0.0, -1.0, np.nan, np.inf, 250.0])),
    ),
    max_size=60,
)


def judged(table: list[Row], **changed: Any) -> Verdicts:
    """The verdicts on rows of category, side, value."""
    columns = np.array(table, np.float64).reshape(-1, 3)
    options = {"n": CATEGORIES, "margin": 0.05, "alpha": 0.05, "one_run": ONE_RUN} | changed
    return judge(
        columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2], **options
    )


def names(verdicts: Verdicts) -> list[str]:
    """The verdicts by name."""
    return [str(VERDICTS[code]) for code in verdicts.verdict]


@given(rows, st.sampled_from([0.0, 0.05, 0.5]))
def test_the_verdicts_are_those_of_the_formulas(table: list[Row], margin: float) -> None:
    found = judged(table, margin=margin)
    expected = judge_naively(table, CATEGORIES, margin, 0.05, ONE_RUN)
    for field in ("difference", "low", "high", "p", "q"):
        want = [one.get(field, np.nan) for one in expected]
        np.testing.assert_allclose(getattr(found, field), want, 1e-6, 1e-9)
    assert names(found) == [one["verdict"] for one in expected]


@given(rows)
def test_swapping_the_sides_changes_signs_only(table: list[Row]) -> None:
    there = judged(table)
    back = judged([(category, 1 - side, value) for category, side, value in table])
    np.testing.assert_array_equal(back.difference, -there.difference)
    np.testing.assert_array_equal(back.low, -there.high)
    np.testing.assert_array_equal(back.high, -there.low)
    for field in ("p", "q", "verdict", "runs_needed"):
        np.testing.assert_array_equal(getattr(back, field), getattr(there, field))


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: list[Row], random: Any) -> None:
    shuffled = random.sample(table, len(table))
    for one, other in zip(judged(table), judged(shuffled), strict=True):
        np.testing.assert_array_equal(one, other)


POOLED = [
    *((0, 0, 78.0), (0, 0, 98.0), (0, 1, 1.0)),
    *((4, 1, 1.0), (4, 1, 90.0), (5, 0, 58.0), (5, 0, 35.0)),
]
"""Repeated in too few categories for a prior of their own: their variances are pooled."""


@given(rows, st.permutations(range(CATEGORIES)))
@example(POOLED, [0, 1, 2, 3, 5, 4, 6, 7])
def test_the_numbering_of_categories_does_not_matter(table: list[Row], to: list[int]) -> None:
    renumbered = judged([(to[category], side, value) for category, side, value in table])
    for one, other in zip(judged(table), renumbered, strict=True):
        np.testing.assert_array_equal(one, other[to])


@given(rows)
def test_equal_sides_have_not_changed(table: list[Row]) -> None:
    same = [(category, at, value) for category, _, value in table for at in (0, 1)]
    found = judged(same)
    known = np.isfinite(found.p)
    assert (found.difference[known] == 0).all() and (found.p[known] == 1).all()
    assert "changed" not in names(found)


@given(rows, st.sampled_from([0.0, 0.02, 0.3]), st.sampled_from([0.01, 0.05, 0.4]))
def test_a_verdict_says_what_its_numbers_say(table: list[Row], margin: float, alpha: float) -> None:
    found = judged(table, margin=margin, alpha=alpha)
    least = np.log1p(margin)
    for number, name in enumerate(names(found)):
        size, q = abs(found.difference[number]), found.q[number]
        assert (name == "changed") == (q <= alpha)
        assert name != "changed" or (size > least and found.low[number] * found.high[number] > 0)
        assert name != "same" or size <= least
        needed, known = found.runs_needed[number], np.isfinite(q)
        assert (needed > 0) == (name == "cannot_tell" and known)


@given(rows)
def test_a_larger_margin_makes_no_difference_surer(table: list[Row]) -> None:
    by_margin = [judged(table, margin=margin).p for margin in (0.0, 0.05, 1.0)]
    for smaller, larger in pairwise(by_margin):
        known = np.isfinite(smaller)
        assert (larger[known] >= smaller[known] - 1e-12).all()


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), max_size=30))
def test_adjusted_p_values_keep_their_order_and_are_not_smaller(p_values: list[float]) -> None:
    p = np.array(p_values, np.float64)
    q = adjusted(p)
    np.testing.assert_array_equal(np.isnan(q), np.isnan(p))
    tested = np.isfinite(p)
    assert (q[tested] >= p[tested]).all() and (q[tested] <= 1).all()
    assert (np.diff(q[tested][np.argsort(p[tested])]) >= 0).all()


def test_a_category_on_one_side_only_is_not_judged() -> None:
    found = judged([(0, 0, 100.0), (0, 0, 110.0), (1, 1, 100.0)])
    assert np.isnan(found.p).all() and set(names(found)) == {"cannot_tell"}
    assert (found.runs_needed == 0).all()


def test_one_run_a_side_rests_on_the_given_prior() -> None:
    table = [(c, at, 1000.0 * (1 + at * effect)) for c, effect in enumerate((0.0, 0.1, 2.0))
             for at in (0, 1)]  # fmt: skip
    assert names(judged(table))[:3] == ["cannot_tell", "cannot_tell", "changed"]
    surer = judged(table, one_run=Prior(0.01**2, 4.0))
    assert names(surer)[:3] == ["same", "changed", "changed"]


def test_the_prior_is_found_again_from_many_variances() -> None:
    # Variances as Smyth (2004) models them: s0² d0 / χ²(d0) true ones, each seen with 4 df.
    random = np.random.default_rng(5)
    true = 0.03**2 * 6 / random.chisquare(6, 20_000)
    seen = true * random.chisquare(4, 20_000) / 4
    prior = fit_prior(seen, np.full(20_000, 4), ONE_RUN)
    # The moments' standard errors at 20,000 categories are about 1 % and 2 %.
    assert prior.variance == pytest.approx(0.03**2, rel=0.04)
    assert prior.df == pytest.approx(6, rel=0.08)


def test_equal_variances_are_trusted_to_the_most() -> None:
    random = np.random.default_rng(5)
    prior = fit_prior(random.chisquare(4, 2000) / 4, np.full(2000, 4), ONE_RUN)
    # Smyth's estimate is infinite where the variances spread no more than by chance.
    assert MOST_PRIOR_DF / 2 < prior.df <= MOST_PRIOR_DF


def test_values_that_never_vary_still_leave_room_for_doubt() -> None:
    table = [(c, at, 1000.0 + (c == 0) * at * 1.0) for c in range(8) for at in (0, 1) for _ in "ab"]
    found = judged(table, margin=0.0)
    assert found.high[0] > found.difference[0] > 0
    assert set(names(found)) == {"cannot_tell"}


def test_each_kind_of_category_has_the_prior_of_its_own_kind() -> None:
    # Queries vary by .2 %, their many stages by 30 %: queries are not drawn to what stages do.
    random = np.random.default_rng(6)
    spread = np.where(np.arange(110) < 10, 0.002, 0.3)
    logs = random.normal(0, spread[:, None, None], (110, 2, 3))
    category, side, _ = np.indices(logs.shape)
    columns = category.ravel(), side.ravel(), np.exp(logs.ravel())
    options = {"n": 110, "margin": 0.05, "alpha": 0.05, "one_run": ONE_RUN}
    together = judge(*columns, **options)
    apart = judge(*columns, **options, group=np.arange(110) >= 10)
    assert set(names(apart)[:10]) == {"same"}
    widths = [found.high[:10] - found.low[:10] for found in (together, apart)]
    assert (widths[0] > 3 * widths[1]).all()
    few = judge(*columns, **options, group=np.arange(110) >= 4)
    np.testing.assert_allclose(few.low[:4], together.low[:4], rtol=1e-9)


def simulated(
    random: np.random.Generator, runs: int, spread: float, effect: float
) -> dict[str, Any]:
    """200 categories whose variances differ (inverse gamma, 6 df), all changed by the effect."""
    variance = spread**2 * 6 / random.chisquare(6, 200)
    logs = random.normal(0, np.sqrt(variance)[:, None, None], (200, 2, runs))
    logs[:, 1] += np.log1p(effect)
    category, side, _ = np.indices(logs.shape)
    return {"category": category.ravel(), "side": side.ravel(), "value": np.exp(logs.ravel())}


def rejected(runs: int, spread: float, effect: float, margin: float) -> float:
    """Share of categories with p ≤ .05 in 20 simulated pairs of 200 categories."""
    random = np.random.default_rng(1500 + runs)
    options = {"n": 200, "margin": margin, "alpha": 0.05, "one_run": ONE_RUN}
    pairs = (judge(**simulated(random, runs, spread, effect), **options) for _ in range(20))
    return float(np.mean([(pair.p <= 0.05).mean() for pair in pairs]))


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize("spread", [0.03, 0.3])
def test_equal_sides_are_rejected_as_often_as_alpha_says(runs: int, spread: float) -> None:
    # 4,000 tests that share a prior in each pair: three standard errors are about .012.
    without_margin = rejected(runs, spread, 0.0, 0.0)
    assert without_margin == pytest.approx(0.05, abs=0.012)
    assert rejected(runs, spread, 0.0, 0.02) <= without_margin


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spread", "effect", "margin", "least"),
    [
        (0.03, 0.1, 0.0, (0.74, 0.87, 0.97, 0.99)),
        (0.03, 0.1, 0.02, (0.65, 0.81, 0.94, 0.99)),
        (0.1, 0.2, 0.0, (0.29, 0.46, 0.69, 0.89)),
        (0.1, 0.5, 0.02, (0.88, 0.95, 0.98, 0.99)),
    ],
)
def test_changes_are_found_at_few_runs(
    spread: float, effect: float, margin: float, least: tuple[float, ...]
) -> None:
    # What a test with the true prior found; three standard errors of 4,000 tests are below .03.
    found = [rejected(runs, spread, effect, margin) for runs in (2, 3, 5, 10)]
    assert (np.array(found) >= np.array(least) - 0.03).all(), found


def test_false_discoveries_among_all_are_as_rare_as_alpha_says() -> None:
    # A tenth of the categories changed by a half: of what is called changed, at most 5 % is false.
    random = np.random.default_rng(99)
    false = total = 0
    for _ in range(20):
        pair = simulated(random, 3, 0.05, 0.0)
        changed = pair["category"] < 20
        pair["value"] = pair["value"] * np.where(changed & (pair["side"] == 1), 1.5, 1.0)
        found = judge(**pair, n=200, margin=0.0, alpha=0.05, one_run=ONE_RUN)
        called = found.q <= 0.05
        false, total = false + int(called[20:].sum()), total + int(called.sum())
    assert total >= 380  # of 400
    assert false / total <= 0.07  # .05, and two standard errors of 400 discoveries


@pytest.mark.parametrize("effect", [0.08, 0.12])
def test_so_many_runs_as_are_said_to_be_needed_tell_four_times_in_five(effect: float) -> None:
    # One family of equal variances, so that the estimated prior is the true one.
    random = np.random.default_rng(3)

    def pair(runs: int) -> Verdicts:
        logs = random.normal(0, 0.05, (400, 2, runs))
        logs[:, 1] += np.log1p(effect)
        category, side, _ = np.indices(logs.shape)
        columns = category.ravel(), side.ravel(), np.exp(logs.ravel())
        return judge(*columns, n=400, margin=0.02, alpha=0.05, one_run=ONE_RUN)

    few = pair(2)
    at_truth = np.abs(few.difference - np.log1p(effect)) < 0.01
    unclear = at_truth & (few.runs_needed > 0)
    needed = int(np.median(few.runs_needed[unclear]))
    assert 2 < needed < MOST_RUNS_NEEDED
    told = (np.array(names(pair(needed))) == "changed").mean()
    # Once most are told, their level is the whole alpha: more than four in five, never fewer.
    assert told >= 0.75
