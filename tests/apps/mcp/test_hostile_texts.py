"""What agents are told about a run holds no unseen character and no long text, in any field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import iqcar
from iqcar.apps.mcp import slices
from iqcar.apps.mcp.slices import MOST_TEXT
from iqcar.show.json.analyze import to_json
from tests.support.contended_log import contended_log
from tests.support.unseen import unseen

HOSTILE = "\u202e\u200b\x1b[2J" + "a" * 2 * MOST_TEXT
QUERY = "q1"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A result whose every text is hostile, but for ids of queries."""
    log: Path = tmp_path_factory.mktemp("logs") / "app-1"
    contended_log().write(log)
    hostile: dict[str, Any] = _hostile(
        msgspec.json.decode(to_json(iqcar.diagnose(iqcar.read(log))))
    )
    hostile["queries"][0]["query_id"] = QUERY
    return hostile


def _hostile(value: Any) -> Any:
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, dict):
        return {key: _hostile(one) for key, one in value.items()}
    return [_hostile(one) for one in value] if isinstance(value, list) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


@pytest.mark.parametrize(
    "told",
    [
        slices.overview,
        lambda result: slices.queries(result, "", 1),
        lambda result: slices.blame(result, QUERY),
        lambda result: slices.stragglers(result, "", 1),
        slices.topics,
        lambda result: slices.rules(result, 1),
    ],
    ids=["overview", "queries", "blame", "stragglers", "topics", "rules"],
)
def test_every_field_is_bounded(
    result: dict[str, Any], told: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    texts = list(_texts(told(result)))
    assert texts
    assert not [one for one in texts if len(one) > MOST_TEXT or unseen(one)]
