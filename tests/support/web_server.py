"""A web server on this machine that answers as a test wants: rightly, wrongly, slowly, for ever."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def web_server(answer: Answer, certificate: Path | None = None) -> Iterator[str]:
    """Let a function answer every GET; yields the server's address.

    With a certificate (a file with its key, too) it speaks TLS.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            with suppress(OSError):  # the client has had enough
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        scheme = "https" if certificate else "http"
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def send(
    to: BaseHTTPRequestHandler,
    body: bytes = b"",
    *,
    status: int = 200,
    kind: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> None:
    """Send an answer; `length` may lie, and -1 leaves it out."""
    to.send_response(status)
    to.send_header("Content-Type", kind)
    if length != -1:
        to.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        to.send_header(name, value)
    to.end_headers()
    to.wfile.write(body)
