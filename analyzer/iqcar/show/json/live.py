"""A window of a running application as one line of JSON, described by ``live_types``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from iqcar.base.files.json_text import json_bytes
from iqcar.show.json.described import schema_text
from iqcar.show.json.live_types import LiveWindow
from iqcar.show.json.plain import plain
from iqcar.version import __version__

if TYPE_CHECKING:
    from iqcar.live.apply_rules import Applied
    from iqcar.live.overview import Victim
    from iqcar.live.window import Window

SCHEMA_VERSION = "1"
"""Changes when a reader of the JSON would have to change."""


def live_schema() -> str:
    """Return the JSON Schema of a line that ``iqcar live --json`` prints, as text."""
    return schema_text(LiveWindow, title="A line of iqcar live --json")


def window_to_json(window: Window, state: str, applied: Applied | None = None) -> bytes:
    """Encode a window as one line; numbers nobody knows become null."""
    return json_bytes(window_to_dict(window, state, applied)) + b"\n"


def window_to_dict(window: Window, state: str, applied: Applied | None = None) -> dict[str, Any]:
    """Lay a window out as a JSON object.

    Parameters
    ----------
    window : Window
    state : str
        ``running``, ``ended``, or ``gone`` where nothing more can be read.
    applied : Applied, optional
        What the loop did with the window (``--apply``).
    """
    # Slow to import; the schema needs none of it.
    from iqcar.live.overview import overview_of
    from iqcar.show.json.analyze import finding_to_dict

    shown = overview_of(window)
    return {
        "schema_version": SCHEMA_VERSION,
        "iqcar_version": __version__,
        "application_id": shown.application_id,
        "application_name": shown.application,
        "state": state,
        "start_ms": window.start_ms,
        "end_ms": window.end_ms,
        "newest_event_ms": window.newest_ms,
        "now": {
            "slots": plain(shown.slots),
            "slots_used": shown.slots_used,
            "executors": shown.executors,
            "tasks_running": shown.tasks_running,
            "tasks_waiting": shown.tasks_waiting,
            "stages_running": shown.stages_running,
            "queries_running": shown.queries_running,
        },
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
    return {
        **{name: value for name, value in vars(victim).items() if name != "blamed"},
        "blamed": [
            {
                "kind": str(one.kind),
                "name": one.name,
                "number": one.number,
                "lost_ms": one.lost_ms,
                "share": one.share,
                "by_resource": {str(key): ms for key, ms in one.by_resource.items()},
                "by_host": dict(one.by_host),
            }
            for one in victim.blamed
        ],
    }
