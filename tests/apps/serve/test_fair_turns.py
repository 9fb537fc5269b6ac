"""Clients get their turns however much another one asks for, and no question takes all memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.apps.serve.analysis_process import Task
from iqcar.apps.serve.fair_turns import FairQueue, Places
from iqcar.apps.serve.questions import MOST_OF_CLIENT
from iqcar.diagnosis import Settings
from iqcar.logs.find.locate import EventLog, locate
from tests.support.contended_log import contended_log
from tests.support.event_loop import run_apart
from tests.support.long_chain import long_chain
from tests.support.served import served, until

LONG = {"partitions": ["q=2500"], "blame": "q"}
"""A question about a chain of 400 stages: a million tasks are replayed, several times."""


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=30))
def test_clients_are_served_in_turn_and_each_in_its_order(puts: list[tuple[str, int]]) -> None:
    queue: FairQueue[int] = FairQueue()
    for client, item in puts:
        queue.put(client, item)
    assert len(queue) == len(puts)
    taken = [queue.take() for _ in puts]
    for client in "abc":
        assert [i for c, i in taken if c == client] == [i for c, i in puts if c == client]
    left = {client: sum(c == client for c, _ in puts) for client in "abc"}
    served_last = dict.fromkeys("abc", -1)
    for place, (client, _) in enumerate(taken):
        waiting = [c for c in "abc" if left[c] and c != client]
        assert all(served_last[c] >= served_last[client] or left[c] == 0 for c in waiting)
        served_last[client], left[client] = place, left[client] - 1
    with pytest.raises(IndexError):
        queue.take()


def test_a_place_given_back_goes_to_the_client_whose_turn_it_is() -> None:
    async def run() -> list[str]:
        places, got = Places(1, lambda: None), []

        async def use(client: str) -> None:
            await places.take(client)
            got.append(client)
            await asyncio.sleep(0)
            places.give_back()

        tasks = [asyncio.create_task(use(client)) for client in "aaab"]
        await asyncio.sleep(0)
        assert places.waiting == 3
        assert places.others_wait({"a"}) and not places.others_wait({"a", "b"})
        tasks[2].cancel()  # who leaves takes no place along
        await asyncio.gather(*tasks, return_exceptions=True)
        await places.take("c")
        return got

    assert run_apart(run) == ["a", "a", "b"]


def client(address: str, base: str) -> httpx.Client:
    """A client with an address of its own."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=base, transport=transport, timeout=60)


@pytest.mark.slow
def test_long_questions_of_one_client_keep_no_other_client_waiting(tmp_path: Path) -> None:
    folder, cache = tmp_path / "logs", tmp_path / "cache"
    for number in range(3):
        long_chain(400, app_id=f"app-{number}").write(folder / f"app-{number}")
    contended_log("app-9").write(folder / "app-9")
    with served(folder, cache=cache, shared_answer=0.5) as server:
        keys = {one["application_id"]: one["key"] for one in server.read()}
        hog, other = client("127.0.0.2", server.base), client("127.0.0.3", server.base)

        def ask(who: httpx.Client, app: str, **changes: Any) -> httpx.Response:
            wish = {"applications": [keys[app]], **changes}
            return who.post("/api/whatif", json=wish)

        with hog, other, ThreadPoolExecutor(MOST_OF_CLIENT) as threads:
            # Two applications are all that have a place at once.
            asked = [
                threads.submit(ask, hog, f"app-{n % 2}", slots=f"+{n + 1}", **LONG)
                for n in range(MOST_OF_CLIENT)
            ]
            until(lambda: len(server.workers("question_process")) == 2)
            one_more = ask(hog, "app-2", remove=["q"])
            assert one_more.status_code == 503
            assert "of your questions wait already" in one_more.json()["detail"]

            def answer() -> httpx.Response | None:
                found = ask(other, "app-9", remove=["etl"])
                assert found.status_code in (200, 202), found.text
                return found if found.status_code == 200 else None

            assert until(answer).json()["queries"]
            said = [one.result() for one in asked]
            stopped = [one.json()["detail"] for one in said if one.status_code == 409]
            assert any("while others waited" in one for one in stopped), said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_question_that_takes_too_much_memory_is_refused_and_the_next_one_answered(
    tmp_path: Path,
) -> None:
    (log,) = locate([long_chain(400).write(tmp_path / "app-1")])
    assert isinstance(log, EventLog)
    program = (
        "from iqcar.apps.serve import process_limits, question_process\n"
        "process_limits.ANSWER_BYTES = 64 << 20\n"
        "question_process.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        settings = asdict(Settings())
        process.stdin.write(Task(("k",), (log,), settings, "").to_line())
        process.stdin.flush()
        news: dict[str, Any] = {}
        while not news.keys() & {"ready", "failed"}:
            news = json.loads(process.stdout.readline())
        assert "ready" in news, news
        said = []
        for question in ({"partitions": ["q=2500"]}, {"slots": "+1"}):
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            said.append(json.loads(process.stdout.readline()))
            process.stdout.read(sum(said[-1].get("sizes", ())))
        assert "takes more than 67.1 MB of memory" in said[0]["failed"]
        assert "sizes" in said[1]
        process.stdin.close()
