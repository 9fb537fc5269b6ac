"""Compute how much the work of a query differs from run to run, by its repetitions in the log."""

from __future__ import annotations

import numpy as np

from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables import recurring_queries
from iqcar.tables.arrays import Floats, sum_by

ENOUGH = 4
"""Pairs of runs, of all queries together, from which their spread means something."""
SHRUNK = 4.0
"""Pairs of runs of one query that count as much as the spread of all queries."""
WARM = 3
"""Runs of a query from which the first, for which the JVM still compiles, is left out."""
NORMAL = 1.4826
"""Standard deviation by the median of absolute values, of a normal distribution."""
OUTLIER = 3.0
"""Standard deviations that a difference counts as at most."""


def rerun_spread(scenario: Scenario) -> Floats:
    """Estimate the spread of what another run of each query takes, as a share of this one.

    Runs of a query with as many tasks are compared with the run before, by the time that all
    tasks need alone: what they wait for others is what the model computes. The spread of each
    query is shrunk towards that of all.

    Returns
    -------
    ndarray of shape (n_queries,)
        Standard deviation of the logarithm of the ratio of two runs; 0 where the log has too few
        repetitions.
    """
    tables = scenario.tables
    n = len(tables.queries)
    of_query = scenario.query_of_task
    known = of_query >= 0
    work = sum_by(of_query[known], scenario.alone[known].sum(axis=1), n)
    tasks = np.bincount(of_query[known], minlength=n)
    start = tables.queries["start_ms"].to_numpy(np.float64)
    alike = recurring_queries(tables)
    rows = np.flatnonzero(work > 0)
    rows = rows[np.lexsort((start[rows], tasks[rows], alike[rows]))]
    same = (alike[rows][1:] == alike[rows][:-1]) & (tasks[rows][1:] == tasks[rows][:-1])
    # The first of several runs and the one after it differ by more than luck.
    first = np.append(True, ~same)[: len(rows)]
    group = np.cumsum(first) - 1
    warms_up = first & (np.bincount(group)[group] >= WARM)
    pair = same & ~warms_up[:-1]
    difference = np.diff(np.log(work[rows]))[pair]
    if len(difference) < ENOUGH:
        return np.zeros(n)
    of_all = NORMAL * float(np.median(np.abs(difference)))
    bounded = np.minimum(np.abs(difference), OUTLIER * of_all)
    mine, most = alike[rows][1:][pair], int(alike.max()) + 1
    pairs = np.bincount(mine, minlength=most)
    squares = sum_by(mine, bounded**2, most) + SHRUNK * of_all**2
    spread: Floats = np.sqrt(squares / (pairs + SHRUNK))[alike]
    return spread
