"""Answers questions about a comparison: what tells runs apart, how much they vary.

Runs are told apart by what tasks did (bytes, spill, each part of the time), partitions, hosts,
Spark version and settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration, size
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.sides.comparison_tables import MEASURES
from iqcar.comparison.sides.side import Side, settings_of
from iqcar.comparison.stats.decision_tree import TreeNode, explain_change
from iqcar.comparison.stats.density import Density, density, variation
from iqcar.errors import UsageError
from iqcar.tables import TableSpec, texts
from iqcar.tables.arrays import Floats, Ints
from iqcar.tables.declarations import declare

EXPLAINED = "time_ms"
"""The measure that is explained, and no parameter therefore."""
VERSION, HOSTS = "spark.version", "host names"
"""Parameters that are no measures and no settings."""
NOT_SET = "not set"
"""Value of a setting that a run did not set."""


class Explanation(NamedTuple):
    """What tells the runs of one category after from those before."""

    category: int
    parameters: pd.DataFrame
    """One row per run, before and after; a column per parameter, and `side`."""
    tree: TreeNode


def explain_category(
    comparison: Comparison, category: int, without: Sequence[str] = ()
) -> Explanation:
    """Explain the change of one category.

    Raises UsageError if a parameter to leave out does not exist.
    """
    parameters = run_parameters(comparison, category)
    side = parameters["side"].to_numpy(np.int64)
    asked = parameters.drop(columns=["side", "run"])
    tree = explain_change(asked, side, leave_out=without, show=shown)
    return Explanation(category, parameters, tree)


def shown(parameter: str, value: float | str) -> str:
    """Write a value of a parameter with its unit."""
    if isinstance(value, str):
        return value
    if parameter.endswith("_ms"):
        return duration(value)
    return size(value) if parameter.endswith("bytes") else f"{value:,.4g}"


def run_parameters(comparison: Comparison, category: int) -> pd.DataFrame:
    """Return one row per run of a category: side, run, and every parameter.

    A measure that is 0 in all runs, and a text that is the same in all, tell nothing and are left
    out. Of a baseline, settings are those of all its runs together.
    """
    runs = comparison.category_runs
    here = runs[runs["category"].to_numpy() == category]
    names = [*(name for name, *_ in MEASURES if name != EXPLAINED), "bytes_max_over_mean"]
    measures = here[names].astype(np.float64)
    kept = [name for name in names if (measures[name].fillna(0) != 0).any()]
    of_runs = [_texts_of_runs(side) for side in comparison.sides]
    rows = [
        of_runs[side].get(run, {})
        for side, run in zip(here["side"].tolist(), here["run"].tolist(), strict=True)
    ]
    told = {}
    for key in sorted({key for row in rows for key in row}):
        setting = key not in (VERSION, HOSTS)
        values = [row.get(key, NOT_SET if row and setting else None) for row in rows]
        if len(set(values)) > 1:
            told[key] = pd.Series(values, here.index, dtype=object)
    parameters: pd.DataFrame = here[["side", "run"]].assign(
        **{name: measures[name] for name in kept}, **told
    )
    return parameters.reset_index(drop=True)


def _texts_of_runs(side: Side) -> dict[int, dict[str, str]]:
    """Return settings, version and hosts of each run of a side."""
    facts = side.facts
    if side.tables is None or side.rows is None:
        whole = {key: " or ".join(values) for key, values in facts.settings.items()}
        for key, names in ((VERSION, facts.versions), (HOSTS, facts.hosts)):
            if len(names) == 1:
                whole[key] = names[0]
        return dict.fromkeys(range(facts.runs), whole)
    tables = side.tables
    app = tables.queries["app"].to_numpy(np.int64)
    run = side.rows.query_run
    query = tables.tasks["query"].to_numpy(np.int64)
    host = tables.tasks["host"].to_numpy(np.int64)
    known = np.flatnonzero((query >= 0) & (host >= 0))
    pairs = np.unique(np.column_stack([run[query[known]], host[known]]), axis=0)
    host_names, versions = texts(tables.hosts, "host"), texts(tables.applications, "spark_version")
    found: dict[int, dict[str, str]] = {}
    for number in range(facts.runs):
        apps = set(app[run == number].tolist())
        hosts = [host_names[row] for run_of, row in pairs.tolist() if run_of == number]
        found[number] = {
            **{key: " or ".join(values) for key, values in settings_of(tables, apps).items()},
            VERSION: " or ".join(sorted({versions[app] for app in apps})),
            HOSTS: ", ".join(sorted(hosts)),
        }
    return found


def find_change(comparison: Comparison, wanted: str | int) -> int:
    """Return the category of a change: its rank, RANK.STAGE, or the name of a query.

    Raises UsageError if there is no such change.
    """
    rank, _, stage = str(wanted).partition(".")
    if not (rank.isdigit() and (stage == "" or stage.isdigit())):
        return comparison.find(str(wanted))
    changes = comparison.changes
    rows = changes["category"].to_numpy(np.int64)[changes["rank"].to_numpy() == int(rank)]
    place = int(stage or 0)
    if place >= len(rows):
        count = int(changes["rank"].max()) if len(changes) else 0
        raise UsageError(
            f"there is no change {wanted}",
            "--explain",
            f"there are {count}; 1.2 is the second stage of the first" if count else "",
        )
    return int(rows[place])


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
        category_of, time = task_times(comparison.sides[side], comparison.category_of[side])
        return density(time[category_of == category])
    runs = comparison.category_runs
    here = (runs["category"].to_numpy() == category) & (runs["side"].to_numpy() == side)
    return density(runs["time_ms"].to_numpy(np.float64)[here])


def task_times(side: Side, category_of: Ints) -> tuple[Ints, Floats]:
    """Return stage category and duration of every task; nothing of a baseline."""
    if side.tables is None or side.rows is None:
        return np.zeros(0, np.int64), np.zeros(0)
    stage = side.tables.tasks["stage"].to_numpy(np.int64)
    node = np.append(side.rows.stage_node, -1)[stage]
    launch, finish = (
        side.tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    rows = np.flatnonzero(node >= 0)
    return category_of[node[rows]], (finish - launch)[rows]
