"""Time on the chain to a query's end, and its parts, in examples that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.comparison.sides import runs_of_queries
from iqcar.enums import RunBy
from iqcar.model.queries.identify import identify
from iqcar.model.waits.measure import measure_waits
from iqcar.model.waits.stage_parts import PART_NAMES, query_paths, stage_parts
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables


def one_query(stages: list[tuple[float, float]], start: float, end: float) -> Tables:
    """A query with stages from submission to completion."""
    rows = [
        {"stage_id": row, "submission_ms": began, "first_launch_ms": began, "completion_ms": ended}
        for row, (began, ended) in enumerate(stages)
    ]
    return identify(tiny_tables(jobs=[{"submission_ms": start, "completion_ms": end}], stages=rows))


@pytest.mark.parametrize(
    ("stages", "on_path", "driver"),
    [
        ([(100, 400), (450, 900)], [300, 450], 250),  # one after the other, the driver between
        ([(0, 400), (0, 300), (400, 1000)], [400, 0, 600], 0),  # the longer of two that are read
        ([(0, 400), (0, 300), (403, 1000)], [400, 0, 597], 3),
        ([(0, 402), (400, 1000)], [400, 600], 0),  # recorded a little late
        ([(0, 990), (500, 1000)], [0, 500], 500),  # the first ended too late to hold it up
        ([], [], 1000),
    ],
)
def test_a_query_is_held_up_by_what_completed_last(
    stages: list[tuple[float, float]], on_path: list[float], driver: float
) -> None:
    tables = one_query(stages, 0, 1000)
    paths = query_paths(tables, np.ones(1, bool))
    assert paths.stage_ms.tolist() == on_path
    assert paths.driver_ms.tolist() == [driver]


def parts_of(slots: float, tasks: list[tuple[float, float]], ended: float) -> dict[str, float]:
    """Parts of a stage submitted at 0, with tasks from launch to finish that computed all along."""
    tables = identify(
        tiny_tables(
            applications=[{"start_ms": 0.0, "end_ms": 1e6}],
            executors=[{"cores": slots, "added_ms": 0.0}],
            jobs=[{"submission_ms": 0.0, "completion_ms": ended}],
            stages=[
                {
                    "submission_ms": 0.0,
                    "first_launch_ms": min(launch for launch, _ in tasks),
                    "completion_ms": ended,
                }
            ],
            tasks=[
                {
                    "launch_ms": launch, "finish_ms": finish, "index": index,
                    "run_ms": finish - launch, "cpu_ms": finish - launch,
                }
                for index, (launch, finish) in enumerate(tasks)
            ],
        )
    )  # fmt: skip
    (row,) = stage_parts(tables, measure_waits(tables))
    return {name: ms for name, ms in zip(PART_NAMES, row.tolist(), strict=True) if abs(ms) > 1e-9}


def test_a_full_stage_computes_all_the_time() -> None:
    waves = [(0, 100), (0, 100), (100, 200), (100, 200)]
    assert parts_of(2, waves, 200) == {"compute_ms": 200}


def test_tasks_one_by_one_on_two_slots_lack_one() -> None:
    one_by_one = [(0, 100), (100, 200), (200, 300), (300, 400)]
    assert parts_of(2, one_by_one, 400) == {"slots_ms": 150, "compute_ms": 200, "tail_ms": 50}


def test_a_straggler_makes_a_tail() -> None:
    assert parts_of(4, [(0, 100), (0, 100), (0, 100), (0, 500)], 500) == {
        "compute_ms": 200,
        "tail_ms": 300,
    }


def test_time_before_the_first_launch_and_after_the_last_end() -> None:
    assert parts_of(2, [(50, 150), (50, 150)], 170) == {
        "slots_ms": 50,
        "compute_ms": 100,
        "rest_ms": 20,
    }


def test_few_partitions_use_few_slots() -> None:
    assert parts_of(16, [(0, 100), (0, 100)], 100) == {"compute_ms": 100}


def many_applications(*starts: tuple[float, float], cluster: bool = True) -> Tables:
    return identify(
        tiny_tables(
            applications=[
                {
                    "application_id": f"a{row}",
                    "start_ms": start,
                    "end_ms": end,
                    "master": "spark://m",
                }
                for row, (start, end) in enumerate(starts)
            ],
            executors=[
                {"app": row, "executor_id": "1" if cluster else "driver"}
                for row in range(len(starts))
            ],
            jobs=[
                {"app": row, "submission_ms": start, "completion_ms": start + 1}
                for row, (start, _) in enumerate(starts)
            ],
        )
    )


HOUR = 3_600_000.0


def test_applications_of_a_cluster_that_overlap_in_an_hour_are_one_run() -> None:
    times = [(0.0, 600.0), (300.0, 900.0), (900.0, 1000.0), (HOUR, HOUR + 9), (0.0, 500.0)]
    tables = many_applications(*times)
    assert runs_of_queries(tables, RunBy.HOUR).tolist() == [0, 0, 1, 2, 0]
    assert runs_of_queries(tables, RunBy.APPLICATION).tolist() == [0, 2, 3, 4, 1]


def test_applications_without_a_cluster_are_a_run_each() -> None:
    tables = many_applications((0.0, 600.0), (300.0, 900.0), cluster=False)
    assert runs_of_queries(tables, RunBy.HOUR).tolist() == [0, 1]
