"""Shows a running application: its page, and the stream of windows on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from iqcar.apps.serve.endpoints import GONE, LIVE, endpoint
from iqcar.apps.serve.followers import Look
from iqcar.apps.serve.handling import looked_again
from iqcar.apps.serve.responses import Problem, render
from iqcar.apps.serve.schemas import Key

BEAT = b": looking\n\n"
"""Sent first, so that a browser knows that the stream is open."""


async def live_page(request: Request) -> Response:
    """Show what a running application does now."""
    one = (
        looked_again(request).standing([request.path_params["key"]], waiting=False).applications[0]
    )
    return HTMLResponse(render("live.html", one=one))


@endpoint(
    "GET /api/live/{key}",
    "follow",
    "Windows of a running application as server-sent events: each as `iqcar live --json` "
    "prints it, or an object with a `problem`; `event: over` at the end.",
    {
        200: ("A stream of windows, one every two seconds, until the application ends.", LIVE),
        404: GONE,
        503: ("Too many look already; ask again later.", Problem),
    },
)
async def live_stream(request: Request, key: Key) -> Response:
    """Answer with windows of a running application as server-sent events."""
    service = looked_again(request)
    look = service.followers.look(key, service.follow_request(key))

    async def events() -> AsyncIterator[bytes]:
        yield BEAT
        async for line in look.windows():
            yield b"data: " + line + b"\n\n"
        yield b"event: over\ndata: {}\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _Stream(look, events(), media_type="text/event-stream", headers=headers)


class _Stream(StreamingResponse):
    """A stream whose place is given back however it ends, also before its first byte."""

    def __init__(self, look: Look, events: AsyncIterator[bytes], **more: Any) -> None:
        super().__init__(events, **more)
        self._look = look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send windows until the client has gone or the application has ended."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._look.close()
