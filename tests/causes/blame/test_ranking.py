"""Culprits of loud clusters are ranked about as well as an oracle ranks them.

Most of them are alike, so that what can be had is far from a perfect ranking.
"""

from __future__ import annotations

import pytest

from iqcar_lab.clusters.quiet import LOUD, simulated
from iqcar_lab.clusters.scores import RANKED, Target, luck_of, oracle, ranking, targets_of

pytestmark = pytest.mark.slow

SEEDS = (101,)
FAMILIES = tuple(family for family in LOUD if family != "a day")
"""A day has twelve queries to remove from each other's way: half a minute a seed."""


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    return [target for family in FAMILIES for s in SEEDS for target in targets_of(family, s)]


def test_the_oracle_says_nothing_where_nothing_is_short() -> None:
    for family in ("formats", "slow host", "page cache"):
        run, _ = simulated(family, 101, False)
        durations = [run.ended[q] - plan.submit for q, plan in enumerate(run.plans)]
        assert (oracle(run).sum(axis=1) < 1e-6 * min(durations)).all()


def test_blame_ranks_culprits_about_as_well_as_the_oracle(targets: list[Target]) -> None:
    luck = luck_of(targets)
    said, best = (ranking(targets, RANKED[name], luck) for name in ("said", "oracle"))
    assert said.tau > best.tau - 0.04
    assert said.top > best.top - 0.04
    assert said.false_blame < best.false_blame + 0.02


def test_whom_luck_does_not_decide_is_ranked_rightly(targets: list[Target]) -> None:
    said = ranking(targets, RANKED["said"], luck_of(targets))
    assert said.clear_tau > 0.92
    assert said.clear_top > 0.92


@pytest.mark.parametrize("family", ["formats", "page cache"])
def test_who_is_slow_or_reads_from_memory_takes_less_of_a_disk(family: str) -> None:
    """Its time in reading is as long, or longer, but others get what it leaves."""
    some = [target for seed in SEEDS for target in targets_of(family, seed)]
    assert ranking(some, RANKED["said"], luck_of(some)).clear_tau > 0.9
