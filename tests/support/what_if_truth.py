"""Scores what-if answers against the simulator: its run with one thing changed is the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from iqcar.blame.attribute import Blame, attribute
from iqcar.replay.event_loop import run as run_loop
from iqcar.tables.arrays import share_of
from iqcar.whatif.intervene import intervene
from iqcar.whatif.model import Model, build_model
from iqcar.whatif.question import Question
from iqcar.whatif.scenario import Scenario, scenario_shares
from iqcar.whatif.what_if import answer
from tests.support.cluster_simulator import Cluster, QueryPlan, Simulation
from tests.support.simulated_log import replayable
from tests.support.simulated_truth import (
    FAMILIES,
    GUILTY,
    HEAVY,
    IDLE,
    NOTICEABLE,
    _query,
    blamed,
    kendall_tau_b,
)

NOTICED = 0.02
"""Change of a query's duration, true or said, from which a pair counts."""
METHODS = ("nothing changes", "slots-only replay", "blame", "what-if")

Asked = tuple[str, Question, Simulation, int | None]


def mixed(rng: np.random.Generator) -> tuple[Cluster, list[QueryPlan]]:
    """12 to 20 queries of all kinds at once, on two devices and few slots that are short."""
    work = list((HEAVY | IDLE).items())
    plans = [
        _query(rng, f"{name}-{k}", needs, 0)
        for k in range(int(rng.integers(12, 21)))
        for name, needs in [work[int(rng.integers(len(work)))]]
    ]
    return Cluster(slots=16, fair=bool(rng.random() < 0.5)), plans


SCENARIOS = {**FAMILIES, "mixed": mixed}


@dataclass(frozen=True)
class Pair:
    """A query in a question: changes as shares of its recorded duration, by method and true."""

    family: str
    kind: str
    gone: int | None
    query: int
    true: float
    said: dict[str, float]
    within: bool


def model_of(run: Simulation) -> Model:
    """Fit the model to what a log of the run says."""
    tables, waits = replayable(run)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    return model


def questions(cluster: Cluster, plans: list[QueryPlan], seed: int) -> Iterator[Asked]:
    """Questions, and the run that answers each; with the query that is not there."""

    def run(cluster: Cluster, plans: list[QueryPlan]) -> Simulation:
        return Simulation(cluster, plans, seed)

    for gone in range(len(plans)):
        rest = [plan for q, plan in enumerate(plans) if q != gone]
        yield "remove", Question(remove=(str(gone),)), run(cluster, rest), gone
    last = len(plans) - 1
    later = [replace(p, submit=p.submit + 3000.0) if q == last else p for q, p in enumerate(plans)]
    yield "start", Question(start={str(last): 3000.0}), run(cluster, later), None
    twice = [_scaled(p, 2.0) if q == last else p for q, p in enumerate(plans)]
    yield "scale", Question(scale={str(last): 2.0}), run(cluster, twice), None
    for name, question in (
        ("disk", Question(disk=2.0)),
        ("network", Question(network=2.0)),
        ("cores", Question(cpu=2.0)),
    ):
        more = replace(cluster, **{name: 2 * getattr(cluster, name)})
        yield name, question, run(more, plans), None
    slots = cluster.slots // 2
    in_all = slots * cluster.hosts * cluster.apps
    yield "slots", Question(slots_in_all=in_all), run(replace(cluster, slots=slots), plans), None
    mode = "FIFO" if cluster.fair else "FAIR"
    other = run(replace(cluster, fair=not cluster.fair), plans)
    yield "mode", Question(mode=mode), other, None


def _scaled(plan: QueryPlan, factor: float) -> QueryPlan:
    work = ("read", "fetch", "cpu", "write", "sleep", "gc")
    stages = (replace(s, **{w: factor * getattr(s, w) for w in work}) for s in plan.stages)
    return replace(plan, stages=tuple(stages))


def find(name: str, _: str) -> tuple[int, ...]:
    """Row of a query that a question names by it."""
    return (int(name),)


def slots_only(scenario: Scenario) -> np.ndarray:
    """Duration of each query if tasks last as long as they did."""
    done = run_loop(scenario.steps, scenario.work, scenario.slots, scenario_shares(scenario)).done
    lasted = np.full(len(scenario.tables.queries), np.nan)
    lasted[scenario.query] = done[scenario.query_end] - done[scenario.query_start]
    return lasted


def lost_to(blame: Blame, model: Model) -> np.ndarray:
    """Elapsed ms that each query (row) lost to each other (column)."""
    tables = model.scenario.tables
    stages = blame.stages
    weight = share_of(stages["lost_ms"].to_numpy(), stages["lost_task_ms"].to_numpy())
    n = len(tables.queries)
    found = [blamed(blame, tables, query, weight) for query in range(n)]
    return np.array([[lost[source] for source in range(n)] for lost in found])


def pairs(family: str, seed: int, *, rough: bool = False) -> Iterator[Pair]:
    """Every query in every question about one scenario."""
    cluster, plans = SCENARIOS[family](np.random.default_rng([seed, len(family)]))
    cluster = replace(cluster, rough=rough)
    tables, waits = replayable(Simulation(cluster, plans, seed))
    blame = attribute(tables, waits)
    model = build_model(tables, waits, blame.demand)
    assert model is not None
    lost, base = lost_to(blame, model), slots_only(model.scenario)
    for kind, question, run, gone in questions(cluster, plans, seed):
        said = answer(model, question, find).queries
        by_slots = slots_only(intervene(model.scenario, question, find).scenario) - base
        ends = np.array(run.ended) - np.array([plan.submit for plan in run.plans])
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
            yield Pair(family, kind, gone, int(query), true, changes, bool(within))


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


def print_scores(seeds: Iterable[int]) -> None:
    """Print errors by method and world, and of the model by question."""
    runs = {
        (rough, family, seed): list(pairs(family, seed, rough=rough))
        for rough in (False, True)
        for family in SCENARIOS
        for seed in seeds
    }
    for world, chosen in (("both worlds", (False, True)), ("fair", (False,)), ("rough", (True,))):
        of_world = [found for (rough, _, _), found in runs.items() if rough in chosen]
        everything = [one for found in of_world for one in found]
        print(f"{world:26} median    p90   sign within 10    tau   top")
        for method in METHODS:
            told = [found for found in of_world if found]
            ranks = np.array([ranking(found, method) for found in told])
            tau, top = np.nanmean(ranks, axis=0)
            print(f"  {method:22}{_errors(everything, method)}{tau:10.2f}{top:6.2f}")
        kept = [one for one in everything if _counts(one, "what-if")]
        held = np.mean([one.within for one in kept])
        refused = np.mean([not np.isfinite(one.said["what-if"]) for one in everything])
        print(f"  80 % ranges hold {held:.2f} of {len(kept)} pairs; refused: {refused:.0%} of all")
        for kind in dict.fromkeys(one.kind for one in everything):
            print(f"    {kind:20}{_errors([p for p in everything if p.kind == kind], 'what-if')}")
    for family in SCENARIOS:
        of_family = [one for (_, name, _), found in runs.items() if name == family for one in found]
        print(f"  {family:22}{_errors(of_family, 'what-if')}")


def _counts(one: Pair, method: str) -> bool:
    said = one.said.get(method, np.nan)
    return bool(np.isfinite(said)) and max(abs(one.true), abs(one.said["what-if"])) > NOTICED


def _errors(found: Iterable[Pair], method: str) -> str:
    kept = np.array([(one.true, one.said[method]) for one in found if _counts(one, method)])
    if len(kept) == 0:
        return "     –      –      –         –"
    true, said = kept.T
    off = 100 * np.abs(said - true)
    sign = np.mean(np.sign(np.where(np.abs(said) < 1e-6, 0, said)) == np.sign(true))
    return f"{np.median(off):7.1f}{np.quantile(off, 0.9):7.1f}{sign:7.2f}{np.mean(off < 10):10.2f}"
