"""Measure the accuracy of topics on planted causes, by kind of trace.

    .venv/bin/python scripts/experiments/topic_accuracy.py [--jobs 300] [--seeds 12] [--harder 3]

The seeds are not those that thresholds were chosen on. Prints a row per kind of trace: means over
the seeds, and their standard errors.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iqcar.causes.topics.build_topics import find_topics
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


def measured(name: str, jobs: int, seeds: range, **kind: Any) -> None:
    """Print the nearness of topics to what was planted."""
    found = []
    for seed in seeds:
        planted = plant(jobs, seed, **kind)
        found.append(nearness(planted, find_topics(planted.features)))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else [np.nan] * 3
    print(f"{name:<40} {_triple(np.mean(found, axis=0))}; errors {_triple(error)}", flush=True)


def _triple(values: Any) -> str:
    return "TV {:.3f}, F1 {:.3f}, dominant {:.3f}".format(*values)


def main() -> None:
    """Measure the default traces, then the harder ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=12, help="seeds of the default traces")
    parser.add_argument("--harder", type=int, default=3, help="seeds of each other kind")
    wanted = parser.parse_args()
    kinds = [("default", {}, wanted.seeds)]
    kinds += [(name, kind, wanted.harder) for name, kind in HARDER.items()]
    for name, kind, many in kinds:
        measured(name, wanted.jobs, range(FIRST_SEED, FIRST_SEED + many), **kind)


if __name__ == "__main__":
    main()
