"""Interventions on the cluster: pure functions that edit hosts, slots and capacities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from iqcar.replay.loop.device_sharing import DEVICE, DEVICES, NO_DEVICE
from iqcar.replay.loop.loop_input import Slots
from iqcar.replay.loop.task_demands import ASSUMED, COMPUTE, MEASURED, PROCESSOR
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

FILLS = 0.85
"""Share of a device's capacity from which a task alone is taken to fill it: it would use more."""


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
    shared = _cores_of_a_task(scenario) < FILLS
    slower = np.ones(len(before))
    slower[shared] = before[shared] / cores[shared]
    alone, use = scenario.alone.copy(), scenario.use.copy()
    alone[:, COMPUTE] = np.maximum(time * slower[host], worked)
    use[:, COMPUTE] = share_of(time * use[:, COMPUTE], alone[:, COMPUTE])
    return replace(scenario, capacity=capacity, alone=alone, use=use)


def _cores_of_a_task(scenario: Scenario) -> Floats:
    """Return what a task got of a processor beside others, mean of each host.

    1 where processors were not measured.
    """
    capacity = scenario.capacity[:, PROCESSOR]
    host = np.maximum(scenario.work.host, 0)
    time = scenario.alone[:, COMPUTE]
    worked = np.minimum(time * scenario.use[:, COMPUTE], time)
    got = share_of(sum_by(host, worked, len(capacity)), sum_by(host, time, len(capacity)))
    known = (scenario.evidence[:, PROCESSOR] == MEASURED) & np.isfinite(capacity)
    return np.where(known, got, 1.0)


def set_slots(scenario: Scenario, total: int) -> Scenario:
    """Offer so many slots in all from the beginning to the end, spread evenly over the hosts.

    Several applications keep the proportion of their slots, and each at least one.
    """
    hosts, each = _most_slots(scenario.slots)
    parts = _parts(each, total).tolist()
    return _with_slots(
        scenario, {app: (hosts, _spread(part, hosts)) for app, part in enumerate(parts)}
    )


def _parts(each: Ints, total: int) -> Ints:
    """Divide a number in proportion, at least one for each."""
    share = each / each.sum()
    parts = np.maximum(np.floor(share * total).astype(np.int64), 1)
    while parts.sum() < total:
        parts[np.argmax(share * total - parts)] += 1
    while parts.sum() > total and parts.max() > 1:
        parts[np.argmax(parts)] -= 1
    found: Ints = parts
    return found


def set_executors(scenario: Scenario, count: int) -> Scenario:
    """Offer the slots of so many executors of the usual size, no more of them per host than usual.

    More than the hosts hold run on further hosts like these. Executors are whole: each has all its
    slots on one host.
    """
    size = executor_size(scenario.slots)
    hosts, each = _most_slots(scenario.slots)
    per_host = max(round(int(each.sum()) / size / len(hosts)), 1)
    more = -(-count // per_host) - len(hosts)
    if more > 0:
        scenario = add_hosts(scenario, more)
    hosts = used_hosts(scenario.slots)
    shares = {}
    placed = 0
    for app, part in enumerate(_parts(each, count).tolist()):
        shares[app] = hosts, size * np.roll(_spread(part, hosts), placed)
        placed += part
    return _with_slots(scenario, shares)


def set_slots_of(scenario: Scenario, app: int, total: int) -> Scenario:
    """Offer one application so many slots from its first one to the end.

    They are spread evenly over the hosts that it was on; other applications keep theirs.
    """
    hosts = _hosts_of(scenario.slots, app)
    return _with_slots(scenario, {app: (hosts, _spread(total, hosts))})


def set_executors_of(scenario: Scenario, app: int, count: int) -> Scenario:
    """Offer one application the slots of so many of its usual executors.

    They go to the hosts that it was on, no more per host than usual, then to the other hosts, then
    to further hosts like these; other applications keep theirs.
    """
    slots = scenario.slots
    mine = slots.app == app
    size = executor_size(slots._replace(change=slots.change[mine]))
    own = _hosts_of(slots, app)
    most = int(_most_slots(slots)[1][app])
    per_host = max(round(most / size / len(own)), 1)
    others = np.setdiff1d(used_hosts(slots), own)
    more = -(-count // per_host) - len(own) - len(others)
    if more > 0:
        first = slots.hosts
        scenario = add_hosts(scenario, more, app)
        others = np.concatenate([others, np.arange(first, first + more)])
    needed = max(-(-count // per_host) - len(own), 0)
    hosts = np.concatenate([own, others[:needed]])
    return _with_slots(scenario, {app: (hosts, size * _spread(count, hosts))})


def slots_of_app(slots: Slots, app: int) -> int:
    """Return the most slots that an application was offered at once."""
    return int(_most_slots(slots)[1][app])


def _hosts_of(slots: Slots, app: int) -> Ints:
    """Return the rows of the hosts on which an application had slots."""
    found: Ints = np.unique(slots.host[(slots.change > 0) & (slots.app == app)])
    return found


def executor_size(slots: Slots) -> int:
    """Return the slots of a usual executor."""
    return max(int(np.median(slots.change[slots.change > 0])), 1)


def add_hosts(scenario: Scenario, count: int, app: int | None = None) -> Scenario:
    """Add hosts like the others with as many slots, or take the last ones away.

    app: Position of the application that alone gets slots there; by default all do.
    """
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
    apps = np.arange(len(each)) if app is None else np.array([app])
    size = count * len(apps)
    added = slots._replace(
        when=np.append(slots.when, np.zeros(size)),
        change=np.append(slots.change, np.repeat(per_host[apps], count)),
        when_idle=np.append(slots.when_idle, np.zeros(size, bool)),
        app=np.append(slots.app, np.repeat(apps, count)),
        host=np.append(slots.host, np.tile(new, len(apps))),
        hosts=n + count,
    )
    # Spark spreads tasks: each host gets its part of them.
    work = scenario.work
    place = np.arange(len(work.host)) * 2654435761 % (len(hosts) + count)
    moves = place < count
    if app is not None:
        moves &= _app_of_task(scenario) == app
    host = np.where(moves, n + place, work.host)
    return replace(
        scenario,
        slots=_by_time(added),
        work=work._replace(host=host),
        capacity=np.concatenate([scenario.capacity, np.repeat(mean, count, axis=0)]),
        memory_capacity=_like_the_others(scenario.memory_capacity, hosts, count),
        evidence=np.concatenate(
            [scenario.evidence, np.full((count, DEVICES), ASSUMED, dtype=object)]
        ),
        hosts=(*scenario.hosts, *(f"new host {k + 1}" for k in range(count))),
    )


def _app_of_task(scenario: Scenario) -> Ints:
    """Position of the application of each task."""
    at = np.full(len(scenario.tables.applications), -1, np.int64)
    at[[workload.app for workload in scenario.workloads]] = np.arange(len(scenario.workloads))
    of_stage = scenario.tables.stages["app"].to_numpy(np.int64)
    found: Ints = at[of_stage[scenario.stage_of_step[scenario.work.step]]]
    return found


def _like_the_others(memory: Floats, hosts: Ints, count: int) -> Floats:
    """Give new hosts the mean of the others' execution memory."""
    if memory.size == 0:
        return memory
    mean = np.mean(memory[:, hosts], axis=1, keepdims=True)
    return np.concatenate([memory, np.repeat(mean, count, axis=1)], axis=1)


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


def _with_slots(scenario: Scenario, of_apps: Mapping[int, tuple[Ints, Ints]]) -> Scenario:
    """Offer applications slots on hosts from when their first came; others keep theirs.

    of_apps: Hosts, and the slots on each, by position of the application.
    """
    slots = scenario.slots
    kept = ~np.isin(slots.app, list(of_apps))
    when, change, idle, of_app, of_host = (
        [column[kept]]
        for column in (slots.when, slots.change, slots.when_idle, slots.app, slots.host)
    )
    for app, (hosts, each) in of_apps.items():
        there = each > 0
        n = int(there.sum())
        when.append(np.full(n, slots.when[slots.app == app].min(initial=np.inf)))
        change.append(each[there])
        idle.append(np.zeros(n, bool))
        of_app.append(np.full(n, app))
        of_host.append(hosts[there])
    new = slots._replace(
        when=np.concatenate(when), change=np.concatenate(change), when_idle=np.concatenate(idle),
        app=np.concatenate(of_app), host=np.concatenate(of_host),
    )  # fmt: skip
    return _beside_others(replace(scenario, slots=_by_time(new)), slots)


def _beside_others(scenario: Scenario, before: Slots) -> Scenario:
    """Let more tasks share processors with who used them beside tasks before.

    Where s tasks at once got u of a processor each, and the C processors of a host had time for
    more, C / u - s other threads had the rest. More tasks, s', leave these their part: all tasks
    together get C * s' / (s' + C / u - s).
    """
    capacity = scenario.capacity.copy()
    had, has = (_slots_of_hosts(slots, len(capacity)) for slots in (before, scenario.slots))
    got, cores = _cores_of_a_task(scenario), capacity[:, PROCESSOR]
    others = share_of(cores, got) - had
    shared = (got < FILLS) & (got > 0) & (has > had) & (had > 0) & (others > 0)
    part = has[shared] / (has[shared] + others[shared])
    capacity[shared, PROCESSOR] *= part
    return replace(scenario, capacity=capacity)


def _slots_of_hosts(slots: Slots, hosts: int) -> Floats:
    """Return the most slots that each host had at once."""
    most = np.zeros(hosts)
    for host in np.unique(slots.host).tolist():
        most[host] = np.cumsum(slots.change[slots.host == host]).max(initial=0)
    return most


def _by_time(slots: Slots) -> Slots:
    order = np.argsort(slots.when, kind="stable")
    return slots._replace(
        when=slots.when[order], change=slots.change[order], when_idle=slots.when_idle[order],
        app=slots.app[order], host=slots.host[order],
    )  # fmt: skip


def unshared(scenario: Scenario, device: int) -> bool:
    """Whether no task uses a device."""
    phases = np.flatnonzero((device == DEVICE) & (DEVICE != NO_DEVICE))
    total: Floats = scenario.alone[:, phases].sum()
    return bool(total <= 0)
