"""Fits what tasks need so that replays of recorded launches give recorded times.

The way and the devices that were short are chosen on a small sample, own rates and capacities are
fitted on a larger one, and each task for itself on all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iqcar.model.demand.estimate import Demand
from iqcar.model.demand.known import Known
from iqcar.replay.loop.learned_rates import contradicted, learned
from iqcar.replay.loop.open_loop import (
    MANY_TASKS,
    OUTSIDE_ROUNDS,
    Launches,
    fit_tasks,
    keep_outside_queue,
    replayable,
    rows_of,
)
from iqcar.replay.loop.rate_fit import SOME, RateFit
from iqcar.replay.loop.task_demands import COMPUTE, ONCE, WAIT, WAYS, TaskDemands
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, share_of

FEW_TASKS, SOME_TASKS = 400, 3_000
"""About how many tasks the way is chosen from, and own rates are fitted on."""


def fit_demands(
    tables: Tables, demands: TaskDemands, demand: Demand, *, coarse: bool = False
) -> Fits:
    """Fit own rates and capacities, then each task's time alone.

    coarse: Whether no task is fitted by itself.
    """
    launches, rows = replayable(tables, demands)
    if len(rows) == 0:
        return Fits(demands, demands, demands.alone, demands.alone)
    found, (slow, fast) = _with_rates(tables, demands, demand, launches, rows)
    check = keep_outside_queue(found, launches, rows, 1 if coarse else OUTSIDE_ROUNDS)
    fitted = check if coarse else fit_tasks(tables, check)
    change = share_of(fitted.alone, found.alone)
    return Fits(fitted, check, slow * change, fast * change)


@dataclass(frozen=True)
class Fits:
    """Demands with what was fitted.

    fitted: each task for itself; replays of it reproduce the run by construction.
    check: own rates and capacities only; how well it reproduces the run is a check.
    slow, fast: (n_tasks, 5), ms; time alone of ``fitted``, if own rates were as low, and as high,
        as the data allow (middle 80 %).
    """

    fitted: TaskDemands
    check: TaskDemands
    slow: Floats
    fast: Floats


def _with_rates(
    tables: Tables, demands: TaskDemands, demand: Demand, launches: Launches, rows: Ints
) -> tuple[TaskDemands, tuple[Floats, Floats]]:
    stage = tables.tasks["stage"].to_numpy(np.int64)
    few = _sampled(launches, rows, FEW_TASKS)
    fit = _fit_on(few, demands, demand, launches, stage)
    if len(fit.task) == 0:
        return demands, (demands.alone, demands.alone)
    ways = WAYS if len(rows) <= MANY_TASKS else ONCE
    found, way = fit.best(ways)
    refused = bool(demand.known) and contradicted(fit, found)
    if refused:
        demand = replace(demand, known=Known())
        fit = _fit_on(few, demands, demand, launches, stage)
        found, way = fit.best(ways)
    some = _sampled(launches, rows, SOME_TASKS)
    if len(some) > len(few):
        more = _fit_on(some, demands, demand, launches, stage)
        start = found.at._replace(log_rate=more.rates_of(fit, found.at.log_rate))
        found, fit = more.climb(way, start, SOME), more
    # A sample is in the order of launches, and results go to rows of tables.
    same = np.array_equal(rows, some)
    whole = fit if same else _fit_on(rows, demands, demand, launches, stage)
    best, slow, fast = (
        _of_all(
            demands,
            rows,
            whole.laid_out(found.at._replace(log_rate=whole.rates_of(fit, rates))),
        )
        for rates in (found.at.log_rate, *fit.bounds(found))
    )
    says = learned(fit, found, tables.stages["query"].to_numpy(np.int64))
    says = replace(says, refused=refused)
    return replace(best, way=way, learned=says), (np.minimum(slow.alone, best.spent), fast.alone)


def _fit_on(
    rows: Ints, demands: TaskDemands, demand: Demand, launches: Launches, stage: Ints
) -> RateFit:
    return RateFit(rows_of(demands, rows), launches.of(rows), stage[rows], demand)


def _of_all(demands: TaskDemands, rows: Ints, found: TaskDemands) -> TaskDemands:
    """Put what was found for some tasks into the demands of all; idle time is no time computing."""
    spent, alone, use = demands.spent.copy(), demands.alone.copy(), demands.use.copy()
    idle = np.maximum(found.alone[:, WAIT] - alone[rows, WAIT], 0.0)
    idle = np.minimum(idle, np.maximum(spent[rows, COMPUTE] - found.alone[:, COMPUTE], 0.0))
    alone[rows], use[rows] = found.alone, found.use
    alone[rows, WAIT] = spent[rows, WAIT] + idle
    spent[rows, WAIT] += idle
    spent[rows, COMPUTE] -= idle
    return replace(demands, spent=spent, alone=alone, use=use, capacity=found.capacity)


def _sampled(launches: Launches, rows: Ints, most: int) -> Ints:
    """Take all tasks of some hosts, and of these the first: hosts are independent of each other."""
    launch, host, n_hosts = launches
    sizes = np.bincount(host[rows], minlength=n_hosts)
    by_size = np.argsort(-sizes, kind="stable")
    few = by_size[: max(1, int(np.searchsorted(np.cumsum(sizes[by_size]), most)))]
    sample = rows[np.isin(host[rows], few)]
    return sample[np.argsort(launch[sample], kind="stable")][: 2 * most]
