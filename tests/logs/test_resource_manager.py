"""What a resource manager tells; those that lie, hang, lead elsewhere or send too much: a line."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler
from math import isnan
from typing import Any

import pytest

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.find import http_client, resource_manager
from iqcar.logs.find.resource_manager import YarnTold, ask_resource_manager
from tests.support.web_server import send, web_server

WAIT_S = 0.3
SUBMITTED = 1_795_885_234_293
ONE = {
    "id": "application_1795885027308_0001",
    "user": "ann",
    "name": "nightly",
    "queue": "root.etl",
    "state": "RUNNING",
    "diagnostics": "",
    "startedTime": SUBMITTED,
    "launchTime": SUBMITTED + 7765,
    "finishedTime": 0,
    "elapsedTime": 476_535,
    "memorySeconds": 506_352,
}
SIZES = {"totalMB": 8192, "totalVirtualCores": 8, "activeNodes": 2, "containersPending": 3}


def told(apps: Any = (ONE,), sizes: Any = SIZES) -> YarnTold:
    """Ask a server that has these; keys of the API's answers are around them."""
    answers = {"apps": {"apps": {"app": list(apps)}}, "metrics": {"clusterMetrics": sizes}}

    def answer(to: BaseHTTPRequestHandler) -> None:
        send(to, json.dumps(answers[to.path.rpartition("/")[2]]).encode())

    with web_server(answer) as url:
        return ask_resource_manager(f"{url}/cluster/apps/RUNNING")


def test_applications_and_the_size_of_the_cluster_are_what_it_tells() -> None:
    found = told()
    (one,) = found.applications
    assert (one.name, one.queue, one.memory_mb_s) == ("nightly", "root.etl", 506_352)
    assert (one.submitted_ms, one.launched_ms) == (SUBMITTED, SUBMITTED + 7765)
    assert one.until_ms == SUBMITTED + 476_535  # by the manager's clock: it runs still
    assert found[2:] == (8192, 8, 2)


def test_what_is_not_told_is_not_zero() -> None:
    found = told(
        [{"id": ONE["id"], "launchTime": 0, "memorySeconds": -1, "startedTime": 1e300}], {}
    )
    (one,) = found.applications
    numbers = (one.submitted_ms, one.launched_ms, one.until_ms, one.memory_mb_s)
    assert all(map(isnan, (*numbers, *found[2:])))


NO_NUMBERS = (10**309, 10**400, 2**63, 1e300, -1, -(10**309), True, "7", None, [1], {})


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:8])
def test_a_number_that_cannot_be_is_not_told(value: Any) -> None:
    times = ("startedTime", "launchTime", "finishedTime", "elapsedTime", "memorySeconds")
    one = {"id": ONE["id"], **dict.fromkeys(times, value)}
    try:
        found = told([one], dict.fromkeys(SIZES, value))
    except IqcarError as error:
        assert "something else than apps of YARN" in str(error)
        return
    (app,) = found.applications
    numbers = (app.submitted_ms, app.launched_ms, app.until_ms, app.memory_mb_s)
    assert all(map(isnan, (*numbers, *found[2:])))


def test_what_it_makes_up_does_no_harm() -> None:
    found = told([{"id": "../etc"}, {**ONE, "name": "n" * 9999}], {"more": [1]})
    (one,) = found.applications
    assert len(one.name) == resource_manager.MOST_TEXT


def test_a_cluster_without_applications_is_no_error() -> None:
    answers = {"apps": b'{"apps":null}', "metrics": b'{"clusterMetrics":{"totalMB":0}}'}
    with web_server(lambda to: send(to, answers[to.path.rpartition("/")[2]])) as url:
        assert ask_resource_manager(url)[1:3] == ((), 0)


def endless(to: BaseHTTPRequestHandler) -> None:
    send(to, b'{"apps":', length=-1)
    while True:
        to.wfile.write(b" " * 65536)


def silent(to: BaseHTTPRequestHandler) -> None:
    time.sleep(4 * WAIT_S)


def dripping(to: BaseHTTPRequestHandler) -> None:
    send(to, b"{", length=-1)
    while True:
        to.wfile.write(b" ")
        time.sleep(WAIT_S / 9)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            lambda to: send(to, b"<html>Sign in</html>", kind="text/html"),
            "in place of apps of YARN",
        ),
        (lambda to: send(to, b"never mind"), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps": 3}'), "something else than apps of YARN"),
        (lambda to: send(to, b"[" * 1_000_000), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps":{"app":[{"id":[]}]}}'), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps":null}'), "something else than metrics of YARN"),
        (lambda to: send(to, status=401), "answers 401: it wants to know who asks; put a token"),
        (lambda to: send(to, status=404), "answers 404"),
        (
            lambda to: send(to, status=307, Location="http://standby.invalid:8088/"),
            "redirects to http://standby.invalid:8088, which is another server: not followed",
        ),
        (lambda to: send(to, status=302, Location=to.path), "a redirect in a circle"),
        (lambda to: send(to, b"{", length=100), "broke off after 1 of 100 bytes"),
        (endless, "answers with more than 1 MiB"),
        (silent, "does not answer in time"),
        (dripping, "answers too slowly"),
    ],
)
def test_a_bad_server_is_one_line(answer: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_manager, "MAX_APPS_BYTES", 1 << 20)
    monkeypatch.setattr(http_client, "SILENCE_S", WAIT_S)
    monkeypatch.setattr(http_client, "ANSWER_S", 2 * WAIT_S)
    with web_server(answer) as url, pytest.raises(IqcarError) as raised:
        ask_resource_manager(url)
    message = str(raised.value)
    assert says in message
    assert message.startswith(f"{url}/ws/v1/cluster/")
    assert message.isprintable()


@pytest.mark.parametrize(
    "url", ["rm:8088", "ftp://rm", "http://", "http://rm:x/", "https://ann:pw@rm:8088", "rm"]
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        ask_resource_manager(url)
    assert "--yarn" in str(raised.value)
    assert "pw" not in str(raised.value)
