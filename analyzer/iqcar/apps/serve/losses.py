"""Sums the time that queries lost: by resource, by source and by victim, bounded in size."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np

from iqcar.base.units import short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Resource
from iqcar.logs.text import family
from iqcar.tables import texts

MOST_NAMED = 100
"""Sources, and victims, that are told apart (100): a panel of a dashboard shows ten, and an alert
names one; Prometheus keeps some thousand bytes of memory for each."""

MOST_OF_RESULT = 30
"""Sources, and victims, of one result that are told apart (30): three times what a panel shows.
Some thousand results are held in memory, 10 KB of each, and summed within a second."""

LABEL_CHARACTERS = 100
"""Characters kept of a name: what a legend shows, and far below any limit of Prometheus."""

NAMES = {
    BlameKind.OWN: "(itself)",
    BlameKind.KNOWN: "(known causes)",
    BlameKind.UNATTRIBUTED: "(unattributed)",
    BlameKind.REST: "(others)",
}
"""What stands for the source where the time was not lost to a query that is named."""

Label = tuple[str, ...]
Sums = dict[Label, float]
"""Lost time in ms by the values of labels."""

RESOURCES: tuple[Label, ...] = tuple(
    (resource.value, kind.value) for resource in Resource for kind in BlameKind
)
"""Every resource and kind of blame."""

SOURCES_APART: tuple[Label, ...] = tuple((kind.value, "", name) for kind, name in NAMES.items())
"""Kind, application and source of what is no named query; the last sums sources beyond
:data:`MOST_NAMED`."""

VICTIMS_APART: tuple[Label, ...] = (("", NAMES[BlameKind.REST]),)
"""Application and victim that sum the victims beyond :data:`MOST_NAMED`."""


class Losses(msgspec.Struct, frozen=True):
    """What the queries of some applications lost; each of the three lists has the same sum.

    Names of queries and applications are those of their families, without dates, times and
    numbers, so that runs of a recurring query are summed.
    """

    ended: bool
    """Whether every application had ended, so that nothing comes to it any more."""
    queries: int
    """Queries found."""
    query_ms: float
    """Sum of their durations, in ms."""
    by_resource: tuple[tuple[Label, float], ...]
    """(resource, kind of blame) and the time lost, in ms."""
    by_source: tuple[tuple[Label, float], ...]
    """(kind of blame, application, source) and the time lost to it, in ms; the largest first."""
    by_victim: tuple[tuple[Label, float], ...]
    """(application, victim) and the time it lost, in ms; the largest first."""


NOTHING = Losses(ended=False, queries=0, query_ms=0.0, by_resource=(), by_source=(), by_victim=())
"""What a result that is about no application alone adds."""


def losses_of(diagnosis: Diagnosis) -> Losses:
    """Sum what a diagnosis found."""
    tables = diagnosis.tables
    queries = [_label(name) for name in texts(tables.queries, "family")]
    named = [_label(family(name)) for name in texts(tables.applications, "name")]
    applications = [named[row] for row in tables.queries["app"].tolist()]
    by_resource, by_source, by_victim = _sums(), _sums(), _sums()
    for resource in Resource:
        hurts = diagnosis.graph.who_hurts_whom(resource)
        hurts = hurts[hurts["lost_ms"] > 0]
        columns = (hurts[name].tolist() for name in ("source_query", "kind", "target_query"))
        for source, kind, target, lost in zip(*columns, hurts["lost_ms"].tolist(), strict=True):
            by_resource[resource.value, kind] += lost
            by_victim[applications[target], queries[target]] += lost
            if kind == BlameKind.QUERY:
                by_source[kind, applications[source], queries[source]] += lost
            else:
                by_source[kind, "", NAMES[BlameKind(kind)]] += lost
    durations = tables.queries["duration_ms"].to_numpy(np.float64)
    return Losses(
        ended=bool(tables.applications["ended"].all()), queries=len(tables.queries),
        query_ms=float(np.nansum(durations)), by_resource=tuple(by_resource.items()),
        by_source=tuple(bounded(by_source, SOURCES_APART, MOST_OF_RESULT).items()),
        by_victim=tuple(bounded(by_victim, VICTIMS_APART, MOST_OF_RESULT).items()),
    )  # fmt: skip


def sum_losses(every: Iterable[Losses]) -> Losses:
    """Sum the losses of several results, none of which is about an application of another."""
    by_resource, by_source, by_victim = _sums(), _sums(), _sums()
    ended, queries, query_ms = True, 0, 0.0
    for one in every:
        ended, queries, query_ms = (
            ended and one.ended,
            queries + one.queries,
            query_ms + one.query_ms,
        )
        for sums, parts in (
            (by_resource, one.by_resource),
            (by_source, one.by_source),
            (by_victim, one.by_victim),
        ):
            for label, lost in parts:
                sums[label] += lost
    return Losses(
        ended=ended, queries=queries, query_ms=query_ms, by_resource=tuple(by_resource.items()),
        by_source=tuple(bounded(by_source, SOURCES_APART).items()),
        by_victim=tuple(bounded(by_victim, VICTIMS_APART).items()),
    )  # fmt: skip


def bounded(sums: Sums, apart: tuple[Label, ...], most: int = MOST_NAMED) -> Sums:
    """Return the largest sums, and the rest in one.

    The largest comes first; equal ones are in the order of their labels. The total stays the same.

    Parameters
    ----------
    sums : dict of Label to float
    apart : tuple of Label
        Those that are kept beside the largest; the last of them takes the rest.
    most : int
        How many largest.
    """
    ordered = sorted(
        ((label, lost) for label, lost in sums.items() if label not in apart),
        key=lambda one: (-one[1], one[0]),
    )
    kept = dict(ordered[:most]) | {label: sums[label] for label in apart if label in sums}
    rest = sum(lost for _, lost in ordered[most:])
    if rest > 0:
        kept[apart[-1]] = kept.get(apart[-1], 0.0) + rest
    return kept


def _sums() -> defaultdict[Label, float]:
    return defaultdict(float)


def _label(name: str) -> str:
    return short(name, LABEL_CHARACTERS)


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
