"""Fits what tasks need so that replays of recorded launches give recorded times.

The way and the devices that were short are chosen on a small sample, own rates and capacities are
fitted on a larger one, and each task for itself on all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iqcar.model.demand.estimate import Demand
from iqcar.model.demand.known import Known
from iqcar.replay.loop.device_sharing import DEVICE
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
from iqcar.replay.loop.rate_fit import SOME
from iqcar.replay.loop.rate_point import RatePoint
from iqcar.replay.loop.rate_search import RateSearch
from iqcar.replay.loop.task_demands import (
    ASSUMED,
    COMPUTE,
    HEADROOM,
    INFERRED,
    ONCE,
    PHASES_OF,
    PROCESSOR,
    WAIT,
    WAYS,
    TaskDemands,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, most_at_once, share_of

FEW_TASKS, SOME_TASKS = 400, 3_000
"""About how many tasks the way is chosen from, and own rates are fitted on."""
BLOCKS = 8
"""Blocks of neighbours in time that such a sample consists of."""


def fit_demands(
    tables: Tables, demands: TaskDemands, demand: Demand, *, coarse: bool = False
) -> Fits:
    """Fit own rates and capacities, then each task's time alone.

    coarse: Whether no task is fitted by itself.
    """
    launches, rows = replayable(tables, demands)
    if len(rows) == 0:
        return Fits(demands, demands, demands, demands)
    found, slow, fast, shorter = _with_rates(tables, demands, demand, launches, rows)
    check = keep_outside_queue(found, launches, rows, 1 if coarse else OUTSIDE_ROUNDS)
    fitted = check if coarse else fit_tasks(tables, check)
    change = share_of(fitted.alone, found.alone)
    ends = [_as_fast(fitted, alone * change) for alone in (slow, fast)]
    if shorter is not None:
        ends[1] = _shorter(ends[1], found, shorter)
    return Fits(fitted, check, *ends)


def _as_fast(demands: TaskDemands, alone: Floats) -> TaskDemands:
    moved = demands.alone * demands.use
    return replace(demands, alone=alone, use=share_of(moved, alone))


def _shorter(demands: TaskDemands, found: TaskDemands, other: TaskDemands) -> TaskDemands:
    """Take the devices that are short in another explanation only from there."""
    alone, use, capacity = demands.alone.copy(), demands.use.copy(), demands.capacity.copy()
    for device in range(capacity.shape[1]):
        if (found.evidence[:, device] != ASSUMED).any():
            continue
        phases = np.flatnonzero(device == DEVICE)
        if device == PROCESSOR:
            # What seems to be sleep waits for a processor.
            alone[:, WAIT] = np.minimum(other.alone[:, WAIT], alone[:, WAIT])
        alone[:, phases] = np.minimum(other.alone[:, phases], alone[:, phases])
        use[:, phases], capacity[:, device] = other.use[:, phases], other.capacity[:, device]
    return replace(demands, alone=alone, use=use, capacity=capacity)


@dataclass(frozen=True)
class Fits:
    """Demands with what was fitted.

    fitted: each task for itself; replays of it reproduce the run by construction.
    check: own rates and capacities only; how well it reproduces the run is a check.
    slow, fast: ``fitted`` if own rates were as low, and as high, as the data allow (middle 80 %);
        in ``fast``, devices were short, too, of which the data leave that open.
    """

    fitted: TaskDemands
    check: TaskDemands
    slow: TaskDemands
    fast: TaskDemands


def _with_rates(
    tables: Tables, demands: TaskDemands, demand: Demand, launches: Launches, rows: Ints
) -> tuple[TaskDemands, Floats, Floats, TaskDemands | None]:
    stage = tables.tasks["stage"].to_numpy(np.int64)
    few = _sampled(launches, rows, FEW_TASKS)
    fit = _fit_on(few, demands, demand, launches, stage)
    if len(fit.task) == 0:
        return demands, demands.alone, demands.alone, None
    ways = WAYS if len(rows) <= MANY_TASKS else ONCE
    found, way, open_ = fit.best(ways)
    refused = bool(demand.known) and contradicted(fit, found)
    if refused:
        demand = replace(demand, known=Known())
        fit = _fit_on(few, demands, demand, launches, stage)
        found, way, open_ = fit.best(ways)
    first = fit
    some = _sampled(launches, rows, SOME_TASKS)
    on = few
    if len(some) > len(few):
        on = some
        more = _fit_on(some, demands, demand, launches, stage)
        more.first_capacity |= found.at.log_capacity
        start = found.at._replace(log_rate=more.rates_of(fit, found.at.log_rate))
        found, fit = more.climb(way, start, SOME), more
    whole = fit
    if len(rows) > len(on):
        on, whole = rows, _fit_on(rows, demands, demand, launches, stage)

    def of_all(one: RateSearch, point: RatePoint) -> TaskDemands:
        rates = whole.rates_of(one, point.log_rate)
        return _of_all(demands, on, whole.laid_out(point._replace(log_rate=rates)))

    best, slow, fast = (
        of_all(fit, found.at._replace(log_rate=rates))
        for rates in (found.at.log_rate, *fit.bounds(found))
    )
    shorter = None if open_ is None else of_all(first, open_)
    says = learned(fit, found, tables.stages["query"].to_numpy(np.int64))
    best = replace(best, way=way, learned=replace(says, refused=refused))
    best = _with_assumed(best, demands, launches, rows)
    return best, np.minimum(slow.alone, best.spent), fast.alone, shorter


def _with_assumed(
    best: TaskDemands, before: TaskDemands, launches: Launches, rows: Ints
) -> TaskDemands:
    """Assume what devices can do that were not short: enough for what was seen at most."""
    capacity, evidence = best.capacity.copy(), best.evidence.copy()
    launch, host, n_hosts = launches.of(rows)
    finish = launch + best.spent[rows].sum(axis=1)
    rates = np.where(best.alone[rows] > 0, best.use[rows], 0.0)
    for device, phases in PHASES_OF.items():
        most = rates[:, phases].max(axis=1)
        peak = float(most_at_once(host, launch, finish, most, n_hosts).max(initial=0.0))
        free = np.isinf(capacity[:, device])
        if device == PROCESSOR:
            least = np.maximum(before.capacity[:, device], peak)
        else:
            least = np.maximum(before.capacity[:, device], HEADROOM * peak)
            evidence[:, device] = np.where(free, ASSUMED, INFERRED)
        capacity[free, device] = least[free]
    return replace(best, capacity=capacity, evidence=evidence)


def _fit_on(
    rows: Ints, demands: TaskDemands, demand: Demand, launches: Launches, stage: Ints
) -> RateSearch:
    return RateSearch(rows_of(demands, rows), launches.of(rows), stage[rows], demand)


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
    """Take tasks of some hosts, which are independent of each other, in blocks of neighbours.

    Blocks begin at even times: who is in others' way may come late, and go early.
    """
    launch, host, n_hosts = launches
    sizes = np.bincount(host[rows], minlength=n_hosts)
    by_size = np.argsort(-sizes, kind="stable")
    few = by_size[: max(1, int(np.searchsorted(np.cumsum(sizes[by_size]), most)))]
    sample = rows[np.isin(host[rows], few)]
    sample = sample[np.argsort(launch[sample], kind="stable")]
    if len(sample) <= 2 * most:
        return sample
    time, length = launch[sample], 2 * most // BLOCKS
    taken = np.zeros(len(sample), bool)
    for begin in np.searchsorted(time, np.linspace(time[0], time[-1], BLOCKS, endpoint=False)):
        free = begin + np.flatnonzero(~taken[begin:])[:length]
        taken[free] = True
    return sample[taken]
