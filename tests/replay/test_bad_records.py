"""Damaged and unusual records: blame is found all the same, and no number is absurd."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from iqcar.base.kernels import compiled
from iqcar.replay import alone
from iqcar.replay.alone import blame_run
from iqcar.replay.loop import event_loop
from iqcar.replay.loop.loop_input import Slots, Steps, Work
from iqcar.tables import Tables
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from tests.support.examples import examples
from tests.support.random_tables import RandomInput, tables_and_waits

MB = 1e6
Record = tuple[Tables, pd.DataFrame]


def record() -> Record:
    """Four queries at once on two hosts, short of disk."""
    stage = StagePlan(10, read=60 * MB, cpu=200.0, fetch=10 * MB)
    second = StagePlan(6, fetch=20 * MB, cpu=300.0, write=20 * MB, parents=(0,))
    plans = [QueryPlan(f"q-{k}", (stage, second), 0, 300.0 * k) for k in range(4)]
    return replayable(Simulation(Cluster(hosts=2, slots=8), plans, 1))


def check(tables: Tables, waits: pd.DataFrame) -> None:
    """Nobody is said to have lost less than nothing, or more than it waited and ran."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blame, _ = blame_run(tables, waits)
    demands, sources = blame.demands, blame.sources
    for frame, columns in ((demands, ("lost_ms", "slowdown")), (sources, ("lost_ms", "beta"))):
        for column in columns:
            values = frame[column].to_numpy()
            assert np.isfinite(values).all(), column
            assert (values >= 0).all(), column
    lost = np.bincount(sources["demand"], sources["lost_ms"], len(demands))
    np.testing.assert_allclose(lost, demands["lost_ms"], rtol=1e-6, atol=1e-6)
    # Waits for slots may count as lost in a device.
    waited, lost = (np.bincount(demands["stage"], demands[c]) for c in ("wait_ms", "lost_ms"))
    assert (lost <= waited + waits["gc_ms"].clip(lower=0).fillna(0).sum() + 1e-3).all()
    if blame.cost is None:
        return
    cost = blame.cost
    lasted = tables.queries["duration_ms"].to_numpy()
    told = np.isfinite(cost.lost_ms)
    for low, high in (
        (np.zeros(len(lasted)), cost.low_ms), (cost.low_ms, cost.lost_ms),
        (cost.lost_ms, cost.high_ms), (cost.high_ms, lasted),
    ):  # fmt: skip
        assert (low[told] <= high[told] + 1e-6).all()
    for parts in (cost.to_others, cost.to_tasks):
        for part in parts.values():
            assert len(part) == len(tables.tasks)
            assert (np.isnan(part) | ((part >= 0) & (part <= 1))).all()


def some_tasks(tables: Tables, **columns: object) -> Tables:
    """Every third task has these values."""
    tasks = tables.tasks.copy()
    for name, value in columns.items():
        tasks.loc[::3, name] = value
    return tables.with_(tasks=tasks)


def waits_with(waits: pd.DataFrame, value: float) -> pd.DataFrame:
    waits = waits.copy()
    for name in waits:
        if name.endswith("_ms"):
            waits.loc[::3, name] = value
    return waits


def every(tables: Tables, name: str, **columns: object) -> Tables:
    return tables.with_(**{name: getattr(tables, name).assign(**columns)})


DAMAGES: dict[str, Callable[[Tables, pd.DataFrame], Record]] = {
    "as it was": lambda t, w: (t, w),
    "no launches": lambda t, w: (some_tasks(t, launch_ms=np.nan), w),
    "no ends": lambda t, w: (some_tasks(t, finish_ms=np.nan), w),
    "ends before they began": lambda t, w: (some_tasks(t, finish_ms=1.6e12), w),
    "no launch at all": lambda t, w: (every(t, "tasks", launch_ms=np.nan), w),
    "no hosts": lambda t, w: (some_tasks(t, host=-1, executor=-1), w),
    "nobody has a host": lambda t, w: (every(t, "tasks", host=-1, executor=-1), w),
    "no stage": lambda t, w: (some_tasks(t, stage=-1, query=-1), w),
    "no query": lambda t, w: (every(some_tasks(t, query=-1), "stages", query=-1), w),
    "tasks of no time": lambda t, w: (
        t.with_(tasks=t.tasks.assign(finish_ms=t.tasks["launch_ms"])), waits_with(w, 0.0),
    ),
    "waits unknown": lambda t, w: (t, waits_with(w, np.nan)),
    "waits below nothing": lambda t, w: (t, waits_with(w, -5e3)),
    "waits without end": lambda t, w: (t, waits_with(w, 1e15)),
    "no bytes": lambda t, w: (some_tasks(t, input_bytes=np.nan, remote_bytes=-1.0), w),
    "hosts without cores": lambda t, w: (every(t, "executors", cores=0.0), w),
    "cores unknown": lambda t, w: (every(t, "executors", cores=np.nan), w),
    "queries without an end": lambda t, w: (
        every(t, "queries", end_ms=np.nan, duration_ms=np.nan, ended=False), w,
    ),
    "queries of no time": lambda t, w: (every(t, "queries", duration_ms=0.0), w),
    "queries that ended before": lambda t, w: (every(t, "queries", duration_ms=-1e4), w),
    "stages never submitted": lambda t, w: (
        every(t, "stages", submission_ms=np.nan, completion_ms=np.nan), w,
    ),
    "executors never added": lambda t, w: (every(t, "executors", added_ms=np.nan), w),
    "executors gone at once": lambda t, w: (every(t, "executors", removed_ms=1.6e12), w),
    "one task": lambda t, w: (t.with_(tasks=t.tasks.iloc[:1]), w.iloc[:1]),
    "no task": lambda t, w: (t.with_(tasks=t.tasks.iloc[:0]), w.iloc[:0]),
    "no stages": lambda t, w: (
        t.with_(
            stages=t.stages.iloc[:0], stage_parents=t.stage_parents.iloc[:0],
            tasks=t.tasks.assign(stage=-1),
        ), w,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_gives_no_exception_and_no_absurd_number(damage: str) -> None:
    check(*DAMAGES[damage](*record()))


@examples(40)
@given(tables_and_waits(20))
def test_any_tables_give_no_exception_and_no_absurd_number(random: RandomInput) -> None:
    check(random.tables, random.waits)


def many_queries(count: int) -> Record:
    """Short queries one after another, a few at a time."""
    stage = StagePlan(2, read=4 * MB, cpu=30.0)
    plans = [QueryPlan(f"q-{k}", (stage,), 0, 30.0 * k) for k in range(count)]
    return replayable(Simulation(Cluster(hosts=2, slots=8, disk=3e5), plans, 1))


def counting(play: Callable[..., None], to: list[int]) -> Callable[..., None]:
    """The kernel, which also tells how many tasks and phases it plays."""

    def counted(steps: Steps, work: Work, slots: Slots, *others: Any) -> None:
        to.append(len(steps.delay) + len(work.step) + len(slots.when))
        compiled(play)(steps, work, slots, *others)

    return counted


def test_the_cost_of_replays_grows_as_the_number_of_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: dict[int, int] = {}
    for count in (100, 200):
        steps: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(event_loop, "compiled", lambda play, to=steps: counting(play, to))
            blame, _ = blame_run(*many_queries(count))
        assert blame.cost is not None
        counted[count] = sum(steps)
    assert counted[200] < 3 * counted[100]


def test_executors_that_come_and_go_are_not_repeated_for_every_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Worlds times changes of slots would be the square of a long day."""
    tables, waits = many_queries(60)
    executors = pd.concat([tables.executors] * 40, ignore_index=True)
    tables = tables.with_(executors=executors)
    monkeypatch.setattr(alone, "MOST_DEVICES", 3000)
    blame, model = blame_run(tables, waits)
    assert model is not None
    assert blame.cost is None


def test_tasks_that_all_run_at_once_on_a_host_are_not_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each event of a replay looks at all of them: the square of a log that says so."""
    tables, waits = many_queries(60)
    monkeypatch.setattr(alone, "MOST_PAIRS", 9 * len(tables.tasks))
    blame, model = blame_run(tables, waits)
    assert model is not None
    tasks = tables.tasks
    at_once = tasks.assign(launch_ms=tasks["launch_ms"].min(), finish_ms=tasks["finish_ms"].max())
    blame, model = blame_run(tables.with_(tasks=at_once), waits)
    assert model is None
    assert alone.TOO_LARGE in blame.doubts
