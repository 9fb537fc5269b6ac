"""Browse both sides: how much each category varies from run to run, and among its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.comparison.browse import Density, density, variation
from iqcar.tables import TableSpec
from iqcar.tables.arrays import Floats, Ints
from iqcar.tables.declarations import declare

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison
    from iqcar.comparison.measured_side import Side

VARIATION = TableSpec(
    "variation",
    "One row per category: C² = (σ/μ)² of its times on either side; above 1 is high.",
    declare(
        ("category", "int32", "row", "The category."),
        ("runs_c2_before", "float64", "", "Over its runs before; NaN for fewer than two."),
        ("runs_c2_after", "float64", "", "Over its runs after."),
        ("tasks_c2_before", "float64", "", "Over a stage's tasks before; NaN of a baseline."),
        ("tasks_c2_after", "float64", "", "Over a stage's tasks after."),
    ),
)


def find_variation(comparison: Comparison) -> pd.DataFrame:
    """Return :data:`VARIATION` of all categories."""
    n = len(comparison.categories)
    runs = comparison.category_runs
    columns: dict[str, Floats | Ints] = {"category": np.arange(n)}
    for number, word in ((0, "before"), (1, "after")):
        here = runs[runs["side"].to_numpy() == number]
        columns[f"runs_c2_{word}"] = variation(
            here["category"].to_numpy(np.int64), here["time_ms"].to_numpy(np.float64), n
        )
        category, time = task_times(comparison.sides[number], comparison.category_of[number])
        columns[f"tasks_c2_{word}"] = variation(category, time, n)
    return VARIATION.frame(columns)


def density_of(comparison: Comparison, category: int, side: int) -> Density:
    """Return the density of log2 durations of a stage's tasks, or of a query in its runs."""
    if comparison.categories["kind"].iloc[category] == "stage":
        of, time = task_times(comparison.sides[side], comparison.category_of[side])
        return density(time[of == category])
    runs = comparison.category_runs
    here = (runs["category"].to_numpy() == category) & (runs["side"].to_numpy() == side)
    return density(runs["time_ms"].to_numpy(np.float64)[here])


def task_times(side: Side, category_of: Ints) -> tuple[Ints, Floats]:
    """Return stage category and duration of every task; nothing of a baseline."""
    if side.tables is None or side.rows is None:
        return np.zeros(0, np.int64), np.zeros(0)
    stage = side.tables.tasks["stage"].to_numpy(np.int64)
    node = np.where(stage >= 0, np.append(side.rows.stage_node, -1)[stage], -1)
    launch, finish = (
        side.tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    rows = np.flatnonzero(node >= 0)
    return category_of[node[rows]], (finish - launch)[rows]
