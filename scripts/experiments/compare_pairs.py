"""Compare simulated pairs of sets of runs with planted changes, and score what is found.

    .venv/bin/python scripts/experiments/compare_pairs.py [--seeds 1] [--quiet 0] [--save]

Each kind of change is planted once per seed; runs a side take turns (1, 2, 3, 5, 8). Our method is
scored beside the printed one. More quiet pairs, of seeds a hundred higher, tell how often equal
runs raise an alarm. The seeds are not those that the rules were tuned on (11–19, 401–404, 501–616).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import iqcar
from iqcar.comparison.comparison import Comparison
from iqcar_lab.clusters.changes import CHANGES, QUIET, RUNS, Pair, pair_of
from iqcar_lab.clusters.compare_scores import Found, Score, found_as_printed, found_by, score

METHODS: dict[str, Callable[[Comparison], list[Found]]] = {
    "ours": found_by,
    "printed": found_as_printed,
}
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "compare_pairs.json"
FIRST_SEED = 701
QUIET_AFTER = 100
"""From the first seed to that of more quiet pairs."""
Results = list[tuple[Pair, list[Found]]]


def main() -> None:
    """Score every kind, and every number of runs; store the result if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="pairs of each kind")
    parser.add_argument("--quiet", type=int, default=0, help="more pairs of each quiet kind")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    said = _said(list(CHANGES), seeds)
    rows = []
    _print("", list(Score.__annotations__))
    for method, results in said.items():
        rows += [_row(method, "all", results)]
        for kind in CHANGES:
            rows.append(_row(method, kind, [one for one in results if one[0].kind == kind]))
        for runs in RUNS:
            of = [one for one in results if one[0].runs == runs]
            rows += [_row(method, f"{runs} runs a side", of)] if of else []
    after = range(options.first + QUIET_AFTER, options.first + QUIET_AFTER + options.quiet)
    for method, results in _said(list(QUIET), after).items():
        rows += [_row(method, "more quiet pairs", results)] if results else []
    if options.save:
        result = {"seeds": [seeds.start, seeds.stop - 1], "rows": rows}
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        sys.stdout.write(f"Wrote {RESULT}\n")


def _said(kinds: list[str], seeds: range) -> dict[str, Results]:
    """What each method says of pairs of some kinds."""
    said: dict[str, Results] = {method: [] for method in METHODS}
    for kind in kinds:
        for seed in seeds:
            pair = pair_of(kind, seed)
            comparison = iqcar.compare(pair.before, pair.after)
            for method, find in METHODS.items():
                said[method].append((pair, find(comparison)))
    return said


def _row(method: str, group: str, results: Results) -> dict[str, object]:
    """Print and return the scores of some pairs."""
    scored = asdict(score(results))
    values = [f"{value:.2f}" if isinstance(value, float) else value for value in scored.values()]
    _print(f"{method}, {group}", values)
    return {"method": method, "group": group} | {
        name: None if value != value else value for name, value in scored.items()
    }


def _print(name: str, values: list[object]) -> None:
    sys.stdout.write(f"{name:40}" + "".join(f"{value!s:>10}" for value in values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
