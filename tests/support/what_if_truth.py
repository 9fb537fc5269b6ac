"""Scores what-if answers against the simulator: its run with one thing changed is the truth."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iqcar.causes.blame.attribute import attribute
from iqcar.replay.loop.event_loop import run as run_loop
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import scenario_shares
from iqcar.replay.whatif.scenario import Scenario
from iqcar.replay.whatif.what_if import answer
from tests.support.cluster_simulator import Simulation
from tests.support.simulated_log import replayable
from tests.support.simulated_truth import (
    GUILTY,
    NOTICEABLE,
    kendall_tau_b,
    lost_to_each,
)
from tests.support.what_if_questions import SCENARIOS, questions

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


def print_rows(rows: Iterable[Row]) -> None:
    """Print scores, one line each."""
    print(f"{'':34} pairs median    p90   sign within   held  width refused   tau   top")
    for row in rows:
        name = f"{row['world']}: {row['name']}"
        errors = [row[key] and 100 * row[key] for key in ("median", "p90")]
        shares = [
            row.get(key) for key in ("sign", "within", "held", "width", "refused", "tau", "top")
        ]
        said = "".join("      –" if x is None else f"{x:7.2f}" for x in (*errors, *shares))
        print(f"{name:34}{row['pairs']:6}{said}")


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
