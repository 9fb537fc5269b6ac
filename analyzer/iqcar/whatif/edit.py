"""Interventions: pure functions that edit what is given in a scenario, never a duration.

Each cuts the arrows into what it sets (Pearl's *do*): who is there, when queries start, slots,
shares, capacities, and what tasks need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.replay.event_loop import DEVICE, DEVICES, NO_DEVICE, PHASES
from iqcar.replay.task_demands import ASSUMED, COMPUTE, FETCH, MEASURED, PROCESSOR, WAIT
from iqcar.tables.arrays import share_of, sum_by
from iqcar.whatif.scenario import PoolChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iqcar.replay.loop_input import Slots
    from iqcar.tables.arrays import Flags, Floats, Ints
    from iqcar.whatif.scenario import Scenario

FILLS = 0.85
"""Share of a device's capacity from which a task alone is taken to fill it: it would use more."""


def remove(scenario: Scenario, queries: Sequence[int]) -> Scenario:
    """Take queries away: none of their tasks runs."""
    return _with_tasks(scenario, np.flatnonzero(~np.isin(scenario.query_of_task, queries)))


def start_later(scenario: Scenario, later_ms: Mapping[int, float]) -> Scenario:
    """Start queries some time after they did; earlier where it is negative."""
    delay = scenario.steps.delay.copy()
    for at, query in enumerate(scenario.query.tolist()):
        if query in later_ms:
            step = scenario.query_start[at]
            delay[step] = max(delay[step] + later_ms[query], 0.0)
    return replace(scenario, steps=scenario.steps._replace(delay=delay))


def cap_tasks(scenario: Scenario, most: Mapping[int, int]) -> Scenario:
    """Let at most so many tasks of a query run at once."""
    cap_of, cap = scenario.cap_of.copy(), scenario.cap.tolist()
    for query, tasks in most.items():
        cap_of[scenario.query_of_step == query] = len(cap)
        cap.append(tasks)
    return replace(scenario, cap_of=cap_of, cap=np.array(cap, np.int64))


def own_pools(scenario: Scenario, weights: Mapping[int, int]) -> Scenario:
    """Give queries FAIR pools of their own with these weights."""
    pools = scenario.pools
    return replace(scenario, pools=PoolChoice(pools.fair, {**pools.weights, **weights}))


def set_mode(scenario: Scenario, fair: bool) -> Scenario:
    """Let all applications schedule FAIR or FIFO."""
    return replace(scenario, pools=PoolChoice(fair, scenario.pools.weights))


def scale_work(scenario: Scenario, factors: Mapping[int, float]) -> Scenario:
    """Multiply what every task of a query needs."""
    factor = np.ones(len(scenario.gc))
    for query, by in factors.items():
        factor[scenario.query_of_task == query] *= by
    return replace(scenario, alone=scenario.alone * factor[:, None], gc=scenario.gc * factor)


def without_gc(scenario: Scenario, queries: Sequence[int] | None = None) -> Scenario:
    """Take garbage collection away, by default of all queries."""
    off = np.ones(len(scenario.gc), bool)
    if queries is not None:
        off = np.isin(scenario.query_of_task, queries)
    alone = scenario.alone.copy()
    alone[off, WAIT] = np.maximum(alone[off, WAIT] - scenario.gc[off], 0.0)
    return replace(scenario, alone=alone, gc=np.where(off, 0.0, scenario.gc))


def without_skew(scenario: Scenario, queries: Sequence[int]) -> Scenario:
    """Give all tasks of a stage of these queries the same work."""
    step, chosen = scenario.work.step, np.isin(scenario.query_of_task, queries)
    n = len(scenario.steps.delay)
    tasks = sum_by(step, np.ones(len(step)), n)
    alone, use = scenario.alone.copy(), scenario.use.copy()
    for phase in range(PHASES):
        time = sum_by(step, alone[:, phase], n)
        moved = sum_by(step, alone[:, phase] * use[:, phase], n)
        alone[chosen, phase] = share_of(time, tasks)[step][chosen]
        use[chosen, phase] = share_of(moved, time)[step][chosen]
    gc = np.where(chosen, share_of(sum_by(step, scenario.gc, n), tasks)[step], scenario.gc)
    return replace(scenario, alone=alone, use=use, gc=gc)


def repartition(scenario: Scenario, partitions: Mapping[int, int]) -> Scenario:
    """Divide the work of stages that read a shuffle among another number of tasks."""
    step, _query = scenario.work.step, scenario.query_of_task
    n = len(scenario.steps.delay)
    fetched = sum_by(step, scenario.alone[:, FETCH] * scenario.use[:, FETCH], n)
    fetches = (fetched > 0) | np.isin(np.arange(n), _readers(scenario))
    source, factor = [], []
    for at in range(n):
        first, last = scenario.steps.first_task[at : at + 2].tolist()
        wanted = partitions.get(int(scenario.query_of_step[at]))
        if wanted is None or first == last or not fetches[at]:
            source.append(np.arange(first, last))
            factor.append(np.ones(last - first))
            continue
        first_attempts = np.arange(first, int(scenario.steps.first_late[at]))
        source.append(first_attempts[np.arange(wanted) % len(first_attempts)])
        factor.append(np.full(wanted, np.nan))
    rows, by = np.concatenate(source), np.concatenate(factor)
    changed = np.isnan(by)
    after = _with_tasks(scenario, rows, again=changed)
    alone, use, gc = after.alone.copy(), after.use.copy(), after.gc.copy()
    new_step = after.work.step
    tasks = sum_by(new_step, np.ones(len(new_step)), n)
    for phase in range(PHASES):
        time = sum_by(step, scenario.alone[:, phase], n)
        moved = sum_by(step, scenario.alone[:, phase] * scenario.use[:, phase], n)
        each = share_of(time, tasks)[new_step]
        alone[changed, phase] = each[changed]
        use[changed, phase] = share_of(moved, time)[new_step][changed]
    gc[changed] = share_of(sum_by(step, scenario.gc, n), tasks)[new_step][changed]
    return replace(after, alone=alone, use=use, gc=gc)


def _readers(scenario: Scenario) -> Ints:
    """Steps of stages that read what other stages wrote."""
    readers = scenario.tables.stage_parents["stage"].to_numpy(np.int64)
    found: Ints = np.flatnonzero(np.isin(scenario.stage_of_step, readers))
    return found


def faster_device(scenario: Scenario, device: int, factor: float) -> Scenario:
    """Multiply the capacity of a device of all hosts; who fills it alone goes faster, too."""
    if device == PROCESSOR:
        return _with_cores(scenario, scenario.capacity[:, PROCESSOR] * factor)
    capacity = scenario.capacity.copy()
    capacity[:, device] *= factor
    host = np.maximum(scenario.work.host, 0)
    alone, use = scenario.alone.copy(), scenario.use.copy()
    for phase in np.flatnonzero(device == DEVICE):
        limit = scenario.capacity[host, device]
        fills = np.isfinite(limit) & (use[:, phase] >= FILLS * limit)
        if factor < 1:
            # Nobody alone is faster than the device.
            slow = np.maximum(use[:, phase] / np.maximum(limit * factor, 1e-9), 1.0)
            by = np.where(np.isfinite(limit), slow, 1.0)
        else:
            by = np.where(fills, 1.0 / factor, 1.0)
        alone[:, phase] *= by
        use[:, phase] = share_of(use[:, phase], by)
    return replace(scenario, capacity=capacity, alone=alone, use=use)


def set_cores(scenario: Scenario, cores: float) -> Scenario:
    """Give every host so many processors."""
    before = scenario.capacity[:, PROCESSOR]
    return _with_cores(scenario, np.where(np.isfinite(before), cores, np.inf))


def _with_cores(scenario: Scenario, cores: Floats) -> Scenario:
    """Set the processors of each host.

    Where tasks wait for processors that no other task explains, somebody else takes his share, and
    the share grows and shrinks with the processors.
    """
    before = scenario.capacity[:, PROCESSOR]
    capacity = scenario.capacity.copy()
    capacity[:, PROCESSOR] = cores
    host = np.maximum(scenario.work.host, 0)
    time = scenario.alone[:, COMPUTE]
    worked = np.minimum(time * scenario.use[:, COMPUTE], time)
    used = share_of(sum_by(host, worked, len(before)), sum_by(host, time, len(before)))
    shared = (used < FILLS) & (scenario.evidence[:, PROCESSOR] == MEASURED) & np.isfinite(before)
    slower = np.ones(len(before))
    slower[shared] = before[shared] / cores[shared]
    alone, use = scenario.alone.copy(), scenario.use.copy()
    alone[:, COMPUTE] = np.maximum(time * slower[host], worked)
    use[:, COMPUTE] = share_of(time * use[:, COMPUTE], alone[:, COMPUTE])
    return replace(scenario, capacity=capacity, alone=alone, use=use)


def set_slots(scenario: Scenario, total: int) -> Scenario:
    """Offer so many slots in all from the beginning to the end, spread evenly over the hosts.

    Several applications keep the proportion of their slots, and each at least one.
    """
    hosts, each = _most_slots(scenario.slots)
    share = each / each.sum()
    parts = np.maximum(np.floor(share * total).astype(np.int64), 1)
    while parts.sum() < total:
        parts[np.argmax(share * total - parts)] += 1
    while parts.sum() > total and parts.max() > 1:
        parts[np.argmax(parts)] -= 1
    return _with_slots(scenario, [_spread(int(part), hosts) for part in parts])


def set_executors(scenario: Scenario, count: int) -> Scenario:
    """Offer the slots of so many executors of the usual size, no more of them per host than usual.

    More than the hosts hold run on further hosts like these.
    """
    size = executor_size(scenario.slots)
    hosts, each = _most_slots(scenario.slots)
    per_host = max(round(int(each.sum()) / size / len(hosts)), 1)
    more = -(-count // per_host) - len(hosts)
    if more > 0:
        scenario = add_hosts(scenario, more)
    return set_slots(scenario, size * count)


def executor_size(slots: Slots) -> int:
    """Return the slots of a usual executor."""
    return max(int(np.median(slots.change[slots.change > 0])), 1)


def add_hosts(scenario: Scenario, count: int) -> Scenario:
    """Add hosts like the others with as many slots, or take the last ones away."""
    hosts, each = _most_slots(scenario.slots)
    if count < 0:
        for host in hosts[count:].tolist():
            scenario = lose_host(scenario, host)
        return scenario
    n = scenario.slots.hosts
    new = np.arange(n, n + count)
    mean = np.mean(scenario.capacity[hosts], axis=0, keepdims=True)
    per_host = np.maximum(np.rint(each / len(hosts)).astype(np.int64), 1)
    slots = scenario.slots
    apps = len(each)
    added = slots._replace(
        when=np.append(slots.when, np.zeros(count * apps)),
        change=np.append(slots.change, np.repeat(per_host, count)),
        when_idle=np.append(slots.when_idle, np.zeros(count * apps, bool)),
        app=np.append(slots.app, np.repeat(np.arange(apps), count)),
        host=np.append(slots.host, np.tile(new, apps)),
        hosts=n + count,
    )
    # Spark spreads tasks: each host gets its part of them.
    work = scenario.work
    place = np.arange(len(work.host)) * 2654435761 % (len(hosts) + count)
    host = np.where(place < count, n + place, work.host)
    return replace(
        scenario,
        slots=_by_time(added),
        work=work._replace(host=host),
        capacity=np.concatenate([scenario.capacity, np.repeat(mean, count, axis=0)]),
        evidence=np.concatenate(
            [scenario.evidence, np.full((count, DEVICES), ASSUMED, dtype=object)]
        ),
        hosts=(*scenario.hosts, *(f"new host {k + 1}" for k in range(count))),
    )


def lose_host(scenario: Scenario, host: int) -> Scenario:
    """Take a host away for the whole run: its slots are not there."""
    slots = scenario.slots
    kept = slots.host != host
    work = scenario.work
    return replace(
        scenario,
        slots=slots._replace(
            when=slots.when[kept], change=slots.change[kept], when_idle=slots.when_idle[kept],
            app=slots.app[kept], host=slots.host[kept],
        ),
        work=work._replace(host=np.where(work.host == host, -1, work.host)),
    )  # fmt: skip


def used_hosts(slots: Slots) -> Ints:
    """Return the rows of the hosts that ever had slots."""
    found: Ints = np.unique(slots.host[slots.change > 0])
    return found


def slots_at_most(slots: Slots) -> int:
    """Return the sum over applications of the most slots that each was offered at once."""
    return int(_most_slots(slots)[1].sum())


def _most_slots(slots: Slots) -> tuple[Ints, Ints]:
    """Hosts that had slots, and the most slots of each application at once."""
    apps = len(slots.handover)
    most = np.zeros(apps, np.int64)
    for app in range(apps):
        mine = slots.app == app
        most[app] = max(int(np.cumsum(slots.change[mine]).max(initial=0)), 0)
    return used_hosts(slots), most


def _spread(total: int, hosts: Ints) -> Ints:
    """Slots on each host."""
    return total // len(hosts) + (np.arange(len(hosts)) < total % len(hosts))


def _with_slots(scenario: Scenario, per_host: list[Ints]) -> Scenario:
    """Offer each application these slots on its hosts from when its first came."""
    slots, hosts = scenario.slots, used_hosts(scenario.slots)
    apps = len(per_host)
    first = np.array([slots.when[slots.app == app].min(initial=np.inf) for app in range(apps)])
    new = slots._replace(
        when=np.repeat(first, len(hosts)),
        change=np.concatenate(per_host),
        when_idle=np.zeros(apps * len(hosts), bool),
        app=np.repeat(np.arange(apps), len(hosts)),
        host=np.tile(hosts, apps),
    )
    there = new.change > 0
    new = new._replace(
        when=new.when[there], change=new.change[there], when_idle=new.when_idle[there],
        app=new.app[there], host=new.host[there],
    )  # fmt: skip
    return replace(scenario, slots=_by_time(new))


def _by_time(slots: Slots) -> Slots:
    order = np.argsort(slots.when, kind="stable")
    return slots._replace(
        when=slots.when[order], change=slots.change[order], when_idle=slots.when_idle[order],
        app=slots.app[order], host=slots.host[order],
    )  # fmt: skip


def _with_tasks(scenario: Scenario, rows: Ints, again: Flags | None = None) -> Scenario:
    """Keep some tasks, in the order of their steps; ``again`` marks first attempts made anew."""
    work, steps = scenario.work, scenario.steps
    anew = np.zeros(len(rows), bool) if again is None else again
    late = np.arange(len(work.step)) >= steps.first_late[work.step]
    position = np.full(len(work.step) + 1, -1, np.int64)
    position[rows[~anew]] = np.flatnonzero(~anew)
    step = work.step[rows]
    n = len(steps.delay)
    counts = work.counts[rows] | anew
    kept = work._replace(
        step=step,
        duration=work.duration[rows],
        counts=counts,
        heir=np.where(anew, -1, position[work.heir[rows]]),
        heir_at_launch=work.heir_at_launch[rows] & ~anew,
        heir_wait=work.heir_wait[rows],
        host=np.where(anew, -1, work.host[rows]),
    )
    first_task = np.searchsorted(step, np.arange(n + 1))
    first = ~(late[rows] & ~anew)
    new_steps = steps._replace(
        first_task=first_task,
        first_late=first_task[:-1] + np.bincount(step[first], minlength=n),
        counted=np.bincount(step[counts], minlength=n),
    )
    return replace(
        scenario,
        work=kept,
        steps=new_steps,
        alone=scenario.alone[rows],
        use=scenario.use[rows],
        gc=scenario.gc[rows],
    )


def unshared(scenario: Scenario, device: int) -> bool:
    """Whether no task uses a device."""
    phases = np.flatnonzero((device == DEVICE) & (DEVICE != NO_DEVICE))
    total: Floats = scenario.alone[:, phases].sum()
    return bool(total <= 0)
