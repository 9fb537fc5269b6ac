"""A driver that runs for long holds no more of the plugin at its end than when it began."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.bench_long_life import GROUPS, start
from tests.support.listener_spark import build_jar

pytestmark = [pytest.mark.spark, pytest.mark.long]

TASKS, JOBS = 20_000, 200
KERNEL_FILES = "executor.threads.KernelThread"
OF_THREADS = ("executor.threads.", "executor.measure.")
"""Objects of Spark's own threads, which come and go; they end with the application."""
SLOTS = 2


@pytest.fixture(scope="module")
def readings() -> list[dict[str, Any]]:
    build_jar()
    return start(TASKS, JOBS, attached=True)


def test_what_was_kept_of_jobs_and_queries_ends_with_them(readings: list[dict[str, Any]]) -> None:
    first, half, whole, _ = (one["maps"] for one in readings)
    assert first == half == whole
    assert whole["Placement.jobs"] == whole["HeldJobs.since"] == 0
    assert whole["RunningQueries.executions"] == whole["QueryPhases.compiledBefore"] == 0
    assert 0 < whole["RunningQueries.ended"] < JOBS
    assert sum(whole.values()) < 5 * GROUPS


def test_no_objects_stay(readings: list[dict[str, Any]]) -> None:
    first, half, whole, over = (
        {name: n for name, n in one["objects"].items() if not name.startswith(OF_THREADS)}
        for one in readings
    )
    kept = ("driver.queries.", "driver.rules.", "executor.python.", "safety.")
    assert len(first) > 20
    for later in (half, whole):
        assert {name: n for name, n in later.items() if name.startswith(kept)} == {
            name: n for name, n in first.items() if name.startswith(kept)
        }
        assert sum(later.values()) < sum(first.values()) + JOBS / 10
    assert sum(over.values()) <= sum(whole.values())


def test_threads_and_files_are_as_many_and_end(readings: list[dict[str, Any]]) -> None:
    *alive, over = readings
    own = [sorted(set(one["own_threads"]) - {"iqcar-rules-held"}) for one in alive]  # 10 s idle
    assert own[0] == own[1] == own[2] != []
    assert max(len(one["own_threads"]) for one in alive) <= len(alive[0]["own_threads"]) + 1
    assert over["own_threads"] == []
    for one in alive:  # a thread of an executor keeps its files until another one begins
        assert one["kernel_files"] <= one["objects"]["executor.threads.ProcFile"]
        assert SLOTS <= one["objects"][KERNEL_FILES] < JOBS / 10
    assert over["kernel_files"] == 0
    assert not [name for name in over["objects"] if name.startswith(KERNEL_FILES)]
