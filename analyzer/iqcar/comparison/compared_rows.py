"""Name the category of each query and stage of one side's tables, and weigh them in its mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.recorded_parts import without_unlike
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import Side


class ComparedRows(NamedTuple):
    """Rows of one side's tables, and where they stand in the comparison.

    Attributes
    ----------
    tables : Tables
    waits : DataFrame
        From :func:`iqcar.model.waits.measure_waits`, without what the sides did not record alike.
    run : ndarray of shape (n_queries,), int64
        Run of each query.
    category : ndarray of shape (n_queries,), int64
        Its row in ``CATEGORIES``; −1 for a query that is not compared.
    stage_category : ndarray of shape (n_stages,), int64
        The same of each stage.
    """

    tables: Tables
    waits: pd.DataFrame
    run: Ints
    category: Ints
    stage_category: Ints

    def weights(self) -> Floats:
        """Weight of each query in the mean of its category: instances of a run, then runs.

        Returns
        -------
        ndarray of shape (n_queries,)
            The weights of a category sum to 1; 0 for a query that is not compared.
        """
        here = np.flatnonzero(self.category >= 0)
        key = np.stack([self.category[here], self.run[here]])
        cells, cell, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
        _, of, runs = np.unique(cells[0], return_inverse=True, return_counts=True)
        weights = np.zeros(len(self.category))
        weights[here] = 1.0 / (count * runs[of])[cell.reshape(-1)]
        return weights


def compared_rows(side: Side, category_of: Ints, unlike: Flags) -> ComparedRows | None:
    """Return the rows of a side with their categories; None for a baseline, which has no tables.

    Parameters
    ----------
    side : Side
    category_of : ndarray of shape (n_nodes,), int64
        Category of each node of the side.
    unlike : ndarray of shape (n_categories, n_parts), bool
        From :func:`iqcar.comparison.recorded_parts.unlike_parts`.
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
