"""Simulated clusters on which nothing is short, and loud twins of them on which something is.

Truth is what the others cost: the target's duration less the duration of the same query alone on
the same cluster. On the quiet clusters it is 0, whatever the own rates, the sizes of tasks and the
hosts are like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.demand_weights import QUERY, REST
from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from iqcar.replay.alone import blame_run
from iqcar.tables import Tables
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import costs_of_others, stage_weight
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

MB = 1e6
AMPLE = Cluster(cores=64, disk=4e6, network=4e6, slots=96)
"""Devices that the queries below never fill."""
NOISY = (Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH)
Plans = tuple[Cluster, list[QueryPlan]]


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated run, and what the others cost each query.

    ``cost`` is the share of the query's duration that it would not take alone.
    """

    family: str
    tables: Tables
    waits: pd.DataFrame
    cost: tuple[float, ...]


Build = Callable[[np.random.Generator], Plans]


def _like(
    names: Sequence[str],
    late: int,
    work: Callable[[np.random.Generator, int, np.ndarray], dict[str, Any]],
    rates: tuple[float, float] = (0.0, 0.0),
    cluster: Cluster = AMPLE,
) -> Build:
    """Queries of two like stages each, one after another, that come within so many ms.

    rates: the largest own rate, and how fast those of further queries fall (log).
    """

    def plans(rng: np.random.Generator) -> Plans:
        most, falls = rates
        drawn = most * np.exp(-falls * np.arange(5)) * rng.uniform(0.8, 1.2, 5) if most else None
        found = []
        for k, name in enumerate(names):
            stages = [
                StagePlan(_tasks(rng), **work(rng, k, drawn), parents=parents)
                for parents in ((), (0,))
            ]
            found.append(QueryPlan(name, tuple(stages), 0, float(rng.integers(0, late))))
        return cluster, found

    return plans


def _numbered(name: str, count: int = 5) -> list[str]:
    return [f"{name}-{k}" for k in range(count)]


def _tasks(rng: np.random.Generator) -> int:
    return int(rng.integers(8, 24))


FORMATS = ("orc", "parquet", "avro", "json", "csv")


def _mixed(rng: np.random.Generator) -> Plans:
    """A day: a dozen queries of all kinds, spread over time."""
    plans = []
    for k in range(12):
        work = {
            "read": rng.choice([0, 30, 150]) * MB, "read_rate": 10 ** rng.uniform(4.2, 5.2),
            "fetch": rng.choice([0, 10, 40]) * MB, "fetch_rate": 10 ** rng.uniform(4.0, 5.0),
            "write": rng.choice([0, 10]) * MB, "write_rate": 10 ** rng.uniform(4.5, 5.2),
            "cpu": rng.uniform(50, 1500), "sleep": rng.choice([0, 0, 1500]),
        }  # fmt: skip
        first, second = StagePlan(_tasks(rng), **work), StagePlan(_tasks(rng), **work, parents=(0,))
        plans.append(QueryPlan(f"job-{k}", (first, second), 0, float(rng.integers(0, 15000))))
    return AMPLE, plans


def _alone(rng: np.random.Generator) -> Plans:
    """One query after another, each of which fills the disk by itself."""
    plans = []
    for k in range(4):
        stage = StagePlan(16, read=100 * MB * rng.uniform(0.5, 1.5), cpu=200)
        plans.append(QueryPlan(f"wide-{k}", (stage, replace(stage, parents=(0,))), 0, 30_000.0 * k))
    return Cluster(slots=96), plans


def _itself(rng: np.random.Generator) -> Plans:
    """A wide query fills the disk while the others use something else."""
    wide = StagePlan(24, read=80 * MB, cpu=100)
    light = StagePlan(8, cpu=900, fetch=15 * MB, fetch_rate=3e4)
    plans = [QueryPlan("wide", (wide, replace(wide, parents=(0,))), 0, 0.0)]
    for k in range(3):
        at = float(rng.integers(0, 3000))
        plans.append(QueryPlan(f"light-{k}", (light, replace(light, parents=(0,))), 0, at))
    return Cluster(cores=64, network=2e6, slots=96), plans


QUIET: dict[str, Build] = {
    "formats": _like(FORMATS, 2000, lambda rng, k, rate: {
        "read": 120 * MB, "read_rate": rate[k], "cpu": rng.uniform(50, 400)}, (1.5e5, 0.6)),
    "fetches": _like(_numbered("join"), 2000, lambda rng, k, rate: {
        "fetch": 50 * MB, "fetch_rate": rate[k], "cpu": 300, "write": 5 * MB,
        "write_rate": 1e5}, (8e4, 0.5)),
    "page cache": _like(_numbered("scan"), 2500, lambda rng, k, _: {
        "read": 300 * MB, "cached": k % 2 == 0,
        "read_rate": rng.uniform(3e5, 2e6) if k % 2 == 0 else 1.2e5,
        "cpu": rng.uniform(300, 900)}),
    "skew": _like(_numbered("skewed", 4), 1500, lambda rng, k, _: {
        "read": 80 * MB, "read_rate": rng.uniform(5e4, 1.5e5), "cpu": 300, "fetch": 20 * MB,
        "fetch_rate": rng.uniform(2e4, 8e4), "spread": 0.9}),
    "garbage collection": _like(_numbered("collecting", 4), 1500, lambda rng, k, _: {
        "read": 60 * MB, "read_rate": rng.uniform(5e4, 1.5e5), "cpu": 400,
        "gc": rng.uniform(100, 900)}),
    "slow host": _like(_numbered("report"), 2000, lambda rng, k, _: {
        "read": 90 * MB, "read_rate": 1e5, "cpu": 200, "fetch": 20 * MB, "fetch_rate": 6e4},
        cluster=replace(AMPLE, slow_host=0.4)),
    "sleeping": _like(_numbered("service"), 2000, lambda rng, k, _: {
        "cpu": rng.uniform(100, 900), "sleep": rng.uniform(0, 4000), "read": 20 * MB,
        "read_rate": 8e4}),
    # Half of these compute in Python workers: in a plain log that looks like waiting.
    "python": _like(_numbered("udf"), 2000, lambda rng, k, _: {
        "cpu": 400, "sleep": 2500 if k % 2 else 0, "read": 10 * MB, "read_rate": 6e4}),
    "a day": _mixed,
    "one after another": _alone,
    "itself": _itself,
}  # fmt: skip


def _short_of(quiet: str, **cluster: Any) -> Build:
    """The same queries on a cluster that has less."""

    def loud(rng: np.random.Generator) -> Plans:
        ample, plans = QUIET[quiet](rng)
        return replace(ample, **cluster), plans

    return loud


def _with_hog(quiet: str, hog: StagePlan, **cluster: Any) -> Build:
    """The same queries beside one that takes most of what there is."""

    def loud(rng: np.random.Generator) -> Plans:
        ample, plans = QUIET[quiet](rng)
        stages = (hog, replace(hog, parents=(0,)))
        at = float(rng.integers(300, 1200))
        plans = [*plans, QueryPlan("hog", stages, 0, at)]
        return replace(ample, slots=96, **cluster), plans

    return loud


READER = StagePlan(36, read=300 * MB, cpu=50)
LOUD: dict[str, Build] = {
    "formats": _short_of("formats", disk=4e5),
    "formats, hog": _with_hog("formats", READER, disk=8e5),
    "fetches": _short_of("fetches", network=1.5e5),
    "fetches, hog": _with_hog("fetches", StagePlan(36, fetch=120 * MB, cpu=50), network=4e5),
    "page cache": _short_of("page cache", disk=2e5),
    "skew": _short_of("skew", disk=2.5e5),
    "skew, hog": _with_hog("skew", READER, disk=5e5),
    "garbage collection": _short_of("garbage collection", disk=2.5e5),
    "slow host": _short_of("slow host", disk=2.5e5),
    "sleeping": _with_hog("sleeping", StagePlan(36, cpu=3000), cores=8),
    "python": _with_hog("python", StagePlan(36, cpu=3000), cores=8),
    "a day": _short_of("a day", disk=3e5, network=2e5),
    "itself": _with_hog("itself", READER),
}


@cache
def run_of(family: str, seed: int, loud: bool = False, plain: bool = False) -> Run:
    """One run, as a log with the plugin's records or without says it."""
    run, cost = simulated(family, seed, loud)
    return Run(family, *run.emit(plain=plain), cost)


@cache
def simulated(family: str, seed: int, loud: bool) -> tuple[Simulation, tuple[float, ...]]:
    """Simulate one run, and each of its queries alone: what the others cost it."""
    families = LOUD if loud else QUIET
    cluster, plans = families[family](np.random.default_rng([seed, 7, len(family), loud]))
    run = Simulation(cluster, plans, seed)
    return run, costs_of_others(run)


def with_noise(run: Run, sigma: float, seed: int) -> Run:
    """The same run with log-normal noise on every wait for a disk or the network."""
    if sigma == 0:
        return run
    rng = np.random.default_rng([seed, 99])
    waits = run.waits.copy()
    for request in NOISY:
        column = wait_column(request)
        waits[column] = waits[column] * np.exp(sigma * rng.standard_normal(len(waits)))
    return replace(run, waits=waits)


def said(blame: Blame, tables: Tables) -> np.ndarray:
    """The share of each query's duration that it is said to have lost to other queries."""
    demands, sources = blame.demands, blame.sources
    demand = sources["demand"].to_numpy()
    others = np.isin(sources["kind"].to_numpy(), (QUERY, REST))
    stage = demands["stage"].to_numpy()[demand][others]
    query = demands["query"].to_numpy()[demand][others]
    lost_ms = sources["lost_ms"].to_numpy()[others] * stage_weight(blame)[stage]
    total = np.bincount(query, lost_ms, len(tables.queries))
    return total / tables.queries["duration_ms"].to_numpy()


@cache
def blame_of(run: Run) -> Blame:
    """Blame of one run."""
    return blame_run(run.tables, run.waits)[0]


@dataclass(frozen=True)
class Amounts:
    """How the amounts said compare with the truth, over all queries of some runs, in shares."""

    mean: float
    worst: float
    slope: float
    error: float


def amounts(runs: Iterable[Run], blame: Callable[[Run], Blame] = blame_of) -> Amounts:
    """Score what blame says each query lost against what the others cost it."""
    pairs = [(said(blame(run), run.tables), np.array(run.cost)) for run in runs]
    guess, truth = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return amounts_of(guess, truth)


def amounts_of(guess: np.ndarray, truth: np.ndarray) -> Amounts:
    """Score shares of queries' durations that are said against true ones."""
    if not len(guess):
        return Amounts(*[float("nan")] * 4)
    norm = float((truth * truth).sum())
    slope = float((truth * guess).sum()) / norm if norm > 1e-6 else float("nan")
    return Amounts(
        float(guess.mean()), float(guess.max()), slope, float(np.abs(guess - truth).mean())
    )
