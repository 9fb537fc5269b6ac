"""Scores of the BigRoots experiment: counts by hand, areas against every pair, plans and views."""

from __future__ import annotations

import importlib
import re
import sys
from itertools import pairwise, product
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import REPO

SEED = 5


@pytest.fixture(scope="module", autouse=True)
def experiments() -> None:
    """Let this module import what lies beside the experiments."""
    sys.path.insert(0, str(REPO / "scripts" / "experiments"))


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_counts_by_hand() -> None:
    scoring = load("bigroots_scoring")
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], bool)
    named = np.array([[1, 0, 1], [0, 1, 0], [0, 1, 0]], bool)
    counts = scoring.count(truth, named)
    assert (counts.tp, counts.tn, counts.fp, counts.fn) == (2, 4, 2, 1)
    assert counts.tpr == pytest.approx(2 / 3)
    assert counts.fpr == pytest.approx(2 / 6)
    assert counts.accuracy == pytest.approx(6 / 9)


def test_the_rates_of_table_v_follow_from_its_counts() -> None:
    scoring, shown = load("bigroots_scoring"), load("bigroots_table")
    for tp, tn, fp, fn, tpr, fpr, accuracy in shown.TABLE_V.values():
        counts = scoring.Counts(tp, tn, fp, fn)
        # The paper cuts some digits off instead of rounding.
        assert counts.tpr == pytest.approx(tpr, abs=1e-4)
        assert counts.fpr == pytest.approx(fpr, abs=1e-4)
        assert counts.accuracy == pytest.approx(accuracy, abs=1e-4)


def test_rates_of_nothing_are_unknown() -> None:
    scoring = load("bigroots_scoring")
    nothing = scoring.count(np.zeros((0, 3), bool), np.zeros((0, 3), bool))
    assert (nothing.tpr, nothing.fpr, nothing.accuracy) == (None, None, None)


def test_a_straggler_is_affected_by_what_overlaps_it_on_its_host() -> None:
    scoring = load("bigroots_scoring")
    injected = [
        scoring.Injected("a", "cpu", 1000, 2000),
        scoring.Injected("a", "cpu", 3000, 3100),
        scoring.Injected("b", "io", 0, 9000),
        scoring.Injected("a", "network", 5000, 6000),
    ]
    launch, finish = np.array([1500.0, 4000.0, 2000.0]), np.array([3500.0, 5000.0, 3000.0])
    shared = scoring.overlaps(["a", "a", "b"], launch, finish, injected)
    assert shared.tolist() == [[600, 0, 0], [0, 0, 0], [0, 1000, 0]]
    assert scoring.truth_of_the_paper(shared).tolist() == (shared > 0).tolist()


def test_doubtful_decisions_are_short_overlaps_and_traffic_over_loopback() -> None:
    scoring = load("bigroots_scoring")
    shared = np.array([[600.0, 0, 0], [400.0, 900.0, 0], [900.0, 0, 5.0]])
    clear = scoring.clear_truth(shared, np.array([1000.0, 1000.0, 1000.0]))
    assert clear.tolist() == [[True] * 3, [False, True, True], [False] * 3]


decisions = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40)


@given(decisions)
def test_the_area_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[bool, int]]) -> None:
    scoring = load("bigroots_scoring")
    truth = np.array([[positive] for positive, _ in rows])
    score = np.array([[value] for _, value in rows])
    positives, negatives = score[truth], score[~truth]
    if not len(positives) or not len(negatives):
        return
    points = [scoring.count(truth, score > threshold) for threshold in range(-1, 7)]
    right = [float(p > n) + 0.5 * float(p == n) for p, n in product(positives, negatives)]
    assert scoring.area(scoring.curve(points)) == pytest.approx(sum(right) / len(right))


def test_areas_of_perfect_and_blind_methods() -> None:
    scoring = load("bigroots_scoring")
    assert scoring.area([(0, 0), (0, 1), (1, 1)]) == 1.0
    assert scoring.area([(0, 0), (1, 1)]) == 0.5


def test_a_plan_repeats_by_its_seed_and_ends_every_injection_within_its_experiment() -> None:
    plans = load("bigroots_plan")
    first, again = (plans.parts(SEED, 5, times=2, repeats=2) for _ in range(2))
    assert first == again
    assert first != plans.parts(SEED + 1, 5, times=2, repeats=2)
    for part in first:
        for host, at, length, anomaly in part.injections:
            assert 0 <= host < 5 and at + length <= part.for_s
            assert anomaly in load("bigroots_scoring").RESOURCES
    assert [b - a for a, b in pairwise(plans.starts(first, 0))] == [
        1000 * part.for_s for part in first[:-1]
    ]


def test_the_plan_of_table_iv_is_the_papers() -> None:
    plans = load("bigroots_plan")
    of = [plans.TABLE_IV.count(row) for row in set(plans.TABLE_IV)]
    assert of == [1] * 13
    kinds = [anomaly for *_, anomaly in plans.TABLE_IV]
    assert (kinds.count("cpu"), kinds.count("io"), kinds.count("network")) == (6, 5, 2)


def test_a_hosts_view_keeps_its_length_and_says_what_it_used() -> None:
    places = load("loadable_hosts")
    small = places.Use()
    large = places.Use(user=12.5, system=2.5, idle=985.0, read_bytes=4096, busy_ms=7.4)
    first, second = places.stat_text(small), places.stat_text(large)
    assert len(first) == len(second)
    (line,) = re.findall(r"^cpu0 (.*)$", second, re.M)
    user, _, system, idle, *_ = map(int, line.split())
    assert (user, system, idle) == (1250, 250, 98500)
    fields = places.diskstats_text(large, "8:0").split()
    assert len(places.diskstats_text(small, "8:0")) == len(places.diskstats_text(large, "8:0"))
    # Kernel's Documentation/admin-guide/iostats: sectors read is the third, busy ms the tenth.
    assert (int(fields[5]), int(fields[12]), len(fields)) == (8, 7, 20)
