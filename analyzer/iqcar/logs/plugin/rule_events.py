"""Which rules acted when: the plugin's events about its rules file."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan

import msgspec
import pandas as pd
from msgspec import Struct, field

from iqcar import tables as tb
from iqcar.logs.events.structs import Time
from iqcar.logs.text.redact import redact_text

RULES_EVENT = "org.iqcar.spark.IqcarEventRules"
MAX_TEXT = 500
"""Characters kept of a name or reason; the plugin writes no more."""
KINDS = ("pool", "placement", "order")
OUTCOMES = ("accepted", "refused", "missing", "unreadable")


class _Change(Struct):
    kind: str = ""
    rule: str = ""
    name: str = ""
    before: str = ""
    after: str = ""


class _Rules(Struct):
    event: str = field(name="Event")
    time: Time = field(default=nan, name="timeMs")
    outcome: str = ""
    reason: str = ""
    changes: list[_Change] = field(default_factory=list)


_decode = msgspec.json.Decoder(_Rules).decode


def decode_rule_changes(lines: Iterable[bytes]) -> pd.DataFrame:
    """Read what became of the rules file from the plugin's raw events; others are passed over.

    Returns
    -------
    DataFrame of :data:`iqcar.tables.RULE_CHANGES`, for application row 0, by time; events without
    a time, and outcomes and kinds that nobody knows, are left out.
    """
    found: list[tuple[_Rules, _Change]] = []
    for line in lines:
        try:
            event = _decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        known = event.event == RULES_EVENT and event.outcome in OUTCOMES
        if known and event.time == event.time:
            changes = [change for change in event.changes if change.kind in KINDS]
            found += [(event, change) for change in changes or [_Change()]]
    found.sort(key=lambda row: row[0].time)
    texts = {
        name: [redact_text(getattr(change, name), MAX_TEXT) for _, change in found]
        for name in ("rule", "name", "before", "after")
    }
    return tb.RULE_CHANGES.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [event.time for event, _ in found],
            "outcome": [event.outcome for event, _ in found],
            "reason": [redact_text(event.reason, MAX_TEXT) for event, _ in found],
            "kind": [change.kind for _, change in found],
            **texts,
        }
    )
