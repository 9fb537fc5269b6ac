"""The live comparison's tables: queries found, missed and said wrongly, from a small result."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import iqcar
from tests.conftest import REPO
from tests.support.compared_runs import SUITE, suite_with, write_runs

EXPERIMENTS = REPO / "scripts" / "experiments"


@pytest.fixture(scope="module", autouse=True)
def experiments() -> None:
    """Let this module import what lies beside the experiments."""
    sys.path.insert(0, str(EXPERIMENTS))


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def query(
    name: str,
    planted: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
    after_s: float = 2.0,
    kind: str = "",
) -> dict[str, Any]:
    """A query of one second, with what was planted and what was said of it."""
    return {
        "query": name, "planted": list(planted), "before_s": [1.0, 1.0], "after_s": [after_s] * 2,
        "verdict": "changed" if causes else "cannot_tell", "listed": bool(causes),
        "kind": kind or ("rate" if causes else ""), "causes": [(cause, "why") for cause in causes],
        "evidence": "time", "q_value": 0.01, "before_ms": 1000.0, "after_ms": 1000 * after_s,
        "runs_needed": 0 if causes else 7, "stages": [],
    }  # fmt: skip


RESULT: dict[str, Any] = {
    "spark": "4.3.0",
    "arms": [
        {"arm": "nothing", "change": "nothing", "queries": [query("q1", after_s=1.0)]},
        {
            "arm": "data",
            "change": "twice the data",
            "queries": [
                query("q1", ("data:",), ("data:input_bytes", "conf:some.key")),
                query("q2", ("data:", "conf:"), ("metric:gc_ms", "metric:cpu_ms", "conf:late")),
                query("q3", ("data:",)),
                query("q4", ("data:",), after_s=1.01),
                query("q5", (), ("plan:Sort->Filter",)),
                query("beside", ("added",), ("added",), kind="added") | {"before_s": []},
            ],
        },
    ],
    "quiet": [
        {"before": "nothing", "after": "data", "listed": []},
        {"before": "nothing", "after": "skew", "listed": [{"query": "q1", "kind": "rate"}]},
    ],
}


def names(queries: list[dict[str, Any]]) -> list[str]:
    return [one["query"] for one in queries]


def test_queries_are_sorted_by_what_was_planted_and_what_was_said() -> None:
    judged = load("tables").judge(RESULT["arms"][1])
    assert names(judged["found"]) == ["q1", "q2", "beside"]
    assert names(judged["missed"]) == ["q3"]
    assert names(judged["unharmed"]) == ["q4"]
    assert names(judged["false"]) == ["q5"]
    assert names(judged["with_cause"]) == ["q1", "q2"]
    assert names(judged["right"]) == ["q1"], "a setting counts right behind the first cause"


def test_the_table_counts_what_was_missed_and_what_was_said_wrongly() -> None:
    shown = load("tables").compare_live(RESULT)
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert rows[2] == "| nothing | – | – | – | – | 0 |"
    assert rows[3] == "| twice the data | 4 | 3 | 1 | 1 of 2 | 1 |"
    assert "Of 2 pairs of equal runs that were not measured in turns, 1 have a finding" in shown


def test_a_comparison_is_scored_by_query(tmp_path: Path) -> None:
    made, arms = load("compare_live"), load("compare_live")
    before = write_runs(tmp_path / "before", SUITE)
    slow = suite_with(etl_load=SUITE["etl_load"].slower(1, 2.0))
    after = write_runs(tmp_path / "after", slow, first_day=20)
    arm = arms.Arm("slow", "slower", arms.BASE, arms.planted(("etl_load",), "metric:cpu_ms"))
    seconds = ({"etl_load": [5.0, 5.0]}, {"etl_load": [10.0, 10.0]})
    result = made.arm_result(arm, iqcar.compare(before, after), *seconds)
    judged = load("tables").judge(result)
    assert names(judged["right"]) == ["etl_load"]
    assert not judged["false"]
    assert {one["query"] for one in result["queries"]} == SUITE.keys()
