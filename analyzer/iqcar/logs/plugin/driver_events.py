"""Reads what the plugin noted on the driver: pools, rules that acted, executors, phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import nan
from types import MappingProxyType
from typing import Annotated

import msgspec
import pandas as pd
from msgspec import Meta, Struct, field

from iqcar import tables as tb
from iqcar.logs.events.event_names import PLUGIN
from iqcar.logs.events.structs import NOT_FITTING, Time
from iqcar.logs.text.redact import redact_text

MAX_TEXT = 500
"""Characters kept of a name or reason; the plugin writes no more."""
MOST_SLOTS = 2**31
"""Bound of weights, shares and executors: Spark counts them in 32-bit integers."""
MOST_MS = 1e11
"""Three years: no execution compiles longer."""
PHASES = ("parsing", "analysis", "optimization", "planning", "compiling", "listeners")
KINDS = ("pool", "placement", "order")
OUTCOMES = ("accepted", "refused", "missing", "unreadable")
LOG_QUEUE, RULES_QUEUE = "eventLog", "iqcar"
"""Spark's queue of what it logs, and the plugin's own."""
MOST_DROPPED = 1e15
"""A larger count is damage."""


class _Pool(Struct):
    name: str = ""
    mode: str = ""
    weight: float = nan
    min_share: float = field(default=nan, name="minShare")
    cap: float = 0.0
    strict: bool = False


class _Scheduler(Struct, tag_field="Event", tag=f"{PLUGIN}Scheduler"):
    time: Time = field(default=nan, name="timeMs")
    pools: list[_Pool] = field(default_factory=list)


class _Target(Struct, tag_field="Event", tag=f"{PLUGIN}Executors"):
    time: Time = field(default=nan, name="timeMs")
    executors: Annotated[float, Meta(ge=0, lt=MOST_SLOTS)] = nan


class _Change(Struct):
    kind: str = ""
    rule: str = ""
    name: str = ""
    before: str = ""
    after: str = ""


class _Rules(Struct, tag_field="Event", tag=f"{PLUGIN}Rules"):
    time: Time = field(default=nan, name="timeMs")
    outcome: str = ""
    reason: str = ""
    changes: list[_Change] = field(default_factory=list)


class _Phase(Struct):
    name: str = ""
    start: Time = field(default=nan, name="startMs")
    end: Time = field(default=nan, name="endMs")


class _Phases(Struct, tag_field="Event", tag=f"{PLUGIN}Phases"):
    execution: int = field(default=-1, name="executionId")
    phases: list[_Phase] = field(default_factory=list)
    compiled: Annotated[float, Meta(ge=-1, lt=MOST_MS)] = field(default=-1.0, name="compileMs")

    def all(self) -> Iterator[_Phase]:
        """Yield the phases; compiling ends where the execution does."""
        for one in self.phases:
            yield one
            if one.name == "listeners" and self.compiled >= 0:
                yield _Phase("compiling", one.start - self.compiled, one.start)


class _Dropped(Struct, tag_field="Event", tag=f"{PLUGIN}Dropped"):
    queues: dict[str, Annotated[float, Meta(ge=0, lt=MOST_DROPPED)]] = field(default_factory=dict)


_decode_dropped = msgspec.json.Decoder(_Dropped).decode


def dropped_events(lines: Iterable[bytes]) -> dict[str, float]:
    """Count the events that Spark dropped of each queue, by the last of the plugin's raw events.

    Other events, and damaged ones, are passed over.
    """
    counts: dict[str, float] = {}
    for line in lines:
        try:
            counts.update(_decode_dropped(line).queues)
        except NOT_FITTING:
            continue
    return counts


_Event = _Scheduler | _Target | _Rules | _Phases
_decode = msgspec.json.Decoder(_Event).decode


def driver_tables(
    lines: Iterable[bytes], sql_rows: Mapping[int, int] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Make the tables of the plugin's raw events on the driver.

    They are of application row 0. Other events, and damaged ones, are passed over.

    sql_rows : rows of SQL executions by their ids.
    """
    events: list[_Event] = []
    for line in lines:
        try:
            events.append(_decode(line))
        except NOT_FITTING:
            continue
    return {
        "pools": _pools([one for one in events if isinstance(one, _Scheduler)]),
        "rule_changes": _rule_changes([one for one in events if isinstance(one, _Rules)]),
        "executor_targets": _targets([one for one in events if isinstance(one, _Target)]),
        "driver_phases": _phases([one for one in events if isinstance(one, _Phases)], sql_rows),
    }


def _pools(events: list[_Scheduler]) -> pd.DataFrame:
    """Leave out pools without a name, and those with numbers that Spark cannot hold."""
    found = [
        (event.time, pool)
        for event in events
        for pool in event.pools
        if pool.name and 0 < pool.weight < MOST_SLOTS and not pool.min_share >= MOST_SLOTS
    ]
    return tb.POOLS.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [time for time, _ in found],
            "name": [redact_text(pool.name, MAX_TEXT) for _, pool in found],
            "mode": [redact_text(pool.mode, MAX_TEXT).upper() for _, pool in found],
            "weight": [pool.weight for _, pool in found],
            "min_share": [pool.min_share for _, pool in found],
            "cap": [pool.cap if 0 < pool.cap < MOST_SLOTS else nan for _, pool in found],
            "strict": [pool.strict for _, pool in found],
        }
    )


def _targets(events: list[_Target]) -> pd.DataFrame:
    """Leave out events without a time or a number; the others come by time."""
    found = [one for one in events if one.time == one.time and one.executors >= 0]
    found.sort(key=lambda one: one.time)
    return tb.EXECUTOR_TARGETS.frame(
        {
            "app": [0.0] * len(found),
            "time_ms": [one.time for one in found],
            "executors": [one.executors for one in found],
        }
    )


def _phases(events: list[_Phases], sql_rows: Mapping[int, int]) -> pd.DataFrame:
    """Leave out phases that nobody knows, without times, and of executions that are not known."""
    found = [
        (sql_rows[event.execution], one)
        for event in events
        if event.execution in sql_rows
        for one in event.all()
        if one.name in PHASES and one.end >= one.start
    ]
    return tb.DRIVER_PHASES.frame(
        {
            "app": [0.0] * len(found),
            "sql_execution": [row for row, _ in found],
            "phase": pd.Categorical([one.name for _, one in found], PHASES),
            "start_ms": [one.start for _, one in found],
            "end_ms": [one.end for _, one in found],
        }
    )


def _rule_changes(events: list[_Rules]) -> pd.DataFrame:
    """Leave out events without a time, and outcomes and kinds that nobody knows; by time."""
    found: list[tuple[_Rules, _Change]] = []
    for event in events:
        if event.outcome in OUTCOMES and event.time == event.time:
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
