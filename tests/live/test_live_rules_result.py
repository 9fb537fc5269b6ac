"""Figures of the live-rules experiment, from a small measurement written by hand."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from tests.conftest import REPO

PHASES = [[10.0, 30.0], [40.0, 60.0]]


@pytest.fixture(scope="module")
def scored() -> ModuleType:
    sys.path.insert(0, str(REPO / "scripts" / "experiments"))
    return importlib.import_module("live_rules")


def change(at_s: float, event: str, name: str = "etl") -> dict:
    minutes, seconds = divmod(at_s, 60)
    return {
        "time": f"1970-01-01T00:{int(minutes):02d}:{seconds:06.3f}+00:00",
        "event": event,
        "reason": "it won",
        "rule": {"rule-type": "AGG", "query_name": name},
    }


def measured(slow: list[tuple[float, float]], journal: list[dict]) -> dict:
    """Short queries of 0.2 s each second, of 2 s from and until some seconds; an intruder."""

    def took(at: int) -> float:
        return 2.0 if any(a <= at < b for a, b in slow) else 0.2

    short = [("report", at, took(at)) for at in range(62)]
    rows = [*short, ("etl", 10, 8.0), ("etl", 18, 8.0), ("etl", 40, 8.0)]
    return {
        "began_ms": 0.0,
        "phases": PHASES,
        "intruder": "etl",
        "intruder_task_s": 1.2,
        "journal": [*journal, {"time": "1970-01-01T00:00:01+00:00", "event": "start"}],
        "outside_load": 0.02,
        "ran": [
            {"name": name, "start_ms": 1e3 * at, "end_ms": 1e3 * (at + seconds)}
            for name, at, seconds in rows
        ],
    }


def test_relief_comes_when_short_queries_are_short_again(scored: ModuleType) -> None:
    found = scored.figures(measured([(11.0, 18.0), (40.0, 60.0)], [change(15.0, "write")]))
    assert found["to_rule_s"] == [5.0, 0.0]
    assert found["to_relief_s"] == [8.0, None]
    assert len(found["busy_s"]) == 40 and len(found["quiet_s"]) == 10
    assert found["intruder_s"] == [8.0, 8.0, 8.0]


def test_a_rule_that_comes_again_with_the_intruder_does_not_oscillate(scored: ModuleType) -> None:
    again = [change(15.0, "write"), change(35.0, "take-back"), change(45.0, "write")]
    found = scored.figures(measured([], again))
    assert found["to_rule_s"] == [5.0, 5.0]
    assert found["oscillations"] == 0


def test_a_rule_that_swings_while_the_intruder_is_there_does(scored: ModuleType) -> None:
    swings = [change(15.0, "write"), change(20.0, "take-back"), change(25.0, "write")]
    assert scored.figures(measured([], swings))["oscillations"] == 1


def test_arms_are_judged_against_no_rules_and_printed(scored: ModuleType) -> None:
    arms = {
        "no rules": [scored.figures(measured([tuple(p) for p in PHASES], []))],
        "live loop": [scored.figures(measured([(10.0, 16.0)], [change(15.0, "write")]))],
    }
    result = scored.result({"embedded": arms})
    summed = result["clusters"]["embedded"]["arms"]
    assert (summed["live loop"]["verdict"], "verdict" in summed["no rules"]) == ("helped", False)
    assert summed["live loop"]["busy_median_s"] == pytest.approx(0.2)
    arms["live loop"][0]["quiet_s"] = [0.1] * 10
    disturbed = scored.result({"embedded": arms})["clusters"]["embedded"]["arms"]
    assert disturbed["live loop"]["verdict"] == "disturbed"
    table = importlib.import_module("tables").live_rules(result)
    assert "| live loop | 0.20 s | 2.00 s | 0.20 s | 8.0 s | 5, 0 | helped |" in table
