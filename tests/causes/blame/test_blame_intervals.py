"""Blame by interval (eq. 5): who used a resource at the very time that somebody waited for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import KNOWN, UNATTRIBUTED
from iqcar.causes.blame.ratp import BYTES_REQUESTS
from iqcar.causes.blame.task_intervals import BlameColumns, Pieces
from iqcar.enums import REQUESTS, Request
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, QUERIES, STAGES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame, waits_frame
from tests.causes.blame.test_blame import assert_same, by_demand, by_name, close
from tests.support.examples import examples
from tests.support.interval_profiles import (
    SERIES,
    even_profiles,
    intervals_of,
    random_profiles,
    random_records,
)
from tests.support.naive_blame import naive_blame
from tests.support.random_tables import RandomInput, random_devices, tables_and_waits

SEEDS = st.integers(0, 2**32)


@pytest.mark.slow
@examples(150)
@given(tables_and_waits(), SEEDS)
def test_the_sweep_over_pieces_gives_the_sums_over_all_pairs_of_pieces(
    random: RandomInput, seed: int
) -> None:
    tables = random_profiles(random_records(random.tables, seed), seed)
    waits = random.waits
    devices = random_devices(len(tables.hosts), seed)
    blame = attribute(tables, waits, devices)
    expected = naive_blame(tables, waits, devices)
    found = by_demand(blame)
    assert set(found) == set(expected)
    for key, (_, sources) in found.items():
        want = expected[key]
        beta, lost = ({one["source_stage"]: one[c] for one in sources} for c in ("beta", "lost_ms"))
        for stage in {stage for stage in beta if stage >= 0} | set(want.beta):
            assert close(beta.get(stage, 0.0), want.beta[stage], want.slowdown), (key, stage)
            assert close(lost.get(stage, 0.0), want.beta_lost[stage], want.lost), (key, stage)
        assert close(sum(one["beta"] for one in sources), want.slowdown, want.slowdown)


@pytest.mark.slow
@examples(100)
@given(tables_and_waits(30), SEEDS)
def test_blame_by_interval_is_never_negative_and_sums_to_what_was_lost(
    random: RandomInput, seed: int
) -> None:
    blame = attribute(random_profiles(random.tables, seed), random.waits)
    plain = attribute(random.tables, random.waits)
    for column in ("stage", "request", "host", "tasks", "wait_ms"):
        np.testing.assert_array_equal(blame.demands[column], plain.demands[column])
    # What was lost does not depend on when it was, but in devices, where load is measured then.
    steady = ~np.isin(plain.demands["request"], [REQUESTS.index(r) for r in BYTES_REQUESTS])
    for column in ("slowdown", "lost_ms"):
        expected = plain.demands[column][steady]
        np.testing.assert_array_equal(blame.demands[column][steady], expected)
    assert (blame.sources["beta"] >= 0).all()
    assert (blame.sources["lost_ms"] >= 0).all()
    lost = np.bincount(blame.sources["demand"], blame.sources["lost_ms"], len(blame.demands))
    np.testing.assert_allclose(lost, blame.demands["lost_ms"], rtol=1e-7, atol=1e-9)
    for kind in (KNOWN, UNATTRIBUTED):
        rows = blame.sources["kind"] == kind
        assert sorted(blame.sources.loc[rows, "demand"]) == list(range(len(blame.demands)))


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20), st.integers(1, 6))
def test_cutting_tasks_that_wait_and_work_evenly_changes_nothing(
    random: RandomInput, width: int
) -> None:
    tables = even_profiles(random.tables, random.waits, width)
    assert_same(
        by_name(attribute(random.tables, random.waits)),
        by_name(attribute(tables, random.waits)),
    )


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20))
def test_one_interval_for_the_whole_life_is_the_average_of_the_task(random: RandomInput) -> None:
    tables = even_profiles(random.tables, random.waits, width=10_000)
    assert_same(
        by_name(attribute(random.tables, random.waits)),
        by_name(attribute(tables, random.waits)),
    )


@pytest.mark.slow
@examples(100)
@given(tables_and_waits(20), SEEDS)
def test_pieces_tile_the_life_of_every_task(random: RandomInput, seed: int) -> None:
    columns = BlameColumns.from_tables(random_profiles(random.tables, seed), random.waits)
    pieces = Pieces.from_intervals(columns)
    assert set(pieces.task) == set(range(len(columns.span)))
    np.testing.assert_allclose(pieces.total(pieces.span), columns.span, atol=1e-6)
    timed = np.isfinite(pieces.launch)
    assert (pieces.launch[timed] >= columns.launch[pieces.task][timed]).all()
    assert (pieces.finish[timed] <= columns.finish[pieces.task][timed]).all()
    for task in np.unique(pieces.task[timed]):
        mine = np.flatnonzero(pieces.task == task)
        mine = mine[np.argsort(pieces.launch[mine], kind="stable")]
        np.testing.assert_array_equal(pieces.finish[mine][:-1], pieces.launch[mine][1:])


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20), SEEDS)
def test_what_a_task_waited_computed_and_moved_is_divided_without_loss(
    random: RandomInput, seed: int
) -> None:
    columns = BlameColumns.from_tables(random_profiles(random.tables, seed), random.waits)
    pieces = Pieces.from_intervals(columns)
    assume(not pieces.undivided)
    for request in REQUESTS:
        if request is not Request.SLOT_WAIT:
            whole = np.nan_to_num(columns.wait(request))
            parts = pieces.total(np.nan_to_num(pieces.wait(request)))
            np.testing.assert_allclose(parts, whole, rtol=1e-9)
    np.testing.assert_allclose(
        pieces.total(np.nan_to_num(pieces.compute())), np.nan_to_num(columns.compute()), rtol=1e-9
    )
    for name in ("input_bytes", "remote_bytes", "local_bytes", "output_bytes"):
        whole = np.nan_to_num(columns.number(name))
        parts = pieces.total(np.nan_to_num(pieces.number(name)))
        np.testing.assert_allclose(parts, whole, rtol=1e-9)


@examples(60)
@given(tables_and_waits(20), SEEDS)
def test_memory_is_held_as_the_profile_says_else_evenly(random: RandomInput, seed: int) -> None:
    tables = random_profiles(random_records(random.tables, seed), seed)
    columns = BlameColumns.from_tables(tables, random.waits)
    pieces = Pieces.from_intervals(columns)
    assume(not pieces.undivided)
    held = pieces.held()
    recorded = tables.intervals["held_bytes"].to_numpy()
    profiled = np.unique(tables.intervals["task"][np.isfinite(recorded)])
    told = np.isin(pieces.task, profiled)
    np.testing.assert_array_equal(held[~told], columns.held()[pieces.task[~told]])
    # Before and after what the profile covers, and where it says nothing, nothing was held.
    inside = told & (pieces.interval >= 0)
    np.testing.assert_array_equal(held[inside], np.nan_to_num(recorded[pieces.interval[inside]]))
    assert (held[told & (pieces.interval < 0)] == 0).all()


def three_on_a_core(skew_ms: float = 0.0) -> tuple[Tables, object]:
    """Task 0 waits for the processor in its first second only; 1 computes then, 2 afterwards."""
    n = 3
    tasks = frame(
        TASKS,
        n,
        app=np.zeros(n),
        stage=np.arange(n),
        query=np.arange(n),
        host=np.zeros(n),
        executor=np.zeros(n),
        launch_ms=np.full(n, EPOCH_MS),
        finish_ms=np.full(n, EPOCH_MS + 2000),
        **{name: np.zeros(n) for name in ("input_bytes", "remote_bytes", "local_bytes")},
    )
    waits = waits_frame(tasks, {Request.RUN_QUEUE: [600.0, 0.0, 0.0]}, compute_ms=[900, 900, 900])
    halves = [
        (0, {"run_queue_ms": 600.0, "cpu_ms": 300.0}, {"cpu_ms": 600.0}),
        (1, {"cpu_ms": 900.0}, {}),
        (2, {}, {"cpu_ms": 900.0}),
    ]
    rows = [
        {
            "task": task,
            "start_ms": EPOCH_MS + skew_ms + 1000 * half,
            "end_ms": EPOCH_MS + skew_ms + 1000 * (half + 1),
            **spent,
        }
        for task, *profile in halves
        for half, spent in enumerate(profile)
    ]
    tables = Tables.empty().with_(
        applications=frame(APPLICATIONS, 1, task_cpus=[1.0]),
        hosts=frame(HOSTS, 1, host=["h0"]),
        executors=frame(EXECUTORS, 1, app=[0], host=[0], cores=[4.0]),
        queries=frame(
            QUERIES, n, app=[0] * n, start_ms=tasks["launch_ms"], end_ms=tasks["finish_ms"]
        ),
        stages=frame(STAGES, n, app=[0] * n, query=np.arange(n)),
        tasks=tasks,
        intervals=intervals_of(rows),
    )
    return tables, waits


def lost_to(tables: Tables, waits: object) -> dict[int, float]:
    blame = attribute(tables, waits)
    return dict(zip(blame.sources["source_stage"], blame.sources["lost_ms"], strict=True))


def test_who_worked_only_while_nobody_waited_is_not_blamed() -> None:
    tables, waits = three_on_a_core()
    lost = lost_to(tables, waits)
    assert lost[1] == pytest.approx(600.0)
    assert 2 not in lost
    averaged = lost_to(tables.with_(intervals=Tables.empty().intervals), waits)
    assert averaged[1] == pytest.approx(averaged[2])


def test_the_clock_of_an_executor_may_be_off() -> None:
    for skew in (-50_000.0, 80_000.0):
        lost = lost_to(*three_on_a_core(skew))
        assert lost[1] == pytest.approx(600.0)
        assert 2 not in lost


def test_the_series_of_intervals_are_those_of_the_table() -> None:
    assert set(SERIES) < set(Tables.empty().intervals.columns)
