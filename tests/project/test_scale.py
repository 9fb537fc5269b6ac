"""What a log holds much of is walked once: four times the log takes four times the steps.

Steps are lines of Python that run; time tells nothing on a busy machine. The cases are those of
`scripts/bench scale`, which measures what these tests cannot see: the work inside NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.assemble.log_tables import link_stages
from iqcar.logs.collect import Listed
from iqcar.pipeline import diagnose, read
from iqcar.show.json.analyze import to_json
from iqcar_lab.clusters.large_logs import CASES


def latest_before(
    row: int,
    keys: list[tuple[int, int]],
    submission: list[float],
    parents: tuple[int, ...],
    last_rdd: dict[int, int],
) -> set[int]:
    """Rows of the stages that did the work of a stage's parents."""
    found = set()
    for parent in parents:
        rows = [other for other, (stage_id, _) in enumerate(keys) if stage_id == parent]
        if not rows and parent in last_rdd:
            rows = [
                other
                for other, (stage_id, _) in enumerate(keys)
                if last_rdd[stage_id] == last_rdd[parent]
            ]
        earlier = [
            other
            for other in rows
            if keys[other][0] < keys[row][0] and submission[other] <= submission[row]
        ]
        if earlier:
            found.add(max(earlier, key=lambda other: (submission[other], other)))
    return found


pytestmark = pytest.mark.slow

SIZES = (20, 80, 320)
MOST_TIMES = 6
"""Steps for the second fourfold over those for the first: 4 if linear, 16 if quadratic."""


def steps(work: Callable[[], Any]) -> int:
    """How many lines of Python some work runs."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def grows(counts: list[int]) -> float:
    """Growth from fourfold to fourfold, in which what every run takes cancels out."""
    small, middle, large = counts
    return (large - middle) / max(middle - small, 1)


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"deep_plans"}))
def test_reading_takes_steps_in_proportion_to_the_log(case: str, tmp_path: Path) -> None:
    counts = []
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        CASES[case].write(folder, size // 10 if case == "many_applications" else size)
        if not counts:
            read(folder, processes=1)
        counts.append(steps(lambda folder=folder: read(folder, processes=1)))
    assert grows(counts) < MOST_TIMES, counts


def test_reading_a_plan_deeper_than_python_recurses_takes_steps_in_proportion(
    tmp_path: Path,
) -> None:
    counts = []
    for depth in (500, 1000, 2000):
        folder = tmp_path / str(depth)
        folder.mkdir()
        CASES["deep_plans"].write(folder, depth)
        counts.append(steps(lambda folder=folder: read(folder, processes=1)))
    # Twofold each: 2 if linear, 4 if quadratic.
    assert grows(counts) < 3, counts


@pytest.mark.long
@pytest.mark.parametrize("case", ["short_queries", "many_stages", "shared_stage"])
def test_a_diagnosis_and_its_json_take_steps_in_proportion_to_the_log(
    case: str, tmp_path: Path
) -> None:
    counts = []
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        CASES[case].write(folder, size)
        tables = read(folder, processes=1)
        if not counts:
            to_json(diagnose(tables))
        counts.append(steps(lambda tables=tables: to_json(diagnose(tables))))
    assert grows(counts) < MOST_TIMES, counts


def shuffle_written_again_and_again(stages: int) -> Callable[[], Any]:
    """Every other stage writes the same shuffle anew, and those between read it, skipped."""
    keys = [(stage, 0) for stage in range(stages)]
    last_rdd = {stage: 1 if stage % 2 == 0 else 10 + stage for stage in range(stages)}
    skipped = 10 * stages
    last_rdd[skipped] = 1
    parents = [() if stage % 2 == 0 else (skipped,) for stage in range(stages)]
    times = [1000.0 * stage for stage in range(stages)]
    return lambda: link_stages(keys, times, parents, last_rdd)  # type: ignore[arg-type]


def test_readers_of_a_shuffle_written_often_do_not_each_look_at_all_writers() -> None:
    assert grows([steps(shuffle_written_again_and_again(n)) for n in SIZES]) < MOST_TIMES


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from([0.0, 1.0, 2.0, 3.0])), min_size=1, max_size=12
    ),
    st.data(),
)
def test_a_parent_is_the_latest_stage_before_that_did_its_work(
    stages: list[tuple[int, float]], data: st.DataObject
) -> None:
    attempts: dict[int, int] = {}
    keys = []
    for stage_id, _ in stages:
        keys.append((stage_id, attempts.setdefault(stage_id, 0)))
        attempts[stage_id] += 1
    submission = [when for _, when in stages]
    # Two shuffles; ids from 10 on are of stages that were skipped.
    last_rdd = {number: number % 2 for number in [*range(7), 10, 11]}
    parents = [tuple(data.draw(st.lists(st.integers(0, 12), max_size=3))) for _ in stages]
    found = link_stages(keys, submission, parents, last_rdd)  # type: ignore[arg-type]
    expected = [
        (row, before)
        for row in range(len(keys))
        for before in sorted(latest_before(row, keys, submission, parents[row], last_rdd))
    ]
    assert list(zip(*found, strict=True)) == expected


@given(st.lists(st.tuples(st.sampled_from(["start", "end", "ask"]), st.integers(0, 9))))
def test_a_stage_is_of_the_first_active_job_that_lists_it(told: list[tuple[str, int]]) -> None:
    listed, every, active = Listed(), [], set()
    for what, job in told:
        if what == "start":
            listed.add(job)
            every.append(job)
            active.add(job)
        elif what == "end":
            active.discard(job)
        running = active.intersection(every)
        assert listed.first_of(active) == (min(running) if running else max(every, default=-1))
        assert listed.lowest == min(every, default=-1)
