"""Find the queries of both sides whose stage graph changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.comparison.match import Matched
from iqcar.comparison.structures import structures
from iqcar.tables import texts

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import Side


def changed_graphs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Return the queries whose stage graph changed, with precursor and mutation.

    Returns
    -------
    DataFrame of :data:`~iqcar.comparison.structures.STRUCTURES`
    """
    category, number, run = [], [], []
    graph: list[str] = []
    for place, (side, of) in enumerate(zip(sides, matched.category_of, strict=True)):
        category.append(of[side.graphs["node"].to_numpy(np.int64)])
        number.append(np.full(len(side.graphs), place))
        run.append(side.graphs["run"].to_numpy(np.int64))
        graph += texts(side.graphs, "graph")
    return structures(np.concatenate(category), np.concatenate(number), np.concatenate(run), graph)
