"""Puts the measures of both sides together: one row per category, side and run.

Parts of task time that the sides did not record alike are counted as rest on both.

Plain logs and those of the plugin know different waits, and the same one from different sources. A
wait that was not recorded is unknown, not zero: its difference would be taken for a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.comparison_tables import CATEGORY_RUNS, MEASURES
from iqcar.comparison.sides.side import Side
from iqcar.model.waits.columns import IN_TASK_REQUESTS, MEASURED, MISSING, evidence_column
from iqcar.model.waits.stage_parts import TASK_PARTS, mean_known
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, positive_or_zero, share_of, sum_by

ALIKE = 0.1
"""Share of a stage's task time that may have other evidence on one side than on the other: failed
attempts, which have no metrics, take as much."""


def unlike_parts(sides: tuple[Side, Side], matched: Matched) -> Flags:
    """Tell which parts of the stages of both sides' queries are known from other evidence.

    Returns (n_categories, n_parts): a stage on one side only is held against the whole query on the
    other. False of a query and of its driver.
    """
    categories = matched.categories
    root = categories["query_category"].to_numpy(np.int64)
    known = [
        _by_category(side.evidence, category, root)
        for side, category in zip(sides, matched.category_of, strict=True)
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

    ``unlike``, (n_categories, n_parts): from :func:`unlike_parts`.
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

    ``stage_category``: (n_stages,). ``stage``, (n_tasks,): stage of each task; −1 if unknown.
    ``unlike``: (n_categories, n_parts).
    """
    if not unlike.any():
        return waits
    category = np.append(stage_category, -1)[stage]
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
    stages = int((categories["kind"] == "stage").sum())
    return (
        f"{why}: in {count} of {stages} stages {', '.join(names)} cannot be compared; what was not "
        "recorded is unknown, not zero, so they are counted as rest on both sides, and nobody is "
        "blamed for them"
    )


class ComparedRows(NamedTuple):
    """Rows of one side's tables, and where they stand in the comparison."""

    tables: Tables
    waits: pd.DataFrame
    """As :func:`~iqcar.model.waits.measure.measure_waits` says, without what the sides did not
    record alike."""
    run: Ints
    """(n_queries,): run of each query."""
    category: Ints
    """(n_queries,): its row in ``CATEGORIES``; −1 for a query that is not compared."""
    stage_category: Ints
    """(n_stages,): the same of each stage."""

    def weights(self) -> Floats:
        """Weight of each query in the mean of its category: instances of a run, then runs.

        Returns (n_queries,): the weights of a category sum to 1; 0 for a query that is not
        compared.
        """
        here = np.flatnonzero(self.category >= 0)
        key = np.stack([self.category[here], self.run[here]])
        cells, cell, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
        _, member, runs = np.unique(cells[0], return_inverse=True, return_counts=True)
        weights = np.zeros(len(self.category))
        weights[here] = 1.0 / (count * runs[member])[cell.reshape(-1)]
        return weights


def compared_rows(side: Side, category_of: Ints, unlike: Flags) -> ComparedRows | None:
    """Return the rows of a side with their categories; None for a baseline, which has no tables.

    ``category_of``, (n_nodes,): category of each node of the side. ``unlike``, (n_categories,
    n_parts): from :func:`unlike_parts`.
    """
    if side.tables is None or side.rows is None or side.waits is None:
        return None
    padded = np.append(category_of, -1)
    stage_category = padded[side.rows.stage_node]
    stage = side.tables.tasks["stage"].to_numpy(np.int64)
    return ComparedRows(
        side.tables,
        without_unlike(side.waits, stage_category, stage, unlike),
        side.rows.query_run,
        padded[side.rows.query_node],
        stage_category,
    )


LEAST_DATA_RATIO = 1.1
"""Ratio of bytes read from which a stage that changed the same way has other data."""


def category_runs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Average the nodes of each category in each run, by how often their queries ran.

    Returns ``CATEGORY_RUNS``: sorted by category, side and run. A stage has a row only for runs
    that needed it; its measures count the runs of its query that did not need it as 0.
    """
    root = matched.categories["query_category"].to_numpy(np.int64)
    parts = [
        _side_runs(side.node_runs, category, root)
        for side, category in zip(sides, matched.category_of, strict=True)
    ]
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    number = np.repeat([0, 1], [len(part["run"]) for part in parts])
    order = np.lexsort((together["run"], number, together["category"]))
    rows = {name: values[order] for name, values in together.items()}
    return CATEGORY_RUNS.frame({**rows, "side": number[order]})


def _side_runs(nodes: pd.DataFrame, category_of: Ints, root: Ints) -> dict[str, Floats | Ints]:
    """Columns of one side; ``nodes``: ``NODE_RUNS``, ``root``: the query of each category."""
    category, run = category_of[nodes["node"].to_numpy()], nodes["run"].to_numpy(np.int64)
    weight = nodes["instances"].to_numpy(np.float64)
    runs = max(int(run.max(initial=-1)) + 1, 1)
    of_query = root[category] == category
    cell = category * runs + run
    ran = sum_by(cell[of_query], weight[of_query], len(root) * runs)
    present, place = np.unique(cell, return_inverse=True)
    instances = ran[root[present // runs] * runs + present % runs]
    n, skew = len(present), nodes["bytes_max_over_mean"].to_numpy(np.float64)
    return {
        "category": present // runs,
        "run": present % runs,
        "instances": instances.astype(np.int64),
        **{
            name: sum_by(place, nodes[name].to_numpy(np.float64) * weight, n)
            / np.maximum(instances, 1)
            for name, *_ in MEASURES
        },
        "bytes_max_over_mean": mean_known(place, skew, weight, n),
    }


def without_other_counts(runs: pd.DataFrame, n: int) -> pd.DataFrame:
    """Forget the bytes of categories that read the same records, but other bytes.

    Versions of Spark, and of the file systems that come with them, count bytes differently: one
    counts what it reads in threads of its own, another does not.

    ``runs``: of sides with different versions. ``n``: categories.
    """
    cell = runs["category"].to_numpy(np.int64) * 2 + runs["side"].to_numpy(np.int64)
    count = np.bincount(cell, minlength=2 * n).astype(np.float64)
    growth = []
    for name in ("bytes", "records"):
        mean = share_of(sum_by(cell, runs[name].to_numpy(np.float64), 2 * n), count)
        before, after = mean[0::2], mean[1::2]
        known = (before > 0) & (after > 0)
        growth.append(np.log(np.where(known, after, 1.0) / np.where(known, before, 1.0)))
    least = np.log(LEAST_DATA_RATIO)
    otherwise = (np.abs(growth[0]) >= least) & (np.abs(growth[1]) < least)
    rows = otherwise[runs["category"].to_numpy(np.int64)]
    unknown = {
        name: np.where(rows, np.nan, runs[name].to_numpy(np.float64))
        for name in ("bytes", "bytes_max_over_mean")
    }
    return runs.assign(**unknown)


class SideMeans(NamedTuple):
    """Means over runs, per category; a stage counts 0 in runs that did not need it."""

    runs: Ints
    """(n_categories,): runs in which the category's query ran."""
    instances: Floats
    """(n_categories,): how often its query ran in one of them."""
    measure: dict[str, Floats]
    """(n_categories,): by the names of ``MEASURES`` and ``bytes_max_over_mean``."""


def side_means(runs: pd.DataFrame, categories: pd.DataFrame, side: int) -> SideMeans:
    """Average the rows of one side of ``CATEGORY_RUNS``."""
    n = len(categories)
    here = runs[runs["side"].to_numpy() == side]
    category = here["category"].to_numpy(np.int64)
    root = categories["query_category"].to_numpy(np.int64)
    count = np.bincount(category, minlength=n)[root].astype(np.float64)
    ran = sum_by(category, here["instances"].to_numpy(np.float64), n)[root]
    means = {
        name: share_of(sum_by(category, here[name].to_numpy(np.float64), n), count)
        for name, *_ in MEASURES
    }
    skew = here["bytes_max_over_mean"].to_numpy(np.float64)
    means["bytes_max_over_mean"] = mean_known(category, skew, np.ones(len(skew)), n)
    return SideMeans(count.astype(np.int64), share_of(ran, count), means)
