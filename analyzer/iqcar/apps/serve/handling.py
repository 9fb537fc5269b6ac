"""Reads parameters, answers errors and sends: for handlers of pages and of the API."""

from __future__ import annotations

import gzip
import io
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from iqcar.apps.serve.analyses import FullError
from iqcar.apps.serve.responses import problem
from iqcar.apps.serve.service import GoneError, Service
from iqcar.errors import UsageError

PIECE_BYTES = 128 << 10
"""Bytes of an answer made at once (128 KiB): twice what is held for a client before it reads."""

T = TypeVar("T", bound=msgspec.Struct)


def service_of(request: Request) -> Service:
    """Return what the server holds."""
    service: Service = request.app.state.service
    return service


def looked_again(request: Request) -> Service:
    """Return what the server holds, and have it look for changed logs."""
    service = service_of(request)
    service.listing.look_again()
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


async def read_body(request: Request, kind: type[T]) -> T:
    """Read a body of JSON; raises UsageError, which says what the body does not say."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        what = getattr(kind, "SAYS", "what is asked")
        raise UsageError(f"the body does not say {what}: {error}") from error


def _is_list(kind: Any) -> bool:
    """Tell whether a field can hold several values: a list, with or without constraints."""
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return any(get_origin(each) is list for each in (plain, *get_args(plain)))


Handler = Callable[[Request], Awaitable[Response]]


def answering(handle: Handler, fail: Callable[[int, str], Response] | None = None) -> Handler:
    """Turn a handler's errors into answers that `fail` makes; by default those documented."""

    @wraps(handle)
    async def answer(request: Request) -> Response:
        try:
            return await handle(request)
        except GoneError as error:
            return (fail or problem)(404, error.what)
        except FullError as error:
            return fail(503, str(error)) if fail else problem_full(str(error))
        except UsageError as error:
            return (fail or problem)(400, str(error))

    return answer


def problem_full(message: str) -> Response:
    """Answer that too much waits already, and when to ask again."""
    refused = problem(503, message)
    refused.headers["Retry-After"] = "30"
    return refused


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
