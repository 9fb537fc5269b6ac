"""Listens on an address until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from iqcar.apps.serve import api, metrics, pages
from iqcar.apps.serve.guard import Guard, is_loopback
from iqcar.apps.serve.service import Service
from iqcar.base.units import printable
from iqcar.errors import IqcarError, UsageError

MAX_HELD = 200
"""Connections held (200): more than a system lets wait at once. So a new connection has sent its
request before 200 newer ones can take its place."""

HEAD_S = 10.0
"""Seconds in which a connection must bring the whole head of a request (10)."""

MAX_CONNECTIONS = 2 * MAX_HELD
"""Connections from which on requests are told to come again (400): twice those that are held while
they wait on their clients, so that those that were closed have time to end. Most systems let a
process have 1,024 files open."""

MAX_BACKLOG = 128
"""Connections that the system lets wait."""

KEEP_ALIVE_S = 5
"""Seconds an idle connection is kept (5)."""

STOP_S = 2
"""Seconds that requests under way have to end when the server is stopped (2)."""

TOKEN_BYTES = 24
"""Random bytes of a token (24): nobody guesses 192 bits."""

MIN_TOKEN = 16
"""Characters of a token that a user chooses."""

_TOKEN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def token_for(host: str, given: str) -> str:
    """Return the token that who asks must know; empty on loopback, unless one is given.

    Raises
    ------
    UsageError
        If the token given is short, or holds what cannot stand in an address.
    """
    if given:
        if len(given) < MIN_TOKEN or not _TOKEN_CHARACTERS.issuperset(given):
            advice = f"give {MIN_TOKEN} or more letters, digits, or - . _ ~"
            raise UsageError("the token is too short or holds other characters", "--token", advice)
        return given
    return "" if is_loopback(host) else secrets.token_urlsafe(TOKEN_BYTES)


def listen(host: str, port: int) -> socket.socket:
    """Begin to listen.

    Raises
    ------
    IqcarError
        If the address is not of this machine, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise IqcarError("there is no such address", host, "give another --host") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(MAX_BACKLOG)
    except OSError as error:
        listening.close()
        advice = "give another --port, or 0 for any free one"
        what = (error.strerror or "it cannot be used").lower()
        raise IqcarError(what, f"{host}:{port}", advice) from error
    return listening


def address_of(listening: socket.socket, host: str, token: str) -> str:
    """Return the address to open in a browser."""
    port = listening.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def application(service: Service, token: str, host: str, port: int) -> Guard:
    """Build the whole web application, guarded."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = Starlette(
        routes=[*(each.route for each in api.ENDPOINTS), *metrics.routes(), *pages.routes()],
        lifespan=lifespan,
        exception_handlers={404: pages.not_found, 405: pages.not_found, 500: pages.not_found},
    )
    app.state.service = service
    return Guard(app, token, host, port)


def serve(
    service: Service, listening: socket.socket, host: str, token: str, ready: Callable[[], None]
) -> None:
    """Answer requests until SIGINT or SIGTERM.

    Parameters
    ----------
    service : Service
    listening : socket
        From :func:`listen`.
    host, token : str
        What the guard asks for.
    ready : callable
        Called once requests are answered.
    """
    log_to_stderr()
    app = application(service, token, host, listening.getsockname()[1])
    asyncio.run(answer_requests(app, listening, ready))


async def answer_requests(
    app: ASGIApp, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Let a guarded application answer requests until SIGINT or SIGTERM."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            ws="none",
            http=HeadTimeoutProtocol,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
        ),
        ready,
    )
    await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that ends like any command when it is told to, instead of by the signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM; a second one does not wait for requests under way."""
        before = {number: signal.signal(number, self._stop) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.handle_exit(number, frame)


_STOPPING = (signal.SIGINT, signal.SIGTERM)


class _OneLine(logging.Formatter):
    """Writes a record as one line without control characters; of an exception its kind."""

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level and message."""
        said = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            said += f": {record.exc_info[1]!r} {_where(record.exc_info[1])}"
        when = self.formatTime(record, "%Y-%m-%d %H:%M:%S")
        return printable(f"{when} {record.levelname.lower()} {said}")


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def log_to_stderr() -> None:
    """Write what is logged to stderr, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    for name, level in (("iqcar.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class HeadTimeoutProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which closes connections whose clients keep it waiting.

    A client has :data:`HEAD_S` to send the head of a request. Where all places are taken, the
    connection that has waited longest on its client is closed for a new one, whatever it waits for:
    a request, the rest of one, or its answer being read. So no number of idle or slow clients keeps
    out one that asks.
    """

    _patience: asyncio.TimerHandle | None = None
    _waits_since: float | None = None
    """When it began to wait on its client, on the loop's clock; None while the server works."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request, in the place of another connection if there is none."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()
        self._watch()
        if len(self.connections) > MAX_HELD:
            self._replace_another()

    def data_received(self, data: bytes) -> None:
        """Go on waiting until the head is whole; a byte now and then gains no time."""
        super().data_received(data)
        self._watch()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Begin to wait until the client has read more of its answer."""
        super().pause_writing()
        self._note()

    def resume_writing(self) -> None:
        """Go on answering."""
        super().resume_writing()
        self._note()

    def _note(self) -> None:
        """Note whether it is the client's turn."""
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and not self.cycle.more_body and not self.flow.write_paused:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = self.loop.time()

    def _replace_another(self) -> None:
        """Close the connection that has waited on its client longest, if any other has."""
        others = [cast("HeadTimeoutProtocol", one) for one in self.connections if one is not self]
        waiting = [one for one in others if one._waits_since is not None]
        if waiting:
            longest = min(waiting, key=lambda one: one._waits_since or 0.0)
            self.connections.discard(longest)
            longest.transport.abort()

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self._close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _close(self) -> None:
        self._patience = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
