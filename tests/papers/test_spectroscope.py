"""The method as printed: the same findings as its text, step by step, and its traps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from iqcar.papers.spectroscope import (
    Edges,
    PrintedFinding,
    Requests,
    compare_as_printed,
    ks_test,
)
from tests.support.naive_spectroscope import Latency, Request, compare_naively, p_by_counting

GRAPHS = ["0 join\n1 scan\n1 scan", "0 broadcast\n1 scan", "0 sort"]

times = st.sampled_from([10.0, 11.0, 12.0, 100.0, 110.0, 130.0])
requests = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1), times),
    min_size=1,
    max_size=50,
)


@st.composite
def periods(draw: st.DrawFn) -> tuple[list[Request], list[Latency]]:
    """Requests, and latencies of their edges."""
    drawn = draw(requests)
    latencies = st.tuples(st.integers(0, len(drawn) - 1), st.integers(0, 1), times)
    return drawn, draw(st.lists(latencies, max_size=60))


def found(of: list[Request], latencies: list[Latency], **how: Any) -> tuple[PrintedFinding, ...]:
    """The findings on rows."""
    root, graph, side, time = np.array(of, np.float64).reshape(-1, 4).T
    request, edge, latency = np.array(latencies, np.float64).reshape(-1, 3).T
    whole = [column.astype(np.int64) for column in (root, graph, side, request, edge)]
    return compare_as_printed(Requests(*whole[:3], time), Edges(*whole[3:], latency), GRAPHS, **how)


@given(periods(), st.integers(1, 4), st.booleans())
def test_the_findings_are_those_of_the_text(
    of: tuple[list[Request], list[Latency]], threshold: int, one_to_n: bool
) -> None:
    mine = found(*of, threshold=threshold, one_to_n=one_to_n)
    theirs = compare_naively(*of, GRAPHS, threshold=threshold, one_to_n=one_to_n)
    assert [f.contribution_ms for f in mine] == pytest.approx(
        [f["contribution_ms"] for f in theirs]
    )
    # Findings of equal contributions may stand in either order: sums are rounded.
    assert sorted((f.root, f.graph, f.kind, f.precursors, f.edges) for f in mine) == sorted(
        (f["root"], f["graph"], f["kind"], f["precursors"], f["edges"]) for f in theirs
    )


@given(requests)
def test_periods_with_the_same_requests_have_no_mutation(of: list[Request]) -> None:
    both = [(root, graph, side, time) for root, graph, _, time in of for side in (0, 1)]
    assert found(both, [], threshold=1) == ()


@given(requests, st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_matter(of: list[Request], random: Any) -> None:
    shuffled = found(random.sample(of, len(of)), [], threshold=1)
    # By text, because an unknown p is not equal to itself.
    assert repr(shuffled) == repr(found(of, [], threshold=1))


def test_runs_of_three_a_side_are_too_few_to_find_any_slowdown() -> None:
    slower = [(0, 0, side, 10.0 * (1 + 9 * side) + run) for side in (0, 1) for run in range(3)]
    assert found(slower, []) == ()
    (finding,) = found([*slower, (0, 0, 0, 9.0), (0, 0, 1, 99.0)], [])
    assert finding.kind == "response-time"


def test_fewer_runs_after_hide_the_precursor_unless_the_assumption_is_bypassed() -> None:
    switched = [(0, 0, 0, 10.0)] * 3 + [(0, 1, 1, 30.0)] * 5
    (blind,) = found(switched, [], threshold=1)
    (told,) = found(switched, [], threshold=1, one_to_n=False)
    assert (blind.precursors, told.precursors) == ((), (0,))
    # All requests switched: the precursor's mean is that before, as it has none after.
    assert (told.before_ms, told.contribution_ms) == (10.0, 5 * 20.0)


def test_the_printed_threshold_is_out_of_reach_of_recurring_queries() -> None:
    assert found([(0, 0, 0, 10.0)] * 30 + [(0, 1, 1, 30.0)] * 30, []) == ()


values = st.lists(st.integers(0, 8).map(float), min_size=1, max_size=12)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=4))
def test_the_test_is_scipys(categories: list[tuple[list[float], list[float]]]) -> None:
    rows = [(c, at, v) for c, both in enumerate(categories) for at in (0, 1) for v in both[at]]
    category, side, value = np.array(rows).T
    test = ks_test(category.astype(np.int64), side, value, len(categories))
    for number, (before, after) in enumerate(categories):
        try:
            exact = scipy.stats.ks_2samp(before, after, method="exact")
        except RuntimeWarning:
            continue  # SciPy says that it could not compute it exactly; the next test counts
        assert test.statistic[number] == pytest.approx(exact.statistic)
        assert test.p[number] == pytest.approx(exact.pvalue, rel=1e-9)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (2, 7)])
def test_its_probability_is_counted_over_all_orders(before: int, after: int) -> None:
    side = np.repeat([0, 1], [before, after])
    test = ks_test(np.zeros(len(side), np.int64), side, np.arange(len(side)) * 1.0, 1)
    assert test.p[0] == pytest.approx(p_by_counting(before, after, 1.0))


def test_many_values_follow_the_limit() -> None:
    random = np.random.default_rng(2)
    before, after = random.normal(0, 1, 3000), random.normal(0.06, 1, 2000)
    side = np.repeat([0, 1], [3000, 2000])
    both = np.concatenate([before, after])
    test = ks_test(np.zeros(5000, np.int64), side, both, 2)
    assert test.statistic[0] == pytest.approx(scipy.stats.ks_2samp(before, after).statistic)
    assert test.p[0] == pytest.approx(scipy.stats.ks_2samp(before, after).pvalue, rel=0.05)
    assert np.isnan(test.p[1])
