"""Declares the JSON API: every endpoint with its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.cache import RESULT as RESULT_FILE
from iqcar.apps.serve.endpoints import (
    COMPARISON,
    GONE,
    GROWN,
    OPENAPI,
    REFUSED,
    RESULT,
    RESULT_HEADERS,
    endpoint,
    openapi,
)
from iqcar.apps.serve.handling import compressed, looked_again, service_of
from iqcar.apps.serve.live_pages import live_stream
from iqcar.apps.serve.responses import JSONResponse, Problem, problem
from iqcar.apps.serve.schemas import (
    AnalysisId,
    ApplicationAbout,
    ApplicationList,
    ComparisonProgress,
    Key,
    Progress,
    Sets,
    Together,
    Wish,
    about,
    comparison_progress,
    list_of,
    progress_of,
)
from iqcar.apps.serve.selection import Wanted, select
from iqcar.apps.serve.service import AnalysisWork, GoneError, Service, Work
from iqcar.apps.serve.store_api import ask_store
from iqcar.apps.serve.whatif_api import ask_live, progress

_NOT_ANALYSED = "not analysed yet: POST its key to /api/analyses, then ask for the progress"
_NOT_COMPARED = "not compared yet: POST the sets to /api/comparisons, then ask again"


@endpoint(
    "GET /api/applications",
    "listApplications",
    "List applications: search, sort, page by page.",
    {200: ("One page of the list.", ApplicationList)},
)
async def applications(request: Request, wanted: Wanted) -> ApplicationList:
    """Answer with one page of the list."""
    service = looked_again(request)
    return list_of(select(service.listing.applications(), wanted), service)


@endpoint(
    "GET /api/applications/{key}",
    "getResult",
    "The newest result of analysing one application alone, as `iqcar analyze --json` writes it.",
    {200: ("The result.", RESULT), 404: GONE, 409: ("It was not analysed yet.", Problem)},
    headers=RESULT_HEADERS,
)
async def application(request: Request, key: Key) -> Response:
    """Answer with the result of analysing one application."""
    return await _result(request, looked_again(request).standing([key], waiting=False))


@endpoint(
    "GET /api/applications/{key}/about",
    "getApplication",
    "One application: its row of the list, its analysis, and what ran beside it.",
    {200: ("What is known about it.", ApplicationAbout), 404: GONE},
)
async def application_about(request: Request, key: Key) -> ApplicationAbout:
    """Answer with what is known about one application."""
    service = looked_again(request)
    one = service.standing([key]).applications[0]
    return about(one, service, service.listing.applications())


@endpoint(
    "GET /api/together",
    "getStanding",
    "How the analysis of one or several applications together stands, for their logs as they "
    "are now.",
    {200: ("How far it is; its state is null if nobody asked for it.", Progress), 404: GONE},
)
async def together(request: Request, wanted: Together) -> Progress:
    """Answer with how applications stand together."""
    service = looked_again(request)
    return progress_of(service.standing(wanted.app), service)


@endpoint(
    "POST /api/analyses",
    "startAnalysis",
    "Analyse applications, several of them together; joins an analysis that is under way. "
    "One that nobody asks about for 2 minutes is stopped.",
    {
        202: ("It waits or runs.", Progress),
        200: ("It was done before; its result is there.", Progress),
        **REFUSED,
    },
)
async def start(request: Request, wanted: Wish) -> Response:
    """Ask for an analysis."""
    service = service_of(request)
    begun = progress_of(service.analyse(wanted.applications), service)
    return JSONResponse(begun, 200 if begun.state is State.DONE else 202)


@endpoint(
    "GET /api/analyses/{id}",
    "getProgress",
    "How far an analysis is.",
    {200: ("How far it is.", Progress), 404: GONE},
)
async def analysis(request: Request, id: AnalysisId) -> Progress:
    """Answer with how far an analysis is."""
    service = looked_again(request)
    return progress_of(_standing(service, id), service)


@endpoint(
    "GET /api/analyses/{id}/result",
    "getAnalysisResult",
    "The result of an analysis, as `iqcar analyze --json` writes it.",
    {200: ("The result.", RESULT), 404: GONE, 409: ("It is not done.", Problem)},
    headers=RESULT_HEADERS,
)
async def analysis_result(request: Request, id: AnalysisId) -> Response:
    """Answer with the result of an analysis."""
    return await _result(request, _standing(service_of(request), id))


@endpoint(
    "POST /api/analyses/{id}/cancel",
    "cancelAnalysis",
    "Stop an analysis that waits or runs; does nothing to one that has ended.",
    {
        202: ("It is being stopped.", Progress),
        403: ("The request comes from a page of another site.", Problem),
        404: GONE,
    },
)
async def cancel(request: Request, id: AnalysisId) -> Response:
    """Stop an analysis."""
    service = service_of(request)
    standing = _standing(service, id)
    service.analyses.cancel(standing.digest)
    return JSONResponse(progress_of(standing, service), 202)


@endpoint(
    "GET /api/comparisons",
    "getComparison",
    "How the comparison of two sets of applications stands, for their logs as they are now.",
    {200: ("How far it is.", ComparisonProgress), 404: GONE},
)
async def comparison(request: Request, sets: Sets) -> ComparisonProgress:
    """Answer with how far a comparison is."""
    service = looked_again(request)
    return comparison_progress(service.compared(sets.before, sets.after), service)


@endpoint(
    "POST /api/comparisons",
    "startComparison",
    "Compare two sets of applications; joins a comparison that is under way. One that nobody "
    "asks about for 2 minutes is stopped.",
    {
        202: ("It waits or runs.", ComparisonProgress),
        200: ("It was done before; its result is there.", ComparisonProgress),
        **REFUSED,
    },
)
async def start_comparison(request: Request, sets: Sets) -> Response:
    """Ask for a comparison."""
    service = service_of(request)
    begun = comparison_progress(service.compare(sets.before, sets.after), service)
    return JSONResponse(begun, 200 if begun.state is State.DONE else 202)


@endpoint(
    "POST /api/comparisons/cancel",
    "cancelComparison",
    "Stop a comparison that waits or runs; does nothing to one that has ended.",
    {
        202: ("It is being stopped.", ComparisonProgress),
        403: ("The request comes from a page of another site.", Problem),
        404: GONE,
        413: ("The body is too large.", Problem),
    },
)
async def cancel_comparison(request: Request, sets: Sets) -> Response:
    """Stop a comparison."""
    service = service_of(request)
    compared = service.compared(sets.before, sets.after)
    service.analyses.cancel(compared.digest)
    return JSONResponse(comparison_progress(compared, service), 202)


@endpoint(
    "GET /api/comparisons/result",
    "getComparisonResult",
    "The newest result of a comparison, as `iqcar compare --json` writes it.",
    {200: ("The result.", COMPARISON), 404: GONE, 409: ("It is not done.", Problem)},
    headers=RESULT_HEADERS,
)
async def comparison_result(request: Request, sets: Sets) -> Response:
    """Answer with the newest result of a comparison."""
    compared = looked_again(request).compared(sets.before, sets.after)
    return await _result(request, compared, _NOT_COMPARED)


@endpoint(
    "GET /api/openapi.json",
    "getDescription",
    "This description.",
    {200: ("An OpenAPI document.", OPENAPI)},
)
async def document(request: Request) -> Response:
    """Answer with the OpenAPI document."""
    return JSONResponse(openapi(ENDPOINTS))


def _standing(service: Service, digest: str) -> AnalysisWork:
    """Look up an analysis that was asked for, or whose result is kept."""
    analysis = service.analyses.get(digest)
    summary = service.cache.summary(digest)
    keys = analysis.keys if analysis else summary.keys if summary else ()
    if not keys:  # a comparison has none: it is asked for by its sets
        raise GoneError("there is no such analysis (any more)")
    result = digest if summary else None
    try:
        now = service.standing(keys)
    except GoneError:
        return AnalysisWork(
            keys=keys,
            applications=(),
            digest=digest,
            result=result,
            analysis=analysis,
            outdated=True,
        )
    # What was asked about is this state of the logs, also if they have grown since.
    return replace(
        now,
        keys=keys,
        digest=digest,
        result=result,
        analysis=analysis,
        outdated=now.digest != digest,
    )


async def _result(request: Request, work: Work, none_yet: str = _NOT_ANALYSED) -> Response:
    """Answer with the newest result of an analysis or a comparison, if one is kept."""
    cache = service_of(request).cache
    content = None
    if work.result is not None:
        content = await asyncio.to_thread(cache.read, work.result, RESULT_FILE)
    if content is None:
        return problem(409, none_yet)
    headers = {GROWN: "true" if work.grown else "false"}
    return await compressed(request, content, "application/json", headers)


ENDPOINTS = (
    applications,
    application,
    application_about,
    together,
    start,
    analysis,
    analysis_result,
    cancel,
    comparison,
    start_comparison,
    cancel_comparison,
    comparison_result,
    progress,
    ask_live,
    live_stream,
    ask_store,
    document,
)
"""The whole API; routes and documentation are made from it."""
