"""Experiments on simulated clusters, whose truth is known, by seeds that nothing was chosen on.

    .venv/bin/python scripts/experiments/simulated.py NAME [--seeds N]

families: blame on every family of simulated clusters, also where contention never varies.
known_runs: what a store of earlier runs adds where queries are always together. Each query of a
    crowd first runs by itself, which is stored; then the crowd is diagnosed without it and with it.
planted_findings: what findings are about is planted, and the action of each finding taken. Each
    kind is checked with the range of the replay, and with that of the estimate, which stands where
    a log is too large to be replayed. On quiet clusters nothing is planted.
topic_rules: many queries have one recurring trouble. Rules of one run, without topics and with,
    are tried in another one, with other sizes of tasks.
whatif_truth: what-if questions, and the same simulated with what each question asks.
compare_pairs: pairs of sets of runs with planted changes, by iqcar and as printed. More quiet pairs
    tell how often equal runs raise an alarm.

The result is written to docs/evaluation/NAME.json, from which scripts/write_docs.py prints tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import iqcar
from iqcar.pipeline import diagnose
from iqcar_lab.clusters.changes import CHANGES, QUIET, RUNS, Pair, pair_of
from iqcar_lab.clusters.compare_scores import Found, found_as_printed, found_by, score
from iqcar_lab.clusters.known_runs import blamed, crowd_of, said, store_alone
from iqcar_lab.clusters.planted_findings import FIRST, KINDS, Checked, check, check_quiet
from iqcar_lab.clusters.quiet import QUIET as QUIET_CLUSTERS
from iqcar_lab.clusters.recurring import CULPRIT, FAMILIES, compiled, lasted, logged, trouble
from iqcar_lab.clusters.scores import EVERY, MISSED, VICTIM, Scores, by_print, family_scores
from iqcar_lab.clusters.steady import twins
from iqcar_lab.clusters.what_if_truth import ask_all, score_rows

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "evaluation"
Row = dict[str, Any]


def families(seeds: range) -> Row:
    """Scores of every family with both kinds of logs, and of all as printed."""
    rows = [_family_row(*found) for found in family_scores(seeds)]
    rows += [
        _family_row(plain, f"{name}, as printed", found)
        for plain, name, found in family_scores(seeds, says=by_print)
        if name == "all"
    ]
    return {"rows": rows}


def _family_row(plain: bool, name: str, found: Scores) -> Row:
    scores = asdict(found)
    ranks, luck = scores.pop("ranks"), scores.pop("luck")
    group = EVERY[name].group if name in EVERY else ""
    by_luck = {f"luck_{key}": luck[key] for key in ("tau", "top", "false_blame")}
    return _known({"plain": plain, "family": name, "group": group, **ranks, **by_luck, **scores})


def _known(row: Row) -> Row:
    """The row with None for NaN."""
    return {key: None if value != value else value for key, value in row.items()}


TOGETHER = (
    "steady reads", "steady fetches", "steady, or as slow alone", "steady reads beside writes",
)  # fmt: skip


def known_runs(seeds: range) -> Row:
    """Errors with a store and without."""
    return {"rows": [_known_run(family, seeds) for family in TOGETHER]}


def _known_run(family: str, seeds: range) -> Row:
    truth, found = [], []
    for seed in seeds:
        crowd = crowd_of(twins(family, seed).loud, seed)
        with TemporaryDirectory() as folder:
            store = Path(folder) / "store"
            store_alone(store, crowd, range(len(crowd.plans)), seed)
            found.append([said(crowd, blamed(crowd)), said(crowd, blamed(crowd, store))])
        truth.append(crowd.cost)
    cost = np.concatenate(truth)
    victim = cost >= VICTIM
    row: Row = {"family": family, "victims": int(victim.sum())}
    both = np.concatenate(found, axis=2)
    for name, (lost, low, high) in zip(("without", "store"), both, strict=True):
        row[name] = {
            "error": float(np.abs(lost - cost).mean()),
            "width": float((high - low).mean()),
            "missed": int((lost[victim] < MISSED * cost[victim]).sum()),
        }
    return row


QUIET_SEEDS = 3


def planted_findings(seeds: range) -> Row:
    """What was said and saved, by kind; and findings on quiet clusters."""
    cases = list(product(QUIET_CLUSTERS, seeds[:QUIET_SEEDS]))
    with ProcessPoolExecutor(2) as workers:
        rows = [_kind_row(workers, kind, seeds) for kind in KINDS]
        quiet = [one for found in workers.map(_check_quiet, cases) for one in found]
    by_kind = []
    for kind in sorted({one.kind for one in quiet}):
        mine = [one for one in quiet if one.kind == kind]
        within, false = (sum(getattr(one, name) for one in mine) for name in ("within", "false"))
        by_kind.append({"kind": kind, "found": len(mine), "within": within, "false": false})
    return {"kinds": rows, "quiet": {"runs": len(cases), "kinds": by_kind}}


def _kind_row(workers: ProcessPoolExecutor, kind: str, seeds: range) -> Row:
    found, estimates = (
        list(workers.map(_check, [(kind, seed, replay) for seed in seeds]))
        for replay in (True, False)
    )
    mine, others = [one for one, _ in found], [one for _, rest in found for one in rest]
    told = [(one, one.finding) for one in mine if one.finding]
    return {
        "kind": kind,
        "runs": len(mine),
        "first": sum(one.rank == 1 for one in mine),
        "in_three": sum(0 < one.rank <= FIRST for one in mine),
        "within": sum(one.within for one in mine),
        "within_estimated": sum(one.within for one, _ in estimates),
        "saved": _mean(one.saved_ms / one.ran_ms for one in mine),
        "said": _mean(finding.saves_ms / one.ran_ms for one, finding in told),
        "low": _mean(finding.low_ms / one.ran_ms for one, finding in told),
        "high": _mean(finding.high_ms / one.ran_ms for one, finding in told),
        "others": len(others),
        "others_false": sum(one.false for one in others),
    }


def _mean(shares: Iterable[float]) -> float:
    known = list(shares)
    return sum(known) / max(len(known), 1)


def _check(case: tuple[str, int, bool]) -> tuple[Checked, list[Checked]]:
    return check(*case)


def _check_quiet(case: tuple[str, int]) -> list[Checked]:
    return check_quiet(*case)


NEXT_RUN = 500_000
"""Added to a seed: the luck of the run that rules are tried in."""
ARMS = {"without": False, "with": None}
"""Whether topics are looked for."""


def topic_rules(seeds: range) -> Row:
    """What rules save, by family."""
    with ProcessPoolExecutor(2) as workers:
        found = list(workers.map(_tried, product(FAMILIES, seeds)))
    rows = [
        _trouble_row(name, [one for one in found if one["family"] == name]) for name in FAMILIES
    ]
    return {"families": rows}


def _tried(case: tuple[str, int]) -> Row:
    """What rules of one run save in the next one, as shares of it."""
    family, seed = case
    world = trouble(family, seed)
    tables, base = logged(world, seed), lasted(world, seed + NEXT_RUN)
    found: Row = {"family": family}
    for arm, topics in ARMS.items():
        diagnosis = diagnose(tables, topics=topics)
        after = lasted(world, seed + NEXT_RUN, compiled(diagnosis, diagnosis.rules))

        def saved(names: Sequence[str], after: dict[str, float] = after) -> float:
            return 1.0 - sum(after[name] for name in names) / sum(base[name] for name in names)

        found[arm] = {
            "saved": saved(list(base)),
            "saved_short": saved([name for name in base if name != CULPRIT]),
            "rules": sum(rule.helps_pools for rule in diagnosis.rules),
            "topics": diagnosis.topics is not None,
        }
    return found


def _trouble_row(name: str, found: list[Row]) -> Row:
    row: Row = {"family": name, "runs": len(found)}
    for arm in ARMS:
        for key in ("saved", "saved_short", "rules"):
            row[f"{key}_{arm}"] = sum(one[arm][key] for one in found) / len(found)
    more = [one["with"]["saved"] - one["without"]["saved"] for one in found]
    row["better"] = sum(difference > 0.001 for difference in more)
    row["worse"] = sum(difference < -0.001 for difference in more)
    row["worst"], row["topics"] = min(more), sum(one["with"]["topics"] for one in found)
    return row


def whatif_truth(seeds: range) -> Row:
    """Errors of answers by method, question and family."""
    return {"rows": score_rows(ask_all(seeds))}


METHODS = {"ours": found_by, "printed": found_as_printed}
QUIET_AFTER, MORE_QUIET = 100, 4
"""From the first seed to that of more quiet pairs, and how many times as many."""
Results = list[tuple[Pair, list[Found]]]


def compare_pairs(seeds: range) -> Row:
    """Scores of every kind of change, and of every number of runs a side, by method."""
    rows = []
    for method, results in _said_of_pairs(CHANGES, seeds).items():
        groups = {"all": results}
        groups |= {kind: [one for one in results if one[0].kind == kind] for kind in CHANGES}
        groups |= {
            f"{runs} runs a side": [one for one in results if one[0].runs == runs] for runs in RUNS
        }
        rows += [_pairs_row(method, group, of) for group, of in groups.items() if of]
    first = seeds.start + QUIET_AFTER
    more = range(first, first + MORE_QUIET * len(seeds))
    for method, results in _said_of_pairs(QUIET, more).items():
        rows += [_pairs_row(method, "more quiet pairs", results)] if results else []
    return {"rows": rows}


def _said_of_pairs(kinds: Iterable[str], seeds: range) -> dict[str, Results]:
    found: dict[str, Results] = {method: [] for method in METHODS}
    for kind, seed in product(kinds, seeds):
        pair = pair_of(kind, seed)
        comparison = iqcar.compare(pair.before, pair.after)
        for method, find in METHODS.items():
            found[method].append((pair, find(comparison)))
    return found


def _pairs_row(method: str, group: str, results: Results) -> Row:
    return {"method": method, "group": group} | _known(asdict(score(results)))


EXPERIMENTS = {
    families: (12_000, 4),
    known_runs: (15_000, 6),
    planted_findings: (921, 12),
    topic_rules: (2_301, 4),
    whatif_truth: (911, 3),
    compare_pairs: (701, 4),
}
"""The first seed of each experiment, and how many."""


def main() -> None:
    """Run one; store the result."""
    named = {one.__name__: (one, *given) for one, given in EXPERIMENTS.items()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=named)
    parser.add_argument("--seeds", type=int, help="runs of each kind")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    options = parser.parse_args()
    experiment, first, usual = named[options.name]
    seeds = range(first, first + (options.seeds or usual))
    found = {"seeds": [seeds.start, seeds.stop - 1], **experiment(seeds)}
    target = options.results / f"{options.name}.json"
    target.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    sys.stdout.write(f"Wrote {target}\n")


if __name__ == "__main__":
    main()
