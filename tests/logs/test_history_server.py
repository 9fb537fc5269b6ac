"""Applications on a History Server, right ones and such as lie, hang, or lead elsewhere."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import zstandard

from iqcar.errors import UsageError
from iqcar.logs.find import history_server, http_client
from iqcar.logs.find.history_server import SeveralError, place_of
from iqcar.logs.find.locate import EventLog, locate, unpacked
from iqcar.logs.ingest import ingest
from iqcar.logs.log_summary import peek
from tests.support.log_places import APP, LOG, logs, text, unreadable
from tests.support.web_server import send, web_server

DAY_MS = 86_400_000
NOW_MS = int(time.time() * 1e3)
WAIT_S = 0.3
SECRET = "s3cr3t-of-ann"  # noqa: S105


def listed(app: str, *attempts: dict[str, Any], name: str = "etl") -> dict[str, Any]:
    return {"id": app, "name": name, "attempts": list(attempts)}


def attempt(days_ago: int = 0, user: str = "ann", done: bool = True, **more: Any) -> dict[str, Any]:
    start = NOW_MS - days_ago * DAY_MS
    return {
        "startTimeEpoch": start,
        "endTimeEpoch": start + 1000 if done else -1,
        "lastUpdatedEpoch": start + 2000,
        "sparkUser": user,
        "completed": done,
        "appSparkVersion": "4.1.0",
        **more,
    }


def zip_of(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


class Server:
    """Answers as a History Server does; keeps what it was asked."""

    def __init__(self, *apps: dict[str, Any], zips: dict[str, bytes] | None = None) -> None:
        self.apps, self.zips = apps, zips or {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    def __call__(self, to: BaseHTTPRequestHandler) -> None:
        self.asked.append(to.path)
        self.headers.append(dict(to.headers))
        _, _, inner = urlsplit(to.path).path.partition("/api/v1/applications")
        one = [app for app in self.apps if inner == f"/{app['id']}"]
        if inner == "":
            send(to, json.dumps(self.apps).encode())
        elif one:
            send(to, json.dumps(one[0]).encode())
        elif inner in self.zips:
            send(to, self.zips[inner], kind="application/octet-stream", length=-1)
        else:
            send(to, b"unknown app", status=404, kind="text/plain")


TWO = Server(
    listed(APP, attempt(attemptId="2"), attempt(1, attemptId="1", done=False)),
    listed("app-20260101000000-0001", attempt(3, user="bob"), name="report\x1b[31m"),
    zips={
        f"/{APP}/2/logs": zip_of(**{f"{APP}_2": LOG * 3}),
        f"/{APP}/1/logs": zip_of(
            **{
                f"eventlog_v2_{APP}_1/appstatus_{APP}_1.inprogress": b"",
                f"eventlog_v2_{APP}_1/events_1_{APP}_1.zstd": zstandard.compress(LOG * 2),
                f"eventlog_v2_{APP}_1/events_2_{APP}_1": LOG,
            }
        ),
        "/app-20260101000000-0001/logs": zip_of(**{"app-20260101000000-0001": LOG}),
    },
)


@pytest.mark.parametrize(
    ("url", "root", "app", "number"),
    [
        (f"http://h:18080/history/{APP}", "http://h:18080", APP, ""),
        (f"http://h:18080/history/{APP}/2/jobs/?id=3", "http://h:18080", APP, "2"),
        (f"http://h:18080/history/{APP}/SQL/execution/?id=3", "http://h:18080", APP, ""),
        (f"https://g/a/history/b/history/{APP}/1", "https://g/a/history/b", APP, "1"),
        (f"HTTP://g:1/x/api/v1/applications/{APP}/1/logs", "http://g:1/x", APP, "1"),
        ("http://h:18080", "http://h:18080", "", ""),
        ("http://h:18080/", "http://h:18080", "", ""),
        ("https://g/sparkhistory/", "https://g/sparkhistory", "", ""),
        ("https://g/shs/api/v1/applications", "https://g/shs", "", ""),
        ("https://g/shs/history/", "https://g/shs", "", ""),
    ],
)
def test_what_is_copied_from_a_browser_names_an_application(
    url: str, root: str, app: str, number: str
) -> None:
    place = place_of(url)
    assert place is not None
    assert (place.root, place.app, place.attempt) == (root, app, number)


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/history/app-1",
        "http://h/logs/log.zip",
        f"http://h/logs/{APP}",
        "http://h/logs/download?signature=abc",
    ],
)
def test_a_file_is_no_history_server(url: str) -> None:
    assert place_of(url) is None


def test_the_attempts_of_an_application_are_read() -> None:
    with web_server(TWO) as url:
        last, first = logs([f"{url}/gate/way/history/{APP}/jobs/"])
        assert last.path == f"{url}/gate/way/history/{APP}/2"
        assert (first.in_progress_hint, last.in_progress_hint) == (True, False)
        assert text(unpacked(last)) == LOG * 3
        assert text(unpacked(first)) == LOG * 3
        assert [log.path for log in logs([f"{url}/history/{APP}/1"])] == [f"{url}/history/{APP}/1"]
        assert unreadable([f"{url}/history/{APP}/7"]) == (
            "this History Server has no such application"
        )
        assert unreadable([f"{url}/history/app-0"]) == "this server knows no application app-0"


def test_a_zip_is_asked_for_once_each_time_it_is_read() -> None:
    server = Server(*TWO.apps, zips=TWO.zips)
    with web_server(server) as url:
        (log,) = logs([f"{url}/history/{APP}/1"])
        for times in (1, 2):
            assert len(ingest(log).inputs) == 1
            assert sum(path.endswith("/logs") for path in server.asked) == times


def test_a_list_says_of_each_application_what_its_log_would() -> None:
    server = Server(*TWO.apps)
    with web_server(server) as url:
        newest, running, other = (peek(log) for log in logs([url]))
    assert server.asked == ["/api/v1/applications?limit=20000"]  # and no log
    assert (newest.application_id, newest.attempt_id, newest.user) == (APP, "2", "ann")
    assert (newest.status.value, running.status.value) == ("complete", "in_progress")
    assert newest.start_ms == NOW_MS
    assert newest.end_ms == NOW_MS + 1000
    assert other.user == "bob"


@pytest.mark.parametrize(
    ("chosen", "users"),
    [
        ("user=bob", ["bob"]),
        ("name=rep*", ["bob"]),
        ("since=36h", ["ann", "ann"]),
        ("until=2d", ["bob"]),
        ("since=2d&until=12h", ["ann"]),
        ("status=running", ["ann"]),
        ("status=completed&limit=1", ["ann"]),
        ("limit=3", ["ann", "ann", "bob"]),
        ("user=carl", None),
    ],
)
def test_applications_are_chosen_by_the_url(chosen: str, users: list[str] | None) -> None:
    with web_server(TWO) as url:
        if users is None:
            assert unreadable([f"{url}?{chosen}"]) == "this History Server has no such application"
        else:
            assert [peek(log).user for log in logs([f"{url}/?{chosen}"])] == users


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ("usr=bob", "did you mean user"),
        ("since=yesterday", "since"),
        ("since=2026-13-01", "since"),
        ("limit=0", "no number from 1"),
        ("status=dead", "neither running nor completed"),
    ],
)
def test_a_choice_that_nobody_knows_is_wrong_usage(chosen: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        locate([f"http://127.0.0.1:9?{chosen}"])


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="IQCAR_HTTP_TOKEN") as refused:
        locate([f"http://ann:{SECRET}@127.0.0.1:9/history/{APP}"])
    assert SECRET not in str(refused.value)


def test_a_server_with_several_applications_asks_for_one() -> None:
    with web_server(TWO) as url:
        with pytest.raises(SeveralError, match="3 applications are here; name one") as refused:
            locate([url], one_hosted=True)
        assert len(refused.value.lines) == 3
        assert len(locate([f"{url}/?limit=2"], one_hosted=True)) == 2
        assert len(locate([f"{url}/history/{APP}"], one_hosted=True)) == 2


def analyze(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    whole = {**os.environ, **environment}
    command = [sys.executable, "-m", "iqcar", "analyze", url]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=whole)


def test_the_command_lists_the_newest_without_what_their_names_do_to_a_terminal() -> None:
    with web_server(TWO) as url:
        done = analyze(url)
    *some, last = done.stderr.splitlines()
    assert done.returncode == 2
    assert len(some) == 3
    assert f"{url}/history/{APP}/2" in some[0]
    assert "3 applications are here" in last
    assert "\x1b" not in done.stderr


def test_credentials_go_to_the_server_that_was_named_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere, named = Server(*TWO.apps), Server(*TWO.apps)
    monkeypatch.setenv("IQCAR_HTTP_TOKEN", SECRET)
    monkeypatch.setenv("IQCAR_HTTP_COOKIE", "hadoop.auth=abc")

    with web_server(elsewhere) as other:

        def answer(to: BaseHTTPRequestHandler) -> None:
            if to.path.startswith("/away"):
                send(to, status=302, Location=f"{other}/api/v1/applications")
            elif to.path.startswith("/within"):
                send(to, status=302, Location="/api/v1/applications")
            else:
                named(to)

        with web_server(answer) as url:
            assert len(logs([f"{url}/within/"])) == 3
            assert named.headers[0]["Authorization"] == f"Bearer {SECRET}"
            assert named.headers[0]["Cookie"] == "hadoop.auth=abc"
            message = unreadable([f"{url}/away/"])
            assert message.startswith(f"redirects to {other}, which is another server")
            assert SECRET not in message
            monkeypatch.setenv("IQCAR_HTTP_TOKEN", "Basic YTpi")
            logs([f"{url}/history/{APP}"])
            assert named.headers[-1]["Authorization"] == "Basic YTpi"
    assert elsewhere.asked == []


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "https://127.0.0.1/"])
def test_a_redirect_to_another_scheme_is_refused(place: str) -> None:
    with web_server(lambda to: send(to, status=302, Location=place)) as url:
        message = unreadable([f"{url}/history/{APP}"])
    assert "not followed" in message or "to what is no web server" in message


def test_a_token_that_breaks_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IQCAR_HTTP_TOKEN", f"{SECRET}\r\nX-Evil: 1")
    with pytest.raises(UsageError, match="IQCAR_HTTP_TOKEN") as refused:
        locate([f"http://127.0.0.1:9/history/{APP}"])
    assert SECRET not in str(refused.value)


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


def test_ids_that_spark_does_not_make_are_left_out() -> None:
    odd = [listed("../../secret", attempt()), listed("a", attempt(attemptId="../1")), listed("b")]
    with web_server(Server(*odd, listed("c", attempt()))) as url:
        assert [log.path for log in logs([url])] == [f"{url}/history/c"]


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
        (lambda to: send(to, zip_of(readme=b"no log")), "holds 0 event logs in place of one"),
        (lambda to: send(to, zip_of(**{APP: LOG, "local-1": LOG})), "holds 2 event logs"),
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
    good = Server(listed(APP, attempt()))
    with web_server(lambda to: answer(to) if to.path.endswith("/logs") else good(to)) as url:
        (log,) = logs([f"{url}/history/{APP}"])
        inputs = ingest(log).inputs
    assert says in inputs["message"].iloc[0]
    assert "\n" not in inputs["message"].iloc[0]


def test_a_gateway_with_an_authority_of_its_own_is_trusted_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    with web_server(TWO, both) as url:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        message = unreadable([f"{url}/history/{APP}"])
        assert message.startswith("its certificate is not trusted")
        assert "SSL_CERT_FILE" in message
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert len(logs([f"{url}/history/{APP}"])) == 2


def test_a_web_server_with_files_is_no_history_server() -> None:
    def answer(to: BaseHTTPRequestHandler) -> None:
        if to.path == f"/logs/{APP}":
            send(to, LOG, kind="application/octet-stream")
        else:
            send(to, status=404)

    pytest.importorskip("aiohttp")
    with web_server(answer) as url:
        (log,) = locate([f"{url}/logs/{APP}"])
        assert isinstance(log, EventLog)
        assert "api/v1/applications" in unreadable([f"{url}/logs/"])
