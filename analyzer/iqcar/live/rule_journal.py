"""Write the journal of the live loop: one JSON object per line for each decision, with its reason.

Fields of every line: ``time`` (ISO 8601, UTC), ``event`` and ``reason``. Lines of a decision also
have ``window`` (``start_ms``, ``end_ms`` by the log's clock), ``rule``, ``expected_gain_ms``, and
``measured``, the effect so far; None until it is known.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from iqcar.base.files.derived import open_to_append
from iqcar.base.files.json_text import json_bytes
from iqcar.errors import IqcarError
from iqcar.live.rule_loop import Change, Evidence
from iqcar.rules import Rule

if TYPE_CHECKING:
    from iqcar.live.rule_effect import MeasuredEffect

_OF_RULE = ("rule-type", "query-type", "rule-value", "fingerprint", "query_name", "resource")


def decision_line(
    now_ms: float, evidence: Evidence, change: Change, measured: MeasuredEffect | None
) -> dict[str, Any]:
    """Return the line of one decision."""
    return {
        **event_line(now_ms, change.action.value, change.reason),
        "window": {"start_ms": evidence.start_ms, "end_ms": evidence.end_ms},
        "rule": _rule(change.rule),
        "expected_gain_ms": change.gain_ms,
        "measured": None if measured is None else measured.to_dict(),
    }


def effect_line(now_ms: float, rule: Rule, measured: MeasuredEffect) -> dict[str, Any]:
    """Return the line that says at the end what became of a rule's victims."""
    line = event_line(now_ms, "effect", measured.sentence)
    return {**line, "rule": _rule(rule), "measured": measured.to_dict()}


def event_line(now_ms: float, event: str, reason: str) -> dict[str, Any]:
    """Return the line of what is no decision: the loop starts, stops, or is refused."""
    time = datetime.fromtimestamp(now_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    return {"time": time, "event": event, "reason": reason}


def _rule(rule: Rule) -> dict[str, Any]:
    fields = rule.to_dict()
    return {name: fields[name] for name in _OF_RULE}


def append_line(path: str, line: dict[str, Any]) -> None:
    """Append one line to a journal, made if missing; raises IqcarError, also for a link."""
    try:
        descriptor = open_to_append(path)
        try:
            os.write(descriptor, json_bytes(line) + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error
