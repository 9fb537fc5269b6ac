"""Answers of a store as JSON, described by ``history_types``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from iqcar.base.files.json_text import json_bytes
from iqcar.rules.vocabulary.topics import straggler_cause
from iqcar.show.json.described import schema_text
from iqcar.show.json.history_types import (
    HistoryAddAnswer,
    HistoryChangesAnswer,
    HistoryTopAnswer,
    HistoryTrendAnswer,
    HistoryWhoAnswer,
)
from iqcar.show.json.plain import plain
from iqcar.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.history.add_logs import Added
    from iqcar.history.ask_store import Top
    from iqcar.history.query_changes import Changes
    from iqcar.history.store_views import StoreView

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""


def history_schema() -> str:
    """Return the JSON Schema of what ``iqcar history … --json`` writes, as text."""
    return schema_text(
        HistoryAddAnswer,
        HistoryTopAnswer,
        HistoryWhoAnswer,
        HistoryTrendAnswer,
        HistoryChangesAnswer,
        title="What iqcar history --json writes",
        description="Times are in ms since the epoch.",
    )


def added_to_json(store: str, added: Added) -> bytes:
    """Encode what an addition did."""
    failed = [{"path": path, "message": message} for path, message in added.failed]
    return _encoded("add", {"store": store, **asdict(added), "failed": failed})


def top_to_json(about: StoreView, found: Top, period: str) -> bytes:
    """Encode rankings by period."""
    from iqcar.history.ask_store import top_headline  # slow to import; the schema needs none of it

    headline = top_headline(found, period)
    return _encoded("top", {**_range(about), "headline": headline, **top_to_dict(found)})


def top_to_dict(found: Top) -> dict[str, list[dict[str, Any]]]:
    """Lay rankings out as JSON; causes get their names."""
    parts = {name: _records(frame) for name, frame in vars(found).items()}
    for one in parts["causes"]:
        one["name"] = straggler_cause(one["cause"]).name
        one["cause"] = one["cause"] or None
    return parts


def who_to_json(about: StoreView, by: str, found: pd.DataFrame) -> bytes:
    """Encode who lost to whom."""
    return _encoded("who", {**_range(about), "by": by, "losses": _records(found)})


def trend_to_json(about: StoreView, runs: pd.DataFrame, changes: Changes) -> bytes:
    """Encode the runs of a query, and when it changed."""
    return _encoded(
        "trend", {**_range(about), "runs": _records(runs), "changes": _changes(changes)}
    )


def changes_to_json(about: StoreView, changes: Changes) -> bytes:
    """Encode changes of recurring queries."""
    content = {"series": changes.series, "alpha": changes.alpha, "changes": _changes(changes)}
    return _encoded("changes", {**_range(about), **content})


def _changes(changes: Changes) -> list[dict[str, Any]]:
    return [asdict(one) for one in changes.changes]


def _range(about: StoreView) -> dict[str, Any]:
    return {
        "store": about.store.url,
        "since": about.since,
        "until": about.until,
        "cluster": about.cluster,
        "set_aside": about.store.set_aside_lines(),
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")
    ]


def _encoded(question: str, content: dict[str, Any]) -> bytes:
    head = {"schema_version": SCHEMA_VERSION, "iqcar_version": __version__, "question": question}
    return json_bytes({**head, **content}, indent=2) + b"\n"
