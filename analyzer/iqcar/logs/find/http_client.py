"""Asking a web server for what it has, whatever it answers: bounded in time, size and place.

What names its user goes only to the server that was named: a redirect to another host, port or
scheme is not followed.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import msgspec

from iqcar.errors import UsageError
from iqcar.logs.decode.streams import CHUNK_BYTES, DamageError, why

TOKEN = "IQCAR_HTTP_TOKEN"  # noqa: S105
"""Environment variable with the token sent as ``Authorization: Bearer``; with a blank in it
(``Basic …``) it is sent as it is."""
COOKIE = "IQCAR_HTTP_COOKIE"
"""Environment variable with what is sent as ``Cookie``, as a browser shows it."""
SILENCE_S = 30.0
"""Seconds without a byte after which a server counts as hanging (30)."""
ANSWER_S = 90.0
"""Seconds in which the head of an answer must be there (90): a History Server that has just been
started reads its folder first."""
LEAST_BYTES_PER_S = 20_000
"""Slowest answer that is waited for (20 kB/s, after the first :data:`ANSWER_S`)."""
MOST_SAID = 160
"""Characters shown of what a server says of an error."""


_Told = TypeVar("_Told")


class RefusedError(DamageError):
    """The server answered, but not with what was asked for.

    Attributes
    ----------
    status : of the answer; 200 where its body was wrong.
    """

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def answer(url: str) -> Iterator[Iterator[bytes]]:
    """Ask for a URL; yields the pieces of the body as they come.

    Raises DamageError if the server cannot be reached, hangs or breaks off; RefusedError if it
    answers with an error or a redirect elsewhere; UsageError if a credential is malformed.
    """
    request = Request(url, headers={"Accept": "*/*", **_credentials()})  # noqa: S310
    began = time.monotonic()
    try:
        with _opener().open(request, timeout=SILENCE_S) as got:
            yield _pieces(got, began)
    except HTTPError as error:
        with error:
            raise RefusedError(_status(error), error.code) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DamageError(_reason(error)) from error


def body(url: str, most: int) -> bytes:
    """Return the whole body of an answer of at most so many bytes; raises as :func:`answer`."""
    found = bytearray()
    with answer(url) as pieces:
        for piece in pieces:
            found += piece
            if len(found) > most:
                raise RefusedError(f"answers with more than {most >> 20} MiB")
    return bytes(found)


def told(url: str, most: int, kind: type[_Told], what: str, server: str) -> _Told:
    """Return what a server tells at a URL, in JSON.

    Raises DamageError if it cannot be asked, RefusedError if it refuses, or answers with something
    else.

    most: bytes of the largest answer that is read.
    what: it is asked for.
    server: what it should be.
    """
    text = body(url, most)
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if text.lstrip()[:1] == b"<":
            raise RefusedError(
                f"answers with a web page in place of {what}: no {server}, or a login"
                f" ({TOKEN} and {COOKIE} hold credentials)"
            ) from error
        raise RefusedError(f"answers with something else than {what}") from error


def _pieces(got: http.client.HTTPResponse, began: float) -> Iterator[bytes]:
    expected, size = got.length, 0
    while piece := got.read1(CHUNK_BYTES):
        size += len(piece)
        yield piece
        if time.monotonic() - began > ANSWER_S + size / LEAST_BYTES_PER_S:
            raise DamageError("answers too slowly: reading was given up")
    if expected is not None and size < expected:
        raise DamageError(f"broke off after {size:,} of {expected:,} bytes")


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
        old, new = urlsplit(req.full_url), urlsplit(answered[-1])
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            place = f"{new.scheme}://{new.netloc.rpartition('@')[2]}"[:MOST_SAID]
            raise RefusedError(
                f"redirects to {place}, which is another server: not followed"
                f" (a login? {TOKEN} and {COOKIE} hold credentials)",
                answered[1],
            )
        return super().redirect_request(req, *answered)


class _BoundedConnection(http.client.HTTPConnection):
    """A connection that is given up if the head of an answer does not come."""

    def getresponse(self) -> http.client.HTTPResponse:
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            with suppress(OSError, AttributeError):
                self.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(ANSWER_S, give_up)
        timer.daemon = True
        timer.start()
        try:
            got = super().getresponse()
        except (OSError, http.client.HTTPException):
            if not given_up.is_set():
                raise
        finally:
            timer.cancel()
        if given_up.is_set():
            raise TimeoutError
        return got


class _BoundedTls(_BoundedConnection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(_BoundedConnection, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> http.client.HTTPResponse:
        trusted = partial(_BoundedTls, context=ssl.create_default_context())
        return self.do_open(trusted, req)


def _opener() -> OpenerDirector:
    """Make what opens http and https alone, through the proxies that the environment names."""
    made = OpenerDirector()
    for one in (
        *(ProxyHandler(), _Http(), _Https(), _SameServer()),
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
        with suppress(OSError, http.client.HTTPException):
            said = " ".join(error.read1(4 * MOST_SAID).decode("utf-8", "replace").split())
    said = "".join(one for one in said if one.isprintable())[:MOST_SAID]
    return f"answers {code}: {said}" if said else f"answers {code}"


def _reason(error: BaseException) -> str:
    """Say in one line why a server could not be asked."""
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({inner.verify_message});"
            " name the file of its authority in SSL_CERT_FILE"
        )
    if isinstance(inner, TimeoutError):
        return "does not answer in time"
    if isinstance(inner, socket.gaierror):
        return "no such host is known"
    if isinstance(inner, http.client.IncompleteRead):
        return "broke off in the middle of its answer"
    if isinstance(inner, http.client.HTTPException):
        return "does not answer as a web server does"
    return f"cannot be asked: {why(inner) if isinstance(inner, BaseException) else inner}"
