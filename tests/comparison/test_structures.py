"""Changed stage graphs: a side's own graph that the other side has given up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.comparison.match import distance, structures
from tests.support import naive_structures
from tests.support.naive_structures import Instance

instances = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 1), st.integers(0, 2), st.sampled_from(["a\nb", "a", "c"])
    ),
    max_size=30,
)
labels = st.lists(st.sampled_from("abcd"), max_size=8)


def found(of: list[Instance]) -> pd.DataFrame:
    """The structures of instances (query, side, run, graph)."""
    numbers = np.array([row[:3] for row in of], np.int64).reshape(-1, 3)
    return structures(*numbers.T, [row[3] for row in of])


def pairs(frame: pd.DataFrame) -> dict[int, tuple[str, str]]:
    """Precursor and mutation of each query."""
    return {row.query_category: (row.before, row.after) for row in frame.itertuples()}


@given(instances)
def test_changed_structures_are_those_of_the_definition(of: list[Instance]) -> None:
    frame = found(of)
    assert pairs(frame) == naive_structures.changed(of)
    for row in frame.itertuples():
        for graph, name in ((row.before, "before"), (row.after, "after")):
            for side, of_side in enumerate(("before", "after")):
                share = naive_structures.share_of(of, row.query_category, side, graph)
                assert getattr(row, f"{name}_share_{of_side}") == pytest.approx(float(share))


@given(instances)
def test_swapping_the_sides_swaps_precursor_and_mutation(of: list[Instance]) -> None:
    back = found([(query, 1 - side, run, graph) for query, side, run, graph in of])
    assert pairs(back) == {q: (new, old) for q, (old, new) in pairs(found(of)).items()}


@given(instances, st.randoms(use_true_random=False))
def test_the_order_of_instances_does_not_matter(of: list[Instance], random: Any) -> None:
    pd.testing.assert_frame_equal(found(of), found(random.sample(of, len(of))))


@given(instances)
def test_equal_sides_have_the_same_structures(of: list[Instance]) -> None:
    both = [(query, side, run, graph) for query, _, run, graph in of for side in (0, 1)]
    assert found(both).empty


def test_sides_with_unequal_numbers_of_runs_are_compared_by_shares() -> None:
    before = [(0, 0, run, "join\nscan") for run in range(5)]
    after = [(0, 1, run, "broadcast\nscan") for run in range(3)]
    (row,) = found(before + after).itertuples()
    assert (row.before, row.after, row.distance) == ("join\nscan", "broadcast\nscan", 0.5)


def test_many_instances_in_one_run_do_not_outvote_other_runs() -> None:
    before = [(0, 0, run, "a") for run in range(3)]
    after = [(0, 1, 0, "b")] * 50 + [(0, 1, 1, "a"), (0, 1, 2, "a")]
    assert found(before + after).empty


@given(labels, labels)
def test_the_distance_is_the_least_number_of_edits(one: list[str], other: list[str]) -> None:
    longest = max(len(one), len(other), 1)
    assert distance(one, other) == naive_structures.edits(one, other) / longest
    assert distance(one, other) == distance(other, one)


@given(labels, labels, labels)
def test_edits_by_a_third_graph_are_no_fewer(a: list[str], b: list[str], c: list[str]) -> None:
    def edits(one: list[str], other: list[str]) -> float:
        return distance(one, other) * max(len(one), len(other))

    assert edits(a, c) <= edits(a, b) + edits(b, c) + 1e-9
