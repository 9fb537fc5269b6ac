"""Score blame on every family of simulated clusters, also where contention never varies.

    .venv/bin/python scripts/experiments/families.py [--seeds 4]

The seeds are those that nothing is chosen on.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar_lab.clusters.scores import EVERY, FRESH, Scores, by_print, family_scores

RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "families.json"


def row_of(plain: bool, name: str, found: Scores) -> dict[str, Any]:
    """One line of the result, of a family or of a group; None where nothing is to be scored."""
    scores = asdict(found)
    ranks, luck = scores.pop("ranks"), scores.pop("luck")
    group = EVERY[name].group if name in EVERY else ""
    flat = {
        "plain": plain,
        "family": name,
        "group": group,
        **ranks,
        **{f"luck_{k}": luck[k] for k in LUCK},
    }
    row = flat | scores
    return {key: None if value != value else value for key, value in row.items()}


LUCK = ("tau", "top", "false_blame")


def main() -> None:
    """Score every family with both kinds of logs; store the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="runs of each family")
    seeds = range(FRESH, FRESH + parser.parse_args().seeds)
    rows = [row_of(*found) for found in family_scores(seeds)]
    as_printed = family_scores(seeds, says=by_print)
    rows += [
        row_of(plain, f"{name}, as printed", found)
        for plain, name, found in as_printed
        if name == "all"
    ]
    result = {"seeds": [seeds.start, seeds.stop - 1], "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
