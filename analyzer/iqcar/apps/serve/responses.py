"""Render pages from templates, and errors as pages or as JSON."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from jinja2 import Environment
from starlette.responses import Response

from iqcar.base.files.json_text import json_bytes
from iqcar.base.units import duration, moment, percent, printable, short, size
from iqcar.show.html.environment import escaping_environment
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
