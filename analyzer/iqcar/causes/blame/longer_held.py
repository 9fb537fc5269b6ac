"""Hands waits for slots that a query's own tasks held longer to those who made them so long.

A replay tells which part of a wait for slots others cost. What they cost beyond the slots that
they held meanwhile, they cost by slowing the query's own tasks, which held the rest: on a disk,
say, that they use from another application. It is handed to those who cost the same stage time in
devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.blame.blame_tables import OWN, QUERY
from iqcar.tables.arrays import Flags, Floats, Ints, share_of, sum_by


class SourceEntries(NamedTuple):
    """Blame of source stages for demands: columns with one entry per pair.

    beyond: (n_entries,), ms; the part of ``lost`` that others cost beyond what they held.
    """

    demand: Ints
    kind: Ints
    stage: Ints
    beta: Floats
    lost: Floats
    idle: Floats
    beyond: Floats

    def some(self, kept: Flags) -> SourceEntries:
        """Return the entries that are marked."""
        columns: list[NDArray[Any]] = [column[kept] for column in self]
        return SourceEntries(*columns)


def held_longer(group: Ints, own: Flags, held: Floats, lost: Floats, to_others: Floats) -> Floats:
    """Return which part of each entry is what others cost beyond what they held.

    It is in the entries of others, or in the own ones where others held nothing. Shape
    (n_entries,).

    group, own: (n_entries,), the target, and whether the source is its own query.
    held, lost: (n_entries,), losses by who held the resource, and by what others cost.
    to_others: (n_groups,), what others cost; NaN where that is not known.
    """
    n = len(to_others)
    of_own, of_others, given = (
        sum_by(group[mine], of[mine], n) for of, mine in ((held, own), (held, ~own), (lost, ~own))
    )
    cost, in_own = np.minimum(to_others, of_own + of_others), of_others <= 0
    excess = np.where(cost > of_others, cost - of_others, 0.0)
    part = share_of(excess, np.where(in_own, of_own, given))
    return np.where(own == in_own[group], lost * part[group], 0.0)


def hand_over(
    slots: SourceEntries, devices: Sequence[SourceEntries], takes: Flags, stage: Ints
) -> tuple[SourceEntries, list[SourceEntries], Floats]:
    """Move what others cost beyond the slots that they held to what they cost in devices.

    Where they cost a stage nothing there, and held no slots either, nobody is named for it. The
    blame β stays where the wait is.

    takes: (n_demands,); whether what others cost is known of the demand.
    stage: (n_demands,); row of its target stage.

    Returns the entries, which sum to less where nobody is named, and the task time that each demand
    lost more, in ms, which sums to 0 over the demands of a stage.
    """
    n, n_stages = len(stage), int(stage.max(initial=-1)) + 1
    taking = [(one.kind == QUERY) & takes[one.demand] for one in devices]
    room = np.zeros(n_stages)
    for one, mine in zip(devices, taking, strict=True):
        room += sum_by(stage[one.demand[mine]], one.lost[mine], n_stages)
    taken = room[stage[slots.demand]] > 0
    gone = np.where(taken | (slots.kind == OWN), slots.beyond, 0.0)
    handed = np.where(taken, gone, 0.0)
    moved = -sum_by(slots.demand, handed, n)
    left = 1.0 - share_of(gone, slots.lost)
    kept = slots._replace(lost=slots.lost * left, beta=np.where(taken, 1.0, left) * slots.beta)
    factor = 1.0 + share_of(sum_by(stage[slots.demand], handed, n_stages), room)
    more = []
    for one, mine in zip(devices, taking, strict=True):
        lost = np.where(mine, one.lost * factor[stage[one.demand]], one.lost)
        moved += sum_by(one.demand, lost - one.lost, n)
        more.append(one._replace(lost=lost))
    return kept, more, moved
