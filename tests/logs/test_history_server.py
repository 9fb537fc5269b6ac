"""Applications on a History Server: named as a browser does, listed, chosen, downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import pytest

from iqcar.errors import UsageError
from iqcar.logs.find.history_server import SeveralError, place_of
from iqcar.logs.find.locate import EventLog, locate, unpacked
from iqcar.logs.ingest import ingest
from iqcar.logs.log_summary import peek
from tests.support.hosted_apps import NOW_MS, TWO, HostedApps, attempt, listed
from tests.support.log_places import APP, LOG, logs, text, unreadable
from tests.support.web_server import send, web_server

SECRET = "s3cr3t-of-ann"  # noqa: S105


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
    server = HostedApps(*TWO.apps, zips=TWO.zips)
    with web_server(server) as url:
        (log,) = logs([f"{url}/history/{APP}/1"])
        for times in (1, 2):
            assert len(ingest(log).inputs) == 1
            assert sum(path.endswith("/logs") for path in server.asked) == times


def test_a_list_says_of_each_application_what_its_log_would() -> None:
    server = HostedApps(*TWO.apps)
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
    elsewhere, named = HostedApps(*TWO.apps), HostedApps(*TWO.apps)
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


def test_a_token_that_breaks_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IQCAR_HTTP_TOKEN", f"{SECRET}\r\nX-Evil: 1")
    with pytest.raises(UsageError, match="IQCAR_HTTP_TOKEN") as refused:
        locate([f"http://127.0.0.1:9/history/{APP}"])
    assert SECRET not in str(refused.value)


def test_ids_that_spark_does_not_make_are_left_out() -> None:
    odd = [listed("../../secret", attempt()), listed("a", attempt(attemptId="../1")), listed("b")]
    with web_server(HostedApps(*odd, listed("c", attempt()))) as url:
        assert [log.path for log in logs([url])] == [f"{url}/history/c"]


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
