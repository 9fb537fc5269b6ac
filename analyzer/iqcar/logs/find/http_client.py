"""Asking a web server for what it has, whatever it answers: bounded in time, size and place.

All that is received for one question counts, also what redirects and proxies send, and what is no
content: heads, sizes of chunks, trailers.

What names its user goes only to the server that was named: a redirect to another host, port or
scheme is not followed.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    AbstractHTTPHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import msgspec

from iqcar.errors import UsageError
from iqcar.logs.decode.streams import CHUNK_BYTES, DamageError, why

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

TOKEN = "IQCAR_HTTP_TOKEN"  # noqa: S105
"""Environment variable with the token sent as ``Authorization: Bearer``; with a blank in it
(``Basic …``) it is sent as it is."""
COOKIE = "IQCAR_HTTP_COOKIE"
"""Environment variable with what is sent as ``Cookie``, as a browser shows it."""
SILENCE_S = 30.0
"""Seconds without a byte after which a server counts as hanging (30)."""
ANSWER_S = 90.0
"""Seconds until an answer must have begun (90): a History Server that has just been started reads
its folder first."""
LEAST_BYTES_PER_S = 20_000
"""Slowest answer that is waited for (20 kB/s, after the first :data:`ANSWER_S`)."""
WHOLE_S = 3600.0
"""Longest wait for a whole answer (an hour): the largest zip comes with 1.2 MB/s by then."""
HEADS_BYTES = 16 << 20
"""Bytes received beside the content (16 MiB, and a tenth of it): heads, sizes of chunks."""
MOST_MARKS = 1 << 21
"""Brackets and commas in what a server tells (2 M). Each stands for a value that takes up to 100
bytes of memory; 20,000 applications take half a million."""
MOST_SAID = 160
"""Characters shown of what a server says of an error."""


_Told = TypeVar("_Told")


class RefusedError(DamageError):
    """The server answered, but not with what was asked for.

    status: of the answer; 200 where its body was wrong.
    """

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def answer(url: str, most: int) -> Iterator[Iterator[bytes]]:
    """Ask for a URL; yields the pieces of the body, of at most so many bytes, as they come.

    Raises DamageError if the server cannot be reached, hangs, is slow or breaks off; RefusedError
    if it answers with an error, a redirect elsewhere or too much; UsageError if a credential is
    malformed.
    """
    request = Request(url, headers={"Accept": "*/*", **_credentials()})  # noqa: S310
    try:
        with _opener(_Bound(most)).open(request, timeout=SILENCE_S) as got:
            yield _pieces(got, most)
    except HTTPError as error:
        with closing(error):
            raise RefusedError(_status(error), error.code) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DamageError(_reason(error)) from error


def body(url: str, most: int) -> bytearray:
    """Return the whole body of an answer of at most so many bytes; raises as :func:`answer`."""
    found = bytearray()
    with answer(url, most) as pieces:
        for piece in pieces:
            found += piece
    return found


def told(url: str, most: int, kind: type[_Told], what: str, server: str) -> _Told:
    """Return what a server tells at a URL, in JSON.

    Raises DamageError if it cannot be asked, RefusedError if it refuses, or answers with something
    else.

    most: bytes of the largest answer that is read.
    what: it is asked for.
    server: what it should be.
    """
    text = body(url, most)
    if sum(map(text.count, (b"{", b"[", b","))) > MOST_MARKS:
        raise RefusedError(f"tells more about {what} than is read")
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if text.lstrip()[:1] == b"<":
            raise RefusedError(
                f"answers with a web page in place of {what}: no {server}, or a login"
                f" ({TOKEN} and {COOKIE} hold credentials)"
            ) from error
        raise RefusedError(f"answers with something else than {what}") from error


def _pieces(got: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    expected, size = got.length, 0
    while piece := got.read1(CHUNK_BYTES):
        size += len(piece)
        if size > most:
            raise _too_much(most)
        yield piece
    if expected is not None and size < expected:
        raise DamageError(f"broke off after {size:,} of {expected:,} bytes")


def _too_much(most: int) -> RefusedError:
    return RefusedError(f"answers with more than {most >> 20} MiB")


def _credentials() -> dict[str, str]:
    found = {}
    token, cookie = os.environ.get(TOKEN, "").strip(), os.environ.get(COOKIE, "").strip()
    for name, value in ((TOKEN, token), (COOKIE, cookie)):
        if not value.isprintable() or not value.isascii():
            raise UsageError("holds characters that no header can hold", name, "set it anew")
    if token:
        found["Authorization"] = token if " " in token else f"Bearer {token}"
    if cookie:
        found["Cookie"] = cookie
    return found


class _SameServer(HTTPRedirectHandler):
    """Follows redirects within a server."""

    def redirect_request(self, req: Request, *answered: Any) -> Request | None:
        """Return what to ask next; `answered` ends with the address."""
        answered[0].close()  # else its body would be read whole
        old, new = urlsplit(req.full_url), urlsplit(answered[-1])
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            place = f"{new.scheme}://{new.netloc.rpartition('@')[2]}"[:MOST_SAID]
            raise RefusedError(
                f"redirects to {place}, which is another server: not followed"
                f" (a login? {TOKEN} and {COOKIE} hold credentials)",
                answered[1],
            )
        return super().redirect_request(req, *answered)


class _Bound:
    """What the whole answer to one question may take, of time and of bytes.

    most: bytes of its content.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._began = time.monotonic()
        self._received = 0

    def left_s(self) -> float:
        """Return the seconds that the next step may take; raises DamageError if there are none."""
        allowed = min(WHOLE_S, ANSWER_S + self._received / LEAST_BYTES_PER_S)
        left = self._began + allowed - time.monotonic()
        if left <= 0:
            raise DamageError("answers too slowly: it was given up")
        return min(SILENCE_S, left)

    def count(self, size: int) -> None:
        """Count what was received; raises RefusedError if it is too much."""
        self._received += size
        if self._received > self._most + self._most // 10 + HEADS_BYTES:
            raise _too_much(self._most)

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Connect to the first place of a host that answers, as `socket.create_connection` does."""
        failure: OSError = TimeoutError()
        for *_, place in self._places(*address):
            try:
                return socket.create_connection(place[:2], self.left_s())
            except OSError as error:
                failure = error
        raise failure

    def _places(self, host: str, port: int) -> list[Any]:
        """Look a host up in a thread: the system's look-up heeds no deadline, and no Ctrl-C."""
        found: Future[list[Any]] = Future()

        def look() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except Exception as error:
                found.set_exception(error)

        threading.Thread(target=look, daemon=True).start()
        try:
            return found.result(self.left_s())
        except FutureTimeoutError:
            raise TimeoutError from None


class _BoundedFile(io.RawIOBase):
    """What comes in on a connection, within a bound."""

    def __init__(self, received: io.RawIOBase, connection: socket.socket, bound: _Bound) -> None:
        self._received, self._connection, self._bound = received, connection, bound

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        self._connection.settimeout(self._bound.left_s())
        try:
            size = self._received.readinto(buffer)
        except TimeoutError:
            self._bound.left_s()
            raise
        self._bound.count(size or 0)
        return size

    def close(self) -> None:
        self._received.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *given: Any, bound: _Bound, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self.fp = io.BufferedReader(_BoundedFile(self.fp.detach(), sock, bound))


class _BoundedConnection(http.client.HTTPConnection):
    """A connection whose every step keeps within a bound."""

    def __init__(self, *given: Any, bound: _Bound, **named: Any) -> None:
        super().__init__(*given, **named)
        self._create_connection = bound.connect
        self.response_class = cast(
            "type[http.client.HTTPResponse]", partial(_BoundedResponse, bound=bound)
        )


class _BoundedTls(_BoundedConnection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Asking(AbstractHTTPHandler):
    """Opens http and https within a bound."""

    http_request = https_request = AbstractHTTPHandler.do_request_

    def __init__(self, bound: _Bound) -> None:
        super().__init__()
        self._bound = bound

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_BoundedConnection, bound=self._bound), req)

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        trusted = ssl.create_default_context()
        return self.do_open(partial(_BoundedTls, bound=self._bound, context=trusted), req)


def _opener(bound: _Bound) -> OpenerDirector:
    """Make what opens http and https alone, through the proxies that the environment names."""
    made = OpenerDirector()
    for one in (
        *(ProxyHandler(), _Asking(bound), _SameServer()),
        *(HTTPDefaultErrorHandler(), HTTPErrorProcessor()),
    ):
        made.add_handler(one)
    return made


def _status(error: HTTPError) -> str:
    """Say what an error of the server means."""
    code = error.code
    if code in (401, 407):
        return f"answers {code}: it wants to know who asks; put a token in {TOKEN} or {COOKIE}"
    if code == 403:
        return f"answers 403: not allowed, with what {TOKEN} and {COOKIE} hold"
    if code in range(300, 400):
        return f"answers {code}: a redirect in a circle, or to what is no web server"
    said = ""
    if (error.headers.get("Content-Type") or "").startswith("text/plain"):
        with suppress(OSError, http.client.HTTPException, DamageError):
            said = " ".join(error.read1(4 * MOST_SAID).decode("utf-8", "replace").split())
    said = "".join(one for one in said if one.isprintable())[:MOST_SAID]
    return f"answers {code}: {said}" if said else f"answers {code}"


def _reason(error: BaseException) -> str:
    """Say in one line why a server could not be asked."""
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, ssl.SSLError):
        return why(inner)
    if isinstance(inner, TimeoutError):
        return "does not answer in time"
    if isinstance(inner, socket.gaierror):
        return "no such host is known"
    if isinstance(inner, http.client.IncompleteRead):
        return "broke off in the middle of its answer"
    if isinstance(inner, http.client.HTTPException):
        return "does not answer as a web server does"
    return f"cannot be asked: {why(inner) if isinstance(inner, BaseException) else inner}"
