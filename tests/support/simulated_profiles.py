"""What simulated tasks did in each interval of their lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.tables import INTERVALS
from tests.support.random_tables import EPOCH_MS

Phase = tuple[float, float, Request, float, float]
"""Begin and end of a phase, its request, and how long its task computed and waited in it."""


def profiles(
    tasks: Iterable[tuple[float, float, Sequence[Phase]]], bucket_ms: float
) -> pd.DataFrame:
    """Intervals of tasks, given their launches, finishes and phases; evenly within a phase."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in INTERVALS.column_names()}
    for row, (launch, finish, history) in enumerate(tasks):
        life = finish - launch
        edges = np.minimum(np.arange(int(life // bucket_ms) + 2) * bucket_ms, life)
        edges = launch + edges[np.append(True, np.diff(edges) > 0)]
        profile = {name: np.zeros(len(edges) - 1) for name in columns}
        for begin, end, request, computed, waited in history:
            reached = np.clip((edges - begin) / max(end - begin, 1e-9), 0.0, 1.0)
            profile["cpu_ms"] += computed * np.diff(reached)
            profile[f"{request}_ms"] += waited * np.diff(reached)
        profile["task"] += row
        profile["start_ms"], profile["end_ms"] = EPOCH_MS + edges[:-1], EPOCH_MS + edges[1:]
        for name, values in profile.items():
            columns[name].append(values)
    return INTERVALS.frame({n: np.concatenate(parts) for n, parts in columns.items()})
