"""Score what a store of earlier runs adds where queries are always together.

    .venv/bin/python scripts/experiments/known_runs.py [--seeds 6]

Each query of a crowd first runs by itself, which is stored. Then the crowd is diagnosed without the
store and with it; the truth is what the crowd's others cost each query in the simulator.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar_lab.clusters.known_runs import blamed, crowd_of, said, store_alone
from iqcar_lab.clusters.scores import MISSED, VICTIM
from iqcar_lab.clusters.steady import twins

FAMILIES = (
    "steady reads",
    "steady fetches",
    "steady, or as slow alone",
    "steady reads beside writes",
)
FRESH = 15_000
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "known_runs.json"


def main() -> None:
    """Score each family; store the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="runs of each family")
    seeds = range(FRESH, FRESH + parser.parse_args().seeds)
    rows = [_scored(family, seeds) for family in FAMILIES]
    result = {"seeds": [seeds.start, seeds.stop - 1], "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def _scored(family: str, seeds: range) -> dict[str, Any]:
    truth, found = [], []
    for seed in seeds:
        crowd = crowd_of(twins(family, seed).loud, seed)
        with TemporaryDirectory() as folder:
            store = Path(folder) / "store"
            store_alone(store, crowd, range(len(crowd.plans)), seed)
            found.append([said(crowd, blamed(crowd)), said(crowd, blamed(crowd, store))])
        truth.append(crowd.cost)
    cost = np.concatenate(truth)
    both = np.concatenate(found, axis=2)
    victim = cost >= VICTIM
    row: dict[str, Any] = {"family": family, "victims": int(victim.sum())}
    for name, (lost, low, high) in zip(("without", "store"), both, strict=True):
        row[name] = {
            "error": float(np.abs(lost - cost).mean()),
            "width": float((high - low).mean()),
            "missed": int((lost[victim] < MISSED * cost[victim]).sum()),
        }
    return row


if __name__ == "__main__":
    main()
