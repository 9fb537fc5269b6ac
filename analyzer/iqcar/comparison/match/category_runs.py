"""Puts the measures of both sides together: one row per category, side and run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.comparison_tables import CATEGORY_RUNS, MEASURES
from iqcar.comparison.sides.side import Side
from iqcar.model.waits.stage_parts import mean_known
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

LEAST_DATA_RATIO = 1.1
"""Ratio of bytes read from which a stage that changed the same way has other data."""


def category_runs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Average the nodes of each category in each run, by how often their queries ran.

    Returns ``CATEGORY_RUNS``: sorted by category, side and run. A stage has a row only for runs
    that needed it; its measures count the runs of its query that did not need it as 0.
    """
    root = matched.categories["query_category"].to_numpy(np.int64)
    parts = [
        _side_runs(side.node_runs, of, root)
        for side, of in zip(sides, matched.category_of, strict=True)
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
