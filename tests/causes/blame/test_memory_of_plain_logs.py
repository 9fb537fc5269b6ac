"""In plain logs of simulated clusters: who held execution memory, and that nobody did."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, MISSING, evidence_column, wait_column
from iqcar.tables.arrays import share_of
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import GUILTY, blamed, gain_of_removal, kendall_tau_b
from iqcar_lab.clusters.what_if_truth import GB, memory
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

SEEDS = range(1, 6)
WAIT, EVIDENCE = wait_column(Request.EXECUTION_MEMORY), evidence_column(Request.EXECUTION_MEMORY)


def plans(seed: int) -> tuple[Cluster, list[QueryPlan]]:
    """The holder and those who wait, beside a service and a sleeper that want little or nothing."""
    rng = np.random.default_rng([seed, 5])
    cluster, made = memory(rng)
    beside = []
    for name, wanted in (("service", 0.02 * GB), ("sleeper", 0.0)):
        work = StagePlan(9, cpu=200, sleep=rng.uniform(1000, 4000), memory=wanted)
        beside.append(QueryPlan(name, (work,), 0, float(rng.integers(0, 3000))))
    return replace(cluster, slots=16), made + beside


@cache
def simulated(seed: int, ample: bool = False) -> Simulation:
    cluster, made = plans(seed)
    return Simulation(replace(cluster, memory=60 * GB) if ample else cluster, made, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_waits_of_a_plain_log_are_about_those_that_the_simulator_knows(seed: int) -> None:
    run = simulated(seed)
    waits = replayable(run, plain=True)[1]
    true = np.array([task.spent.get(Request.EXECUTION_MEMORY, 0.0) for task in run.tasks])
    said = np.nan_to_num(waits[WAIT].to_numpy())
    assert np.abs(said - true).sum() < 0.05 * true.sum()
    assert set(waits[EVIDENCE]) == {MISSING, ESTIMATED}


@pytest.mark.parametrize("seed", SEEDS)
def test_where_memory_is_ample_nobody_waits_for_it(seed: int) -> None:
    waits = replayable(simulated(seed, ample=True), plain=True)[1]
    assert (waits[EVIDENCE] == MISSING).all()


def test_queries_lost_most_to_whom_removals_show_and_hardly_anything_to_innocents() -> None:
    taus, first, innocent = [], [], []
    for seed in SEEDS:
        cluster, made = plans(seed)
        tables, waits = replayable(simulated(seed), plain=True)
        blame = attribute(tables, waits)
        weight = share_of(
            blame.stages["lost_ms"].to_numpy(), blame.stages["lost_task_ms"].to_numpy()
        )
        for target, before in enumerate(simulated(seed).lasted().tolist()):
            gains = gain_of_removal(cluster, made, target, seed, before)
            lost = blamed(blame, tables, target, weight)
            true = np.array(list(gains.values()))
            said = np.array([lost[source] for source in gains]) / before
            if true.max() < GUILTY:
                continue
            taus.append(kendall_tau_b(np.round(true, 2), np.round(said, 2)))
            first.append(said.max() > 0 and np.argmax(said) == np.argmax(true))
            innocent.append(said[true < GUILTY].sum() / max(said.sum(), 1e-9))
    assert len(taus) >= 10
    assert np.mean(taus) > 0.6
    assert np.mean(first) > 0.9
    assert np.mean(innocent) < 0.1
