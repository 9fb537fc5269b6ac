"""Commands that ask a server which never ends its answer: they give it up, or are ended."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.command import Forked
from tests.support.contended_log import contended_log
from tests.support.dripping import DRIPS, dripping
from tests.support.hosted_apps import HostedApps, attempt, listed
from tests.support.log_places import APP
from tests.support.web_server import web_server

LONG_S = 60
"""Longer than any of these commands may take to end, shorter than any server is waited for."""
ANSWER = "iqcar.logs.find.http_client.ANSWER_S"
COMMANDS = ("analyze", "report", "history", "yarn", "serve")


def words(command: str, urls: list[str], folder: Path) -> list[object]:
    """The words of a command that asks some servers."""
    log = contended_log().write(folder / "log")
    return {
        "analyze": ["analyze", *urls],
        "report": ["report", *urls, "--out", folder / "report.html"],
        "history": ["history", "add", folder / "store", *urls],
        "yarn": ["analyze", log, "--yarn", urls[0]],
        "serve": ["serve", *urls, "--port", "0", "--cache", folder / "cache"],
    }[command]


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_ends_any_command_that_waits_for_a_server(
    command: str, how: signal.Signals, tmp_path: Path
) -> None:
    with dripping("trailers") as (url, drip):
        process = Forked(*words(command, [url], tmp_path))
        assert drip.asked.acquire(timeout=LONG_S)
        process.send_signal(how)
        assert process.wait(LONG_S) in (128 + how, -how)
        assert process.stderr.read() == ""


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS[:3])
def test_any_command_gives_a_server_up_whatever_part_of_its_answers_drips(
    command: str, tmp_path: Path
) -> None:
    with ExitStack() as servers:
        urls = [servers.enter_context(dripping(part))[0] for part in DRIPS]
        process = Forked(*words(command, urls, tmp_path), constants={ANSWER: 0.3})
        assert process.wait(LONG_S) == 1
        said = process.stdout.read() + process.stderr.read()
    assert "Traceback" not in said
    assert said.count("answers too slowly: it was given up") >= 1


@pytest.mark.long
@pytest.mark.parametrize("part", DRIPS)
def test_a_resource_manager_of_which_any_part_drips_is_given_up(part: str, tmp_path: Path) -> None:
    with dripping(part) as (url, _):
        process = Forked(*words("yarn", [url], tmp_path), constants={ANSWER: 0.3})
        assert process.wait(LONG_S) == 1
        said = process.stderr.read()
    assert "answers too slowly: it was given up" in said
    assert said.count("\n") == 1


def test_a_log_that_drips_costs_itself_alone(tmp_path: Path) -> None:
    with dripping("zip-body") as (_, drip):
        apps = HostedApps(listed(APP, attempt()))
        with web_server(lambda to: (drip if to.path.endswith("/logs") else apps)(to)) as url:
            log = contended_log().write(tmp_path / "log")
            process = Forked(
                *("analyze", "--full", log, f"{url}/history/{APP}"), constants={ANSWER: 0.3}
            )
            assert process.wait(LONG_S) == 3
            assert "answers too slowly" in process.stdout.read()
