"""Average each category over the runs of a side in which its query ran."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.comparison_tables import MEASURES
from iqcar.tables.arrays import Floats, Ints, known_or_zero, share_of, sum_by


class SideMeans(NamedTuple):
    """Means over runs, per category; a stage counts 0 in runs that did not need it.

    Attributes
    ----------
    runs : ndarray of shape (n_categories,)
        Runs in which the category's query ran.
    instances : ndarray of shape (n_categories,)
        How often its query ran in one of them.
    measure : dict of str to ndarray of shape (n_categories,)
        By the names of ``MEASURES`` and ``bytes_max_over_mean``.
    """

    runs: Ints
    instances: Floats
    measure: dict[str, Floats]


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
