"""The doors to logs: every page and answer of a real server, every tool by a real client."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

from iqcar.apps.mcp.agent_server import TOOLS
from iqcar.apps.serve.cache import Cache
from iqcar.apps.serve.listing import Places
from iqcar.apps.serve.service import Service
from iqcar.diagnosis import Settings
from tests.support.event_loop import run_apart
from tests.support.fuzz_case import Finding
from tests.support.mcp_client import client_of
from tests.support.served import served, until
from tests.support.unseen import unseen

MOST_KEYS = 3
"""Applications of a set that are analysed."""


def ask_server(logs: str, folder: Path, query: str, found: list[Finding]) -> None:
    """Ask a server every page and endpoint about a folder of logs and a store."""
    store = f"{folder}/store"
    with served(logs, cache=folder / "cache", options=("--store", store), through=()) as server:
        listed = [one for one in server.read() if one["status"] != "failed"]
        keys = [one["key"] for one in listed][:MOST_KEYS]
        paths = [
            "/", "/?q=a&sort=name", "/api", "/api/openapi.json", "/metrics", "/history",
            f"/history?query={quote(query)}", "/api/applications?size=2",
            *(f"/api/history/{question}" for question in ("top", "who", "changes")),
            f"/api/history/trend?query={quote(query)}",
        ]  # fmt: skip
        for key in keys:
            started = server.client.post("/api/analyses", json={"applications": [key]})
            if started.status_code in (200, 202):
                server.ended(started.json()["id"])
                paths += [f"/api/analyses/{started.json()['id']}/result"]
            wish = {"applications": [key], "slots": "+1"}
            asked = until(lambda wish=wish: _answered(server, wish))  # type: ignore[misc]
            _check(asked, found, "POST /api/whatif")
            paths += [
                f"/applications/{key}", f"/live/{key}", f"/whatif?app={key}",
                f"/api/applications/{key}", f"/api/applications/{key}/about",
                f"/compare?app={key}", f"/together?app={key}",
            ]  # fmt: skip
        for path in paths:
            _check(server.client.get(path), found, path.partition("?")[0])
        bad = [one for one in server.said if "Traceback" in one or "bug of iqcar" in one]
        found += [Finding("bug", "serve", one) for one in bad]


def _answered(server: Any, wish: dict[str, Any]) -> Any:
    answer = server.client.post("/api/whatif", json=wish)
    return None if answer.status_code == 202 else answer


def _check(answer: Any, found: list[Finding], where: str) -> None:
    place = "/".join(word for word in where.split("/") if len(word) < 20)
    if answer.status_code >= 500:
        found.append(Finding("server error", f"{answer.status_code} {place}", answer.text[:500]))
    if "bug of iqcar" in answer.text:
        found.append(Finding("bug", place, answer.text[:2000]))
    if left := unseen(answer.text):
        found.append(Finding("unseen", place, repr(sorted(left))))


def ask_tools(logs: str, folder: Path, query: str, found: list[Finding]) -> None:
    """Let a client call every tool."""

    async def run() -> None:
        service = Service(
            Places([logs]), Cache(folder / "kept"), Settings(), 1, store=f"{folder}/store"
        )
        service.listing.check()
        async with client_of(service) as client:
            answer = await client.call_tool("list_applications", {})
            rows = json.loads(answer.content[0].text)["applications"]
            keys = [one["key"] for one in rows if one["status"] != "failed"]
            if not keys:
                return
            one = {"applications": [random.Random(len(keys)).choice(keys)]}
            given: dict[str, dict[str, Any]] = {
                "list_applications": {"search": "a"},
                "blame": {**one, "query": query},
                "compare": {"before": keys[:1], "after": keys[1:2] or keys[:1]},
                "what_if": {**one, "changes": {"slots": "+1"}},
                "history": {"question": "who"},
            }
            for tool in TOOLS:
                answer = await client.call_tool(tool, given.get(tool, one))
                text = "".join(part.text for part in answer.content)
                if "bug of iqcar" in text:
                    found.append(Finding("bug", f"tool {tool}", text[:2000]))
                if left := unseen(text):
                    found.append(Finding("unseen", f"tool {tool}", repr(sorted(left))))

    run_apart(run)
