"""Compare what queries are said to lose to others with the truth, on simulated clusters.

    .venv/bin/python scripts/experiments/quiet_clusters.py [--seeds 6]

Every query of a run is also simulated alone: the difference is what the others cost it. The seeds
are not those that the model was tuned on.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.quiet_clusters import LOUD, QUIET, Run, amounts, run_of, with_noise

FIRST_SEED = 201
NOISES = (0.0, 0.1, 0.3)
RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "quiet_clusters.json"


def scored(runs: list[Run]) -> dict[str, float]:
    """Scores of some runs, with the true cost."""
    true = float(np.concatenate([run.cost for run in runs]).mean())
    return {"true": true, **asdict(amounts(runs))}


def main() -> None:
    """Score every family, evidence and noise; store the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="runs of each family")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    rows = []
    for plain in (False, True):
        for sigma in NOISES:
            every: list[Run] = []
            for loud, families in ((False, QUIET), (True, LOUD)):
                kind: list[Run] = []
                for family in families:
                    runs = [with_noise(run_of(family, s, loud, plain), sigma, s) for s in seeds]
                    kind += runs
                    if not sigma:
                        rows.append(
                            {"plain": plain, "noise": sigma, "loud": loud, "family": family}
                            | scored(runs)
                        )
                rows.append(
                    {"plain": plain, "noise": sigma, "loud": loud, "family": ""} | scored(kind)
                )
                every += kind
            rows.append(
                {"plain": plain, "noise": sigma, "loud": None, "family": ""} | scored(every)
            )
            sys.stdout.write(f"plain {plain}, noise {sigma:.0%}: {rows[-1]}\n")
    result = {"seeds": [seeds.start, seeds.stop - 1], "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
