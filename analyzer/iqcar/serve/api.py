"""The JSON API: every endpoint with its answers."""

from __future__ import annotations

import asyncio
import gzip
import io
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from iqcar.errors import UsageError
from iqcar.serve.analyses import FullError, State
from iqcar.serve.cache import RESULT as RESULT_FILE
from iqcar.serve.endpoints import COMPARISON, OPENAPI, RESULT, Endpoint, openapi
from iqcar.serve.responses import JSONResponse, Problem, problem
from iqcar.serve.schemas import (
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
from iqcar.serve.selection import Wanted, select
from iqcar.serve.service import GoneError, Standing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from iqcar.serve.service import Service

PIECE_BYTES = 128 << 10
"""Bytes of an answer made at once (128 KiB): twice what is held for a client before it reads."""

GROWN = "Iqcar-Log-Grown"
"""Header of a result: whether a log has grown since it was made."""

_NOT_ANALYSED = "not analysed yet: POST its key to /api/analyses, then ask for the progress"

T = TypeVar("T", bound=msgspec.Struct)


def service_of(request: Request) -> Service:
    """Return what the server holds."""
    service: Service = request.app.state.service
    return service


def read_query(request: Request, kind: type[T]) -> T:
    """Read query parameters, empty ones as not given; raises UsageError with what is wrong."""
    given: dict[str, Any] = {}
    several = {f.encode_name for f in msgspec.structs.fields(kind) if _is_list(f.type)}
    for name, value in parse_qsl(request.url.query):
        given[name] = [*given.get(name, ()), value] if name in several else value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(str(error)) from error


def _is_list(kind: Any) -> bool:
    """Tell whether a field holds several values: a list, with or without constraints."""
    return get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is list


def answering(
    handle: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Turn a handler's errors into the answers that are documented."""

    @wraps(handle)
    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except GoneError as error:
            return problem(404, error.what)
        except FullError as error:
            refused = problem(503, str(error))
            refused.headers["Retry-After"] = "30"
            return refused
        except UsageError as error:
            return problem(400, str(error))

    return answer


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
    try:
        wish = msgspec.json.decode(await request.body(), type=Wish)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the body does not say what to analyse: {error}") from error
    service = service_of(request)
    progress = progress_of(service.analyse(wish.applications), service)
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
    try:
        sets = msgspec.json.decode(await request.body(), type=Sets)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the body does not say what to compare: {error}") from error
    service = service_of(request)
    progress = comparison_progress(service.compare(sets.before, sets.after), service)
    return JSONResponse(progress, 200 if progress.state is State.DONE else 202)


@answering
async def comparison_result(request: Request) -> Response:
    """Answer with the result of a comparison."""
    service = service_of(request)
    sets = read_query(request, Sets)
    digest = service.compared(sets.before, sets.after).digest
    content = await asyncio.to_thread(service.cache.read, digest, RESULT_FILE)
    if content is None:
        return problem(409, "not compared yet: POST the sets to /api/comparisons, then ask again")
    return await compressed(request, content, "application/json", {})


async def document(request: Request) -> Response:
    """Answer with the OpenAPI document."""
    return JSONResponse(openapi(ENDPOINTS))


def _standing(request: Request) -> Standing:
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
        return Standing(keys, (), digest, result, analysis, outdated=True)
    # What was asked about is this state of the logs, also if they have grown since.
    outdated = now.digest != digest
    return Standing(keys, now.applications, digest, result, analysis, outdated)


async def _result(request: Request, standing: Standing) -> Response:
    service = service_of(request)
    content = None
    if standing.result is not None:
        content = await asyncio.to_thread(service.cache.read, standing.result, RESULT_FILE)
    if content is None:
        return problem(409, _NOT_ANALYSED)
    headers = {GROWN: "true" if standing.grown else "false"}
    return await compressed(request, content, "application/json", headers)


async def compressed(
    request: Request, content: bytes, media_type: str, headers: dict[str, str]
) -> Response:
    """Answer with what is stored compressed; it is decompressed for who cannot.

    In pieces, so that a client that reads slowly, or never, holds one of them in memory.
    """
    headers = {**headers, "Vary": "Accept-Encoding"}
    stored = io.BytesIO(content)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(content))}
        pieces = iter(partial(stored.read, PIECE_BYTES), b"")
    else:
        decoded = gzip.GzipFile(fileobj=stored)
        pieces = iter(partial(decoded.read, PIECE_BYTES), b"")
    return StreamingResponse(pieces, media_type=media_type, headers=headers)


_GONE: tuple[str, Any] = ("There is none of that key, or not any more.", Problem)
_RESULT_HEADERS = {GROWN: "`true` if a log has grown since, so that this is out of date."}

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
        {200: ("The result.", RESULT), 404: _GONE, 409: ("It was not analysed yet.", Problem)},
        variables={"key": Key},
        headers=_RESULT_HEADERS,
    ),
    Endpoint(
        "GET",
        "/api/applications/{key}/about",
        "getApplication",
        "One application: its row of the list, its analysis, and what ran beside it.",
        application_about,
        {200: ("What is known about it.", ApplicationAbout), 404: _GONE},
        variables={"key": Key},
    ),
    Endpoint(
        "GET",
        "/api/together",
        "getStanding",
        "How the analysis of one or several applications together stands, for their logs as they "
        "are now.",
        together,
        {200: ("How far it is; its state is null if nobody asked for it.", Progress), 404: _GONE},
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
            403: ("The request comes from a page of another site.", Problem),
            404: _GONE,
            413: ("The body is too large.", Problem),
            503: ("Too many analyses wait already; ask again later.", Problem),
        },
        body=Wish,
    ),
    Endpoint(
        "GET",
        "/api/analyses/{id}",
        "getProgress",
        "How far an analysis is.",
        analysis,
        {200: ("How far it is.", Progress), 404: _GONE},
        variables={"id": AnalysisId},
    ),
    Endpoint(
        "GET",
        "/api/analyses/{id}/result",
        "getAnalysisResult",
        "The result of an analysis, as `iqcar analyze --json` writes it.",
        analysis_result,
        {200: ("The result.", RESULT), 404: _GONE, 409: ("It is not done.", Problem)},
        variables={"id": AnalysisId},
        headers=_RESULT_HEADERS,
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
            404: _GONE,
        },
        variables={"id": AnalysisId},
    ),
    Endpoint(
        "GET",
        "/api/comparisons",
        "getComparison",
        "How the comparison of two sets of applications stands, for their logs as they are now.",
        comparison,
        {200: ("How far it is.", ComparisonProgress), 404: _GONE},
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
            403: ("The request comes from a page of another site.", Problem),
            404: _GONE,
            413: ("The body is too large.", Problem),
            503: ("Too many analyses wait already; ask again later.", Problem),
        },
        body=Sets,
    ),
    Endpoint(
        "GET",
        "/api/comparisons/result",
        "getComparisonResult",
        "The result of a comparison, as `iqcar compare --json` writes it.",
        comparison_result,
        {200: ("The result.", COMPARISON), 404: _GONE, 409: ("It is not done.", Problem)},
        query=Sets,
    ),
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
