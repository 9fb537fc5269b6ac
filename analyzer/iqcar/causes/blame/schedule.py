"""Sorts the start and end times of every wait and use of a resource for the sweep."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.causes.blame.task_intervals import Pieces
from iqcar.enums import Domain, Request, SourceUsage
from iqcar.tables.arrays import Schedule, schedule


class Agenda:
    """The schedule of each contention domain, built on first use.

    In the domain of an application whole tasks wait for slots and hold them; in the domains of
    hosts and executors the events are those of pieces of tasks.
    """

    def __init__(self, pieces: Pieces, source_usage: SourceUsage) -> None:
        self._pieces = pieces
        self._paper = source_usage is SourceUsage.PAPER
        self._made: dict[Domain, Schedule] = {}

    def schedule_of(self, request: Request) -> Schedule:
        """Return the schedule of the request's contention domain."""
        domain = request.domain
        if domain not in self._made:
            self._made[domain] = self._make(request)
        return self._made[domain]

    def _make(self, request: Request) -> Schedule:
        pieces, columns = self._pieces, self._pieces.columns
        if request.domain is not Domain.APPLICATION:
            n, order = len(columns.launch), None
            if pieces.whole:
                order = columns.order[columns.order >= n] - n
            return schedule(
                pieces.domain(request),
                (pieces.launch, TARGET_STARTS | SOURCE_STARTS),
                (pieces.finish, TARGET_ENDS | SOURCE_ENDS),
                order=order,
            )
        slots = columns.slots
        asked, launched, finished = slots.asked, slots.launched, slots.finished
        if self._paper:
            launched, finished = columns.launch, columns.finish
            asked = np.where(np.isnan(columns.asked), launched, columns.asked)
        # Slot clocks never run backwards: their order is that of the times.
        return schedule(
            columns.app,
            (asked, TARGET_STARTS),
            (launched, TARGET_ENDS | SOURCE_STARTS),
            (finished, SOURCE_ENDS),
            order=columns.order,
        )
