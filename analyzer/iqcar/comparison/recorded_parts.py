"""Find parts of task time that the sides did not record alike, and count them as rest on both.

Plain logs and those of the plugin know different waits, and the same one from different sources. A
wait that was not recorded is unknown, not zero: its difference would be taken for a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.comparison.match import Matched
from iqcar.enums import EVIDENCES
from iqcar.model.waits.columns import (
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    evidence_column,
    wait_column,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, positive_or_zero, share_of, sum_by

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import Side

TASK_PARTS = ("compute_ms", "gc_ms", *(wait_column(request) for request in IN_TASK_REQUESTS))
"""Columns of waits that are parts of a stage by the same name."""
ALIKE = 0.1
"""Share of a stage's task time that may have other evidence on one side than on the other: failed
attempts, which have no metrics, take as much."""


def part_evidence(tables: Tables, waits: pd.DataFrame) -> NDArray[np.int8]:
    """Return how each task's parts are known.

    Returns
    -------
    ndarray of shape (n_tasks, n_parts), int8
        Codes of evidence, columns as :data:`TASK_PARTS`.
    """
    tasks, records = tables.tasks, tables.task_records
    recorded = np.zeros(len(tasks), bool)
    sampled = (records["sampler"] == "").to_numpy(bool)
    recorded[records["task"].to_numpy(np.int64)[sampled]] = True
    # Only the plugin sees what a Python worker computes; of other tasks Spark tells as much.
    python = np.append(tables.stages["python"].to_numpy(bool), False)
    python = python[tasks["stage"].to_numpy(np.int64)]
    known = (~np.isnan(waits["compute_ms"].to_numpy()), ~np.isnan(tasks["gc_ms"].to_numpy()))
    own = [
        np.where(seen, MEASURED, np.where(told, REPORTED, MISSING))
        for seen, told in zip((recorded & python, recorded), known, strict=True)
    ]
    codes = [waits[evidence_column(request)].to_numpy() for request in IN_TASK_REQUESTS]
    return np.column_stack([*own, *codes]).astype(np.int8)


def node_evidence(
    tables: Tables, waits: pd.DataFrame, stage_node: Ints, query_of_node: Ints
) -> Floats:
    """Return the share of each node's task time by the evidence of each part.

    Parameters
    ----------
    tables : Tables
    waits : DataFrame of WAITS
    stage_node : ndarray of shape (n_stages,)
        Node of each stage; −1 where it was left out.
    query_of_node : ndarray of shape (n_nodes,)
        Node of the query of each node.

    Returns
    -------
    ndarray of shape (n_nodes, n_parts, n_evidences)
        Rounded to percent; 0 where there are no tasks. A query's is that of all its tasks.
    """
    n, levels = len(query_of_node), len(EVIDENCES)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    node = np.where(stage >= 0, np.append(stage_node, -1)[stage], -1)
    rows = np.flatnonzero(node >= 0)
    time = positive_or_zero(waits["duration_ms"].to_numpy(np.float64)[rows])
    codes = part_evidence(tables, waits)[rows].astype(np.int64)
    times = np.empty((n, len(TASK_PARTS), levels))
    for part in range(len(TASK_PARTS)):
        of = node[rows] * levels + codes[:, part]
        times[:, part] = sum_by(of, time, n * levels).reshape(n, levels)
    others = np.flatnonzero(query_of_node != np.arange(n))
    np.add.at(times, query_of_node[others], times[others])
    return np.round(share_of(times, times.sum(axis=2, keepdims=True)), 2)


def unlike_parts(sides: tuple[Side, Side], matched: Matched) -> Flags:
    """Tell which parts of the stages of both sides' queries are known from other evidence.

    Returns
    -------
    ndarray of shape (n_categories, n_parts), bool
        A stage on one side only is held against the whole query on the other. False of a query
        and of its driver.
    """
    categories = matched.categories
    root = categories["query_category"].to_numpy(np.int64)
    known = [
        _by_category(side.evidence, of, root)
        for side, of in zip(sides, matched.category_of, strict=True)
    ]
    told = np.logical_and(*(shares.sum(axis=2) > 0 for shares in known))
    differs = np.abs(known[0] - known[1]).sum(axis=2) / 2 > ALIKE
    is_stage = categories["kind"].to_numpy(object) == "stage"
    unlike: Flags = told & differs & is_stage[:, None]
    return unlike


def _by_category(evidence: Floats, category_of: Ints, root: Ints) -> Floats:
    """Shares by category: mean over its nodes; those of its query where it has no tasks."""
    total = np.zeros((len(root), *evidence.shape[1:]))
    here = category_of >= 0
    np.add.at(total, category_of[here], evidence[here])
    empty = total.sum(axis=(1, 2)) == 0
    total[empty] = total[root[empty]]
    return share_of(total, total.sum(axis=2, keepdims=True))


def fold_parts(runs: pd.DataFrame, categories: pd.DataFrame, unlike: Flags) -> pd.DataFrame:
    """Return ``CATEGORY_RUNS`` in which some parts of stages, and of their queries, are rest.

    What Python workers computed is 0 where computing is such a part.

    Parameters
    ----------
    runs : DataFrame of CATEGORY_RUNS
    categories : DataFrame of CATEGORIES
    unlike : ndarray of shape (n_categories, n_parts), bool
        From :func:`unlike_parts`.
    """
    if not unlike.any():
        return runs
    names = [*TASK_PARTS, "python_cpu_ms"]
    unlike = np.column_stack([unlike, unlike[:, 0]])
    category, side, run = (runs[name].to_numpy(np.int64) for name in ("category", "side", "run"))
    parts = runs[names].to_numpy(np.float64)
    folded = np.where(unlike[category], parts, 0.0)
    width = int(run.max(initial=0)) + 1
    cell = (category * 2 + side) * width + run  # sorted, as runs are
    root = categories["query_category"].to_numpy(np.int64)[category]
    query_row = np.searchsorted(cell, (root * 2 + side) * width + run)
    stages = np.flatnonzero(query_row != np.arange(len(runs)))
    np.add.at(folded, query_row[stages], folded[stages])
    left = np.maximum(parts - folded, 0.0)
    rest = runs["rest_ms"].to_numpy(np.float64) + (parts - left)[:, :-1].sum(axis=1)
    columns = {name: left[:, place] for place, name in enumerate(names)}
    return runs.assign(**columns, rest_ms=rest)


def without_unlike(
    waits: pd.DataFrame, stage_category: Ints, stage: Ints, unlike: Flags
) -> pd.DataFrame:
    """Return waits in which the parts that are rest are not known.

    Parameters
    ----------
    waits : DataFrame of WAITS
    stage_category : ndarray of shape (n_stages,)
    stage : ndarray of shape (n_tasks,)
        Stage of each task; −1 if unknown.
    unlike : ndarray of shape (n_categories, n_parts), bool
    """
    if not unlike.any():
        return waits
    category = np.where(stage >= 0, np.append(stage_category, -1)[stage], -1)
    hidden = np.vstack([unlike, np.zeros(unlike.shape[1], bool)])[category]
    columns: dict[str, NDArray[np.generic]] = {
        name: np.where(hidden[:, place], np.nan, waits[name].to_numpy())
        for place, name in enumerate(TASK_PARTS)
    }
    lost = sum(
        positive_or_zero(waits[name].to_numpy()) * hidden[:, place]
        for place, name in enumerate(TASK_PARTS)
    )
    columns["unattributed_ms"] = waits["unattributed_ms"].to_numpy() + lost
    for place, request in enumerate(IN_TASK_REQUESTS, len(TASK_PARTS) - len(IN_TASK_REQUESTS)):
        name = evidence_column(request)
        columns[name] = np.where(hidden[:, place], MISSING, waits[name].to_numpy()).astype(np.int8)
    return waits.assign(**columns)


def unlike_doubt(sides: tuple[Side, Side], unlike: Flags, categories: pd.DataFrame) -> str:
    """Say which parts are not compared, and why; empty if all are."""
    names = [
        name.removesuffix("_ms").replace("_", " ")
        for place, name in enumerate(TASK_PARTS)
        if unlike[:, place].any()
    ]
    if not names:
        return ""
    measured = [bool(side.evidence[:, :, MEASURED].any()) for side in sides]
    why = "The logs of both sides do not record the same waits"
    if measured[0] != measured[1]:
        why = f"Only the tasks {'before' if measured[0] else 'after'} were measured by the plugin"
    count = int(unlike.any(axis=1).sum())
    of = int((categories["kind"] == "stage").sum())
    return (
        f"{why}: in {count} of {of} stages {', '.join(names)} cannot be compared; what was not "
        "recorded is unknown, not zero, so they are counted as rest on both sides, and nobody is "
        "blamed for them"
    )
