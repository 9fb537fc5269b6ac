"""Random features of tasks for property tests: small stages, few hosts, much that is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import Feature, TaskFeatures, after, before
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.enums import FeatureKind
from tests.support.naive_bigroots import NaiveTask

AMOUNT = Feature("amount", FeatureKind.NUMERICAL, "amount", "bytes", "amount", "An amount.")
SPENT = Feature("spent_ms", FeatureKind.TIME, "spent", "ms", "spending", "A time.")
BUSY = Feature("busy", FeatureKind.RESOURCE, "busy", "share", "busy host", "A resource.")
LOCALITY = Feature("locality", FeatureKind.DISCRETE, "locality", "", "locality", "Eq. 4.")
LISTED = (AMOUNT, SPENT, BUSY, LOCALITY)
KINDS = {f.name: str(f.kind) for f in LISTED}


def tasks(most: int = 24) -> st.SearchStrategy[list[NaiveTask]]:
    """Tasks of up to three stages on up to three hosts; numbers are small and often equal."""
    return st.builds(random_tasks, st.integers(0, most), st.integers(1, 3), st.integers(0, 2**32))


def random_tasks(n: int, stages: int, seed: int) -> list[NaiveTask]:
    """Make the tasks that a seed stands for: a third are several times as long as the others."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(1, 4))

    def some(values: Sequence[float]) -> float:
        return float(rng.choice(values)) if rng.random() < 0.9 else float("nan")

    found = []
    for _ in range(n):
        long = rng.random() < 0.3
        duration = float(rng.integers(6, 30) if long else rng.integers(0, 8))
        features = {
            "amount": some([0, 1, 2, 3, 9, 12] if long else [0, 1, 2, 3]),
            "spent_ms": some([0, 1, 2, 3, 6, 9] if long else [0, 1, 2]),
            "busy": some(np.arange(9) / 8),
            "locality": some([0, 1, 2, 2] if long else [0, 0, 1, 2]),
        }
        edges = {"busy": (some(np.arange(9) / 8), some(np.arange(9) / 8))}
        host = int(rng.integers(-1, hosts - 1))
        found.append(NaiveTask(int(rng.integers(stages)), host, duration, features, edges))
    return found


def features_of(tasks: Sequence[NaiveTask], listed: Sequence[Feature] = LISTED) -> TaskFeatures:
    """The same tasks as the table that the real code takes."""
    n = len(tasks)
    columns: dict[str, object] = {
        "task": np.arange(n, dtype=np.int32),
        "task_id": np.arange(n),
        "app": np.zeros(n, np.int32),
        "stage": np.array([t.stage for t in tasks], np.int32),
        "query": np.full(n, -1, np.int32),
        "host": np.array([t.host for t in tasks], np.int32),
        "launch_ms": np.zeros(n),
        "duration_ms": np.array([t.duration for t in tasks], float),
        "compared": np.ones(n, bool),
        "measured": np.zeros(n, bool),
    }
    for feature in listed:
        columns[feature.name] = np.array([t.features[feature.name] for t in tasks], float)
        if feature.kind is FeatureKind.RESOURCE:
            for place, side in enumerate((before(feature), after(feature))):
                columns[side] = np.array([t.edges[feature.name][place] for t in tasks], float)
    return made(columns, listed)


def made(columns: Mapping[str, object], listed: Sequence[Feature]) -> TaskFeatures:
    labels = Labels(["app"], [f"stage {n}" for n in range(9)], [], [], ["h0", "h1", "h2"])
    return TaskFeatures(pd.DataFrame(dict(columns)), tuple(listed), labels)
