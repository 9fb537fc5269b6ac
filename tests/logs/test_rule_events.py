"""The plugin's events about its rules file, and what is said of them."""

from __future__ import annotations

import json
from math import inf
from typing import Any

from iqcar.logs.plugin.plugin_events import driver_tables
from iqcar.say.rule_lines import acting_rules, not_accepted, since_start
from iqcar.tables import RULE_CHANGES, Tables
from tests.support.tiny_tables import tiny_tables


def event(time: int, outcome: str = "accepted", *changes: dict[str, Any], **more: Any) -> bytes:
    fields = {
        "Event": "org.iqcar.spark.IqcarEventRules",
        "timeMs": time,
        "outcome": outcome,
        "changes": list(changes),
    }
    return json.dumps({**fields, **more}).encode()


def pool(name: str, after: str, rule: str = "") -> dict[str, Any]:
    return {"kind": "pool", "name": name, "after": after, "rule": rule, "later": [1]}


def placed(name: str, before: str, after: str) -> dict[str, Any]:
    return {"kind": "placement", "name": name, "before": before, "after": after, "rule": "A-1"}


LINES = [
    event(3000, "accepted", pool("gold", "FIFO weight 5"), placed("plan:1", "gold", "")),
    event(1000, "accepted", pool("gold", "FIFO weight 1", "A-1"), placed("plan:1", "", "gold")),
    event(2000, "refused", reason="r.json: not\nJSON"),
    event(4000, "missing", reason="is gone"),
    event(5000, "of a later version"),
    event(-1, "accepted", pool("silver", "FIFO weight 1")),
    event(6000, "accepted", {"kind": "of a later version", "name": "x"}),
    b"{",
]


def tables() -> Tables:
    return tiny_tables(applications=[{"start_ms": 500.0}]).with_(
        rule_changes=driver_tables(LINES)["rule_changes"]
    )


def test_one_row_per_change_and_per_look_that_changed_nothing_by_time() -> None:
    found = driver_tables(LINES)["rule_changes"]
    assert list(found.columns) == RULE_CHANGES.column_names()
    assert found[["time_ms", "outcome", "kind", "name", "after"]].to_numpy().tolist() == [
        [1000, "accepted", "pool", "gold", "FIFO weight 1"],
        [1000, "accepted", "placement", "plan:1", "gold"],
        [2000, "refused", "", "", ""],
        [3000, "accepted", "pool", "gold", "FIFO weight 5"],
        [3000, "accepted", "placement", "plan:1", ""],
        [4000, "missing", "", "", ""],
        [6000, "accepted", "", "", ""],
    ]


def test_a_rule_acts_until_it_is_changed_or_taken_back() -> None:
    acted = [(one.rule, one.sentence, one.from_ms, one.until_ms) for one in acting_rules(tables())]
    assert acted == [
        ("A-1", "plan:1 goes into pool gold", 1000, 3000),
        ("A-1", "pool gold: FIFO weight 1", 1000, 3000),
        ("", "pool gold: FIFO weight 5", 3000, inf),
    ]


def test_what_was_not_accepted_is_one_printable_sentence() -> None:
    said = [sentence for _, _, sentence in not_accepted(tables())]
    assert [text.split(",")[0] for text in said] == ["rules file refused", "rules file missing"]
    assert all(text.isprintable() for text in said)


def test_times_count_from_the_applications_start() -> None:
    assert [since_start(tables(), 0, ms) for ms in (1000.0, 100.0, inf)] == [
        "+500 ms",
        "+0 ms",
        "end",
    ]
