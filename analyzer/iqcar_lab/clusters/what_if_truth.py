"""Simulated runs to ask about, questions of every kind, and scores of their answers."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from iqcar.causes.blame.attribute import attribute
from iqcar.replay.loop.event_loop import run as run_loop
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import scenario_shares
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.scenario import Scenario
from iqcar.replay.whatif.what_if import answer
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import (
    FAMILIES,
    GUILTY,
    HEAVY,
    IDLE,
    NOTICEABLE,
    _query,
    kendall_tau_b,
    lost_to_each,
)
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan, drawn_scales

T = TypeVar("T")
GB = 1e9
LATER_MS = 3000.0
MOST = 4
"""Tasks under a cap: queries have 8 to 16 in a stage."""
WEIGHT = 3
PARTITIONS = 24
POOLS = (("adhoc", 1.0, True), ("etl", 1.0, True), ("reports", 2.0, True))
BETWEEN_MS = 200.0
"""Longest time from the end of a query to the start of the next of its session."""


@dataclass(frozen=True)
class Asked:
    """A question, and what is simulated to answer it.

    ``gone`` is the query that is not there. ``needs`` another one of a query's name.
    """

    kind: str
    question: Question
    cluster: Cluster
    plans: list[QueryPlan]
    gone: int | None = None


def mixed(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """12 to 20 queries of all kinds at once, on two devices and few slots that are short."""
    plans = _any_queries(rng, int(rng.integers(12, 21)))
    return Cluster(slots=16, fair=bool(rng.random() < 0.5)), plans


def busy_day(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """12 to 18 queries over half a minute, in three FAIR pools that they share."""
    plans = []
    for plan in _any_queries(rng, int(rng.integers(12, 19))):
        at, pool = float(rng.integers(0, 15_000)), POOLS[int(rng.integers(len(POOLS)))][0]
        plans.append(replace(plan, submit=at, pool=pool))
    return Cluster(slots=8, pools=POOLS), plans


def sessions(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """Three sessions, each with four queries one after another."""
    plans = _any_queries(rng, 12)
    for k in range(3, 12):
        between = float(rng.uniform(0.2, 1.0)) * BETWEEN_MS
        plans[k] = replace(plans[k], after=plans[k - 3].name, submit=between)
    pools = tuple((f"session-{k}", 1.0, False) for k in range(3))
    plans = [replace(plan, pool=pools[k % 3][0]) for k, plan in enumerate(plans)]
    return Cluster(slots=12, pools=pools), plans


def uneven_and_collected(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """Two culprits; tasks differ much in size, and garbage is collected for part of their time."""
    cluster, plans = FAMILIES["two culprits"](rng)

    def worse(_: int, stage: StagePlan) -> StagePlan:
        return replace(stage, spread=0.8, gc=0.4 * stage.cpu + 200.0)

    return cluster, [plan.with_stages(worse) for plan in plans]


def memory(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """Few tasks fill execution memory, and hold it while they sleep; others wait to sort."""
    sort = StagePlan(12, read=20e6, cpu=400, memory=rng.uniform(0.6, 1.2) * GB)
    hold = StagePlan(6, cpu=200, sleep=rng.uniform(3000, 6000), memory=3 * GB)
    plans = [
        QueryPlan("target", (sort, replace(sort, parents=(0,))), 0, 1500.0),
        QueryPlan("holder", (hold,), 0, float(rng.integers(0, 1000))),
        QueryPlan("sorter", (sort, replace(sort, parents=(0,))), 0, float(rng.integers(0, 3000))),
        QueryPlan("light", (StagePlan(12, read=30e6, cpu=300),), 0, float(rng.integers(0, 3000))),
    ]
    return Cluster(cores=12, disk=1e6, slots=12, memory=4 * GB), plans


def two_tenants(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """Two applications with few slots each, whose queries come within a few seconds."""
    plans = [replace(plan, app=k % 2) for k, plan in enumerate(_any_queries(rng, 12))]
    return Cluster(slots=5, apps=2, fair=bool(rng.random() < 0.5)), plans


def _any_queries(rng: np.random.Generator, count: int) -> list[QueryPlan]:
    work = list((HEAVY | IDLE).items())
    return [
        _query(rng, f"{name}-{k}", needs, 0)
        for k in range(count)
        for name, needs in [work[int(rng.integers(len(work)))]]
    ]


SCENARIOS = {
    **FAMILIES,
    "uneven, collected": uneven_and_collected,
    "mixed": mixed,
    "busy day": busy_day,
    "sessions": sessions,
    "two tenants": two_tenants,
    "memory": memory,
}


def questions(cluster: Cluster, plans: list[QueryPlan], seed: int) -> Iterator[Asked]:
    """Questions of every kind about one run.

    The first query is the target of most families, the second the culprit.
    """
    for gone in range(len(plans)):
        asked = Question(remove=(str(gone),))
        yield Asked("remove", asked, cluster, without(plans, gone), gone)
    last = len(plans) - 1
    later = Question(start={str(last): LATER_MS})
    yield Asked("start", later, cluster, _starts_later(plans, last, cluster, seed))
    for kind, drawn in (("scale", seed), ("scale, sizes drawn anew", None)):
        for query in (last, 1):
            twice = _with(plans, query, more_data(plans[query], 2, drawn))
            yield Asked(kind, Question(scale={str(query): 2.0}), cluster, twice)
    capped = replace(plans[1], cap=MOST)
    yield Asked("cap", Question(cap={"1": MOST}), cluster, _with(plans, 1, capped))
    own = replace(plans[0], weight=float(WEIGHT), pool="")
    modes = tuple(cluster.fair or app == plans[0].app for app in range(cluster.apps))
    fair = replace(cluster, fair_apps=modes)
    yield Asked("pool", Question(pool={"0": WEIGHT}), fair, _with(plans, 0, own))
    parts = _repartitioned(plans[0], seed)
    asked = Question(partitions={"0": PARTITIONS})
    yield Asked("partitions", asked, cluster, _with(plans, 0, parts))
    even = plans[0].with_stages(lambda k, stage: _evenly(plans[0], k, stage, seed))
    yield Asked("no skew", Question(no_skew=("0",)), cluster, _with(plans, 0, even))
    if any(stage.gc for plan in plans for stage in plan.stages):
        clean = [p.with_stages(lambda _, stage: replace(stage, gc=0.0)) for p in plans]
        yield Asked("no gc", Question(no_gc=True), cluster, clean)
    yield from _other_pools(cluster, plans)
    if cluster.apps > 1:
        yield from _one_application(cluster, plans)
    yield from _other_clusters(cluster, plans)


def more_data(plan: QueryPlan, factor: int, seed: int | None) -> QueryPlan:
    """More scan tasks; larger tasks where the number is fixed.

    seed: Of the run whose sizes the further tasks have, too; None: they are drawn anew.
    """

    def change(k: int, stage: StagePlan) -> StagePlan:
        if not stage.read or stage.fetch:
            return stage.scaled(float(factor))
        scales = () if seed is None else tuple(np.tile(drawn_scales(seed, plan, k), factor))
        return replace(stage, tasks=factor * stage.tasks, scales=scales)

    return plan.with_stages(change)


def _other_pools(cluster: Cluster, plans: list[QueryPlan]) -> Iterator[Asked]:
    """Pools that there are, with another weight or minShare."""
    if not (cluster.pools and cluster.fair):
        return
    name = plans[0].pool
    heavier = tuple((p, 4.0 if p == name else w, fair) for p, w, fair in cluster.pools)
    asked = Question(pool_weight={name: 4})
    yield Asked("pool weight", asked, replace(cluster, pools=heavier), plans)
    least = cluster.slots * cluster.hosts // 2
    asked = Question(pool_min_share={name: least})
    yield Asked("pool minShare", asked, replace(cluster, min_shares=((name, least),)), plans)


def _one_application(cluster: Cluster, plans: list[QueryPlan]) -> Iterator[Asked]:
    """Slots, executors and mode of the second of several applications."""
    app, name = 1, "app-1"
    every = [cluster.slots_of(each) for each in range(cluster.apps)]

    def with_places(places: list[int]) -> Cluster:
        return replace(cluster, places=tuple(map(tuple, _with(every, app, places))))

    half = [slots // 2 for slots in every[app]]
    asked = Question(slots_in_all_of={name: sum(half)})
    yield Asked("slots of one", asked, with_places(half), plans)
    more = [slots + 4 for slots in every[app]]
    asked = Question(slots_of={name: 4 * cluster.hosts})
    yield Asked("slots of one", asked, with_places(more), plans)
    fewer = [*every[app][:-1], 0]
    asked = Question(executors_of={name: cluster.hosts - 1})
    yield Asked("executors of one", asked, with_places(fewer), plans)
    modes = tuple(cluster.fair != (each == app) for each in range(cluster.apps))
    asked = Question(mode_of={name: "FIFO" if cluster.fair else "FAIR"})
    yield Asked("mode of one", asked, replace(cluster, fair_apps=modes), plans)


def _other_clusters(cluster: Cluster, plans: list[QueryPlan]) -> Iterator[Asked]:
    twice = {
        "disk": Question(disk=2.0),
        "network": Question(network=2.0),
        "cores": Question(cpu=2.0),
    }
    for name, question in twice.items():
        yield Asked(name, question, replace(cluster, **{name: 2 * getattr(cluster, name)}), plans)
    half = cluster.cores / 2
    yield Asked("host cores", Question(host_cores=half), replace(cluster, cores=half), plans)
    slots = cluster.slots // 2
    in_all = slots * cluster.hosts * cluster.apps
    yield Asked("slots", Question(slots_in_all=in_all), replace(cluster, slots=slots), plans)
    mode = "FIFO" if cluster.fair else "FAIR"
    yield Asked("mode", Question(mode=mode), replace(cluster, fair=not cluster.fair), plans)
    more = replace(cluster, hosts=cluster.hosts + 1)
    yield Asked("hosts", Question(hosts=1), more, plans)
    gone = cluster.hosts - 1
    fewer = replace(cluster, lost=gone)
    yield Asked("host loss", Question(host_loss=(f"host-{gone}",)), fewer, plans)
    count = cluster.apps * gone
    yield Asked("executors", Question(executors=count), fewer, plans)


def _with(parts: Sequence[T], at: int, one: T) -> list[T]:
    """Put another one in a place."""
    return [*parts[:at], one, *parts[at + 1 :]]


def without(plans: Sequence[QueryPlan], gone: int) -> list[QueryPlan]:
    """Leave a query out; who waited for it takes its place."""
    name, after, submit = plans[gone].name, plans[gone].after, plans[gone].submit
    return [
        replace(plan, after=after, submit=submit) if plan.after == name else plan
        for q, plan in enumerate(plans)
        if q != gone
    ]


def _starts_later(
    plans: list[QueryPlan], late: int, cluster: Cluster, seed: int
) -> list[QueryPlan]:
    """A start is set, whatever the query waited for."""
    began = Simulation(cluster, plans, seed).began[late]
    return _with(plans, late, replace(plans[late], after="", submit=began + LATER_MS))


def _repartitioned(plan: QueryPlan, seed: int) -> QueryPlan:
    """The same work in other tasks, which differ as tasks did."""

    def change(k: int, stage: StagePlan) -> StagePlan:
        if not (stage.parents or stage.fetch):
            return stage
        total = drawn_scales(seed, plan, k).sum()
        other = replace(stage, tasks=PARTITIONS)
        drawn = drawn_scales(seed, replace(plan, stages=tuple(_with(plan.stages, k, other))), k)
        return replace(other, scales=tuple(drawn * total / drawn.sum()))

    return plan.with_stages(change)


def _evenly(plan: QueryPlan, k: int, stage: StagePlan, seed: int) -> StagePlan:
    mean = float(drawn_scales(seed, plan, k).mean())
    return replace(stage, scales=(mean,) * stage.tasks)


NOTICED = 0.02
"""Change of a query's duration, true or said, from which a pair counts."""
WORLDS = {"both": (False, True), "fair": (False,), "rough": (True,)}
"""Whether their runs are rough."""
METHODS = ("nothing changes", "slots-only replay", "blame", "what-if")


@dataclass(frozen=True)
class Pair:
    """A query in a question: changes as shares of its recorded duration, by method and true.

    ``width`` is that of the range, as such a share.
    """

    family: str
    kind: str
    gone: int | None
    query: int
    true: float
    said: dict[str, float]
    within: bool
    width: float = np.nan


def model_of(run: Simulation) -> Model:
    """Fit the model to what a log of the run says."""
    tables, waits = replayable(run)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    return model


def find(name: str, _: str) -> tuple[int, ...]:
    """Row of a query that a question names by it."""
    return (int(name),)


def slots_only(scenario: Scenario) -> np.ndarray:
    """Duration of each query if tasks last as long as they did."""
    done = run_loop(scenario.steps, scenario.work, scenario.slots, scenario_shares(scenario)).done
    lasted = np.full(len(scenario.tables.queries), np.nan)
    lasted[scenario.query] = done[scenario.query_end] - done[scenario.query_start]
    return lasted


def pairs(family: str, seed: int, *, rough: bool = False) -> Iterator[Pair]:
    """Every query in every question about one scenario."""
    cluster, plans = SCENARIOS[family](np.random.default_rng([seed, len(family)]))
    cluster = replace(cluster, rough=rough, as_spark=True)
    tables, waits = replayable(Simulation(cluster, plans, seed))
    blame = attribute(tables, waits)
    model = build_model(tables, waits, blame.demand)
    assert model is not None
    lost, base = lost_to_each(blame, tables), slots_only(model.scenario)
    for asked in questions(cluster, plans, seed):
        said = answer(model, asked.question, find).queries
        by_slots = slots_only(intervene(model.scenario, asked.question, find).scenario) - base
        ends, gone = Simulation(asked.cluster, asked.plans, seed).lasted(), asked.gone
        if gone is not None:
            ends = np.insert(ends, gone, np.nan)
        for query, row in said.iterrows():
            recorded = row["recorded_ms"]
            changes = {
                "nothing changes": 0.0,
                "slots-only replay": by_slots[query] / recorded,
                "what-if": row["change_percent"] / 100.0,
            }
            if gone is not None:
                changes["blame"] = -lost[query, gone] / recorded
            within = row["low_ms"] <= ends[query] <= row["high_ms"]
            true = ends[query] / recorded - 1.0
            width = (row["high_ms"] - row["low_ms"]) / recorded
            yield Pair(family, asked.kind, gone, int(query), true, changes, bool(within), width)


def ranking(found: Iterable[Pair], method: str) -> tuple[float, float]:
    """Mean Kendall's tau of what removals gain, and share of right top sources, over targets."""
    gains = defaultdict(list)
    for one in found:
        if one.gone is not None:
            gains[one.query].append((-one.true, -one.said[method]))
    taus, tops = [], []
    for of_target in gains.values():
        truth, guess = np.array(of_target).T
        if truth.max() < GUILTY or len(truth) < 2 or not np.isfinite(guess).all():
            continue
        tops.append(float(guess.max() > 0 and np.argmax(truth) == np.argmax(guess)))
        truth, guess = (np.where(np.abs(v) < NOTICEABLE, 0.0, v) for v in (truth, guess))
        taus.append(kendall_tau_b(truth, guess))
    return (float(np.mean(taus)), float(np.mean(tops))) if taus else (np.nan, np.nan)


Row = dict[str, Any]
Runs = dict[tuple[bool, str, int], list[Pair]]
"""Pairs by rough world or not, family and seed."""


def ask_all(seeds: Iterable[int], families: Iterable[str] = tuple(SCENARIOS)) -> Runs:
    """Ask about a run of each family, seed and world."""
    runs: Runs = {}
    for rough in (False, True):
        for family in families:
            for seed in seeds:
                runs[rough, family, seed] = list(pairs(family, seed, rough=rough))
                print(f"{'rough' if rough else 'fair'}, {family}, {seed}", file=sys.stderr)
    return runs


def score_rows(runs: Runs) -> list[Row]:
    """Scores by world and method, and of the model by question and by family.

    ``group`` is ``method``, ``question`` or ``family``; ``world`` is ``both``, ``fair`` or
    ``rough``. Errors are shares of the recorded duration; None where nothing was asked.
    """
    rows: list[Row] = []
    for world, chosen in WORLDS.items():
        of_world = [found for (rough, _, _), found in runs.items() if rough in chosen]
        everything = [one for found in of_world for one in found]
        for method in METHODS:
            ranks = np.array([ranking(found, method) for found in of_world])
            tau, top = np.nanmean(ranks, axis=0).tolist()
            row = {"world": world, "group": "method", "name": method}
            rows.append(row | _scores(everything, method) | {"tau": tau, "top": top})
        for kind in dict.fromkeys(one.kind for one in everything):
            of_kind = [one for one in everything if one.kind == kind]
            row = {"world": world, "group": "question", "name": kind}
            slots_only = _scores(of_kind, "slots-only replay")
            row |= {f"slots_{name}": slots_only[name] for name in ("median", "p90")}
            rows.append(row | _scores(of_kind, "what-if"))
        for family in dict.fromkeys(one.family for one in everything):
            of_family = [one for one in everything if one.family == family]
            row = {"world": world, "group": "family", "name": family}
            rows.append(row | _scores(of_family, "what-if"))
    return [{key: None if value != value else value for key, value in row.items()} for row in rows]


def _counts(one: Pair, method: str) -> bool:
    """Whether the query changed, or was said to; pairs that are not answered count for nobody."""
    both = np.array([one.said["what-if"], one.said.get(method, np.nan)])
    return bool(np.isfinite(both).all()) and max(abs(one.true), abs(both[0])) > NOTICED


def _scores(found: Sequence[Pair], method: str) -> Row:
    """Errors over the pairs that changed, or were said to."""
    refused = np.mean([not np.isfinite(one.said["what-if"]) for one in found])
    kept = [one for one in found if _counts(one, method)]
    if not kept:
        nothing = dict.fromkeys(("median", "p90", "sign", "within", "held", "width"), np.nan)
        return {"pairs": 0, **nothing, "refused": float(refused)}
    true, said = np.array([(one.true, one.said[method]) for one in kept]).T
    off = np.abs(said - true)
    return {
        "pairs": len(kept),
        "median": float(np.median(off)),
        "p90": float(np.quantile(off, 0.9)),
        "sign": float(np.mean(np.sign(np.where(np.abs(said) < 1e-8, 0, said)) == np.sign(true))),
        "within": float(np.mean(off < 0.1)),
        "held": float(np.mean([one.within for one in kept])),
        "width": float(np.median([one.width for one in kept])),
        "refused": float(refused),
    }
