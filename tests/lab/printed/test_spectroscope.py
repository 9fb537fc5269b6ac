"""The method as printed: the same findings as its text, step by step, and its traps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.model.queries.critical_path import add_critical_path
from iqcar_lab.clusters.changes import pair_of
from iqcar_lab.printed.spectroscope import (
    Edges,
    PrintedFinding,
    Requests,
    compare_as_printed,
    ks_test,
    printed_findings,
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


@given(periods(), st.integers(1, 4))
def test_the_findings_are_those_of_the_text(
    of: tuple[list[Request], list[Latency]], threshold: int
) -> None:
    mine = found(*of, threshold=threshold)
    theirs = compare_naively(*of, GRAPHS, threshold=threshold)
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


def test_fewer_runs_after_hide_the_precursor() -> None:
    (blind,) = found([(0, 0, 0, 10.0)] * 3 + [(0, 1, 1, 30.0)] * 5, [], threshold=1)
    (told,) = found([(0, 0, 0, 10.0)] * 5 + [(0, 1, 1, 30.0)] * 5, [], threshold=1)
    assert (blind.precursors, told.precursors) == ((), (0,))
    # All requests switched: the precursor's mean is that before, as it has none after.
    assert (told.before_ms, told.contribution_ms) == (10.0, 5 * 20.0)


def test_the_printed_threshold_is_out_of_reach_of_recurring_queries() -> None:
    assert found([(0, 0, 0, 10.0)] * 30 + [(0, 1, 1, 30.0)] * 30, []) == ()


READ, READDIR, LOOKUP = 0, 1, 2
FIGURE_5 = {
    # (root, graph): requests in the non-problem and in the problem period
    (READ, 0): (300, 900),  # the structural mutation
    (READ, 1): (1000, 200),
    (READ, 2): (700, 100),
    (READ, 3): (500, 400),  # the top left one: it lost fewer than the mutation gained
    (LOOKUP, 1): (900, 100),
    (READDIR, 2): (800, 100),
}
"""Categories like those of figure 5, whose numbers are not in its text."""


def test_figure_5_shades_the_precursors_of_the_same_root_that_lost_enough() -> None:
    requests = [
        (root, graph, side, 10.0)
        for (root, graph), counts in FIGURE_5.items()
        for side in (0, 1)
        for _ in range(counts[side])
    ]
    names = ["READ\nhit\nhit", "READ\nmiss\nmiss", "READ\nhit\nmiss", "READ\nhit"]
    root, graph, side, time = np.array(requests).T
    whole = Requests(root.astype(int), graph.astype(int), side.astype(int), time)
    edges = Edges(*(np.zeros(0, np.int64) for _ in range(2)), np.zeros(0))
    mutations = [f for f in compare_as_printed(whole, edges, names) if f.kind == "structural"]
    assert [(f.root, f.graph, f.precursors) for f in mutations] == [(READ, 0, (2, 1))]


def test_section_5_3_by_hand() -> None:
    """Contributions of a structural and of a response-time mutation, and their order."""
    near, far, mutation = 0, 1, 2
    names = ["a\nb\nc\nd", "e\nh\nf\nd", "a\nb\ng\nd"]  # distances 1/4 and 3/4
    of = [(0, near, 0, 10.0)] * 9 + [(0, near, 1, 20.0)] * 3
    of += [(0, far, 0, 10.0)] * 8 + [(0, far, 1, 60.0)] * 2
    of += [(0, mutation, 0, 50.0)] * 5 + [(0, mutation, 1, 90.0)] * 11
    root, graph, side, time = np.array(of).T
    whole = Requests(root.astype(int), graph.astype(int), side.astype(int), time)
    edges = Edges(*(np.zeros(0, np.int64) for _ in range(2)), np.zeros(0))
    found = compare_as_printed(whole, edges, names, threshold=6)
    said = [(f.graph, f.kind, round(f.contribution_ms, 9)) for f in found]
    # Precursors after: ¾ · 20 + ¼ · 60 = 30; 6 requests more, each 60 slower. Categories of both
    # kinds of mutation, or precursors that are slower, stand twice.
    assert said == [
        (far, "response-time", 8 * 50.0),
        (mutation, "structural", 6 * 60.0),
        (mutation, "response-time", 5 * 40.0),
        (near, "response-time", 9 * 10.0),
    ]


@pytest.mark.long
def test_only_stages_on_the_critical_path_are_edges_of_a_request() -> None:
    pair = pair_of("slower code", 21, 5)
    comparison = iqcar.compare(pair.before, pair.after)
    found = printed_findings(comparison)
    on_path, all_stages = set(), set()
    for side, category in zip(comparison.sides, comparison.category_of, strict=True):
        critical = add_critical_path(side.tables).stages["critical"].to_numpy(bool)
        node = side.rows.stage_node
        all_stages |= set(category[node[node >= 0]].tolist())
        on_path |= set(category[node[(node >= 0) & critical]].tolist())
    red = {of for row in found for of in row["stages"]}
    assert red and red <= on_path < all_stages
    assert set(pair.plants) <= {comparison.name(row["category"]) for row in found}
    assert not any(row["stages"] for row in found if row["kind"] == "structural")


@pytest.mark.long
def test_another_plan_is_shown_with_the_graph_that_its_runs_had_before() -> None:
    pair = pair_of("plan", 21, 5)
    comparison = iqcar.compare(pair.before, pair.after)
    found = printed_findings(comparison)
    switched = [row for row in found if row["kind"] == "structural" and row["precursors"]]
    assert set(pair.plants) <= {comparison.name(row["category"]) for row in switched}
    for row in switched:
        assert row["runs"] == [0, 5]
        assert row["graph"] not in row["precursors"]


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (2, 7)])
def test_its_probability_is_counted_over_all_orders(before: int, after: int) -> None:
    side = np.repeat([0, 1], [before, after])
    test = ks_test(np.zeros(len(side), np.int64), side, np.arange(len(side)) * 1.0, 1)
    assert test[0] == pytest.approx(p_by_counting(before, after, 1.0))


def test_a_side_without_values_has_no_probability() -> None:
    assert np.isnan(ks_test(np.zeros(5, np.int64), np.zeros(5, np.int64), np.arange(5.0), 2)).all()
