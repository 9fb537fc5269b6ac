"""History Servers that lie, hang, lead elsewhere, or send what does harm: a sentence each."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from iqcar.logs.find import history_server, http_client
from iqcar.logs.ingest import ingest
from tests.support.hosted_apps import TWO, HostedApps, attempt, listed, zip_of
from tests.support.log_places import APP, LOG, logs, unreadable
from tests.support.web_server import send, web_server

WAIT_S = 0.3


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
        (dripping_head, "does not answer in time"),
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
        (endless_zip, "the zip is larger than 0 GiB"),
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
