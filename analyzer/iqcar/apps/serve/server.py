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

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from iqcar.apps.serve import api, metrics, pages
from iqcar.apps.serve.guard import Guard, is_loopback
from iqcar.apps.serve.service import Service
from iqcar.base.units import printable
from iqcar.errors import IqcarError, UsageError

MAX_CONNECTIONS = 400
"""Connections from which on requests are told to come again (400). Most systems let a process have
1,024 files open."""

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

    Raises UsageError if the token given is short, or holds what cannot stand in an address.
    """
    if given:
        if len(given) < MIN_TOKEN or not _TOKEN_CHARACTERS.issuperset(given):
            advice = f"give {MIN_TOKEN} or more letters, digits, or - . _ ~"
            raise UsageError("the token is too short or holds other characters", "--token", advice)
        return given
    return "" if is_loopback(host) else secrets.token_urlsafe(TOKEN_BYTES)


def listen(host: str, port: int) -> socket.socket:
    """Begin to listen.

    Raises IqcarError if the address is not of this machine, or the port is taken.
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

    listening: from :func:`listen`.
    host, token: what the guard asks for.
    ready: called once requests are answered.
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
            http="h11",
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
