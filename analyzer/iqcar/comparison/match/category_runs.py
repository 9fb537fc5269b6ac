"""Put the measures of both sides together: one row per category, side and run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.comparison_tables import CATEGORY_RUNS, MEASURES
from iqcar.comparison.sides.side import Side
from iqcar.tables.arrays import Floats, Ints, known_or_zero, share_of, sum_by

LEAST_DATA_RATIO = 1.1
"""Ratio of bytes read from which a stage that changed the same way has other data."""


def category_runs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Average the nodes of each category in each run, by how often their queries ran.

    Returns ``CATEGORY_RUNS``: sorted by category, side and run. A stage has a row only for runs
    that needed it; its measures count the runs of its query that did not need it as 0.
    """
    names = [name for name, *_ in MEASURES]
    parts = [
        side.node_runs.assign(category=of[side.node_runs["node"].to_numpy()])
        for side, of in zip(sides, matched.category_of, strict=True)
    ]
    columns: dict[str, list[Floats | Ints]] = {}
    whole = _instances(parts, matched)
    for number, part in enumerate(parts):
        key = part["category"].to_numpy(np.int64), part["run"].to_numpy(np.int64)
        runs = int(key[1].max(initial=-1)) + 1
        cell = key[0] * max(runs, 1) + key[1]
        present, place = np.unique(cell, return_inverse=True)
        category, run = present // max(runs, 1), present % max(runs, 1)
        root = matched.categories["query_category"].to_numpy(np.int64)
        instances = whole[number][root[category], run] if len(present) else np.zeros(0)
        weight = part["instances"].to_numpy(np.float64)
        columns.setdefault("category", []).append(category)
        columns.setdefault("side", []).append(np.full(len(present), number))
        columns.setdefault("run", []).append(run)
        columns.setdefault("instances", []).append(instances.astype(np.int64))
        for name in names:
            total = sum_by(place, part[name].to_numpy(np.float64) * weight, len(present))
            columns.setdefault(name, []).append(total / np.maximum(instances, 1))
        skew = part["bytes_max_over_mean"].to_numpy(np.float64)
        known = sum_by(place, weight * np.isfinite(skew), len(present))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sum_by(place, known_or_zero(skew) * weight, len(present)) / known
        columns.setdefault("bytes_max_over_mean", []).append(mean)
    together = {name: np.concatenate(values) for name, values in columns.items()}
    order = np.lexsort((together["run"], together["side"], together["category"]))
    return CATEGORY_RUNS.frame({name: values[order] for name, values in together.items()})


def without_other_counts(runs: pd.DataFrame, n: int) -> pd.DataFrame:
    """Forget the bytes of categories that read the same records, but other bytes.

    Versions of Spark, and of the file systems that come with them, count bytes differently: one
    counts what it reads in threads of its own, another does not.

    ``runs``: of sides with different versions. ``n``: categories.
    """
    cell = runs["category"].to_numpy(np.int64) * 2 + runs["side"].to_numpy(np.int64)
    count = np.bincount(cell, minlength=2 * n)
    growth = []
    for name in ("bytes", "records"):
        mean = share_of(sum_by(cell, runs[name].to_numpy(np.float64), 2 * n), count.astype(float))
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


def _instances(parts: list[pd.DataFrame], matched: Matched) -> list[Floats]:
    """How often each query category ran in each run: (n_categories, n_runs) per side."""
    found = []
    is_query = matched.categories["kind"].to_numpy() == "query"
    for part in parts:
        category, run = part["category"].to_numpy(np.int64), part["run"].to_numpy(np.int64)
        count = np.zeros((len(is_query), int(run.max(initial=-1)) + 1))
        rows = is_query[category]
        np.add.at(count, (category[rows], run[rows]), part["instances"].to_numpy(np.float64)[rows])
        found.append(count)
    return found


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
    rows_of = np.bincount(category, minlength=n)
    count = rows_of[root] if n else rows_of
    ran = sum_by(category, here["instances"].to_numpy(np.float64), n)
    instances = share_of(ran[root] if n else ran, count.astype(np.float64))
    measure = {
        name: share_of(sum_by(category, here[name].to_numpy(np.float64), n), count.astype(float))
        for name, *_ in MEASURES
    }
    skew = here["bytes_max_over_mean"].to_numpy(np.float64)
    known = sum_by(category, np.isfinite(skew).astype(np.float64), n)
    with np.errstate(invalid="ignore", divide="ignore"):
        measure["bytes_max_over_mean"] = sum_by(category, known_or_zero(skew), n) / known
    return SideMeans(count, instances, measure)
