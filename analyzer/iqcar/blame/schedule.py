"""Start and end times of every wait and use of a resource, sorted for the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.enums import Domain, Request, SourceUsage
from iqcar.tables import NONE
from iqcar.tables.arrays import schedule

if TYPE_CHECKING:
    from iqcar.blame.task_intervals import Pieces
    from iqcar.tables.arrays import Ints, Schedule


class Agenda:
    """The schedule of each contention domain, built on first use.

    In the domain of an application whole tasks wait for slots and hold them; in the domains of
    hosts and executors the events are those of pieces of tasks.
    """

    def __init__(self, pieces: Pieces, source_usage: SourceUsage) -> None:
        self._pieces = pieces
        self._paper = source_usage is SourceUsage.PAPER
        self._made: dict[Domain | None, Schedule] = {}

    def schedule_of(self, request: Request) -> Schedule:
        """Return the schedule of the request's contention domain."""
        domain = request.domain
        if domain not in self._made:
            self._made[domain] = self._make(request)
        return self._made[domain]

    def by_query(self) -> Schedule:
        """Return the schedule of the pieces of each query on each host."""
        pieces = self._pieces
        if None not in self._made:
            owner, host = pieces.of_task(pieces.columns.owner()), pieces.domain(Request.IO_READ)
            both = np.where(host >= 0, host * (owner.max(initial=0) + 1) + owner, NONE)
            self._made[None] = _of_pieces(pieces, both)
        return self._made[None]

    def _make(self, request: Request) -> Schedule:
        pieces, columns = self._pieces, self._pieces.columns
        if request.domain is not Domain.APPLICATION:
            return _of_pieces(pieces, pieces.domain(request))
        slots = columns.slots
        asked, launched, finished = slots.asked, slots.launched, slots.finished
        if self._paper:
            launched, finished = columns.launch, columns.finish
            asked = np.where(np.isnan(columns.asked), launched, columns.asked)
        return schedule(
            columns.app,
            (asked, TARGET_STARTS),
            (launched, TARGET_ENDS | SOURCE_STARTS),
            (finished, SOURCE_ENDS),
        )


def _of_pieces(pieces: Pieces, domain: Ints) -> Schedule:
    return schedule(
        domain,
        (pieces.launch, TARGET_STARTS | SOURCE_STARTS),
        (pieces.finish, TARGET_ENDS | SOURCE_ENDS),
    )
