"""Computes integrals over pairs of overlapping tasks by a sweep over time.

For targets with weight w and sources with rate u, ``Σ_pairs overlap · w · u`` is the integral
of ``(Σ active w) · (Σ active u)`` over time, per domain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from iqcar.tables.arrays import Floats, Ints, Schedule, sum_by
from iqcar.tables.compiled import count_steps, kernel

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
    return _room(events, (rate, source, weight, group), n_sources, n_groups)[3]


def _room(
    events: Schedule, columns: tuple[Any, ...], n_sources: int, n_groups: int
) -> tuple[int, int, int, Ints]:
    """Call :func:`_room_needed` for columns with one value per scheduled task."""
    count_steps(__name__, len(events.task))
    arguments = [*columns, np.zeros(n_sources, np.int64), np.zeros(n_groups, np.int64)]
    found: tuple[int, int, int, Ints] = _room_needed(
        events.task, events.what, events.domain_start, *arguments
    )
    return found


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
    room = _room(events, (rate, source, weights[0], group), n_sources, n_groups)[:3]
    count_steps(__name__, len(events.task) * max(room[:2]))
    columns = (rate, source, *weights, group)
    pair, sums = _pair_integrals(*events[1:], *columns, n_sources, n_groups, room)
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


@kernel()
def _count_ends(
    first: int,
    after: int,
    task: Any,
    what: Any,
    rate: Any,
    source: Any,
    weight: Any,
    group: Any,
    left_of_source: Any,
    left_of_group: Any,
) -> None:
    """Count the end events of each source and each group of a domain."""
    for e in range(first, after):
        i = task[e]
        if what[e] & SOURCE_ENDS and rate[i] > 0.0 and source[i] >= 0:
            left_of_source[source[i]] += 1
        if what[e] & TARGET_ENDS and weight[i] > 0.0:
            left_of_group[group[i]] += 1


@kernel()
def _room_needed(
    task: Any,
    what: Any,
    domain_start: Any,
    rate: Any,
    source: Any,
    weight: Any,
    group: Any,
    left_of_source: Any,
    left_of_group: Any,
) -> Any:
    """Count the maximum of sources and of groups alive at once, and pairs alive, also per group.

    With these sizes the sweep allocates its arrays once; the reference counts of growing arrays
    would cost several times its arithmetic.
    """
    alive_s, alive_g = (
        np.zeros(len(left_of_source), np.uint8),
        np.zeros(len(left_of_group), np.uint8),
    )
    most_s = most_g = pairs = begun = 0
    met = np.zeros(len(left_of_group), np.int64)
    begun_before = np.zeros(len(left_of_group), np.int64)
    for d in range(len(domain_start) - 1):
        first, after = domain_start[d], domain_start[d + 1]
        _count_ends(
            first, after, task, what, rate, source, weight, group, left_of_source, left_of_group
        )
        s = g = 0
        for e in range(first, after):
            i = task[e]
            if what[e] & (TARGET_STARTS | TARGET_ENDS) and weight[i] > 0.0:
                if not alive_g[group[i]]:
                    alive_g[group[i]] = 1
                    g += 1
                    pairs += s
                    met[group[i]] += s
                    begun_before[group[i]] = begun
                    most_g = max(most_g, g)
                if what[e] & TARGET_ENDS:
                    left_of_group[group[i]] -= 1
                    if left_of_group[group[i]] == 0:
                        alive_g[group[i]] = 0
                        g -= 1
                        met[group[i]] += begun - begun_before[group[i]]
            if what[e] & (SOURCE_STARTS | SOURCE_ENDS) and rate[i] > 0.0 and source[i] >= 0:
                if not alive_s[source[i]]:
                    alive_s[source[i]] = 1
                    s += 1
                    begun += 1
                    pairs += g
                    most_s = max(most_s, s)
                if what[e] & SOURCE_ENDS:
                    left_of_source[source[i]] -= 1
                    if left_of_source[source[i]] == 0:
                        alive_s[source[i]] = 0
                        s -= 1
    return most_s, most_g, pairs, met


@kernel()
def _free_slot(taken: Any) -> int:
    slot = 0
    while taken[slot] >= 0:
        slot += 1
    return slot


@kernel()
def _advance(
    table: Any, g: int, usage: Any, sources: int, now: float, first: float, second: float
) -> None:
    """Add to a group's sums what each source used since the group's last event.

    This is the hot loop: it indexes whole arrays, because slicing them costs more than the loop.
    """
    for s in range(sources):
        current = usage[USED, s] + usage[LEVEL, s] * (now - usage[SINCE, s])
        more = current - table[g, SEEN, s]
        table[g, SEEN, s] = current
        table[g, FIRST, s] += first * more
        table[g, SECOND, s] += second * more


@kernel()
def _pair_integrals(
    task: Any,
    what: Any,
    when: Any,
    domain_start: Any,
    rate: Any,
    source: Any,
    weight: Any,
    weight_two: Any,
    group: Any,
    n_sources: int,
    n_groups: int,
    room: Any,
) -> Any:
    """Compute the pair sums; every group and source has a slot in a table while it is alive.

    A source's integral is updated only where it is read: at its own events and at the events of a
    group. Slots are reused, so the size of the table is that of what is alive at once.
    """
    left_of_source, left_of_group = np.zeros(n_sources, np.int64), np.zeros(n_groups, np.int64)
    slot_of_source, slot_of_group = np.full(n_sources, -1), np.full(n_groups, -1)
    room_s, room_g, pairs = room
    source_in, group_in = np.full(room_s, -1), np.full(room_g, -1)
    running, waiting = np.zeros(room_s, np.int64), np.zeros(room_g, np.int64)
    pull, synced = np.zeros((2, room_g)), np.zeros(room_g)
    usage, table = np.zeros((3, room_s)), np.zeros((room_g, 3, room_s))
    out_pair, out_sums, found = np.empty((pairs, 2), np.int64), np.empty((pairs, 2)), 0

    for d in range(len(domain_start) - 1):
        begin, after = domain_start[d], domain_start[d + 1]
        _count_ends(
            begin, after, task, what, rate, source, weight, group, left_of_source, left_of_group
        )
        high_s = high_g = 0
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
                    _advance(table, g, usage, high_s, now, pull[0, g], pull[1, g])
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
    return out_pair[:found], out_sums[:found]
