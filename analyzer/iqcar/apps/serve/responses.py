"""Reads parameters, renders pages from templates, and answers errors: for pages and the API."""

from __future__ import annotations

import gzip
import io
from collections.abc import Awaitable, Callable
from functools import cache, partial, wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from iqcar.apps.serve.analyses import FullError
from iqcar.apps.serve.service import GoneError, Service
from iqcar.base.files.json_text import json_bytes
from iqcar.base.units import duration, moment, percent, printable, short, size
from iqcar.errors import UsageError
from iqcar.show.html.files import escaping_environment
from iqcar.version import __version__

SHOWN_NAME = 120
"""Characters of a name on a page; the whole one is in its title."""

TITLES = {
    400: "Not understood",
    401: "Token needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Not analysed",
    413: "Too large",
    414: "Address too long",
    421: "Wrong host",
    500: "Error",
    503: "Busy",
}
"""What each status is called on pages."""


class Problem(msgspec.Struct, frozen=True):
    """An error of the API (RFC 9457)."""

    status: int
    """The HTTP status."""
    title: str
    """What kind of error it is."""
    detail: str
    """What is wrong, and what to do."""


class JSONResponse(Response):
    """An answer in JSON, made of plain values or structs."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode; numbers nobody knows become null."""
        return json_bytes(content)


def problem(status: int, detail: str) -> Response:
    """Answer a request to the API with an error."""
    answer = JSONResponse(Problem(status, TITLES.get(status, "Error"), detail), status)
    answer.headers["Content-Type"] = "application/problem+json"
    return answer


def error_page(title: str, message: str, go_to: str = "") -> str:
    """Render a page that says one thing; with `go_to` the browser goes there at once."""
    return render("message.html", title=title, message=message, go_to=go_to)


def render(template: str, **values: Any) -> str:
    """Render a template; whatever comes from a log is escaped."""
    return _templates().get_template(template).render(version=__version__, **values)


@cache
def _templates() -> Environment:
    return escaping_environment(
        "iqcar.apps.serve",
        bytes=size,
        duration=duration,
        moment=moment,
        percent=percent,
        printable=printable,
        short=lambda text: short(text, SHOWN_NAME),
    )


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
