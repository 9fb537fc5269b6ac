"""Own rates, capacities and what was short are found by replays of simulated runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.blame.attribute import measure_demand
from iqcar.replay.alone import blame_run
from iqcar.replay.loop.fit_demands import fit_demands
from iqcar.replay.loop.task_demands import ASSUMED, DISK, READ, TaskDemands, task_demands
from iqcar_lab.clusters.quiet import MB, Run, said, with_noise
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

DISK_RATE = 3e5
RATES = (1.5e5, 6e4, 2.5e4)
"""Own rates of three formats, bytes per ms."""


def run_of(cluster: Cluster, plans: list[QueryPlan], seed: int = 1) -> Run:
    """A plain log of a run, and what the others cost each query."""
    run = Simulation(cluster, plans, seed)
    cost = []
    for q, plan in enumerate(plans):
        alone = Simulation(cluster, [replace(plan, submit=0.0)], seed).ended[0]
        cost.append(1.0 - alone / (run.ended[q] - plan.submit))
    return Run("", *replayable(run, plain=True), tuple(cost))


def readers(cluster: Cluster) -> Run:
    """Three formats read at once."""
    plans = []
    for k, rate in enumerate(RATES):
        stage = StagePlan(18, read=90 * MB, read_rate=rate, cpu=150)
        two = (stage, replace(stage, parents=(0,)))
        plans.append(QueryPlan(f"format-{k}", two, 0, 300.0 * k))
    return run_of(cluster, plans)


def fitted(run: Run) -> TaskDemands:
    demand = measure_demand(run.tables, run.waits)
    needs = task_demands(run.tables, run.waits, demand)
    return fit_demands(run.tables, needs, demand).check


@pytest.mark.parametrize("way", [{}, {"rounds": 1}])
def test_own_rates_and_the_capacity_of_a_short_disk_are_found(way: dict[str, int]) -> None:
    run = readers(Cluster(cores=64, disk=DISK_RATE, slots=96, **way))
    found = fitted(run)
    assert found.capacity[:, DISK] == pytest.approx(DISK_RATE, rel=0.05)
    assert found.way.rounds == way.get("rounds", 4)
    query = run.tables.tasks["query"].to_numpy()
    for k, rate in list(enumerate(RATES))[1:]:
        use = found.use[(query == k) & (found.use[:, READ] > 0), READ]
        assert np.median(use) == pytest.approx(rate, rel=0.1)


def test_nothing_is_short_where_the_same_work_has_an_ample_disk() -> None:
    run = readers(Cluster(cores=64, disk=1e8, slots=96))
    assert (fitted(run).evidence[:, DISK] == ASSUMED).all()
    for noise in (0.0, 0.3):
        noisy = with_noise(run, noise, 3)
        blame, _ = blame_run(noisy.tables, noisy.waits)
        assert said(blame, noisy.tables).max() < 0.01


def test_a_writer_from_first_to_last_is_found_by_readers_of_the_same_disk() -> None:
    write = StagePlan(40, write=150 * MB, cpu=50)
    writer = tuple(replace(write, parents=(k - 1,) if k else ()) for k in range(4))
    read = StagePlan(9, read=80 * MB, cpu=200)
    beside = [QueryPlan(f"reader-{k}", (read,), 0, 500.0 + 2500.0 * k) for k in range(3)]
    plans = [QueryPlan("writer", writer, 1), *beside]
    run = run_of(Cluster(slots=16, apps=2, disk=DISK_RATE), plans)
    blame, _ = blame_run(run.tables, run.waits)
    assert min(run.cost[1:]) > 0.3
    assert said(blame, run.tables) == pytest.approx(np.array(run.cost), abs=0.12)
    assert blame.cost is not None
    duration = run.tables.queries["duration_ms"].to_numpy()
    low, high = blame.cost.low_ms / duration, blame.cost.high_ms / duration
    held = (low - 0.02 <= run.cost) & (run.cost <= high + 0.02)
    assert held.mean() > 0.5


def test_the_order_of_tasks_and_the_names_of_hosts_say_nothing() -> None:
    run = readers(Cluster(cores=64, disk=DISK_RATE, slots=96))
    order = np.random.default_rng(4).permutation(len(run.tables.tasks))
    tables = run.tables.with_(
        tasks=run.tables.tasks.iloc[order].reset_index(drop=True),
        hosts=run.tables.hosts.assign(host=[f"other-{k}" for k in range(len(run.tables.hosts))]),
    )
    waits = run.waits.iloc[order].reset_index(drop=True)
    before, _ = blame_run(run.tables, run.waits)
    after, _ = blame_run(tables, waits)
    assert said(after, tables) == pytest.approx(said(before, run.tables), abs=0.01)
