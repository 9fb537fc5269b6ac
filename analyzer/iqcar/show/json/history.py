"""Declares and writes answers of a store as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from iqcar.base.files.json_text import json_bytes
from iqcar.rules.vocabulary import straggler_cause
from iqcar.show.json.described import HEAD, records, schema_text

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.history.add_logs import Added
    from iqcar.history.ask_store import Changes, Top
    from iqcar.history.store_views import StoreView


SchemaVersion = Annotated[Literal["1"], "Changes when a reader would have to change."]
SetAside = Annotated[list[str], "Files of the store that were not read, why, and what to do."]
Since = Annotated[str, "First day; empty for any."]


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring query in one period."""

    period: Annotated[str, "First day of the period; empty where all is one."]
    cluster: str
    fingerprint: str
    name: str
    runs: Annotated[int, Meta(ge=0), "Its runs that others lost to."]
    victims: Annotated[int, Meta(ge=0), "Runs of other queries that lost to it."]
    lost_ms: Annotated[float, "Elapsed time that they lost."]


class HistoryHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host in one period."""

    period: str
    cluster: str
    host: str
    applications: Annotated[int, Meta(ge=0)]
    tasks: Annotated[int, Meta(ge=0)]
    slowdown: Annotated[
        float | None,
        "Time of its tasks over the medians of their stages, in stages that ran on several hosts,"
        " beside the same of the other hosts of the cluster.",
    ]
    excess_ms: Annotated[float | None, "What its tasks took longer by that."]
    stragglers: Annotated[int, Meta(ge=0)]
    delay_ms: float | None


class HistoryResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource of a host in one period."""

    period: str
    cluster: str
    resource: Literal["slots", "executors", "cpu", "memory", "network", "io"]
    host: Annotated[str, "Empty where small losses of several hosts are summed."]
    lost_ms: Annotated[float, "Elapsed time lost to other queries."]
    victims: Annotated[int, Meta(ge=0)]


class HistoryCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause of stragglers in one period."""

    period: str
    cluster: str
    cause: Annotated[str | None, "Why tasks were stragglers; null where nothing explains it."]
    name: str
    stragglers: Annotated[int, Meta(ge=0), "One with two causes counts in both."]
    delay_ms: Annotated[float, "What they took longer than the medians of their stages."]
    applications: Annotated[int, Meta(ge=0), "Applications that had them."]
    hosts: Annotated[int, Meta(ge=0), "Hosts that ran them."]


class HistoryLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a victim lost to a source."""

    victim: str
    source: Annotated[str, "(others): small losses to several sources."]
    resource: Literal["slots", "executors", "cpu", "memory", "network", "io"]
    lost_ms: float
    runs: Annotated[int, Meta(ge=0), "Queries of the victim that lost."]
    share: Annotated[float | None, "Of all that was lost to other queries."]


class HistoryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of a recurring query."""

    cluster: str
    application_id: str
    attempt_id: str
    query_id: str
    path: Annotated[str, "Where its log was read."]
    name: str
    fingerprint: str
    start_ms: float | None
    duration_ms: float | None
    ended: Annotated[bool, "Whether its log holds its end."]
    failed: bool
    error: Annotated[str, "Why, in a line; empty if it did not fail, or nobody knows."]
    task_ms: float | None
    cpu_ms: float | None
    read_bytes: float | None
    lost_ms: float | None
    lost_to_others_ms: float | None
    slots_wait_ms: Annotated[float | None, "Its tasks' waits for slots; null where nothing tells."]
    executors_wait_ms: Annotated[
        float | None, "Its tasks' waits for executors; null where nothing tells."
    ]
    cpu_wait_ms: Annotated[float | None, "Its tasks' waits for cpu; null where nothing tells."]
    memory_wait_ms: Annotated[
        float | None, "Its tasks' waits for memory; null where nothing tells."
    ]
    network_wait_ms: Annotated[
        float | None, "Its tasks' waits for network; null where nothing tells."
    ]
    io_wait_ms: Annotated[float | None, "Its tasks' waits for io; null where nothing tells."]
    source: Annotated[str, "The query that it lost most to; empty if none."]
    source_lost_ms: float


class HistoryChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a recurring query's duration."""

    fingerprint: str
    name: str
    cluster: str
    at_ms: Annotated[float, "Start of the first run after it."]
    before_ms: Annotated[float, "Median duration of the runs before."]
    after_ms: float
    runs_before: Annotated[int, Meta(ge=0)]
    runs_after: Annotated[int, Meta(ge=0)]
    p: Annotated[float, "Share of permutations of the runs that can be divided as well."]
    cost_ms: Annotated[float, "Change of the median times the runs after it."]
    why: Annotated[list[str], "What else changed then, by what the store holds."]
    compared: Annotated[list[str], "What `iqcar compare` finds in the logs around it."]


class HistoryFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log that could not be added."""

    path: str
    message: str


class HistoryAddAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `iqcar history add` did."""

    schema_version: SchemaVersion
    iqcar_version: str
    store: str
    question: Literal["add"]
    added: Annotated[int, Meta(ge=0), "Applications added."]
    known: Annotated[int, Meta(ge=0), "Logs that the store knew."]
    partial: Annotated[int, Meta(ge=0), "Added applications that were cut or still running."]
    failed: list[HistoryFailure]
    written_bytes: Annotated[int, Meta(ge=0)]
    cut: Annotated[
        int, Meta(ge=0), "Borders between groups of applications across which blame is missing."
    ]
    merged: Annotated[int, Meta(ge=0), "Files of earlier additions that were merged."]
    set_aside: SetAside


class HistoryTopAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rankings by period."""

    schema_version: SchemaVersion
    iqcar_version: str
    store: str
    question: Literal["top"]
    since: Since
    until: str
    cluster: Annotated[str, "Empty for all."]
    headline: Annotated[
        str,
        "Which recurring query and which host cost most in the last period; empty where none did.",
    ]
    queries: list[HistoryQuery]
    hosts: list[HistoryHost]
    resources: list[HistoryResource]
    causes: list[HistoryCause]
    set_aside: SetAside


class HistoryWhoAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who lost to whom."""

    schema_version: SchemaVersion
    iqcar_version: str
    store: str
    question: Literal["who"]
    since: Since
    until: str
    cluster: Annotated[str, "Empty for all."]
    by: str
    losses: list[HistoryLoss]
    set_aside: SetAside


class HistoryTrendAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of a query, and when it changed."""

    schema_version: SchemaVersion
    iqcar_version: str
    store: str
    question: Literal["trend"]
    since: Since
    until: str
    cluster: Annotated[str, "Empty for all."]
    runs: list[HistoryRun]
    changes: list[HistoryChange]
    set_aside: SetAside


class HistoryChangesAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recurring queries whose duration changed."""

    schema_version: SchemaVersion
    iqcar_version: str
    store: str
    question: Literal["changes"]
    since: Since
    until: str
    cluster: Annotated[str, "Empty for all."]
    series: Annotated[int, Meta(ge=0), "Recurring queries with enough runs."]
    alpha: Annotated[float, "Share of series without a change in which one is found."]
    changes: list[HistoryChange]
    set_aside: SetAside


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
    parts = {name: records(frame) for name, frame in vars(found).items()}
    for one in parts["causes"]:
        one["name"] = straggler_cause(one["cause"]).name
        one["cause"] = one["cause"] or None
    return parts


def who_to_json(about: StoreView, by: str, found: pd.DataFrame) -> bytes:
    """Encode who lost to whom."""
    return _encoded("who", {**_range(about), "by": by, "losses": records(found)})


def trend_to_json(about: StoreView, runs: pd.DataFrame, changes: Changes) -> bytes:
    """Encode the runs of a query, and when it changed."""
    return _encoded("trend", {**_range(about), "runs": records(runs), "changes": _changes(changes)})


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


def _encoded(question: str, content: dict[str, Any]) -> bytes:
    return json_bytes({**HEAD, "question": question, **content}, indent=2) + b"\n"
