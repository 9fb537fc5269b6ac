"""Add up what ended applications lost, in sums that only grow."""

from __future__ import annotations

import time

from iqcar.apps.serve.losses import (
    MOST_NAMED,
    RESOURCES,
    SOURCES_APART,
    VICTIMS_APART,
    Label,
    Losses,
)

MAX_REMEMBERED = 100_000
"""Applications remembered as added (100,000): five times as many as are listed."""


KEPT_S = 7 * 86_400.0
"""Seconds that a label keeps its place without growing (a week): weekly jobs come again by then."""


class Grown:
    """Sums by label that only grow.

    Parameters
    ----------
    apart : tuple of Label
        Those that have a sum from the start. Beside them at most :data:`MOST_NAMED` get one, and
        the last takes the rest.

    Attributes
    ----------
    seconds : dict of Label to float
    since : dict of Label to float
        When each sum began, in s since the epoch.
    """

    def __init__(self, apart: tuple[Label, ...]) -> None:
        self._most = len(apart) + MOST_NAMED
        self._others = apart[-1]
        self._apart = frozenset(apart)
        self._grown: dict[Label, float] = {}
        self.seconds = dict.fromkeys(apart, 0.0)
        self.since = dict.fromkeys(apart, time.time())

    def add(self, label: Label, seconds: float) -> None:
        """Add to a sum, or to the others' where no more are told apart.

        A label that has a sum keeps it while it grows. Where all places are taken, a new one gets
        that of a label that has not grown for long, else of a smaller one, whose sum goes to the
        others': each sum grows as long as it is there, and so do all together.
        """
        if label not in self.seconds and len(self.seconds) >= self._most:
            place = self._place(seconds)
            if place is None:
                label = self._others
            else:
                self.seconds[self._others] += self.seconds.pop(place)
                del self.since[place], self._grown[place]
        if label not in self.seconds:
            self.since[label] = time.time()
        self.seconds[label] = self.seconds.get(label, 0.0) + seconds
        if label not in self._apart:
            self._grown[label] = time.monotonic()

    def _place(self, seconds: float) -> Label | None:
        """Return the label that gives its place to a new one; None if none does."""
        oldest = min(self._grown, key=lambda one: self._grown[one])
        if time.monotonic() - self._grown[oldest] > KEPT_S:
            return oldest
        smallest = min(self._grown, key=lambda one: self.seconds[one])
        return smallest if self.seconds[smallest] < seconds else None


class LossTotals:
    """What the applications lost that were analysed after their end, each counted once."""

    def __init__(self) -> None:
        self.by_resource = Grown(RESOURCES)
        self.by_source = Grown(SOURCES_APART)
        self.by_victim = Grown(VICTIMS_APART)
        self.since = time.time()
        self.applications = 0
        self.queries = 0
        self.query_seconds = 0.0
        self._added: dict[str, None] = {}

    def add(self, key: str, losses: Losses) -> None:
        """Add the losses of an application, unless it still runs or was added before.

        Of a running application every analysis finds other sums, smaller ones too; it is added
        when it is analysed after its end.
        """
        if not losses.ended or key in self._added:
            return
        self._added[key] = None
        if len(self._added) > MAX_REMEMBERED:
            del self._added[next(iter(self._added))]
        self.applications += 1
        self.queries += losses.queries
        self.query_seconds += losses.query_ms / 1e3
        for grown, parts in (
            (self.by_resource, losses.by_resource),
            (self.by_source, losses.by_source),
            (self.by_victim, losses.by_victim),
        ):
            for label, lost_ms in parts:
                grown.add(label, lost_ms / 1e3)
