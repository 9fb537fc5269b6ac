"""The stream of windows of a running application that a server sends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from iqcar.apps.serve.analyses import MAX_FOLLOWED
from tests.live.test_window import queue
from tests.support.contended_log import contended_log
from tests.support.event_loop import run_apart
from tests.support.served import Served, served, until

FOLLOWING = "follow"


def events(server: Served, key: str) -> list[dict[str, object]]:
    """What a stream says until its end."""
    found = []
    with httpx.stream("GET", f"{server.base}/api/live/{key}", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        kind = "message"
        for line in answer.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind == "message":
                found.append(json.loads(line.removeprefix("data: ")))
    assert kind == "over"
    return found


@pytest.mark.long
def test_a_stream_follows_an_application_to_its_end(tmp_path: Path) -> None:
    folder, cache = tmp_path / "logs", tmp_path / "cache"
    log = queue().write(folder / "local-1.inprogress")
    with served(folder, cache=cache) as server:
        key = server.key("contended")
        with httpx.stream("GET", f"{server.base}/api/live/{key}", timeout=60) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            first = json.loads(next(lines).removeprefix("data: "))
            assert (first["state"], first["now"]["tasks_waiting"]) == ("running", 2)
            contended_log().write(log)
            states = [json.loads(line.removeprefix("data: ")).get("state") for line in lines]
            assert states[-2] == "ended"  # the last one is of the event `over`
        until(lambda: not server.workers(FOLLOWING))


@pytest.mark.long
def test_nobody_is_followed_when_nobody_looks(tmp_path: Path) -> None:
    folder, cache = tmp_path / "logs", tmp_path / "cache"
    queue().write(folder / "local-1.inprogress")
    with served(folder, cache=cache) as server:
        address = f"{server.base}/api/live/{server.key('contended')}"
        with httpx.stream("GET", address, timeout=60) as one:
            lines = one.iter_lines()
            next(lines)
            with httpx.stream("GET", address, timeout=60) as other:
                more = other.iter_lines()
                next(more)
                assert len(until(lambda: server.workers(FOLLOWING))) == 1
        until(lambda: not server.workers(FOLLOWING))
        with httpx.stream("GET", address, timeout=60) as again:
            lines = again.iter_lines()
            assert next(line for line in lines if line.startswith("data: "))
            assert server.stop() == 0


@pytest.mark.slow
def test_no_more_applications_are_followed_than_there_is_room_for(tmp_path: Path) -> None:
    """Also where all are asked for at once: a place is taken in the step that finds it free."""
    folder, cache = tmp_path / "logs", tmp_path / "cache"
    for number in range(4 * MAX_FOLLOWED):
        queue().write(folder / f"local-{number}.inprogress")
    with served(folder, cache=cache) as server:
        keys = [one["key"] for one in server.read()]

        async def follow_all() -> list[int]:
            async with httpx.AsyncClient(base_url=server.base, timeout=60) as client:
                requests = [client.build_request("GET", f"/api/live/{key}") for key in keys]
                streams = await asyncio.gather(*(client.send(r, stream=True) for r in requests))
                assert len(server.workers(FOLLOWING)) <= MAX_FOLLOWED
                for one in streams:
                    await one.aclose()
            return sorted(one.status_code for one in streams)

        expected = [200] * MAX_FOLLOWED + [503] * (len(keys) - MAX_FOLLOWED)
        assert run_apart(follow_all) == expected
        until(lambda: not server.workers(FOLLOWING))
        assert run_apart(follow_all) == expected  # all places were given back


@pytest.mark.slow
def test_an_unknown_application_is_not_followed(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "local-1")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        assert server.client.get("/api/live/" + "0" * 24).status_code == 404
        assert server.client.get("/live/" + "0" * 24).status_code == 404
        (page,) = (server.client.get(f"/live/{one['key']}") for one in server.read())
        assert page.status_code == 200 and "<noscript>" in page.text
