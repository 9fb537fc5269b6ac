"""Amounts against the truth: nothing is lost where nothing is short, and what was lost elsewhere.

Truth is what all others together cost a query. On a quiet cluster an honest analysis says about
nothing whatever the formats, sizes and hosts are like; the thresholds are those of a reader, who
takes a percent of a run for nothing.
``scripts/experiments/simulated.py families`` has the figures of many seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from iqcar_lab.clusters.quiet import LOUD, QUIET, Run, amounts, blame_of, run_of, with_noise
from iqcar_lab.clusters.truth import GUILTY, blamed

pytestmark = pytest.mark.slow

SEEDS = (101,)
"""A seed that no setting was chosen on."""


def quiet(plain: bool, noise: float = 0.0) -> list[Run]:
    runs = [run_of(family, seed, plain=plain) for family in QUIET for seed in SEEDS]
    return [with_noise(run, noise, 7 + k) for k, run in enumerate(runs)]


def loud(plain: bool, noise: float = 0.0) -> list[Run]:
    runs = [run_of(family, seed, loud=True, plain=plain) for family in LOUD for seed in SEEDS]
    return [with_noise(run, noise, 7 + k) for k, run in enumerate(runs)]


def test_on_quiet_clusters_the_truth_is_nothing_and_on_loud_ones_much() -> None:
    assert np.abs(np.concatenate([run.cost for run in quiet(False)])).max() < 0.01
    cost = np.concatenate([run.cost for run in loud(False)])
    assert np.quantile(cost, 0.25) > 0.05
    assert cost.max() > 0.6


@pytest.mark.parametrize("plain", [False, True], ids=["measured", "plain"])
def test_where_nothing_is_short_hardly_anything_is_lost_to_others(plain: bool) -> None:
    found = amounts(quiet(plain))
    assert found.mean <= 0.01
    # One query may overlap others just when its own work is harder.
    assert found.worst <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("plain", [False, True], ids=["measured", "plain"])
def test_noise_is_not_taken_for_contention(plain: bool) -> None:
    """30 % is about what storage shared with strangers does to whole tasks."""
    assert amounts(quiet(plain, 0.3)).mean <= 0.02


@pytest.mark.long
@pytest.mark.parametrize(
    ("plain", "least"), [(False, 0.8), (True, 0.75)], ids=["measured", "plain"]
)
def test_what_is_said_to_be_lost_is_about_what_was_lost(plain: bool, least: float) -> None:
    """Own tasks that would fit alone are blamed for a part, so that less than all is said.

    Of a plain log's wait for the processor less is known: it may be sleep.
    """
    assert least <= amounts(loud(plain)).slope <= 1.1
    assert amounts(quiet(plain) + loud(plain)).error <= 0.06


def top_sources(plain: bool, noise: float = 0.0) -> list[str]:
    """The largest source of each query that lost something beside a hog."""
    found = []
    for run in loud(plain, noise):
        names = run.tables.queries["name"].tolist()
        if "hog" not in names:
            continue
        blame = blame_of(run)
        lost = blame.stages["lost_task_ms"].to_numpy()
        elapsed = blame.stages["lost_ms"].to_numpy()
        weight = np.divide(elapsed, lost, out=np.zeros(len(lost)), where=lost > 0)
        for target, cost in enumerate(run.cost):
            if names[target] != "hog" and cost > GUILTY:
                by_source = blamed(blame, run.tables, target, weight)
                found.append(names[max(by_source, key=lambda source: by_source[source])])
    return found


@pytest.mark.long
@pytest.mark.parametrize("plain", [False, True], ids=["measured", "plain"])
def test_beside_a_hog_most_victims_lost_most_to_it(plain: bool) -> None:
    top = top_sources(plain)
    assert len(top) > 12
    assert top.count("hog") / len(top) > 0.8
