"""Answers ``/metrics`` in plain text: who lost time to whom, and how the server stands.

Every metric is a gauge: results come and go.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.cache import Label, bounded
from iqcar.apps.serve.responses import looked_again
from iqcar.apps.serve.service import Service
from iqcar.enums import InputStatus, QueryStatus
from iqcar.version import __version__

UNREAD = "unread"
"""Status of an application whose first lines were not read yet."""
MOST_NAMED = 100
"""Losses that are told apart (100): a panel of a dashboard shows ten; Prometheus keeps some
thousand bytes of memory for each."""


class Gauge(NamedTuple):
    """One metric: its name, which ends with its unit, its labels and what it says."""

    name: str
    labels: tuple[str, ...]
    help: str


_KEPT = "of the listed applications whose result is kept"
BUILD = Gauge("iqcar_build_info", ("version",), "1; the version of iqcar that answers.")
LOST = Gauge(
    "iqcar_lost_seconds",
    ("application", "victim", "kind", "source", "resource"),
    f"Time that queries {_KEPT} lost: who lost it, to whom, and waiting for what.",
)
QUERY_TIME = Gauge(
    "iqcar_query_duration_seconds", (), f"Sum of the durations of the queries {_KEPT}."
)
QUERIES = Gauge("iqcar_queries", ("status",), f"Queries {_KEPT}, by what became of them.")
ANALYSED = Gauge("iqcar_analysed_applications", (), "Listed applications whose result is kept.")
APPLICATIONS = Gauge(
    "iqcar_applications",
    ("status",),
    f"Listed applications, by the state of their log; {UNREAD}: its first lines were not read yet.",
)
UNDER_WAY = Gauge(
    "iqcar_analyses_under_way", ("state",), "Analyses and comparisons that wait or run."
)
CACHE = Gauge("iqcar_cache_bytes", (), "Size of the results kept.")
GAUGES = (BUILD, LOST, QUERY_TIME, QUERIES, ANALYSED, APPLICATIONS, UNDER_WAY, CACHE)
"""Every metric."""

Values = Mapping[tuple[str, ...], float]


def server_values(service: Service) -> Iterator[tuple[Gauge, Values]]:
    """Tell how the server itself stands."""
    yield BUILD, {(__version__,): 1.0}
    statuses = Counter(
        one.peek.status.value if one.peek else UNREAD for one in service.listing.applications()
    )
    yield APPLICATIONS, {(name,): statuses[name] for name in (*map(str, InputStatus), UNREAD)}
    waits, runs = service.analyses.waiting, service.analyses.running
    yield UNDER_WAY, {(State.QUEUED.value,): waits, (State.RUNNING.value,): runs}
    yield CACHE, {(): service.cache.size_bytes}


def lost_values(service: Service) -> Iterator[tuple[Gauge, Values]]:
    """Sum what the listed applications lost, each by the newest result about it alone.

    Results of several together do not count, or it counted twice. For any thread.
    """
    kept = [one.summary for one in service.listing.applications() if one.summary is not None]
    lost: defaultdict[Label, float] = defaultdict(float)
    for summary in kept:
        for label, ms in summary.losses:
            lost[label] += ms / 1e3
    yield LOST, dict[tuple[str, ...], float](bounded(lost, MOST_NAMED).items())
    yield QUERY_TIME, {(): sum(summary.query_ms for summary in kept) / 1e3}
    by_status = Counter[str]()
    for summary in kept:
        by_status.update(summary.by_status)
    yield QUERIES, {(name,): by_status[name] for name in map(str, QueryStatus)}
    yield ANALYSED, {(): len(kept)}


class _Collected:
    """Metrics as the client library collects them."""

    def __init__(self, values: list[tuple[Gauge, Values]]) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        for gauge, values in self._values:
            metric = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
            for label, value in values.items():
                metric.add_metric(label, value)
            yield metric


async def metrics(request: Request) -> Response:
    """Answer with every metric."""
    service = looked_again(request)
    now = list(server_values(service))

    def write() -> bytes:
        registry = CollectorRegistry()
        registry.register(_Collected([*now, *lost_values(service)]))
        return generate_latest(registry)

    content = await asyncio.to_thread(write)
    return Response(content, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def routes() -> list[Route]:
    """Return the route of the metrics."""
    return [Route("/metrics", metrics)]
