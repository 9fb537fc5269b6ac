"""Declares the JSON API: every endpoint with its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
    Endpoint,
    openapi,
)
from iqcar.apps.serve.handling import answering, compressed, read_body, read_query, service_of
from iqcar.apps.serve.live_pages import LIVE_ENDPOINTS
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
from iqcar.apps.serve.service import AnalysisWork, GoneError, Work
from iqcar.apps.serve.store_api import STORE_ENDPOINTS
from iqcar.apps.serve.whatif_api import WHAT_IF_ENDPOINTS

_NOT_ANALYSED = "not analysed yet: POST its key to /api/analyses, then ask for the progress"
_NOT_COMPARED = "not compared yet: POST the sets to /api/comparisons, then ask again"


@answering
async def applications(request: Request) -> Response:
    """Answer with one page of the list."""
    service = service_of(request)
    service.look_again()
    wanted = read_query(request, Wanted)
    return JSONResponse(list_of(select(service.listing.applications(), wanted), service))


@answering
async def application(request: Request) -> Response:
    """Answer with the result of analysing one application."""
    service = service_of(request)
    service.look_again()
    return await _result(request, service.standing([request.path_params["key"]], waiting=False))


@answering
async def application_about(request: Request) -> Response:
    """Answer with what is known about one application."""
    service = service_of(request)
    service.look_again()
    one = service.standing([request.path_params["key"]]).applications[0]
    return JSONResponse(about(one, service, service.listing.applications()))


@answering
async def together(request: Request) -> Response:
    """Answer with how applications stand together."""
    service = service_of(request)
    service.look_again()
    standing = service.standing(read_query(request, Together).app)
    return JSONResponse(progress_of(standing, service))


@answering
async def start(request: Request) -> Response:
    """Ask for an analysis."""
    wanted = await read_body(request, Wish, "what to analyse")
    service = service_of(request)
    progress = progress_of(service.analyse(wanted.applications), service)
    return JSONResponse(progress, 200 if progress.state is State.DONE else 202)


@answering
async def analysis(request: Request) -> Response:
    """Answer with how far an analysis is."""
    service = service_of(request)
    service.look_again()
    return JSONResponse(progress_of(_standing(request), service))


@answering
async def analysis_result(request: Request) -> Response:
    """Answer with the result of an analysis."""
    return await _result(request, _standing(request))


@answering
async def cancel(request: Request) -> Response:
    """Stop an analysis."""
    service = service_of(request)
    standing = _standing(request)
    service.analyses.cancel(standing.digest)
    return JSONResponse(progress_of(standing, service), 202)


@answering
async def comparison(request: Request) -> Response:
    """Answer with how far a comparison is."""
    service = service_of(request)
    service.look_again()
    sets = read_query(request, Sets)
    return JSONResponse(comparison_progress(service.compared(sets.before, sets.after), service))


@answering
async def start_comparison(request: Request) -> Response:
    """Ask for a comparison."""
    service, sets = service_of(request), await read_body(request, Sets, "what to compare")
    progress = comparison_progress(service.compare(sets.before, sets.after), service)
    return JSONResponse(progress, 200 if progress.state is State.DONE else 202)


@answering
async def cancel_comparison(request: Request) -> Response:
    """Stop a comparison."""
    service, sets = service_of(request), await read_body(request, Sets, "what to compare")
    compared = service.compared(sets.before, sets.after)
    service.analyses.cancel(compared.digest)
    return JSONResponse(comparison_progress(compared, service), 202)


@answering
async def comparison_result(request: Request) -> Response:
    """Answer with the newest result of a comparison."""
    service = service_of(request)
    service.look_again()
    sets = read_query(request, Sets)
    compared = service.compared(sets.before, sets.after)
    return await _result(request, compared, _NOT_COMPARED)


async def document(request: Request) -> Response:
    """Answer with the OpenAPI document."""
    return JSONResponse(openapi(ENDPOINTS))


def _standing(request: Request) -> AnalysisWork:
    """Look up an analysis that was asked for, or whose result is kept."""
    service = service_of(request)
    digest = request.path_params["id"]
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
    Endpoint(
        "GET",
        "/api/applications",
        "listApplications",
        "List applications: search, sort, page by page.",
        applications,
        {200: ("One page of the list.", ApplicationList)},
        query=Wanted,
    ),
    Endpoint(
        "GET",
        "/api/applications/{key}",
        "getResult",
        "The newest result of analysing one application alone, as `iqcar analyze --json` "
        "writes it.",
        application,
        {200: ("The result.", RESULT), 404: GONE, 409: ("It was not analysed yet.", Problem)},
        variables={"key": Key},
        headers=RESULT_HEADERS,
    ),
    Endpoint(
        "GET",
        "/api/applications/{key}/about",
        "getApplication",
        "One application: its row of the list, its analysis, and what ran beside it.",
        application_about,
        {200: ("What is known about it.", ApplicationAbout), 404: GONE},
        variables={"key": Key},
    ),
    Endpoint(
        "GET",
        "/api/together",
        "getStanding",
        "How the analysis of one or several applications together stands, for their logs as they "
        "are now.",
        together,
        {200: ("How far it is; its state is null if nobody asked for it.", Progress), 404: GONE},
        query=Together,
    ),
    Endpoint(
        "POST",
        "/api/analyses",
        "startAnalysis",
        "Analyse applications, several of them together; joins an analysis that is under way. "
        "One that nobody asks about for 2 minutes is stopped.",
        start,
        {
            202: ("It waits or runs.", Progress),
            200: ("It was done before; its result is there.", Progress),
            **REFUSED,
        },
        body=Wish,
    ),
    Endpoint(
        "GET",
        "/api/analyses/{id}",
        "getProgress",
        "How far an analysis is.",
        analysis,
        {200: ("How far it is.", Progress), 404: GONE},
        variables={"id": AnalysisId},
    ),
    Endpoint(
        "GET",
        "/api/analyses/{id}/result",
        "getAnalysisResult",
        "The result of an analysis, as `iqcar analyze --json` writes it.",
        analysis_result,
        {200: ("The result.", RESULT), 404: GONE, 409: ("It is not done.", Problem)},
        variables={"id": AnalysisId},
        headers=RESULT_HEADERS,
    ),
    Endpoint(
        "POST",
        "/api/analyses/{id}/cancel",
        "cancelAnalysis",
        "Stop an analysis that waits or runs; does nothing to one that has ended.",
        cancel,
        {
            202: ("It is being stopped.", Progress),
            403: ("The request comes from a page of another site.", Problem),
            404: GONE,
        },
        variables={"id": AnalysisId},
    ),
    Endpoint(
        "GET",
        "/api/comparisons",
        "getComparison",
        "How the comparison of two sets of applications stands, for their logs as they are now.",
        comparison,
        {200: ("How far it is.", ComparisonProgress), 404: GONE},
        query=Sets,
    ),
    Endpoint(
        "POST",
        "/api/comparisons",
        "startComparison",
        "Compare two sets of applications; joins a comparison that is under way. One that nobody "
        "asks about for 2 minutes is stopped.",
        start_comparison,
        {
            202: ("It waits or runs.", ComparisonProgress),
            200: ("It was done before; its result is there.", ComparisonProgress),
            **REFUSED,
        },
        body=Sets,
    ),
    Endpoint(
        "POST",
        "/api/comparisons/cancel",
        "cancelComparison",
        "Stop a comparison that waits or runs; does nothing to one that has ended.",
        cancel_comparison,
        {
            202: ("It is being stopped.", ComparisonProgress),
            403: ("The request comes from a page of another site.", Problem),
            404: GONE,
            413: ("The body is too large.", Problem),
        },
        body=Sets,
    ),
    Endpoint(
        "GET",
        "/api/comparisons/result",
        "getComparisonResult",
        "The newest result of a comparison, as `iqcar compare --json` writes it.",
        comparison_result,
        {200: ("The result.", COMPARISON), 404: GONE, 409: ("It is not done.", Problem)},
        query=Sets,
        headers=RESULT_HEADERS,
    ),
    *WHAT_IF_ENDPOINTS,
    *LIVE_ENDPOINTS,
    *STORE_ENDPOINTS,
    Endpoint(
        "GET",
        "/api/openapi.json",
        "getDescription",
        "This description.",
        document,
        {200: ("An OpenAPI document.", OPENAPI)},
    ),
)
"""The whole API; routes and documentation are made from it."""


def routes() -> list[Route]:
    """Return the routes of the API."""
    return [
        Route(each.path, each.handle, methods=[each.method], name=each.name) for each in ENDPOINTS
    ]
