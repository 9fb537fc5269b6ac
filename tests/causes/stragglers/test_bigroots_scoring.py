"""Scores of the BigRoots experiment: counts by hand, areas against every pair, plans and views."""

from __future__ import annotations

import importlib
import re
import sys
from itertools import pairwise, product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import build_features
from iqcar.model.waits.measure import measure_waits
from tests.conftest import REPO
from tests.support.straggler_truth import simulate

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


def test_an_injection_begins_with_the_start_of_its_processes() -> None:
    scoring = load("bigroots_scoring")
    injected = [scoring.Injected("a", "io", 5000, 6000)]
    launch = np.array([3000.0, 4500.0, 4500.0, 5500.0])
    started = scoring.begun(["a", "a", "b", "a"], launch, launch + 600, injected, 1000.0)
    assert started.tolist() == [False, True, False, False]


def test_what_could_delay_by_hand() -> None:
    scoring = load("bigroots_scoring")
    rows = [  # cpu, io and network in ms of a second, and whether it reads files
        ((600, 900, 0), True),
        ((400, 900, 0), False),
        ((0, 100, 5), True),
        ((900, 0, 5), False),
        ((0, 0, 0), True),
        ((0, 900, 0), True),
    ]
    shared = np.array([row for row, _ in rows], float)
    reads = np.array([reading for _, reading in rows])
    starting = np.array([False] * 5 + [True])
    truth, counted = scoring.could_delay(shared, np.full(len(rows), 1000.0), reads, starting)
    assert truth.tolist() == [
        [True, True, False], [False] * 3, [False] * 3, [True, False, False], [False] * 3,
        [False, True, False],
    ]  # fmt: skip
    # In doubt: a short overlap with the processor, with the disk, and the processor during
    # loopback or while an injection starts.
    assert counted.tolist() == [
        [True] * 3, [False, True, True], [False, False, True], [True] * 3, [True] * 3,
        [False, True, True],
    ]  # fmt: skip


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
    plans = load("bigroots_scoring")
    first, again = (plans.parts(SEED, 5, times=2) for _ in range(2))
    assert first == again
    assert first != plans.parts(SEED + 1, 5, times=2)
    for part in first:
        for host, at, length, anomaly in part.injections:
            assert 0 <= host < 5 and at + length <= part.for_s
            assert anomaly in load("bigroots_scoring").RESOURCES
    assert [b - a for a, b in pairwise(plans.starts(first, 0))] == [
        1000 * part.for_s for part in first[:-1]
    ]


def test_the_plan_of_table_iv_is_the_papers() -> None:
    plans = load("bigroots_scoring")
    of = [plans.TABLE_IV.count(row) for row in set(plans.TABLE_IV)]
    assert of == [1] * 13
    kinds = [anomaly for *_, anomaly in plans.TABLE_IV]
    assert (kinds.count("cpu"), kinds.count("io"), kinds.count("network")) == (6, 5, 2)


def test_a_hosts_view_keeps_its_length_and_says_what_it_used() -> None:
    places = load("cluster")
    small = places.Use()
    large = places.Use(user=12.5, system=2.5, idle=985.0, read_bytes=4096, busy_ms=7.4)
    first, second = places.stat_text(small), places.stat_text(large)
    assert len(first) == len(second)
    (line,) = re.findall(r"^cpu0 (.*)$", second, re.M)
    user, _, system, idle, *_ = map(int, line.split())
    assert (user, system, idle) == (1250, 250, 98500)
    (of_all,) = re.findall(r"^cpu  (.*)$", places.stat_text(large, 4), re.M)
    assert int(of_all.split()[0]) == 4 * user
    assert len(re.findall(r"^cpu\d", places.stat_text(large, 4), re.M)) == 4
    fields = places.diskstats_text(large, "8:0").split()
    assert len(places.diskstats_text(small, "8:0")) == len(places.diskstats_text(large, "8:0"))
    # Kernel's Documentation/admin-guide/iostats: sectors read is the third, busy ms the tenth.
    assert (int(fields[5]), int(fields[12]), len(fields)) == (8, 7, 20)


@pytest.fixture(scope="module")
def decided() -> Any:
    tables = simulate(SEED, stages=2).tables
    features = build_features(tables, measure_waits(tables), 3000.0)
    return load("bigroots_scoring").Judged.from_features(
        features, np.ones(len(features.frame), bool)
    )


def test_a_higher_threshold_names_no_more(decided: Any) -> None:
    for method, values, named in load("bigroots_scoring").sweeps(decided):
        assert values == sorted(values), method
        for lower, higher in pairwise(named):
            assert not (higher & ~lower).any(), method


def test_the_default_threshold_names_what_the_method_names(decided: Any) -> None:
    methods = load("bigroots_scoring")
    moved = {method: (values, named) for method, values, named in methods.sweeps(decided)}
    for method, default in (("measured", methods.OURS.explains), ("PCC", 0.5)):
        values, named = moved[method]
        at = int(np.argmin(np.abs(np.array(values) - default)))
        assert values[at] == pytest.approx(default)
        assert (named[at] == methods.METHODS[method](decided)).all()


def test_edge_detection_only_takes_causes_away(decided: Any) -> None:
    methods = load("bigroots_scoring").METHODS
    with_edges, without = methods["BigRoots"](decided), methods["BigRoots without edges"](decided)
    assert without.any()
    assert not (with_edges & ~without).any()


def test_only_stragglers_that_are_meant_are_judged(decided: Any) -> None:
    some = np.arange(len(decided.features.frame)) % 2 == 0
    half = load("bigroots_scoring").Judged.from_features(decided.features, some)
    rows = half.compared.rows[half.rows]
    assert some[rows].all()
    assert 0 < len(rows) < len(decided.rows)


def scored(seed: int) -> Any:
    """Decisions drawn at random, as a run leaves them."""
    rng, n = np.random.default_rng(seed), 60
    shared = rng.choice([0.0, 100.0, 900.0], (n, 3))
    reads = rng.random(n) < 0.5
    scoring = load("bigroots_scoring")
    starting = rng.random(n) < 0.1
    delaying, counted = scoring.could_delay(shared, np.full(n, 1000.0), reads, starting)

    def flags() -> Any:
        return rng.random((n, 3)) < 0.5

    return load("bigroots_scoring").Scored(
        part=rng.choice(np.array(["cpu", "multi-node"], dtype=object), n),
        host=rng.choice(np.array(["a", "b"], dtype=object), n),
        reads=reads, starting=starting, shared_ms=shared, truth=shared > 0,
        delaying=delaying, counted=counted,
        duration_ms=np.full(n, 1000.0), delay_ms=np.full(n, 400.0),
        named={name: flags() for name in load("bigroots_scoring").METHODS},
        moved={"measured": {0.0: np.ones((n, 3), bool), 0.5: flags(), 1.0: np.zeros((n, 3), bool)}},
        grid={(0.5, 0.8): flags(), (0.9, 0.9): flags()},
        tasks=500, stages=20, injected=["cpu", "io"],
    )  # fmt: skip


def test_runs_together_have_the_sum_of_their_decisions() -> None:
    make_result = load("bigroots_scoring").make_result
    runs = [scored(1), scored(2)]
    alone, together = [make_result([run]) for run in runs], make_result(runs)
    assert together["stragglers"] == sum(one["stragglers"] for one in alone)
    for method in load("bigroots_scoring").METHODS:
        for truth in ("paper", "could_delay"):
            for what in ("tp", "tn", "fp", "fn"):
                whole = together["all"]["methods"][method][truth][what]
                assert whole == sum(one["all"]["methods"][method][truth][what] for one in alone)
                parts = [e["methods"][method][truth][what] for e in together["experiments"]]
                assert whole == sum(parts)
    missed = together["all"]["methods"]["measured"]["paper"]["fn"]
    assert sum(together["missed"].values()) == missed
    wrong = together["all"]["methods"]["measured"]["paper"]["fp"]
    assert sum(together["wrong"].values()) == wrong


def test_the_tables_hold_every_method_and_the_papers_numbers() -> None:
    result = load("bigroots_scoring").make_result([scored(1)])
    text = load("tables").bigroots({"seeds": [1], **result})
    for method in load("bigroots_scoring").METHODS:
        assert f"| {method} |" in text
    assert "| BigRoots (paper) | 60.6% | 0.4% | 91.8% |" in text
