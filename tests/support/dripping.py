"""A web server that never ends an answer: it sends one part of it a few bytes at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from threading import Semaphore

from tests.support.web_server import web_server

EVERY_S = 0.02
"""Pause between two drops: no read waits long, so what waits is the whole answer."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"

DRIPS = {
    "status-line": (b"HTTP/1.1 ", b"2"),
    "interim-answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "header": (_OK + b"X: ", b"y"),
    "headers": (_OK, b"X: y\r\n"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: /further\r\nX: ", b"y"),
    "body": (_OK + b"\r\n[", b" "),
    "sized-body": (_OK + b"Content-Length: 9999999\r\n\r\n[", b" "),
    "gzip-body": (_OK + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\0"),
    "zip-body": (_OK + b"\r\nPK\x03\x04", b"\0"),
    "chunk-size": (_CHUNKED, b"0"),
    "chunk-extension": (_CHUNKED + b"1;x=", b"y"),
    "chunks": (_CHUNKED, b"1\r\n \r\n"),
    "trailers": (_CHUNKED + b"2\r\n[]\r\n0\r\n", b"X: y\r\n"),
}
"""Parts of an answer: what is sent at once, and what then drips."""


class Drip:
    """Drips one part of every answer; `gone` counts the clients that have had enough."""

    def __init__(self, part: str) -> None:
        self._at_once, self._drop = DRIPS[part]
        self.asked, self.gone = Semaphore(0), Semaphore(0)

    def __call__(self, to: BaseHTTPRequestHandler) -> None:
        self.asked.release()
        try:
            to.wfile.write(self._at_once)
            while True:
                to.wfile.write(self._drop)
                time.sleep(EVERY_S)
        finally:
            self.gone.release()


@contextmanager
def dripping(part: str) -> Iterator[tuple[str, Drip]]:
    """Let a server drip; yields its address, and what it has seen."""
    drip = Drip(part)
    with web_server(drip) as url:
        yield url, drip
