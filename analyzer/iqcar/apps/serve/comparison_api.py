"""The JSON API of comparisons: two sets of applications, how far it is, its result."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from iqcar.apps.serve.analyses import State
from iqcar.apps.serve.cache import RESULT as RESULT_FILE
from iqcar.apps.serve.endpoints import COMPARISON, GONE, GROWN, REFUSED, RESULT_HEADERS, Endpoint
from iqcar.apps.serve.handling import answering, compressed, read_query, service_of
from iqcar.apps.serve.responses import JSONResponse, Problem, problem
from iqcar.apps.serve.schemas import ComparisonProgress, Sets, comparison_progress
from iqcar.errors import UsageError


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
    service, sets = service_of(request), await _sets(request)
    progress = comparison_progress(service.compare(sets.before, sets.after), service)
    return JSONResponse(progress, 200 if progress.state is State.DONE else 202)


@answering
async def cancel_comparison(request: Request) -> Response:
    """Stop a comparison."""
    service, sets = service_of(request), await _sets(request)
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
    content = None
    if compared.result is not None:
        content = await asyncio.to_thread(service.cache.read, compared.result, RESULT_FILE)
    if content is None:
        return problem(409, "not compared yet: POST the sets to /api/comparisons, then ask again")
    headers = {GROWN: "true" if compared.grown else "false"}
    return await compressed(request, content, "application/json", headers)


async def _sets(request: Request) -> Sets:
    try:
        return msgspec.json.decode(await request.body(), type=Sets)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the body does not say what to compare: {error}") from error


COMPARISON_ENDPOINTS = (
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
)
"""What can be asked of comparisons."""
