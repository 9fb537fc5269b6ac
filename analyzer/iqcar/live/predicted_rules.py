"""Predict what the rules of a window do, also for queries that have not ended in it.

Behind a hog, victims do not end: a prediction for those that did would come when all is over. Here
a query that runs counts to the window's end, and a task that waits takes no time once it is
launched. What a rule gains is then how much earlier those tasks would have got a slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from iqcar.replay import predict
from iqcar.rules import Rule, scheduler_rules
from iqcar.tables import Tables

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph


def predicted_rules(
    tables: Tables, graph: IQCGraph, rules: Iterable[Rule], acting: Sequence[Rule] = ()
) -> tuple[Rule, ...]:
    """Return the rules of a window with their expected effect.

    Parameters
    ----------
    tables : Tables
        The window's, cut at its start; queries and stages that have not ended end with it.
    graph : IQCGraph
        Of the window.
    rules : iterable of Rule
        Proposed from it.
    acting : sequence of Rule
        Rules that act beside them.

    Returns
    -------
    tuple of Rule
        Without those that are predicted to harm.
    """
    proposed = scheduler_rules(rules)
    if not proposed:
        return ()
    known = np.isfinite(tables.queries["end_ms"].to_numpy(np.float64))
    queries = tables.queries.assign(ended=tables.queries["ended"].to_numpy(bool) | known)
    return predict(tables.with_(queries=queries), graph, proposed, beside=acting).rules
