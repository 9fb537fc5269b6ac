"""Waits for slots that own tasks held longer are blamed on those who made them so long."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame import blame_sources
from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.blame_sources import SourceEntries, hand_over, held_longer
from iqcar.causes.blame.demand_weights import OWN, QUERY
from iqcar.enums import REQUESTS, Request
from iqcar.replay.alone import blame_run
from iqcar.tables import Tables
from iqcar_lab.clusters.quiet import said
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import costs_of_others
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from tests.support.examples import examples

MB = 1e6
SEEDS = st.integers(0, 2**32)


@cache
def beside_foreigners(kind: str, foreigners: int, seed: int) -> tuple[Blame, Tables, np.ndarray]:
    """A query queues for its own two slots, while other applications use its disks."""
    cluster = Cluster(hosts=2, cores=32, disk=1e5, slots=1, apps=1 + foreigners)
    foreign = StagePlan(24, **{kind: 40 * MB, f"{kind}_rate": 8e4})
    narrow = StagePlan(24, read=40 * MB, cpu=100.0, read_rate=8e4)
    plans = [QueryPlan("narrow", (narrow,), 0, 0.0)]
    plans += [QueryPlan(f"foreign {k}", (foreign,), 1 + k, 1500.0) for k in range(foreigners)]
    run = Simulation(cluster, plans, seed)
    tables, waits = replayable(run)
    return blame_run(tables, waits)[0], tables, np.array(costs_of_others(run))


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("foreigners", [1, 3])
def test_a_query_that_queues_for_slots_lost_to_another_application_what_replays_say(
    kind: str, foreigners: int
) -> None:
    blame, tables, true = beside_foreigners(kind, foreigners, 5)
    assert blame.cost is not None
    lasted = tables.queries["duration_ms"].to_numpy()
    np.testing.assert_allclose(said(blame, tables), blame.cost.lost_ms / lasted, atol=0.01)
    np.testing.assert_allclose(said(blame, tables)[0], true[0], atol=0.05)
    assert true[0] > 0.1


@pytest.mark.parametrize("kind", ["read", "write"])
def test_the_disk_is_what_they_took_and_no_slot(kind: str) -> None:
    blame, _, _ = beside_foreigners(kind, 3, 5)
    at = blame.sources["demand"].to_numpy()
    others = (blame.sources["kind"] == QUERY).to_numpy()
    request = blame.demands["request"].to_numpy()[at[others]]
    lost = np.bincount(request, blame.sources["lost_ms"][others], len(REQUESTS))
    assert lost[REQUESTS.index(Request.SLOT_WAIT)] == 0
    assert lost.argmax() in (REQUESTS.index(Request.IO_READ), REQUESTS.index(Request.IO_WRITE))


def random_entries(rng: np.random.Generator, demands: np.ndarray, n: int) -> SourceEntries:
    """Entries of some demands, none among them; an entry per demand, kind and source at most."""
    demand = np.sort(rng.choice(demands, n)) if len(demands) else np.zeros(0, np.int64)
    lost = np.where(rng.random(len(demand)) < 0.2, 0.0, rng.exponential(100.0, len(demand)))
    return SourceEntries(
        demand=demand, kind=rng.choice([OWN, QUERY], len(demand)),
        stage=rng.integers(0, 5, len(demand)), beta=rng.exponential(1.0, len(demand)), lost=lost,
        idle=np.zeros(len(demand)), beyond=np.zeros(len(demand)),
    )  # fmt: skip


def random_case(seed: int) -> tuple[SourceEntries, list[SourceEntries], np.ndarray, np.ndarray]:
    """Entries of slots and of two devices, whether demands take, and the demands' stages."""
    rng = np.random.default_rng([seed, 12])
    stages = int(rng.integers(1, 4))
    stage = np.tile(np.arange(stages), 3)
    slots, *devices = (
        random_entries(rng, np.arange(k * stages, (k + 1) * stages), int(rng.integers(0, 9)))
        for k in range(3)
    )
    own, group = slots.kind == OWN, slots.demand
    to_others = np.where(rng.random(stages) < 0.2, np.nan, rng.exponential(200.0, stages))
    lost = blame_sources._divided(group, own, slots.lost, to_others)
    beyond = held_longer(group, own, slots.lost, lost, to_others)
    takes = rng.random(len(stage)) < 0.8
    return slots._replace(lost=lost, beyond=beyond), devices, takes, stage


@examples(200)
@given(SEEDS)
def test_what_is_handed_over_is_taken_by_the_same_stage_and_by_others_only(seed: int) -> None:
    slots, devices, takes, stage = random_case(seed)
    kept, more, moved = hand_over(slots, devices, takes, stage)
    n = int(stage.max()) + 1
    np.testing.assert_allclose(np.bincount(stage, moved, n), 0.0, atol=1e-9)
    assert (kept.lost >= -1e-9).all()
    assert (kept.lost <= slots.lost + 1e-9).all()
    total = np.zeros(len(stage))
    for before, after in zip(devices, more, strict=True):
        total += np.bincount(before.demand, after.lost - before.lost, len(stage))
        changed = after.lost > before.lost
        assert (after.lost >= before.lost).all()
        assert (before.kind[changed] == QUERY).all()
        assert takes[before.demand[changed]].all()
        np.testing.assert_array_equal(after.beta, before.beta)
    np.testing.assert_allclose(np.maximum(moved, 0.0), total, atol=1e-9)


@examples(200)
@given(SEEDS)
def test_where_nobody_takes_it_others_keep_it_and_own_waits_are_nobodys(seed: int) -> None:
    slots, devices, takes, stage = random_case(seed)
    kept, more, moved = hand_over(slots, devices, np.zeros_like(takes), stage)
    np.testing.assert_array_equal(moved, 0.0)
    for before, after in zip(devices, more, strict=True):
        np.testing.assert_array_equal(after.lost, before.lost)
    own = slots.kind == OWN
    np.testing.assert_array_equal(kept.lost[~own], slots.lost[~own])
    np.testing.assert_allclose(kept.lost[own], (slots.lost - slots.beyond)[own], atol=1e-9)


def test_only_what_others_cost_beyond_what_they_held_was_held_longer() -> None:
    """Target 0: others held 30 and cost 50; 1: they held 30 and cost 20; 2: they held nothing."""
    group = np.array([0, 0, 1, 1, 2, 3])
    own = np.array([True, False, True, False, True, True])
    held = np.array([70.0, 30.0, 70.0, 30.0, 100.0, 100.0])
    lost = np.array([50.0, 50.0, 80.0, 20.0, 100.0, 100.0])
    beyond = held_longer(group, own, held, lost, np.array([50.0, 20.0, 60.0, np.nan]))
    np.testing.assert_allclose(beyond, [0.0, 20.0, 0.0, 0.0, 60.0, 0.0])
