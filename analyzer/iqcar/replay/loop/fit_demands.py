"""Fits what tasks need so that replays of recorded launches give recorded times.

The way and the devices that were short are chosen on a small sample, own rates and capacities are
fitted on a larger one, and each task for itself on all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from iqcar.model.demand.estimate import Demand, Known
from iqcar.model.waits.input_moved import uncounted
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
    DISK,
    HEADROOM,
    INFERRED,
    ONCE,
    PHASES_OF,
    PROCESSOR,
    READ,
    WAIT,
    WAYS,
    TaskDemands,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, most_at_once, share_of, sum_by

FEW_TASKS, SOME_TASKS = 400, 3_000
"""About how many tasks the way is chosen from, and own rates are fitted on."""
BLOCKS = 8
"""Blocks of neighbours in time that such a sample consists of."""
UNITS, NEARER = (1.0, 0.7, 1.4, 0.5, 2.0, 0.35, 2.8, 0.25, 4.0), (1.0, 0.84, 1.19)
"""Factors that are tried for input which was not counted, the likeliest first, and then of the best
of them."""


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
    whole_ms = demands.spent.sum(axis=1)
    few = _sampled(launches, whole_ms, rows, FEW_TASKS)
    demands = _in_likely_units(
        demands, uncounted(tables), few, lambda one: _fit_on(few, one, demand, launches, stage)
    )
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
    some = _sampled(launches, whole_ms, rows, SOME_TASKS)
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


def _in_likely_units(
    demands: TaskDemands, guessed: Flags, few: Ints, fit_on: Callable[[TaskDemands], RateSearch]
) -> TaskDemands:
    """Scale input that was not counted, where it meets other uses of disks, as replays fit best."""
    uses = demands.use[few][:, list(PHASES_OF[DISK])].any(axis=1)
    if guessed[few][uses].all() or not guessed[few][uses].any():
        return demands

    def scaled(factor: float) -> TaskDemands:
        use = demands.use.copy()
        use[guessed, READ] *= factor
        return replace(demands, use=use)

    def worth(factor: float) -> float:
        fit = fit_on(scaled(factor))
        found = fit.best_of(WAYS[0], fit.first_capacity, {}) if len(fit.task) else None
        return -np.inf if found is None else found.worth

    best = max(UNITS, key=worth)
    return scaled(max((best * nearer for nearer in NEARER), key=worth))


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


def _sampled(launches: Launches, spent: Floats, rows: Ints, most: int) -> Ints:
    """Take tasks of some hosts, which are independent of each other, in blocks of neighbours.

    Half of the blocks are those with the most tasks at once, the others have fewer and fewer: who
    is in others' way may come late, and go early.
    """
    launch, host, n_hosts = launches
    sizes = np.bincount(host[rows], minlength=n_hosts)
    by_size = np.argsort(-sizes, kind="stable")
    few = by_size[: max(1, int(np.searchsorted(np.cumsum(sizes[by_size]), most)))]
    sample = rows[np.isin(host[rows], few)]
    sample = sample[np.argsort(launch[sample], kind="stable")]
    if len(sample) <= 2 * most:
        return sample
    length = 2 * most // BLOCKS
    finish = np.sort((launch + spent)[sample])
    at_once = np.arange(len(sample)) - np.searchsorted(finish, launch[sample])
    block = np.arange(len(sample)) // length
    # The last block may be shorter: it counts as if nothing else ran in the rest.
    load = sum_by(block, at_once.astype(np.float64), block[-1] + 1)
    by_load = np.argsort(-load, kind="stable")
    half = BLOCKS // 2
    others = np.linspace(half, len(by_load) - 1, BLOCKS - half).astype(np.int64)
    chosen = by_load[np.append(np.arange(half), others)]
    return sample[np.isin(block, chosen)]
