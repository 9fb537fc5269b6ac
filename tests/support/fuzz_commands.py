"""Every command on a set of valid logs: what it promises of exit codes, errors and output."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import typer

from iqcar.apps.cli.main import app, main
from iqcar.apps.mcp.agent_server import TOOLS
from iqcar.apps.serve.cache import Cache
from iqcar.apps.serve.listing import Places
from iqcar.apps.serve.service import Service
from iqcar.diagnosis import Settings
from iqcar.errors import ExitCode
from iqcar_lab.clusters.varied_logs import VariedSet, varied_set
from tests.support.event_loop import run_apart
from tests.support.fuzz_case import Finding, check_result, listening, no_number
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


Words = list[str]
SCHEMAS = {"analyze": "result", "compare": "compare", "whatif": "whatif", "live": "live"}
"""Schemas by the command that writes by them, besides those of groups."""


class Place:
    """Where one set lies, and where commands may write."""

    def __init__(self, made: VariedSet, folder: Path, draw: random.Random) -> None:
        self.made, self.folder, self.draw = made, folder, draw
        before, after = made.write(folder)
        self.before, self.after = str(before), str(after)
        self.query = draw.choice(made.queries or ["nobody"])
        self.host = draw.choice(made.hosts or ["nowhere"])
        running = [before / made.running] if made.running else []
        self.log = str(next(iter([*running, *sorted(before.iterdir())])))

    def new(self, name: str) -> str:
        """A path for a result."""
        return str(self.folder / f"{name}-{self.draw.randrange(1 << 32):x}")


def _whatif(place: Place) -> Words:
    draw, query = place.draw, place.query
    changes = (
        ["--remove", query], ["--start", f"{query}=+10s"], ["--cap", f"{query}=2"],
        ["--slots", "+3"], ["--executors", "3"], ["--hosts", "+2"], ["--host-loss", place.host],
        ["--disk", "2x"], ["--network", "0.5x"], ["--cpu", "2x"], ["--pool", f"{query}=3"],
        ["--mode", "FAIR"], ["--partitions", f"{query}=30"], ["--scale", f"{query}=2x"],
        ["--no-skew", query], ["--no-gc"], ["--plan", "slots=1..9:4"], ["--blame", query],
    )  # fmt: skip
    return ["whatif", place.before, *draw.choice(changes), "--json", "-"]


def _trend(place: Place) -> Words:
    return ["history", "trend", f"{place.folder}/store", "--json", "-", "--", place.query]


WAYS: dict[str, Callable[[Place], list[Words]]] = {
    "analyze": lambda p: [
        ["analyze", p.before],
        ["analyze", p.before, p.after, "--topics", "--advice", "--json", "-"],
        ["analyze", p.before, "--rules", f"{p.folder}/rules.json", "--query-by", "job"],
        ["analyze", p.before, "--rules", f"{p.folder}/rules.json", "--force"],
    ],
    "report": lambda p: [["report", p.before, "--out", p.new("report.html")]],
    "queries": lambda p: [["queries", p.before], ["queries", p.before, "--json", "-"]],
    "blame": lambda p: [
        ["blame", p.before, "--json", "-", f"--target={p.query}"],
    ],
    "compare": lambda p: [
        ["compare", p.before, p.after, "--json", "-"],
        ["compare", p.before, p.after, "--out", p.new("compare.html")],
        ["compare", p.after, p.before, "--fail-on", "10%", "--structure-only"],
    ],
    "whatif": lambda p: [_whatif(p), _whatif(p)],
    "live": lambda p: [["live", p.log, "--once", "--json"], ["live", p.log, "--once"]],
    "stragglers": lambda p: [["stragglers", p.before, "--json", "-"], ["stragglers", p.after]],
    "topics": lambda p: [
        ["topics", p.before, p.after, "--json", "-"],
    ],
    "schema": lambda p: [["schema", p.draw.choice(("result", "compare", "whatif", "history"))]],
    "conf": lambda p: [["conf", "--properties"], ["conf", "--pyspark"]],
    "history add": lambda p: [
        ["history", "add", f"{p.folder}/store", p.before, "--processes", "1", "--json", "-"],
        ["history", "add", f"{p.folder}/store", p.before, p.after, "--processes", "1"],
    ],
    "history top": lambda p: [["history", "top", f"{p.folder}/store", "--json", "-"]],
    "history who": lambda p: [
        ["history", "who", f"{p.folder}/store"],
        ["history", "who", f"{p.folder}/store", "--by", "user", "--json", "-"],
    ],
    "history trend": lambda p: [_trend(p)],
    "history changes": lambda p: [["history", "changes", f"{p.folder}/store", "--json", "-"]],
    "rules compile": lambda p: [
        ["rules", "compile", f"{p.folder}/rules.json", "--out", p.new("fairscheduler.xml")],
        *(
            ["rules", "compile", p.before, p.after, "--for", kind, "--out", p.new(kind)]
            for kind in ("yarn-capacity", "yarn-fair")
        ),
    ],
    "rules check": lambda p: [["rules", "check", f"{p.folder}/rules.json", p.before, p.after]],
}
"""Command lines for each command that reads logs or what others wrote of them, in an order in which
each finds what it needs."""
ELSEWHERE = {
    "serve": "asked by fuzz_doors",
    "mcp": "asked by fuzz_doors",
    "sample": "samples this host",
    "demo": "starts a Spark",
}
MAY_FIND_NOTHING = {
    ExitCode.OK, ExitCode.PARTIAL, ExitCode.NOTHING, ExitCode.USAGE, ExitCode.GATE,
}  # fmt: skip
"""Exit codes of a valid set: it may have no query of that name, no common query, no rule."""


DOORS_EACH = 4
"""Every so many sets a server and a client of agents are asked, too; that takes ten seconds."""


def commands() -> set[str]:
    """Every command of the command line."""

    def below(group: Any, path: tuple[str, ...]) -> Iterator[str]:
        for name, one in group.commands.items():
            if hasattr(one, "commands"):
                yield from below(one, (*path, name))
            else:
                yield " ".join((*path, name))

    return set(below(typer.main.get_command(app), ()))


def run_commands(number: int, folder: Path) -> list[Finding]:
    """Take the set of a number through every command."""
    place = Place(varied_set(number), folder, random.Random(number))
    found: list[Finding] = []
    for name, ways in WAYS.items():
        for words in ways(place):
            with listening(found):
                _run(name, words, found)
    if number % DOORS_EACH == 0:
        with listening(found):
            ask_server(place.before, folder, place.query, found)
            ask_tools(place.before, folder, place.query, found)
    return found


def _run(name: str, words: Words, found: list[Finding]) -> None:
    out, error, before = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), sys.argv
    code: Any = None
    try:
        sys.argv = ["iqcar", *words]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as ended:
        code = ended.code or ExitCode.OK
    finally:
        sys.argv = before
    out.flush()
    said, result = error.getvalue(), out.buffer.getvalue()  # type: ignore[attr-defined]
    shown = " ".join(words[:2])
    if code not in MAY_FIND_NOTHING:
        found.append(Finding("exit code", f"{name} {code}", f"{words}\n{said}"))
    if "bug of iqcar" in said or "Traceback" in said:
        found.append(Finding("bug", f"{name}: {said[:60]}", f"{words}\n{said}"))
    if left := unseen(said + result.decode("utf-8")):
        found.append(Finding("unseen", name, f"{shown}: {sorted(left)!r}"))
    if "--json" in words and code in (ExitCode.OK, ExitCode.PARTIAL):
        _check_json(name, result, found)


def _check_json(name: str, result: bytes, found: list[Finding]) -> None:
    if name == "analyze":
        check_result(result, True, found)
        return
    value = json.loads(
        result.splitlines()[-1] if name == "live" else result, parse_constant=no_number
    )
    schema = SCHEMAS.get(name, "history" if name.startswith("history") else "")
    if schema:
        error = next(_validator(schema).iter_errors(value), None)
        if error is not None:
            where = "/".join(str(one) for one in error.absolute_schema_path)
            found.append(Finding("schema", f"{name} {where}", str(error.message)[:2000]))


def _validator(schema: str) -> jsonschema.Draft202012Validator:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.argv
    try:
        sys.argv = ["iqcar", "schema", schema]
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main()
    finally:
        sys.argv = before
    out.flush()
    text = out.buffer.getvalue()  # type: ignore[attr-defined]
    return jsonschema.Draft202012Validator(json.loads(text))
