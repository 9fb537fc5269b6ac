"""Answers ``/metrics`` in the formats of OpenMetrics and Prometheus."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from iqcar.apps.serve import metric_families as declared
from iqcar.apps.serve.analyses import ENDED, State
from iqcar.apps.serve.handling import compressed, service_of
from iqcar.apps.serve.losses import LABEL_CHARACTERS, Label
from iqcar.apps.serve.metric_families import CREATED, kept_families, total_families
from iqcar.apps.serve.service import Service
from iqcar.base.units import short
from iqcar.enums import InputStatus
from iqcar.logs.text import family
from iqcar.version import __version__

UNREAD = "unread"
"""Status of an application whose first lines were not read yet."""


class _Lost(msgspec.Struct):
    name: str
    lost_ms: float


class _Now(msgspec.Struct):
    tasks_waiting: int


class _Window(msgspec.Struct):
    """What is taken of a line of ``iqcar live --json``."""

    application_name: str
    now: _Now
    lost_to_others_ms: float
    resources: list[_Lost]


class _Collected:
    """Metrics as the client library collects them."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def _without_created(metric: Metric) -> Metric:
    """Take out since when a counter counts: in plain text each would be one more metric."""
    metric.samples = [one for one in metric.samples if not one.name.endswith(CREATED)]
    return metric


async def metrics(request: Request) -> Response:
    """Answer with every metric, in the format that the client asks for."""
    service = service_of(request)
    service.listing.look_again()
    try:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
    with_created = content_type.startswith("application/openmetrics-text")
    now = list(server_families(service))
    now += live_families(service.followers.windows())
    now += total_families(service.totals)

    def write() -> bytes:
        every = [*now, *kept_families(*service.kept_losses())]
        if not with_created:
            every = [_without_created(one) for one in every]
        return gzip.compress(encode(_Collected(every)), 6, mtime=0)

    content = await asyncio.to_thread(write)
    answer = await compressed(request, content, content_type, {})
    answer.headers["Vary"] = "Accept, Accept-Encoding"
    return answer


def server_families(service: Service) -> Iterator[Metric]:
    """Lay out how the server itself stands."""
    yield declared.BUILD.metric({(__version__,): 1})
    statuses = Counter(
        one.peek.status.value if one.peek else UNREAD for one in service.listing.applications()
    )
    every = [*(status.value for status in InputStatus), UNREAD]
    yield declared.APPLICATIONS.metric({(name,): statuses[name] for name in every})
    analyses = service.analyses
    waiting = {State.QUEUED: analyses.waiting, State.RUNNING: analyses.running}
    yield declared.WAITING.metric({(state.value,): n for state, n in waiting.items()})
    ended: dict[Label, float] = {
        (state.value,): analyses.ended[state] for state in State if state in ENDED
    }
    yield declared.ANALYSES.metric(ended, dict.fromkeys(ended, service.totals.since))
    yield declared.CACHE_BYTES.metric({(): service.cache.size_bytes})
    yield declared.CACHE_LIMIT.metric({(): service.cache.max_bytes})
    yield declared.CACHE_RESULTS.metric({(): service.cache.results})
    yield declared.FOLLOWERS.metric({(): service.followers.looking})
    yield declared.FOLLOWED.metric({(): service.followers.followed})


def live_families(windows: Iterable[bytes]) -> Iterator[Metric]:
    """Lay out the last windows of the applications that somebody looks at.

    Two applications of one name are summed. A window that tells a problem adds nothing.
    """
    lost: defaultdict[tuple[str, ...], float] = defaultdict(float)
    to_others: defaultdict[tuple[str, ...], float] = defaultdict(float)
    waiting: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for line in windows:
        try:
            window = msgspec.json.decode(line, type=_Window)
        except msgspec.MsgspecError:
            continue
        name = short(family(window.application_name), LABEL_CHARACTERS)
        to_others[name,] += window.lost_to_others_ms / 1e3
        waiting[name,] += window.now.tasks_waiting
        for resource in window.resources:
            lost[name, resource.name] += resource.lost_ms / 1e3
    yield declared.LIVE_LOST.metric(lost)
    yield declared.LIVE_TO_OTHERS.metric(to_others)
    yield declared.LIVE_WAITING.metric(waiting)


def routes() -> list[Route]:
    """Return the route of the metrics."""
    return [Route("/metrics", metrics)]
