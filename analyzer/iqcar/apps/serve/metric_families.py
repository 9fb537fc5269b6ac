"""Declares the metrics of ``/metrics`` and lays out sums of lost time as their samples.

Takes tables of sums only, whoever made them, and knows neither the server nor its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from iqcar.apps.serve.losses import MOST_NAMED, RESOURCES, Grown, Label, Losses, LossTotals

COUNTER, GAUGE, INFO = "counter", "gauge", "info"
CREATED = "_created"
"""Suffix of samples that tell since when a counter counts."""
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

    def metric(
        self, values: Mapping[Label, float], since: Mapping[Label, float] | None = None
    ) -> Metric:
        """Return values by label as the client library takes them; for counters, since when, too.

        Since when is in s since the epoch.
        """
        metric = Metric(self.name, self.help, self.kind, self.unit)
        for label, value in values.items():
            named = dict(zip(self.labels, label, strict=True))
            metric.samples.append(Sample(self.sample, named, value))
            if since is not None:
                metric.samples.append(Sample(self.name + CREATED, named, since[label]))
        return metric


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


def total_families(totals: LossTotals) -> Iterator[Metric]:
    """Lay out sums that only grow, as counters."""
    grown: Iterable[tuple[Family, Grown]] = (
        (LOST, totals.by_resource),
        (SOURCE_LOST, totals.by_source),
        (VICTIM_LOST, totals.by_victim),
    )
    for family, sums in grown:
        yield family.metric(sums.seconds, sums.since)
    since: dict[Label, float] = {(): totals.since}
    yield QUERY_TIME.metric({(): totals.query_seconds}, since)
    yield QUERIES.metric({(): totals.queries}, since)
    yield ENDED.metric({(): totals.applications}, since)


def kept_families(losses: Losses, applications: int) -> Iterator[Metric]:
    """Lay out the losses of what is kept now, as gauges; results come and go."""
    none = dict.fromkeys(RESOURCES, 0.0)
    for family, parts in (
        (KEPT_LOST, (none | dict(losses.by_resource)).items()),
        (KEPT_SOURCE_LOST, losses.by_source),
        (KEPT_VICTIM_LOST, losses.by_victim),
    ):
        yield family.metric({label: lost_ms / 1e3 for label, lost_ms in parts})
    yield KEPT_QUERY_TIME.metric({(): losses.query_ms / 1e3})
    yield KEPT_APPLICATIONS.metric({(): applications})
