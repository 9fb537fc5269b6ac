"""Measure the accuracy of topics on planted causes, by set of learners and kind of trace.

    .venv/bin/python scripts/experiments/topic_accuracy.py [--jobs 300] [--seeds 12] [--harder 3]

The seeds are not those that thresholds were chosen on. Prints a row per kind of trace; figures are
means over the seeds, and differences are paired by seed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from iqcar_lab.printed.hound import SETTINGS

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar.causes.topics.build_topics import find_topics
from iqcar.enums import LearnerSet
from tests.support.hound_traces import plant
from tests.support.topic_truth import nearness

FIRST_SEED = 201
HARDER: dict[str, dict[str, Any]] = {
    "jobs of 20 to 60 tasks": {"tasks": (20, 60)},
    "2 to 6 % straggle": {"straggling": (0.02, 0.06)},
    "only stragglers show causes": {"tail_only": 1.0},
    "2 % wrong readings": {"outliers": 0.02},
    "15 % missing readings": {"missing": 0.15},
    "metrics not skewed": {"skewed": 0.0},
    "causes move metrics 0.6 times as far": {"shift": 0.6},
    "metrics follow those of another cause": {"entangled": 0.6},
}
"""Kinds of traces that are harder than the default one, or unlike it."""


def measured(jobs: int, seeds: range, sets: list[LearnerSet], **kind: Any) -> np.ndarray:
    """Nearness, (seeds, sets, 3)."""
    found = []
    for seed in seeds:
        planted = plant(jobs, seed, **kind)
        each = [nearness(planted, find_topics(planted.features, SETTINGS[one]())) for one in sets]
        found.append(each)
        print(f"  seed {seed}: " + "; ".join(_triple(np.array(one)) for one in each), flush=True)
    return np.array(found)


def show(name: str, found: np.ndarray, sets: list[LearnerSet]) -> None:
    """Print means, and the paired gain on the last set with its standard error."""
    print(name)
    for s, one in enumerate(sets):
        print(f"  {one:<12} {_triple(found[:, s].mean(axis=0))}")
    gain = found[:, 0] - found[:, sets.index(LearnerSet.PAPER)]
    error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else gain[0] * np.nan
    print(f"  gain on paper {_triple(gain.mean(axis=0))}, standard errors {_triple(error)}")


def _triple(values: np.ndarray) -> str:
    return "TV {:.3f}, F1 {:.3f}, dominant {:.3f}".format(*values)


def main() -> None:
    """Measure the default traces, then the harder ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=12, help="seeds of the default traces")
    parser.add_argument("--harder", type=int, default=3, help="seeds of each other kind")
    wanted = parser.parse_args()
    two = [LearnerSet.RECOMMENDED, LearnerSet.PAPER]
    kinds = [("default", {}, wanted.seeds, list(LearnerSet))]
    kinds += [(name, kind, wanted.harder, two) for name, kind in HARDER.items()]
    for name, kind, many, sets in kinds:
        if many:
            seeds = range(FIRST_SEED, FIRST_SEED + many)
            show(name, measured(wanted.jobs, seeds, sets, **kind), sets)


if __name__ == "__main__":
    main()
