"""Computes integrals over pairs of overlapping tasks by a sweep over time.

For targets with weight w and sources with rate u, ``Σ_pairs overlap · w · u`` is the integral
of ``(Σ active w) · (Σ active u)`` over time, per domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.base.kernels import compiled
from iqcar.tables.arrays import (
    Bytes,
    Flags,
    FloatCube,
    Floats,
    FloatTable,
    Ints,
    Ints32,
    IntTable,
    Schedule,
    sum_by,
)

TARGET_STARTS, TARGET_ENDS, SOURCE_STARTS, SOURCE_ENDS = 1, 2, 4, 8
"""Kinds of events, as bits: a launch ends a slot wait and starts a source at once."""

SEEN, FIRST, SECOND = 0, 1, 2
"""Rows of a group's table: each source's integral at the last update, and the two sums so far."""
USED, LEVEL, SINCE = 0, 1, 2
"""Rows of the sources' state: integral of the rate up to a time, the rate since, and that time."""


class Pairs(NamedTuple):
    """Sparse sums over pairs: one entry per (group, source), each at most once."""

    group: Ints
    source: Ints
    first: Floats
    second: Floats


class Sweep(NamedTuple):
    """Events, as in :class:`~iqcar.tables.arrays.Schedule`, and a column per scheduled task."""

    task: Ints32
    what: Bytes
    when: Floats
    domain_start: Ints
    rate: Floats
    source: Ints
    weight: Floats
    second_weight: Floats
    group: Ints


class Alive(NamedTuple):
    """What is alive while room is counted: by source, or by group."""

    left_of_source: Ints
    left_of_group: Ints
    alive_source: Flags
    alive_group: Flags
    met: Ints
    begun_before: Ints
    most: Ints
    """Sources and groups alive at once at most, and pairs."""


class Places(NamedTuple):
    """The slot of each source and group that is alive, and what is in each slot."""

    left_of_source: Ints
    left_of_group: Ints
    slot_of_source: Ints
    slot_of_group: Ints
    source_in: Ints
    group_in: Ints
    running: Ints
    waiting: Ints
    pull: FloatTable
    synced: Floats
    usage: FloatTable
    table: FloatCube
    out_pair: IntTable
    out_sums: FloatTable


def pairs_of_groups(
    events: Schedule,
    rate: Floats,
    source: Ints,
    weight: Floats,
    group: Ints,
    n_sources: int,
    n_groups: int,
) -> Ints:
    """Count the sources that each group can be paired with; parameters of :func:`pair_integrals`.

    Shape (n_groups,). At least as many as :func:`pair_integrals` finds. O(events).
    """
    sweep = Sweep(
        *events[1:], rate=rate, source=source, weight=weight, second_weight=weight, group=group
    )
    return _room(sweep, n_sources, n_groups).met


def _room(sweep: Sweep, n_sources: int, n_groups: int) -> Alive:
    """Call :func:`room_needed`."""
    ints = np.int64
    alive = Alive(
        left_of_source=np.zeros(n_sources, ints), left_of_group=np.zeros(n_groups, ints),
        alive_source=np.zeros(n_sources, np.bool_), alive_group=np.zeros(n_groups, np.bool_),
        met=np.zeros(n_groups, ints), begun_before=np.zeros(n_groups, ints),
        most=np.zeros(3, ints),
    )  # fmt: skip
    compiled(room_needed)(sweep, alive)
    return alive


def pair_integrals(
    events: Schedule,
    rate: Floats,
    source: Ints,
    weights: tuple[Floats, Floats],
    group: Ints,
    n_sources: int,
    n_groups: int,
    *,
    one_domain: bool,
) -> Pairs:
    """Sum ``overlap · rate · weight`` over all pairs of tasks, per target group and source.

    The columns are in the order of ``events.row``. Pairs of a task with itself are included. Time:
    events × sources alive in the domain at the event; memory: groups alive × sources alive, plus
    the pairs alive together.

    rate: (n_scheduled,) rate as a source, ≥ 0.
    source: (n_scheduled,) source that the task belongs to (its stage); −1 if it is no source.
    weights: two (n_scheduled,); weights as a target, ≥ 0; a task with a zero first weight is no
        target.
    group: (n_scheduled,) group that the task belongs to as a target.
    n_sources, n_groups: numbers of sources and groups.
    one_domain: whether each group lies in one domain, so that no pair occurs twice.
    """
    weight, second = weights
    sweep = Sweep(
        *events[1:], rate=rate, source=source, weight=weight, second_weight=second, group=group
    )
    room_s, room_g, room = _room(sweep, n_sources, n_groups).most.tolist()
    places = Places(
        left_of_source=np.zeros(n_sources, np.int64), left_of_group=np.zeros(n_groups, np.int64),
        slot_of_source=np.full(n_sources, -1, np.int64),
        slot_of_group=np.full(n_groups, -1, np.int64),
        source_in=np.full(room_s, -1, np.int64), group_in=np.full(room_g, -1, np.int64),
        running=np.zeros(room_s, np.int64), waiting=np.zeros(room_g, np.int64),
        pull=np.zeros((2, room_g)), synced=np.zeros(room_g), usage=np.zeros((3, room_s)),
        table=np.zeros((room_g, 3, room_s)), out_pair=np.empty((room, 2), np.int64),
        out_sums=np.empty((room, 2)),
    )  # fmt: skip
    found = compiled(sum_pairs)(sweep, places)
    pair, sums = places.out_pair[:found], places.out_sums[:found]
    pairs = Pairs(pair[:, 0], pair[:, 1], sums[:, 0], sums[:, 1])
    return pairs if one_domain else _merged(pairs, n_sources)


def _merged(pairs: Pairs, n_sources: int) -> Pairs:
    """Sum pairs that occur in several domains (a stage on two executors of one host)."""
    key = pairs.group * n_sources + pairs.source
    unique, place = np.unique(key, return_inverse=True)
    return Pairs(
        unique // max(n_sources, 1),
        unique % max(n_sources, 1),
        sum_by(place, pairs.first, len(unique)),
        sum_by(place, pairs.second, len(unique)),
    )


def _count_ends(first: int, after: int, sweep: Sweep, of_source: Ints, of_group: Ints) -> None:
    """Count the end events of each source and each group of a domain."""
    for e in range(first, after):
        i = sweep.task[e]
        if sweep.what[e] & SOURCE_ENDS and sweep.rate[i] > 0.0 and sweep.source[i] >= 0:
            of_source[sweep.source[i]] += 1
        if sweep.what[e] & TARGET_ENDS and sweep.weight[i] > 0.0:
            of_group[sweep.group[i]] += 1


def room_needed(sweep: Sweep, alive: Alive) -> None:
    """Count the maximum of sources and of groups alive at once, and pairs alive, also per group.

    With these sizes the sweep's arrays are allocated once.
    """
    task, what, domain_start = sweep.task, sweep.what, sweep.domain_start
    rate, source, weight, group = sweep.rate, sweep.source, sweep.weight, sweep.group
    left_of_source, left_of_group = alive.left_of_source, alive.left_of_group
    alive_s, alive_g = alive.alive_source, alive.alive_group
    met, begun_before = alive.met, alive.begun_before
    most_s, most_g, pairs, begun = 0, 0, 0, 0
    for d in range(len(sweep.domain_start) - 1):
        first, after = domain_start[d], domain_start[d + 1]
        _count_ends(first, after, sweep, left_of_source, left_of_group)
        s, g = 0, 0
        for e in range(first, after):
            i = task[e]
            if what[e] & (TARGET_STARTS | TARGET_ENDS) and weight[i] > 0.0:
                if not alive_g[group[i]]:
                    alive_g[group[i]] = True
                    g += 1
                    pairs += s
                    met[group[i]] += s
                    begun_before[group[i]] = begun
                    most_g = max(most_g, g)
                if what[e] & TARGET_ENDS:
                    left_of_group[group[i]] -= 1
                    if left_of_group[group[i]] == 0:
                        alive_g[group[i]] = False
                        g -= 1
                        met[group[i]] += begun - begun_before[group[i]]
            if what[e] & (SOURCE_STARTS | SOURCE_ENDS) and rate[i] > 0.0 and source[i] >= 0:
                if not alive_s[source[i]]:
                    alive_s[source[i]] = True
                    s += 1
                    begun += 1
                    pairs += g
                    most_s = max(most_s, s)
                if what[e] & SOURCE_ENDS:
                    left_of_source[source[i]] -= 1
                    if left_of_source[source[i]] == 0:
                        alive_s[source[i]] = False
                        s -= 1
    alive.most[0], alive.most[1], alive.most[2] = most_s, most_g, pairs


def _free_slot(taken: Ints) -> int:
    slot = 0
    while taken[slot] >= 0:
        slot += 1
    return slot


def _use(g: int, places: Places, sources: int, now: float, first: float, second: float) -> None:
    """Add to a group's sums what each source used since the group's last event.

    This is the hot loop: it indexes whole arrays, because slicing them costs more than the loop.
    """
    usage, table = places.usage, places.table
    for s in range(sources):
        current = usage[USED, s] + usage[LEVEL, s] * (now - usage[SINCE, s])
        more = current - table[g, SEEN, s]
        table[g, SEEN, s] = current
        table[g, FIRST, s] += first * more
        table[g, SECOND, s] += second * more


def sum_pairs(sweep: Sweep, places: Places) -> int:
    """Compute the pair sums; every group and source has a slot in a table while it is alive.

    A source's integral is updated only where it is read: at its own events and at the events of a
    group. Slots are reused, so the size of the table is that of what is alive at once. Returns how
    many pairs there are.
    """
    task, what, when, domain_start = sweep.task, sweep.what, sweep.when, sweep.domain_start
    rate, source, group = sweep.rate, sweep.source, sweep.group
    weight, weight_two = sweep.weight, sweep.second_weight
    left_of_source, left_of_group = places.left_of_source, places.left_of_group
    slot_of_source, slot_of_group = places.slot_of_source, places.slot_of_group
    source_in, group_in = places.source_in, places.group_in
    running, waiting, synced = places.running, places.waiting, places.synced
    pull, usage, table = places.pull, places.usage, places.table
    out_pair, out_sums = places.out_pair, places.out_sums
    room_s, room_g, found = len(places.source_in), len(places.group_in), 0
    for d in range(len(sweep.domain_start) - 1):
        begin, after = domain_start[d], domain_start[d + 1]
        _count_ends(begin, after, sweep, left_of_source, left_of_group)
        high_s, high_g = 0, 0
        for e in range(begin, after):
            i, now, bits = task[e], when[e], what[e]
            if bits & (TARGET_STARTS | TARGET_ENDS) and weight[i] > 0.0:
                g = slot_of_group[group[i]]
                if g < 0:
                    g = _free_slot(group_in)
                    high_g = max(high_g, g + 1)
                    group_in[g], slot_of_group[group[i]] = group[i], g
                    waiting[g], synced[g] = 0, -1.0
                    pull[0, g] = pull[1, g] = 0.0
                    for s in range(room_s):
                        table[g, FIRST, s] = table[g, SECOND, s] = 0.0
                if now != synced[g]:
                    _use(g, places, high_s, now, pull[0, g], pull[1, g])
                    synced[g] = now
                if bits & TARGET_ENDS:
                    waiting[g] -= 1
                    left_of_group[group[i]] -= 1
                    if waiting[g] == 0:
                        # Exactly 0: rounding must not become blame for a wait that has ended.
                        pull[0, g] = pull[1, g] = 0.0
                    else:
                        pull[0, g] -= weight[i]
                        pull[1, g] -= weight_two[i]
                    if left_of_group[group[i]] == 0:
                        for s in range(high_s):
                            if source_in[s] >= 0 and table[g, FIRST, s] > 0.0:
                                out_pair[found, 0], out_pair[found, 1] = group[i], source_in[s]
                                out_sums[found, 0] = table[g, FIRST, s]
                                out_sums[found, 1] = table[g, SECOND, s]
                                found += 1
                        slot_of_group[group[i]] = group_in[g] = -1
                if bits & TARGET_STARTS:
                    waiting[g] += 1
                    pull[0, g] += weight[i]
                    pull[1, g] += weight_two[i]
            if bits & (SOURCE_STARTS | SOURCE_ENDS) and rate[i] > 0.0 and source[i] >= 0:
                s = slot_of_source[source[i]]
                if s < 0:
                    s = _free_slot(source_in)
                    high_s = max(high_s, s + 1)
                    source_in[s], slot_of_source[source[i]] = source[i], s
                    running[s] = 0
                    usage[USED, s], usage[LEVEL, s], usage[SINCE, s] = 0.0, 0.0, now
                    for g in range(room_g):
                        table[g, SEEN, s] = table[g, FIRST, s] = table[g, SECOND, s] = 0.0
                usage[USED, s] += usage[LEVEL, s] * (now - usage[SINCE, s])
                usage[SINCE, s] = now
                if bits & SOURCE_STARTS:
                    running[s] += 1
                    usage[LEVEL, s] += rate[i]
                if bits & SOURCE_ENDS:
                    running[s] -= 1
                    left_of_source[source[i]] -= 1
                    usage[LEVEL, s] = usage[LEVEL, s] - rate[i] if running[s] > 0 else 0.0
                    if left_of_source[source[i]] == 0:
                        for g in range(high_g):
                            if group_in[g] >= 0:
                                more = usage[USED, s] - table[g, SEEN, s]
                                first = table[g, FIRST, s] + pull[0, g] * more
                                if first > 0.0:
                                    out_pair[found, 0], out_pair[found, 1] = group_in[g], source[i]
                                    out_sums[found, 0] = first
                                    out_sums[found, 1] = table[g, SECOND, s] + pull[1, g] * more
                                    found += 1
                        # A column of zeros adds nothing until the slot is reused.
                        slot_of_source[source[i]] = source_in[s] = -1
                        usage[USED, s] = 0.0
                        for g in range(room_g):
                            table[g, SEEN, s] = table[g, FIRST, s] = table[g, SECOND, s] = 0.0
    return found
