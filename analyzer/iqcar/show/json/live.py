"""Declares and writes a window of a running application as one line of JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iqcar.base.files.json_text import json_bytes
from iqcar.show.json.described import HEAD, laid_out, schema_text
from iqcar.show.json.result_types import ResultFinding

if TYPE_CHECKING:
    from iqcar.live.apply_rules import Applied
    from iqcar.live.window import Victim, Window


QueryId = Annotated[str, "Unique among applications."]
Number = Annotated[str, "What tells runs of one query apart."]


class LiveNow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The application at the window's end."""

    slots: Annotated[float | None, "Slots of the executors; null where the log does not tell."]
    slots_used: Annotated[float, "Slots that running tasks hold."]
    executors: int
    tasks_running: int
    tasks_waiting: Annotated[int, "Tasks of submitted stages that were not launched."]
    stages_running: Annotated[int, "Stages with a running task."]
    queries_running: int


class LiveOver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has ended since the start."""

    sql_executions: int
    jobs: int
    stages: int
    tasks: int


class LiveSoFar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has been read since the start."""

    events: int
    over: Annotated[LiveOver, "What ended before the window, and is not kept."]


class LiveResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time lost in one resource."""

    name: Annotated[str, "Of the resource or host."]
    lost_ms: Annotated[float, "Elapsed time of all queries."]
    share: Annotated[float, "Of all that was lost in the window."]


class LiveBlamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a query lost time to."""

    kind: Annotated[str, "As in the result: query, own, known, unattributed or rest."]
    name: str
    number: str
    lost_ms: float
    share: float
    by_resource: Annotated[dict[str, float], "The same time by resource."]
    by_host: Annotated[dict[str, float], "The same time by host."]


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query of the window."""

    query_id: QueryId
    name: Annotated[str, "What a reader sees."]
    number: Number
    fingerprint: Annotated[str, "Equal for every run of the same recurring query."]
    running: Annotated[bool, "Whether it runs at the end of the window."]


class LiveVictim(LiveQuery, frozen=True):
    """A query that lost time in the window."""

    elapsed_ms: Annotated[float, "Since its start, before the window too."]
    lost_ms: Annotated[float, "Lost in the window."]
    lost_to_others_ms: float
    waiting: Annotated[int, "Its tasks that wait to be launched."]
    blamed: Annotated[
        list[Annotated[LiveBlamed, Meta(description="Whom a loss is attributed to.")]],
        "The largest first.",
    ]


class LiveAggressor(LiveQuery, frozen=True):
    """A query that others lost time to in the window."""

    lost_ms: Annotated[float, "Elapsed time that others lost to it."]
    victims: Annotated[int, "How many others."]
    resource: Annotated[str, "For which most was lost."]
    slots: Annotated[float, "Slots that its tasks hold at the end."]


class LiveSlowTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task that runs for long."""

    query_id: QueryId
    name: Annotated[str, "What a reader sees."]
    number: Number
    stage_id: int
    attempt: Annotated[int, "Of the stage."]
    index: Annotated[int, "Partition."]
    task_id: int
    host: str
    executor: str
    running_ms: float
    median_ms: Annotated[float, "Of those of its stage that succeeded in the window."]


class LiveLoop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule loop."""

    rules: Annotated[
        list[dict[str, Any]], "Rules of the loop that act now, with the fields of rule.schema.json."
    ]
    decisions: Annotated[list[dict[str, Any]], "Lines of the journal that the window led to."]
    stopped: Annotated[str, "Why the loop no longer acts; empty while it does."]


class LiveWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a running application did in a window of time.

    Times are in ms since the epoch, by the clocks that wrote the log.
    """

    schema_version: Annotated[Literal["1"], "Changes when a reader would have to change."]
    iqcar_version: str
    application_id: Annotated[str, "As Spark wrote it."]
    application_name: str
    state: Annotated[
        Literal["running", "ended", "gone"],
        "`gone`: the log was removed, or cannot be read any further.",
    ]
    start_ms: Annotated[float, "Start of the window; not before that of the application."]
    end_ms: Annotated[
        float,
        "End of the window: the newest event, and the time that the log has been quiet since.",
    ]
    newest_event_ms: Annotated[float, "Time of the newest event."]
    now: Annotated[LiveNow, "At the end of the window."]
    so_far: Annotated[LiveSoFar, "Since the start of the log."]
    finding: Annotated[
        ResultFinding | None, "What would save most of the window; null where nothing would."
    ]
    lost_ms: Annotated[float, "Elapsed time that all queries lost in the window."]
    lost_to_others_ms: Annotated[float, "The part that other queries cost them."]
    resources: Annotated[
        list[Annotated[LiveResource, Meta(description="Time lost.")]],
        "For what time was lost, the most first.",
    ]
    hosts: Annotated[
        list[Annotated[LiveResource, Meta(description="Time lost.")]], "Where, the most first."
    ]
    victims: Annotated[
        list[Annotated[LiveVictim, Meta(description="A query that lost time.")]],
        "Those that lost most to others first.",
    ]
    aggressors: Annotated[
        list[Annotated[LiveAggressor, Meta(description="A query that cost others time.")]],
        "Those that cost most first.",
    ]
    slow_tasks: Annotated[
        list[
            Annotated[
                LiveSlowTask,
                Meta(description="A task that runs for longer than others of its stage took."),
            ]
        ],
        "Those longest beyond the median first.",
    ]
    rules: Annotated[
        list[dict[str, Any]], "Scheduler rules that the window proposes, as in the result."
    ]
    loop: Annotated[
        LiveLoop | UnsetType | None,
        "With --apply: what the loop did with the window; null without, or where there was no "
        "window to act on.",
    ] = UNSET
    notes: Annotated[list[str], "What went wrong while the log was followed."]
    doubts: Annotated[list[str], "What is doubtful, in sentences."]


def live_schema() -> str:
    """Return the JSON Schema of a line that ``iqcar live --json`` prints, as text."""
    return schema_text(LiveWindow, title="A line of iqcar live --json")


def window_to_json(window: Window, state: str, applied: Applied | None = None) -> bytes:
    """Encode a window as one line; numbers nobody knows become null."""
    return json_bytes(window_to_dict(window, state, applied)) + b"\n"


def window_to_dict(window: Window, state: str, applied: Applied | None = None) -> dict[str, Any]:
    """Lay a window out as a JSON object, as :class:`LiveWindow` describes it."""
    # Slow to import; the schema needs none of it.
    from iqcar.live.window import overview_of
    from iqcar.show.json.analyze import finding_to_dict

    shown = overview_of(window)
    return {
        **HEAD,
        "application_id": shown.application_id,
        "application_name": shown.application,
        "state": state,
        "start_ms": window.start_ms,
        "end_ms": window.end_ms,
        "newest_event_ms": window.newest_ms,
        "now": laid_out(LiveNow, shown),
        "so_far": {"events": window.events, "over": asdict(window.forgotten)},
        "finding": None
        if shown.finding is None
        else finding_to_dict(window.diagnosis, shown.finding),
        "lost_ms": shown.lost_ms,
        "lost_to_others_ms": shown.lost_to_others_ms,
        "resources": [asdict(one) for one in shown.resources],
        "hosts": [asdict(one) for one in shown.hosts],
        "victims": [_victim(one) for one in shown.victims],
        "aggressors": [asdict(one) for one in shown.aggressors],
        "slow_tasks": [asdict(one) for one in shown.slow_tasks],
        "rules": [rule.to_dict() for rule in window.diagnosis.rules if not rule.is_advice],
        "loop": None if applied is None else _applied(applied),
        "notes": list(window.notes),
        "doubts": list(window.diagnosis.doubts),
    }


def _applied(applied: Applied) -> dict[str, Any]:
    return {
        "rules": [rule.to_dict() for rule in applied.rules],
        "decisions": list(applied.lines),
        "stopped": applied.stopped,
    }


def _victim(victim: Victim) -> dict[str, Any]:
    blamed = [
        laid_out(
            LiveBlamed,
            one,
            kind=str(one.kind),
            by_resource={str(key): ms for key, ms in one.by_resource.items()},
        )
        for one in victim.blamed
    ]
    return {**vars(victim), "blamed": blamed}
