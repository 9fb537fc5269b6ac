"""`iqcar mcp` answers the official SDK's client: the command's numbers, in bounded pages."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.apps.mcp.slices import MOST_INNER, MOST_ITEMS, MOST_TEXT, bounded, page_of
from iqcar.apps.serve import fork_server
from iqcar.apps.serve.cache import Cache
from iqcar.apps.serve.listing import Places
from iqcar.apps.serve.service import Service
from iqcar.diagnosis import Settings
from iqcar.history import add
from iqcar.show.json.whatif import whatif_to_json
from tests.support.command import launch_imported
from tests.support.contended_log import contended_log
from tests.support.event_loop import run_apart
from tests.support.mcp_client import client_of
from tests.support.nightly_logs import nightly_logs
from tests.support.served import WAIT_S

if TYPE_CHECKING:
    from mcp.client.client import Client

Ask = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    contended_log().write(folder / "app-1")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in this process starts analyses as soon as one that has imported what they need."""
    monkeypatch.setattr(fork_server, "launch", launch_imported)


@asynccontextmanager
async def connected(logs: Path, cache: Path) -> AsyncIterator[Client]:
    """A client of what is in a folder."""
    service = Service(Places([str(logs)]), Cache(cache), Settings(), 1)
    service.listing.check()
    async with client_of(service) as client:
        yield client


async def told(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """What a tool answers, once it has the result."""
    for _ in range(WAIT_S // 20):
        answer = await client.call_tool(tool, given)
        text = "".join(part.text for part in answer.content)
        assert not answer.is_error, text
        found: dict[str, Any] = json.loads(text)
        if "advice" not in found:
            return found
    raise AssertionError(f"{tool} has no answer yet")


def ask(logs: Path, cache: Path, tool: str, **given: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with connected(logs, cache) as client:
            return await told(client, tool, **given)

    return run_apart(run)


def problem(logs: Path, cache: Path, tool: str, **given: Any) -> str:
    async def run() -> str:
        async with connected(logs, cache) as client:
            answer = await client.call_tool(tool, given)
            assert answer.is_error
            return "".join(part.text for part in answer.content)

    return run_apart(run)


def key(logs: Path, cache: Path) -> str:
    (only,) = ask(logs, cache, "list_applications")["applications"]
    assert only["name"] == "contended"
    return str(only["key"])


def test_every_tool_is_described_and_read_only(logs: Path, cache: Path) -> None:
    from iqcar.apps.mcp.agent_server import TOOLS

    async def run() -> None:
        async with connected(logs, cache) as client:
            tools = (await client.list_tools()).tools
            assert tuple(tool.name for tool in tools) == TOOLS
            for tool in tools:
                assert tool.description
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint

    run_apart(run)


@pytest.mark.slow
def test_answers_hold_what_iqcar_analyze_finds(logs: Path, cache: Path) -> None:
    found = iqcar.diagnose(iqcar.read([str(logs)]))
    apps = [key(logs, cache)]
    shown = ask(logs, cache, "diagnose", applications=apps)
    assert shown["queries"] == len(found.tables.queries)
    assert shown["lost_to_others_ms"] == pytest.approx(found.lost_to_others_ms().sum())
    assert shown["aggressive_queries"][0]["name"] == "etl"
    listed = ask(logs, cache, "queries", applications=apps, search="report")
    assert [one["name"] for one in listed["items"]] == ["report"]
    blame = ask(logs, cache, "blame", applications=apps, query="report")
    (first, *_) = blame["blame"]
    assert first["source_name"] == "etl"
    assert sum(one["share"] for one in blame["blame"]) == pytest.approx(1.0)
    assert {one["evidence"] for one in blame["waits"].values()} >= {"missing", "reported"}
    rules = ask(logs, cache, "rules", applications=["app-1"])["rules"]
    assert rules["total"] == len(found.rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"remove": ["etl"]}, {"slots": ["app-1=+2"], "mode": "FAIR", "pool_weight": ["default=2"]}],
    ids=str,
)
def test_a_what_if_answer_is_the_command_s(
    logs: Path, cache: Path, changes: dict[str, Any]
) -> None:
    shown = ask(logs, cache, "what_if", applications=[key(logs, cache)], changes=changes)
    said = json.loads(whatif_to_json(iqcar.diagnose(iqcar.read([str(logs)])).what_if(**changes)))
    assert shown["self_check"] == said["self_check"]
    assert shown["queries"]["items"] == said["queries"]


@pytest.mark.slow
def test_an_agent_asks_for_a_plan_and_for_blame_by_removal(logs: Path, cache: Path) -> None:
    apps = [key(logs, cache)]
    diagnosis = iqcar.diagnose(iqcar.read([str(logs)]))
    plan = ask(logs, cache, "what_if", applications=apps, changes={"plan": "slots=1..4"})["plan"]
    assert plan == json.loads(json.dumps(diagnosis.plan(slots=[1, 2, 3, 4]).to_dict()))
    blame = ask(logs, cache, "what_if", applications=apps, changes={"blame": "report"})
    expected = diagnosis.blame_by_removal("report").to_dict()
    assert blame["removal_blame"]["sources"]["items"] == json.loads(json.dumps(expected["sources"]))


def test_two_sets_are_compared(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("before", "after"):
        contended_log().write(tmp_path / "logs" / name)
    both = ask(tmp_path / "logs", tmp_path / "cache", "list_applications")["applications"]
    before, after = sorted(one["key"] for one in both)
    shown = ask(tmp_path / "logs", tmp_path / "cache", "compare", before=[before], after=[after])
    assert shown["changes"]["total"] == 0


@pytest.mark.parametrize(
    ("tool", "more", "said"),
    [
        ("blame", {"query": "nobody"}, "there is no query 'nobody'; there are"),
        ("what_if", {"changes": {}}, "nothing to change"),
        ("what_if", {"changes": {"colour": "red"}}, "colour"),
        ("what_if", {"changes": {"disk": "-3"}}, "is no factor or number above 0"),
        ("stragglers", {"page": 0}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_question_gets_a_sentence(
    logs: Path, cache: Path, tool: str, more: dict[str, Any], said: str
) -> None:
    apps = [key(logs, cache)]
    ask(logs, cache, "diagnose", applications=apps)
    text = problem(logs, cache, tool, applications=apps, **more)
    assert said in text
    assert "Traceback" not in text


@pytest.mark.long
def test_a_store_answers_over_months(tmp_path: Path) -> None:
    logs = nightly_logs(tmp_path / "logs", 26)
    store = str(tmp_path / "store")
    add(store, [logs], processes=1)

    async def run() -> list[dict[str, Any]]:
        service = Service(Places([str(logs)]), Cache(tmp_path / "c"), Settings(), 1, store=store)
        async with client_of(service) as client:
            questions = (
                {"question": "who", "by": "pool"},
                {"question": "trend", "query": "report"},
            )
            answers = [await told(client, "history", **one) for one in questions]
            wrong = await client.call_tool("history", {"question": "trend", "query": "nobody"})
            assert wrong.is_error
            return answers

    who, trend = run_apart(run)
    assert [(one["victim"], one["source"]) for one in who["losses"]["items"]] == [("bi", "etl")]
    assert (len(trend["runs"]["items"]), trend["runs"]["total"]) == (20, 26)
    assert "most to etl" in trend["changes"]["items"][0]["why"][0]


def test_without_a_store_it_says_so(logs: Path, cache: Path) -> None:
    said = problem(logs, cache, "history", question="who")
    assert said.endswith(
        "there is no store; start with --store STORE (`iqcar history add` makes one)"
    )


def test_an_unknown_application_gets_a_sentence(logs: Path, cache: Path) -> None:
    text = problem(logs, cache, "diagnose", applications=["\x1b[2Jnope"])
    assert "there is no such application; list_applications tells the keys" in text
    assert "\x1b" not in text


def test_a_log_that_vanishes_says_so(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    contended_log().write(tmp_path / "logs" / "app-1")
    gone = contended_log().write(tmp_path / "logs" / "app-2")

    async def run() -> str:
        async with connected(tmp_path / "logs", tmp_path / "cache") as client:
            every = (await told(client, "list_applications"))["applications"]
            (key,) = (one["key"] for one in every if one["path"] == str(gone))
            gone.unlink()
            answer = await client.call_tool("diagnose", {"applications": [key]})
            assert answer.is_error
            return "".join(part.text for part in answer.content)

    assert "it does not exist" in run_apart(run)


@pytest.mark.slow
def test_the_command_answers_over_stdin_and_the_report_is_a_resource(
    logs: Path, cache: Path
) -> None:
    from mcp import StdioServerParameters
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client
    from mcp.shared.exceptions import MCPError

    async def run() -> None:
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "iqcar", "mcp", str(logs), "--cache", str(cache)],
            env=dict(os.environ),
        )
        async with Client(stdio_client(started)) as client:
            (only,) = (await told(client, "list_applications"))["applications"]
            await told(client, "diagnose", applications=[only["key"]])
            found = await client.read_resource(f"iqcar://applications/{only['key']}/report")
            assert "</html>" in found.contents[0].text
            with pytest.raises(MCPError, match="there is no such application"):
                await client.read_resource("iqcar://applications/nope/report")

    run_apart(run)


@pytest.mark.long
def test_the_command_answers_over_http_to_who_knows_the_token(logs: Path, cache: Path) -> None:
    from iqcar.apps.mcp.agent_server import TOOLS

    secret = "-".join(["long", "enough", "secret"])
    command = [
        sys.executable, "-m", "iqcar", "mcp", str(logs), "--http", "--port", "0",
        "--token", secret, "--cache", str(cache),
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert secret not in line
        address = re.findall(r"http://\S+", line)[0]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {"Accept": "application/json, text/event-stream"}
        stranger = httpx.post(address, json=body, headers=accept)
        assert stranger.status_code == 401
        knows = {**accept, "Authorization": f"Bearer {secret}"}
        other_site = httpx.post(address, json=body, headers={**knows, "Origin": "http://evil"})
        assert other_site.status_code == 403
        answer = httpx.post(address, json=body, headers=knows).json()
        assert {tool["name"] for tool in answer["result"]["tools"]} == set(TOOLS)
        stream = httpx.get(address, headers=knows)
        assert (stream.status_code, stream.headers["allow"]) == (405, "POST")  # held by nobody
        assert run_apart(functools.partial(tools_over_http, address, secret)) == list(TOOLS)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


async def tools_over_http(address: str, secret: str) -> list[str]:
    """What the SDK's client sees over HTTP."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    http = create_mcp_http_client(headers={"Authorization": f"Bearer {secret}"})
    async with Client(streamable_http_client(address, http_client=http)) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


texts = st.text(max_size=3 * MOST_TEXT)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3 * MOST_INNER) | st.dictionaries(texts, inner),
    max_leaves=40,
)


@given(values)
def test_no_text_and_no_inner_list_is_longer_than_its_bound(value: Any) -> None:
    def check(one: Any) -> None:
        if isinstance(one, str):
            assert len(one) <= MOST_TEXT
        elif isinstance(one, dict):
            for each in one.values():
                check(each)
        elif isinstance(one, list):
            assert len(one) <= MOST_INNER + 1
            for each in one:
                check(each)

    check(bounded(value))


@given(st.lists(st.integers(), max_size=300), st.integers(1, 2 * MOST_ITEMS))
def test_pages_together_are_the_list(items: list[int], size: int) -> None:
    first = page_of(items, 1, size)
    pages = [page_of(items, number, size) for number in range(1, first["pages"] + 1)]
    assert [one for page in pages for one in page["items"]] == items
    assert {page["total"] for page in pages} == {len(items)}
