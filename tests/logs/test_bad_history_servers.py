"""History Servers that lie, hang, lead elsewhere, or send what does harm: a sentence each."""

from __future__ import annotations

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from iqcar.logs.decode import streams
from iqcar.logs.find import history_server, http_client
from iqcar.logs.ingest import ingest
from tests.support.command import iqcar
from tests.support.dripping import DRIPS, dripping
from tests.support.hosted_apps import TWO, HostedApps, attempt, listed, zip_of
from tests.support.log_places import APP, LOG, logs, unreadable
from tests.support.web_server import send, web_server

WAIT_S = 0.3
LONG_S = 60
MEMORY_BYTES = 700 << 20
"""What a command may take beside the libraries that it has loaded."""


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "https://127.0.0.1/"])
def test_a_redirect_to_another_scheme_is_refused(place: str) -> None:
    with web_server(lambda to: send(to, status=302, Location=place)) as url:
        message = unreadable([f"{url}/history/{APP}"])
    assert "not followed" in message or "to what is no web server" in message


def endless(to: BaseHTTPRequestHandler) -> None:
    send(to, b"[", length=-1)
    while True:
        to.wfile.write(b" " * 65536)


def silent(to: BaseHTTPRequestHandler) -> None:
    time.sleep(4 * WAIT_S)


def silent_later(to: BaseHTTPRequestHandler) -> None:
    send(to, b"[", length=100)
    time.sleep(4 * WAIT_S)


def dripping_head(to: BaseHTTPRequestHandler) -> None:
    to.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        to.wfile.write(b"X: y\r\n")
        time.sleep(WAIT_S / 9)


def dripping_body(to: BaseHTTPRequestHandler) -> None:
    send(to, b"[", length=-1)
    while True:
        to.wfile.write(b" ")
        time.sleep(WAIT_S / 9)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda to: send(to, b"<html>Sign in</html>", kind="text/html"), "a web page in place of"),
        (lambda to: send(to, b"never mind"), "something else than applications"),
        (lambda to: send(to, b'{"id": 3}'), "something else than applications"),
        (lambda to: send(to, b'[{"id": "a", "attempts": 3}]'), "something else than applications"),
        (lambda to: send(to, b"[" * 1_000_000), "something else than applications"),
        (lambda to: send(to, b"[\xff\xfe]"), "something else than applications"),
        (lambda to: send(to, b"[]"), "no such application"),
        (lambda to: send(to, status=401), "answers 401: it wants to know who asks; put a token"),
        (lambda to: send(to, status=403), "answers 403: not allowed"),
        (
            lambda to: send(to, b"\x1b[31mno\n", status=500, kind="text/plain"),
            "answers 500: [31m",
        ),
        (lambda to: send(to, b"<html>", status=502, kind="text/html"), "answers 502"),
        (lambda to: send(to, status=302, Location="/x"), "answers 302"),
        (lambda to: to.wfile.write(b"220 smtp ready\r\n"), "does not answer as a web server"),
        (lambda to: send(to, b"[", length=100), "broke off after 1 of 100 bytes"),
        (endless, "answers with more than 1 MiB"),
        (silent, "does not answer in time"),
        (silent_later, "does not answer in time"),
        (dripping_head, "answers too slowly"),
        (dripping_body, "answers too slowly"),
    ],
)
def test_a_bad_server_is_one_sentence(
    answer: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_server, "MAX_LIST_BYTES", 1 << 20)
    monkeypatch.setattr(http_client, "SILENCE_S", WAIT_S)
    monkeypatch.setattr(http_client, "ANSWER_S", 2 * WAIT_S)
    with web_server(answer) as url:
        message = unreadable([url])
    assert says in message
    assert "\n" not in message
    assert message.isprintable()


@pytest.mark.parametrize("part", DRIPS)
def test_an_answer_of_which_any_part_drips_is_given_up_and_its_connection_closed(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "ANSWER_S", WAIT_S)
    with dripping(part) as (url, drip):
        assert unreadable([url]) == "answers too slowly: it was given up"
        assert drip.gone.acquire(timeout=LONG_S)


def test_redirects_and_a_proxy_count_to_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_steps(to: BaseHTTPRequestHandler) -> None:
        time.sleep(WAIT_S / 2)
        send(to, status=302, Location=f"{to.path}1")

    monkeypatch.setattr(http_client, "ANSWER_S", WAIT_S)
    with web_server(slow_steps) as url:
        assert unreadable([url]) == "answers too slowly: it was given up"
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("no_proxy", "")
        assert unreadable(["http://somewhere.invalid/"]) == "answers too slowly: it was given up"


def test_no_whole_answer_takes_longer_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it comes."""

    def endless_trailers(to: BaseHTTPRequestHandler) -> None:
        send(to, b"2\r\n[]\r\n0\r\n", length=-1, **{"Transfer-Encoding": "chunked"})
        while True:
            to.wfile.write(b"X: y\r\n" * 1000)

    with web_server(endless_trailers) as url:
        monkeypatch.setattr(history_server, "MAX_LIST_BYTES", 1 << 20)
        assert unreadable([url]) == "answers with more than 1 MiB"
        monkeypatch.setattr(history_server, "MAX_LIST_BYTES", 1 << 40)
        monkeypatch.setattr(http_client, "WHOLE_S", WAIT_S)
        assert unreadable([url]) == "answers too slowly: it was given up"


def test_a_redirects_own_content_is_not_read() -> None:
    def endless_redirect(to: BaseHTTPRequestHandler) -> None:
        if to.path == "/further":
            return TWO(to)
        send(to, status=302, length=1 << 40, Location="/further")
        while True:
            to.wfile.write(b" " * 65536)

    with web_server(endless_redirect) as url:
        assert len(logs([url])) == 3


def test_a_host_that_is_looked_up_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name server of this machine can be made to hang: what the system asks with is replaced."""
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(LONG_S))
    monkeypatch.setattr(http_client, "ANSWER_S", WAIT_S)
    try:
        assert unreadable(["http://slow.invalid/"]) == "does not answer in time"
    finally:
        over.set()


@pytest.mark.parametrize(
    "one",
    [b'{"id":"a","attempts":[{}]},', b'{"id":"a","attempts":[' + b"{}," * 60_000 + b"{}]},"],
)
def test_a_list_of_millions_takes_no_more_memory_than_what_is_read_of_it(one: bytes) -> None:
    body = (
        b"[" + one * (history_server.MAX_LIST_BYTES // len(one) - 1) + b'{"id":"b","attempts":[]}]'
    )
    with web_server(lambda to: send(to, body)) as url:
        done = iqcar("analyze", url, memory_limit=MEMORY_BYTES)
    assert "tells more about applications than is read" in done.stderr


def test_a_web_server_that_sends_more_of_a_file_than_was_asked_for_is_left() -> None:
    pytest.importorskip("aiohttp")

    def endless_piece(to: BaseHTTPRequestHandler) -> None:
        if "Range" not in to.headers:
            return send(to, LOG, **{"Accept-Ranges": "bytes"})
        send(to, status=206, length=1 << 40)
        while True:
            to.wfile.write(b" " * 65536)

    with web_server(endless_piece) as url:
        done = iqcar("analyze", f"{url}/logs/{APP}", memory_limit=MEMORY_BYTES)
    assert "the server sends more than was asked for" in done.stderr


@pytest.mark.long
def test_a_file_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece in its time, but all of them never."""
    monkeypatch.setattr(streams, "MOST_WAITED_S", WAIT_S)

    def dripping_file(to: BaseHTTPRequestHandler) -> None:
        send(to, LOG, length=1 << 40)
        while True:
            to.wfile.write(b" " * 65536)
            time.sleep(WAIT_S / 9)

    with web_server(dripping_file) as url:
        (log,) = logs([f"{url}/logs/{APP}"])
        outcome = ingest(log).inputs.iloc[0]
    assert "it comes too slowly: reading was given up" in outcome["message"]


@pytest.mark.parametrize(
    ("status", "said"),
    [(403, "the server answers 403"), (503, "the server answers 503"), (404, "it does not exist")],
)
def test_a_file_that_a_server_does_not_give_is_missing_only_where_it_says_so(
    status: int, said: str
) -> None:
    pytest.importorskip("aiohttp")
    with web_server(lambda to: send(to, status=status)) as url:
        assert unreadable([f"{url}/logs/{APP}"]) == f"it cannot be read: {said}"


def test_nobody_there_is_one_sentence() -> None:
    with web_server(TWO) as url:
        pass
    assert unreadable([f"{url}/history/{APP}"]) == "cannot be asked: connection refused"
    assert unreadable(["http://no.such.host.invalid/"]) == "no such host is known"


def endless_zip(to: BaseHTTPRequestHandler) -> None:
    send(to, zip_of(**{APP: LOG})[:30], length=-1)
    while True:
        to.wfile.write(b"\0" * 65536)


BOMB = zip_of(**{APP: LOG + b'{"Event":"x"}\n' * 5_000_000})
WHOLE = zip_of(**{APP: LOG * 999})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (endless_zip, "answers with more than 1 MiB"),
        (lambda to: send(to, b"no zip"), "the server sends no zip"),
        (lambda to: send(to, WHOLE[:-30], length=-1), "damaged or cut off"),
        (lambda to: send(to, WHOLE[:-30], length=len(WHOLE)), "broke off after"),
        (lambda to: send(to, zip_of(readme=b"no log")), "holds no event log; a driver's own page"),
        (lambda to: send(to, zip_of(**{APP: LOG, "local-1": LOG})), "holds 2 event logs"),
        (lambda to: send(to, zip_of()), "holds no event log"),
        (lambda to: send(to, BOMB), "reading stopped"),
        (
            lambda to: send(
                to, b"Event logs are only available through the history server.",
                status=503, kind="text/plain",
            ),
            "only available through the history server",
        ),
    ],
)  # fmt: skip
def test_a_bad_zip_costs_its_log_alone(
    answer: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_server, "MAX_ZIP_BYTES", 1 << 20)
    good = HostedApps(listed(APP, attempt()))
    with web_server(lambda to: answer(to) if to.path.endswith("/logs") else good(to)) as url:
        (log,) = logs([f"{url}/history/{APP}"])
        inputs = ingest(log).inputs
    assert says in inputs["message"].iloc[0]
    assert "\n" not in inputs["message"].iloc[0]
