"""The fork server: processes start, talk and end as ones of their own do, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from iqcar.apps.serve import fork_server
from iqcar.apps.serve.fork_server import ForkServer, Process
from tests.support.contended_log import contended_log
from tests.support.event_loop import run_apart
from tests.support.served import served

MODULE = "tests.support.forked_process"
LIMIT = 1 << 16

pytestmark = pytest.mark.skipif(not fork_server.FORKS, reason="processes are not forked here")


@pytest.fixture(params=[True, False], ids=["forked", "executed"])
def forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "FORKS", request.param)


def with_server(work: Callable[[ForkServer], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ForkServer()
        try:
            await work(server)
        finally:
            await server.close()

    run_apart(run)


async def said(process: Process, word: str) -> tuple[str, str, int]:
    """What a process writes and says after a word, and how it ends."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(f"{word}\n".encode())
    await process.stdin.drain()
    out, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
    code = await process.wait()
    assert process.returncode == code
    process.stdin.close()
    return out.decode(), errors.decode(), code


@pytest.mark.usefixtures("forks")
def test_processes_talk_and_their_ends_are_known() -> None:
    async def work(server: ForkServer) -> None:
        words = ["kill", "raise", *(f"word{n}" for n in range(9))]
        processes = await asyncio.gather(*(server.start(MODULE, LIMIT, errors=True) for _ in words))
        assert len(_children(os.getpid())) == int(fork_server.FORKS)
        answers = await asyncio.gather(*map(said, processes, words))
        killed, raised, *rest = answers
        assert killed == ("", "heard\n", -signal.SIGKILL)
        assert raised[1].splitlines()[-1] == "ValueError: as told"
        assert raised[2] == 1
        for (out, errors, code), word in zip(rest, words[2:], strict=True):
            assert (errors, code) == ("heard\n", 0)
            echoed, process, session = out.split()
            assert echoed == word
            assert process == session != str(os.getsid(0))

    with_server(work)


@pytest.mark.usefixtures("forks")
def test_a_process_can_be_killed_and_only_once() -> None:
    async def work(server: ForkServer) -> None:
        process = await server.start(MODULE, LIMIT)
        assert process.stderr is None
        assert process.returncode is None
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            process.kill()
        assert process.stdin
        process.stdin.close()

    with_server(work)


def test_who_gives_up_waiting_leaves_the_next_one_its_own_process() -> None:
    async def work(server: ForkServer) -> None:
        given_up = asyncio.create_task(server.start(MODULE, LIMIT, errors=True))
        while not server._asked:
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert given_up.cancelled()
        answer, _, _ = await said(await server.start(MODULE, LIMIT, errors=True), "mine")
        assert answer.startswith("mine ")
        while server._ends:  # the one that was given up ends, as its input does
            await asyncio.sleep(0.01)

    with_server(work)


def test_when_the_fork_server_is_killed_the_next_process_gets_another() -> None:
    async def work(server: ForkServer) -> None:
        first = await server.start(MODULE, LIMIT, errors=True)
        (own,) = _children(os.getpid())
        os.kill(own, signal.SIGKILL)
        assert await first.wait() == -signal.SIGKILL
        assert first.stdin
        first.stdin.close()
        again, _, _ = await said(await server.start(MODULE, LIMIT, errors=True), "again")
        assert again.startswith("again ")

    with_server(work)


def _children(pid: int) -> list[int]:
    """Processes that this one has started and that run this file's fork server."""
    children = [
        child
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    programs = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [int(child) for child, program in programs.items() if b"fork_server" in program]


@pytest.mark.long
def test_an_analysis_gives_the_same_where_nothing_is_forked(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    contended_log().write(tmp_path / "logs" / "app-20240101000000-0001")
    found = []
    for forked in (0, 1):
        cache = tmp_path / f"cache-{forked}"
        with served(tmp_path / "logs", cache=cache, forks=forked) as server:
            (row,) = server.read()
            assert server.analyse(row["key"])["state"] == "done"
            found.append(server.client.get(f"/api/applications/{row['key']}").json())
    assert found[0] == found[1]
