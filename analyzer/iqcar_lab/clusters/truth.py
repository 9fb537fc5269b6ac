"""Scores formulas of blame against the truth of the cluster simulator.

Every scenario has one target, one or two culprits for one resource, and bystanders that overlap
the target but use something else, or nothing. Truth is the gain of the target when a query is
removed; a formula predicts with the time it says the target lost to that query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import QUERY
from iqcar.tables import Tables
from iqcar.tables.arrays import share_of
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import ROUNDS, Cluster, QueryPlan, StagePlan
from iqcar_lab.printed.iqcar import printed_shares

GUILTY = 0.02
"""Gain of removal below which a query did nothing to the target."""
NOTICEABLE = 0.005
"""Shares of the target's duration below this are ties, in truth and in predictions."""
MB = 1e6
PROFILE_MS = 250.0
"""Width of the profiles' intervals: the default of the plugin."""


@dataclass(frozen=True, eq=False)
class Case:
    """One simulated run, its target, and what removing each other query gains."""

    family: str
    tables: Tables
    waits: pd.DataFrame
    target: int
    gains: dict[int, float]
    profiled: Tables | None = None
    """The same tables with a profile of every task."""


def chain_of(stage: StagePlan, times: int = 1) -> tuple[StagePlan, ...]:
    """Like stages one after another."""
    return tuple(replace(stage, parents=(k - 1,) if k else ()) for k in range(times))


def _target(rng: np.random.Generator, app: int = 0) -> QueryPlan:
    """Reads, shuffles, computes, in two branches that join."""
    n = int(rng.integers(10, 18))
    return QueryPlan(
        "target",
        (
            StagePlan(n, read=60 * MB, cpu=500, write=10 * MB),
            StagePlan(n // 2, read=20 * MB, cpu=600, write=10 * MB),
            StagePlan(n, fetch=40 * MB, cpu=500, write=5 * MB, parents=(0, 1)),
            StagePlan(n // 2, fetch=20 * MB, cpu=300, parents=(2,)),
        ),
        app,
        float(rng.integers(500, 2500)),
    )


def _query(rng: np.random.Generator, name: str, work: dict[str, Any], app: int) -> QueryPlan:
    n, size = int(rng.integers(8, 16)), rng.uniform(0.7, 1.3)
    stage = StagePlan(n, **{k: v * size if k != "cached" else v for k, v in work.items()})
    return QueryPlan(name, chain_of(stage, 2), app, float(rng.integers(0, 3000)))


HEAVY: dict[str, dict[str, float]] = {
    "reader": {"read": 250 * MB, "cpu": 300},
    "writer": {"write": 250 * MB, "cpu": 300},
    "fetcher": {"fetch": 160 * MB, "cpu": 300},
    "computer": {"cpu": 3500, "read": 4 * MB},
}
IDLE: dict[str, dict[str, float]] = {
    "sleeper": {"sleep": 5000, "cpu": 50},
    "light": {"read": 8 * MB, "cpu": 150, "sleep": 1500},
    "cached": {"read": 400 * MB, "cpu": 120, "sleep": 2000, "cached": True},
}


def _crowd(rng: np.random.Generator, culprits: list[str], apps: int = 1) -> list[QueryPlan]:
    plans = [_target(rng)]
    for k, name in enumerate(culprits):
        plans.append(_query(rng, f"{name}-{k}", HEAVY[name], k % apps))
    for k, name in enumerate(IDLE):
        plans.append(_query(rng, name, IDLE[name], (k + 1) % apps))
    return plans


def _slots(rng: np.random.Generator, fair: bool) -> tuple[Cluster, list[QueryPlan]]:
    """Few slots, wide hosts: who holds slots is in the way, whatever its tasks do."""
    cluster = Cluster(cores=12, disk=1e6, network=1e6, slots=5, fair=fair)
    hog = StagePlan(36, sleep=rng.uniform(1500, 2500), cpu=50)
    some = StagePlan(8, cpu=400)
    plans = [
        _target(rng),
        QueryPlan("hog", chain_of(hog), 0, float(rng.integers(0, 400))),
        QueryPlan("some", chain_of(some, 2), 0, float(rng.integers(0, 2000))),
        QueryPlan("early", chain_of(some), 0, 0.0),
        QueryPlan("late", chain_of(hog), 0, 9000.0),
    ]
    return cluster, plans


def _uneven(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """A long narrow branch that decides, and a wide short one that does not."""
    _, *others = _crowd(rng, ["reader", "fetcher"])
    target = QueryPlan(
        "target",
        (
            StagePlan(3, read=900 * MB * rng.uniform(0.8, 1.2), cpu=300),
            StagePlan(24, fetch=12 * MB, cpu=100),
            StagePlan(6, fetch=5 * MB, cpu=200, parents=(0, 1)),
        ),
        0,
        float(rng.integers(500, 2500)),
    )
    return Cluster(slots=32), [target, *others]


FAMILIES: dict[str, Callable[[np.random.Generator], tuple[Cluster, list[QueryPlan]]]] = {
    "disk, reader": lambda rng: (Cluster(slots=32), _crowd(rng, ["reader"])),
    "disk, writer": lambda rng: (Cluster(slots=32), _crowd(rng, ["writer"])),
    "network": lambda rng: (Cluster(slots=32), _crowd(rng, ["fetcher"])),
    "processor": lambda rng: (Cluster(slots=32), _crowd(rng, ["computer"])),
    "two culprits": lambda rng: (Cluster(slots=32), _crowd(rng, ["reader", "computer"])),
    "two applications": lambda rng: (
        Cluster(slots=16, apps=2),
        _crowd(rng, ["fetcher", "writer"], apps=2),
    ),
    "uneven branches": _uneven,
    "slots, fifo": lambda rng: _slots(rng, fair=False),
    "slots, fair": lambda rng: _slots(rng, fair=True),
}


def case(family: str, seed: int, rounds: int = ROUNDS) -> Case:
    """One scenario; simulated once, however it is asked for."""
    return _simulated(family, seed, rounds)


@cache
def _simulated(family: str, seed: int, rounds: int) -> Case:
    """Simulate one scenario, and again without each of its queries."""
    cluster, plans = FAMILIES[family](np.random.default_rng([seed, len(family)]))
    cluster = replace(cluster, rounds=rounds)
    run = Simulation(cluster, plans, seed)
    before = run.ended[0] - plans[0].submit
    gains = gain_of_removal(cluster, plans, 0, seed, before)
    return Case(family, *run.emit(), 0, gains, run.emit(PROFILE_MS)[0])


# --- predictions: target's time lost to each other query


def gain_of_removal(
    cluster: Cluster, plans: Sequence[QueryPlan], target: int, seed: int, before: float
) -> dict[int, float]:
    """For each other query: the share of the target's duration that removing it gains."""
    gains = {}
    for source in range(len(plans)):
        if source == target:
            continue
        rest = tuple(plan for q, plan in enumerate(plans) if q != source)
        at = rest.index(plans[target])
        after = _ended(cluster, rest, seed)[at] - plans[target].submit
        gains[source] = (before - after) / before
    return gains


def gains_of_removals(run: Simulation) -> list[dict[int, float]]:
    """For each query as target: what removing each other one gains."""
    return [
        gain_of_removal(run.cluster, run.plans, q, run.seed, end - plan.submit)
        for q, (plan, end) in enumerate(zip(run.plans, run.ended, strict=True))
    ]


def costs_of_others(run: Simulation) -> tuple[float, ...]:
    """For each query: the share of its duration that it would not take alone."""
    found = []
    for plan, end in zip(run.plans, run.ended, strict=True):
        alone = _ended(run.cluster, (plan,), run.seed)[0] - plan.submit
        found.append(1.0 - alone / (end - plan.submit))
    return tuple(found)


def lost_to_each(blame: Blame, tables: Tables) -> np.ndarray:
    """Elapsed ms that each query (row) lost to each other (column)."""
    n = len(tables.queries)
    found = [blamed(blame, tables, query, stage_weight(blame)) for query in range(n)]
    return np.array([[lost[source] for source in range(n)] for lost in found])


def stage_weight(blame: Blame) -> np.ndarray:
    """Elapsed ms that each stage lost per ms of task time lost."""
    lost, of_tasks = (blame.stages[name].to_numpy() for name in ("lost_ms", "lost_task_ms"))
    return share_of(lost, of_tasks)


@cache
def _ended(cluster: Cluster, plans: tuple[QueryPlan, ...], seed: int) -> list[float]:
    """When each query ended; of one run that many targets are without the same query."""
    return Simulation(cluster, plans, seed).ended


def blamed(blame: Blame, tables: Tables, target: int, weight: np.ndarray) -> dict[int, float]:
    """Time lost to each query; ``weight``: elapsed ms of each stage per ms of task time lost."""
    demands, sources = blame.demands, blame.sources
    demand = sources["demand"].to_numpy()
    stage = demands["stage"].to_numpy()[demand]
    mine = (sources["kind"].to_numpy() == QUERY) & (demands["query"].to_numpy()[demand] == target)
    query = tables.stages["query"].to_numpy()[sources["source_stage"].to_numpy()[mine]]
    lost = (sources["lost_ms"].to_numpy() * weight[stage])[mine]
    return dict(enumerate(np.bincount(query, lost, len(tables.queries))))


@cache
def blame_of(case: Case, profiled: bool = False) -> Blame:
    """Blame of one case, with the profiles of all tasks (eq. 5) or without."""
    tables = case.profiled if profiled else case.tables
    assert tables is not None
    return attribute(tables, case.waits)


def predicted(case: Case, *, elapsed: bool, profiled: bool = False) -> dict[int, float]:
    """Time lost to each query, in elapsed time, or in task time scaled to the same sum."""
    blame = blame_of(case, profiled)
    weight = stage_weight(blame)
    found = blamed(blame, case.tables, case.target, weight)
    if elapsed:
        return found
    by_task = blamed(blame, case.tables, case.target, np.ones(len(weight)))
    scale = sum(found.values()) / max(sum(by_task.values()), 1e-9)
    return {query: value * scale for query, value in by_task.items()}


def ours(case: Case) -> dict[int, float]:
    """Our formula."""
    return predicted(case, elapsed=True)


def as_printed(case: Case) -> dict[int, float]:
    """The paper's method: DOR, a share, of the target's duration."""
    shares = printed_shares(case.tables, case.waits, [case.target])[case.target]
    return dict(enumerate(shares * case.tables.queries["duration_ms"].to_numpy()[case.target]))


def by_interval(case: Case) -> dict[int, float]:
    """Our formula with the profiles of all tasks."""
    return predicted(case, elapsed=True, profiled=True)


def simple_overlap(case: Case) -> dict[int, float]:
    """The paper's baseline (§7.4): time that tasks overlap the target's on the same host."""
    tasks = case.tables.tasks
    host, query = tasks["host"].to_numpy(), tasks["query"].to_numpy()
    launch, finish = tasks["launch_ms"].to_numpy(), tasks["finish_ms"].to_numpy()
    mine = query == case.target
    overlap = np.minimum(finish[mine][:, None], finish) - np.maximum(launch[mine][:, None], launch)
    overlap = np.where(host[mine][:, None] == host, np.maximum(overlap, 0.0), 0.0).sum(axis=0)
    return {q: float(overlap[query == q].sum()) for q in case.gains}


# --- scores


@dataclass(frozen=True)
class Score:
    """How well predictions rank, name and spare queries, over many cases."""

    tau: float
    top: float
    false_blame: float
    pairs: int


def score(cases: Iterable[Case], predict: Callable[[Case], dict[int, float]]) -> Score:
    """Mean Kendall τ-b, share of right top culprits, blame put on those who did nothing."""
    taus, tops, false, pairs = [], [], [], 0
    for one in cases:
        given = predict(one)
        sources = sorted(one.gains)
        duration = one.tables.queries["duration_ms"].to_numpy()[one.target]
        truth = np.array([one.gains[s] for s in sources])
        blame = np.array([given[s] for s in sources])
        guess = blame / duration
        pairs += len(sources)
        if truth.max() < GUILTY:
            continue
        tops.append(float(np.argmax(truth) == np.argmax(guess)))
        false.append(guess[truth < GUILTY].sum() / max(guess.sum(), 1e-9))
        truth, guess = (np.where(v < NOTICEABLE, 0.0, v) for v in (truth, guess))
        taus.append(kendall_tau_b(truth, guess))
    return Score(float(np.mean(taus)), float(np.mean(tops)), float(np.mean(false)), pairs)


def kendall_tau_b(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation that counts ties (0 where one side is all ties)."""
    upper = np.triu_indices(len(x), 1)
    a = np.sign(x[:, None] - x)[upper]
    b = np.sign(y[:, None] - y)[upper]
    norm = np.sqrt((a != 0).sum() * (b != 0).sum())
    return float((a * b).sum() / norm) if norm else 0.0


FORMULAS: dict[str, Callable[[Case], dict[int, float]]] = {
    "simple overlap": simple_overlap,
    "ours": ours,
    "as printed": as_printed,
    "ours, by interval": by_interval,
}
