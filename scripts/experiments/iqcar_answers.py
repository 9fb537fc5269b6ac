"""Answers the study's questions from the tools of ``iqcar mcp``, as an agent would."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client


@dataclass(frozen=True)
class FromTools:
    """What the tools said: lost shares, and durations in ms without each query."""

    lost: Mapping[str, float]
    ran_ms: Mapping[str, float]
    without_ms: Mapping[str, Mapping[str, float]]

    def cost(self, victim: str) -> dict[str, float]:
        return {
            source: 1.0 - durations[victim] / self.ran_ms[victim]
            for source, durations in self.without_ms.items()
            if victim in durations
        }

    def gain_of_others(self, source: str) -> float:
        durations = self.without_ms.get(source, {})
        return sum(self.ran_ms[name] - took for name, took in durations.items()) / 1e3


@contextmanager
def answering(log: Path, folder: Path, names: Sequence[str]) -> Iterator[FromTools]:
    """Ask a server that knows the log of one run about these queries."""
    yield asyncio.run(_asked(log, folder / "mcp-cache", names))


async def _asked(log: Path, cache: Path, names: Sequence[str]) -> FromTools:
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "iqcar", "mcp", str(log), "--cache", str(cache)],
        env=dict(os.environ),
    )
    async with Client(stdio_client(started)) as client:
        (only,) = (await _told(client, "list_applications"))["applications"]
        of = {"applications": [only["key"]]}
        listed = (await _told(client, "queries", **of))["items"]
        queries = [one for one in listed if one["name"] in names]
        without = {}
        for name in names:
            answer = await _told(client, "what_if", **of, changes={"remove": [name]})
            without[name] = {
                one["name"]: one["predicted_ms"]
                for one in answer["queries"]["items"]
                if one["predicted_ms"] is not None and one["name"] in names and one["name"] != name
            }
    return FromTools(
        lost={
            one["name"]: _number(one["lost_to_others_ms"]) / one["duration_ms"] for one in queries
        },
        ran_ms={one["name"]: one["duration_ms"] for one in queries},
        without_ms=without,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


async def _told(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """Call a tool until it has an answer."""
    while True:
        answer = await client.call_tool(tool, given)
        (text,) = (part.text for part in answer.content)
        if answer.is_error:
            raise RuntimeError(text)
        found: dict[str, Any] = json.loads(text)
        if "state" not in found:
            return found
