"""Declare the metrics of ``/metrics`` and lay out sums of lost time as their samples.

Takes tables of sums only, whoever made them, and knows neither the server nor its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from iqcar.apps.serve.loss_totals import Grown, LossTotals
from iqcar.apps.serve.losses import MOST_NAMED, RESOURCES, Label, Losses

COUNTER, GAUGE, INFO = "counter", "gauge", "info"
UNITS = ("seconds", "bytes")
"""Units of OpenMetrics that are used; a metric with one ends with its name."""


@dataclass(frozen=True)
class Family:
    """One metric: its name without the suffixes of samples, its labels and what it says.

    Attributes
    ----------
    kind : str
        COUNTER: only grows, and starts again with the server; GAUGE: goes up and down; INFO.
    name, help : str
    labels : tuple of str
    """

    kind: str
    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Its unit; empty for a count."""
        last = self.name.rpartition("_")[2]
        return last if last in UNITS else ""

    @property
    def sample(self) -> str:
        """Name of its samples, as queries call them."""
        return self.name + {COUNTER: "_total", INFO: "_info"}.get(self.kind, "")


@dataclass
class Samples:
    """Values of one family by label, and for a counter since when it counts."""

    family: Family
    values: Mapping[Label, float] = field(default_factory=dict)
    since: Mapping[Label, float] = field(default_factory=dict)

    def metric(self, with_created: bool) -> Metric:
        """Return it as the client library takes it.

        Parameters
        ----------
        with_created : bool
            Whether counters tell since when they count. Only OpenMetrics has a place for that; in
            the plain text format each would be one more metric.
        """
        name, says, labels = self.family.name, self.family.help, self.family.labels
        if self.family.kind == INFO:
            info = InfoMetricFamily(name, says)
            for label in self.values:
                info.add_metric([], dict(zip(labels, label, strict=True)))
            return info
        if self.family.kind == GAUGE:
            gauge = GaugeMetricFamily(name, says, labels=labels, unit=self.family.unit)
            for label, value in self.values.items():
                gauge.add_metric(label, value)
            return gauge
        counter = CounterMetricFamily(name, says, labels=labels, unit=self.family.unit)
        for label, value in self.values.items():
            counter.add_metric(label, value, self.since[label] if with_created else None)
        return counter


_LARGEST = f"The {MOST_NAMED} largest are told apart, the rest is (others)."
_FIRST = f"The first {MOST_NAMED} that come are told apart, the rest is (others)."
_BY_RESOURCE, _BY_SOURCE = ("resource", "kind"), ("kind", "application", "source")
_BY_VICTIM = ("application", "victim")
_ENDED = "in applications that this server analysed after their end"
_KEPT = "in all applications listed whose result is kept"

BUILD = Family(INFO, "iqcar_build", "The version of iqcar that answers.", ("version",))
LOST = Family(
    COUNTER,
    "iqcar_lost_seconds",
    f"Time that queries lost {_ENDED}, by resource and kind of blame.",
    _BY_RESOURCE,
)
SOURCE_LOST = Family(
    COUNTER,
    "iqcar_source_lost_seconds",
    f"Time that queries lost {_ENDED}, by the query it was lost to. {_FIRST}",
    _BY_SOURCE,
)
VICTIM_LOST = Family(
    COUNTER,
    "iqcar_victim_lost_seconds",
    f"Time that queries lost {_ENDED}, by the query that lost it. {_FIRST}",
    _BY_VICTIM,
)
QUERY_TIME = Family(
    COUNTER, "iqcar_query_duration_seconds", f"Sum of the durations of queries {_ENDED}."
)
QUERIES = Family(COUNTER, "iqcar_queries", f"Queries {_ENDED}.")
ENDED = Family(COUNTER, "iqcar_ended_applications", "Applications analysed after their end.")
KEPT_LOST = Family(
    GAUGE,
    "iqcar_kept_lost_seconds",
    f"Time that queries lost {_KEPT}, by resource and kind of blame.",
    _BY_RESOURCE,
)
KEPT_SOURCE_LOST = Family(
    GAUGE,
    "iqcar_kept_source_lost_seconds",
    f"Time that queries lost {_KEPT}, by the query it was lost to. {_LARGEST}",
    _BY_SOURCE,
)
KEPT_VICTIM_LOST = Family(
    GAUGE,
    "iqcar_kept_victim_lost_seconds",
    f"Time that queries lost {_KEPT}, by the query that lost it. {_LARGEST}",
    _BY_VICTIM,
)
KEPT_QUERY_TIME = Family(
    GAUGE, "iqcar_kept_query_duration_seconds", f"Sum of the durations of queries {_KEPT}."
)
KEPT_APPLICATIONS = Family(
    GAUGE, "iqcar_kept_applications", "Applications listed whose result is kept."
)
APPLICATIONS = Family(
    GAUGE,
    "iqcar_applications",
    "Applications listed, by the state of their log; unread: its first lines were not read yet.",
    ("status",),
)
WAITING = Family(
    GAUGE,
    "iqcar_analyses_under_way",
    "Analyses and comparisons that wait or run.",
    ("state",),
)
ANALYSES = Family(
    COUNTER,
    "iqcar_analyses_ended",
    "Analyses and comparisons that ended since the server started, by how.",
    ("state",),
)
CACHE_BYTES = Family(GAUGE, "iqcar_cache_bytes", "Size of the results kept.")
CACHE_LIMIT = Family(GAUGE, "iqcar_cache_limit_bytes", "Size that all results kept may have.")
CACHE_RESULTS = Family(GAUGE, "iqcar_cache_results", "Results kept.")
FOLLOWERS = Family(GAUGE, "iqcar_live_followers", "Pages and programs that look at live pages.")
FOLLOWED = Family(GAUGE, "iqcar_live_applications", "Running applications that are looked at.")
LIVE_LOST = Family(
    GAUGE,
    "iqcar_live_lost_seconds",
    "Time that queries lost in the last minute of the applications looked at.",
    ("application", "resource"),
)
LIVE_TO_OTHERS = Family(
    GAUGE,
    "iqcar_live_lost_to_others_seconds",
    "Time that queries lost to other queries in the last minute of the applications looked at.",
    ("application",),
)

LIVE_WAITING = Family(
    GAUGE,
    "iqcar_live_tasks_waiting",
    "Tasks that wait to be launched in the applications looked at.",
    ("application",),
)

FAMILIES = (
    BUILD,
    *(LOST, SOURCE_LOST, VICTIM_LOST, QUERY_TIME, QUERIES, ENDED),
    *(KEPT_LOST, KEPT_SOURCE_LOST, KEPT_VICTIM_LOST, KEPT_QUERY_TIME, KEPT_APPLICATIONS),
    *(APPLICATIONS, WAITING, ANALYSES, CACHE_BYTES, CACHE_LIMIT, CACHE_RESULTS),
    *(FOLLOWERS, FOLLOWED, LIVE_LOST, LIVE_TO_OTHERS, LIVE_WAITING),
)
"""Every metric; the documentation is printed from it."""


def total_families(totals: LossTotals) -> Iterator[Samples]:
    """Lay out sums that only grow, as counters."""
    grown: Iterable[tuple[Family, Grown]] = (
        (LOST, totals.by_resource),
        (SOURCE_LOST, totals.by_source),
        (VICTIM_LOST, totals.by_victim),
    )
    for family, sums in grown:
        yield Samples(family, dict(sums.seconds), dict(sums.since))
    since: dict[Label, float] = {(): totals.since}
    yield Samples(QUERY_TIME, {(): totals.query_seconds}, since)
    yield Samples(QUERIES, {(): totals.queries}, since)
    yield Samples(ENDED, {(): totals.applications}, since)


def kept_families(losses: Losses, applications: int) -> Iterator[Samples]:
    """Lay out the losses of what is kept now, as gauges; results come and go."""
    none = dict.fromkeys(RESOURCES, 0.0)
    for family, parts in (
        (KEPT_LOST, (none | dict(losses.by_resource)).items()),
        (KEPT_SOURCE_LOST, losses.by_source),
        (KEPT_VICTIM_LOST, losses.by_victim),
    ):
        yield Samples(family, {label: lost_ms / 1e3 for label, lost_ms in parts})
    yield Samples(KEPT_QUERY_TIME, {(): losses.query_ms / 1e3})
    yield Samples(KEPT_APPLICATIONS, {(): applications})


def single(family: Family, value: float) -> Samples:
    """Lay out a number without labels, as a gauge."""
    return Samples(family, {(): value})
