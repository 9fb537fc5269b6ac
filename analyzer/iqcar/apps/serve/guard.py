"""Check every request: who may ask, how much it may send, and what browsers may do with answers.

Pages on the loopback address are open to everybody on the machine, unless a token is asked for;
other web sites that a browser shows at the same time are kept out by the checks of ``Host`` and
``Origin``. On any other address the token is required.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from iqcar.apps.serve.responses import TITLES, error_page, problem
from iqcar.base.units import printable

MAX_BODY_BYTES = 16 << 10
"""Bytes of a request's body (16 KiB): the largest names some dozen applications."""

BODY_S = 10.0
"""Seconds in which a request's body must have come (10)."""

MAX_QUERY_BYTES = 4 << 10
"""Bytes of an address after its question mark (4 KiB)."""

SAFE = frozenset(("GET", "HEAD"))
"""Methods that change nothing."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What our own pages may load: our own files, and nothing inline."""

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Sent with every answer that does not set them itself."""

LOGGER = logging.getLogger("iqcar.serve")


class Guard:
    """Checks every request before it reaches the pages; adds headers to every answer.

    token: what a browser or program must know; empty if nobody needs one.
    host: the name or address that the server was told to listen on.
    port: tells the cookies of several servers on one host apart.
    """

    def __init__(self, app: ASGIApp, token: str, host: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = f"iqcar-{port}"
        self._loopback = is_loopback(host)
        self._host = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 500

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.lower().encode() not in sent
                    ),
                ]
            await send(message)

        try:
            answer = self._refusal(scope) or self._login(scope)
            if answer is None:
                answer, receive = await self._whole_body(scope, receive)
            if answer is not None:
                await answer(scope, receive, send_guarded)
            else:
                await self._app(scope, receive, send_guarded)
        finally:
            LOGGER.info(
                "%s %s %s %d %.0f ms",
                scope["client"][0] if scope.get("client") else "-",
                printable(scope["method"])[:16],
                printable(scope["path"])[:200],
                status,
                (time.monotonic() - began) * 1e3,
            )

    def _refusal(self, scope: Scope) -> Response | None:
        """Refuse what no honest client sends."""
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            return refuse(scope, 414, f"the address is longer than {MAX_QUERY_BYTES} bytes")
        headers = _headers(scope)
        if self._loopback and not self._is_own_name(headers.get("host", "")):
            # A page of another site can make its own name lead here (DNS rebinding).
            return refuse(scope, 421, "this server does not answer to that name")
        if scope["method"] not in SAFE and not _same_origin(headers, scope):
            return refuse(scope, 403, "pages of other sites may not change anything here")
        return None

    def _is_own_name(self, host: str) -> bool:
        name = _host_name(host)
        return name == self._host or name == "localhost" or is_loopback(name)

    def _login(self, scope: Scope) -> Response | None:
        """Let pass who knows the token; a browser that brings it in the address gets a cookie."""
        if not self._token:
            return None
        headers = _headers(scope)
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return None
        if self._is_token(_cookie(headers, self._cookie)):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == "token"), "")
        if scope["method"] in SAFE and self._is_token(given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            return self._welcome(scope["path"], rest)
        said = "the token is missing or wrong: open the address that iqcar serve printed"
        answer = refuse(scope, 401, said)
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _welcome(self, path: str, query: str) -> Response:
        """Set the cookie, and go on by a page of our own.

        A redirect would not do: browsers leave a strict cookie out of it when the link that led
        here was on another site, such as a chat.
        """
        # Two slashes at the start would lead to another host.
        address = "/" + quote(path.lstrip("/\\")) + (f"?{query}" if query else "")
        answer = HTMLResponse(error_page("Welcome", "The list opens now.", go_to=address))
        answer.set_cookie(
            self._cookie, self._token.decode(), httponly=True, samesite="strict", path="/"
        )
        return answer

    async def _whole_body(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        """Take the body in, within its limits; return a refusal, or what gives it again."""
        if scope["method"] in SAFE:
            return None, receive
        length = _headers(scope).get("content-length", "")
        if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
            return _too_large(scope), receive
        try:
            body = await asyncio.wait_for(_body(receive), BODY_S)
        except asyncio.TimeoutError:
            return refuse(scope, 408, f"the request took longer than {BODY_S:.0f} s"), receive
        except ConnectionError:
            return refuse(scope, 400, "the request was not finished"), receive
        if body is None:
            return _too_large(scope), receive
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return None, again


def is_loopback(host: str) -> bool:
    """Tell whether a name or address can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse(scope: Scope, status: int, message: str) -> Response:
    """Answer with an error, as JSON under ``/api`` and else as a page."""
    if scope["path"].startswith("/api/"):
        return problem(status, message)
    return HTMLResponse(error_page(TITLES[status], message), status)


def _too_large(scope: Scope) -> Response:
    return refuse(scope, 413, f"a request may hold {MAX_BODY_BYTES} bytes")


async def _body(receive: Receive) -> bytes | None:
    """Receive a body; None if it is too large. Raises ConnectionError where it was left off."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; of several of a name the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _host_name(host: str) -> str:
    """Return the name in a ``Host`` header: ``[::1]:80`` → ``::1``."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _same_origin(headers: dict[str, str], scope: Scope) -> bool:
    """Tell whether a request that changes something comes from our pages or from no browser.

    Every browser sends ``Origin`` with it; programs send neither that nor ``Sec-Fetch-Site``.
    """
    if "origin" in headers:
        return headers["origin"].lower() == f"{scope['scheme']}://{headers.get('host', '').lower()}"
    return headers.get("sec-fetch-site", "same-origin") == "same-origin"


def _cookie(headers: dict[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
