"""Waits for executors: which of them there are, and whom they are put down to."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import iqcar
from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import KNOWN, OWN, QUERY, UNATTRIBUTED
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables
from tests.support.examples import examples
from tests.support.shared_cluster_logs import (
    KUBERNETES,
    MANAGERS,
    STANDALONE,
    Executor,
    Query,
    application,
    read,
    three_of_four_held,
    whole_cluster_held,
)
from tests.support.tiny_tables import tiny_tables

SECONDS = 60


def random_shared_cluster(seed: int) -> Tables:
    """Make two to four applications with whole seconds as times, and one host."""
    rng = np.random.default_rng(seed)
    apps = int(rng.integers(2, 5))
    executors, stages, tasks, queries = [], [], [], []
    for app in range(apps):
        asked = sorted(int(time) for time in rng.integers(0, SECONDS // 2, rng.integers(1, 4)))
        first = len(stages)
        for time in asked:
            row = len(stages)
            stages.append(
                {"app": app, "stage_id": row, "query": row, "submission_ms": 1000.0 * time}
            )
            queries.append({"app": app, "query_id": f"q{row}", "name": f"q{row}"})
        for _ in range(rng.integers(1, 4)):
            since = int(rng.integers(0, SECONDS - 10))
            until = int(rng.integers(since + 5, SECONDS + 1))
            cores = int(rng.integers(1, 4))
            executors.append(
                {
                    "app": app,
                    "executor_id": str(len(executors)),
                    "host": 0,
                    "cores": float(cores),
                    "added_ms": 1000.0 * since,
                    "removed_ms": 1000.0 * until,
                }
            )
            for _ in range(cores):
                now = max(since, asked[0]) + int(rng.integers(0, 8))
                while now < until:
                    finish = min(now + int(rng.integers(1, 12)), until)
                    ready = [n for n, time in enumerate(asked) if time <= now]
                    tasks.append(
                        {
                            "app": app,
                            "stage": first + ready[rng.integers(len(ready))],
                            "host": 0,
                            "executor": len(executors) - 1,
                            "task_id": len(tasks),
                            "index": len(tasks),
                            "launch_ms": 1000.0 * now,
                            "finish_ms": 1000.0 * finish,
                        }
                    )
                    tasks[-1]["query"] = tasks[-1]["stage"]
                    now = finish + int(rng.integers(0, 6))
    return tiny_tables(
        applications=[
            {"application_id": f"app-{app}", "start_ms": 0.0, "end_ms": 1000.0 * SECONDS}
            for app in range(apps)
        ],
        executors=executors,
        stages=stages,
        queries=queries,
        tasks=tasks,
    )


EXECUTORS = REQUESTS.index(Request.EXECUTOR_WAIT)


def lost_by_source(diagnosis: iqcar.Diagnosis, name: str) -> dict[str, float]:
    """Seconds that a query lost, by whom they are put down to."""
    row = diagnosis.tables.queries["name"].tolist().index(name)
    return {one["source_name"]: one["lost_ms"] / 1e3 for one in diagnosis.graph.blame_rows(row)}


def executors_lost(diagnosis: iqcar.Diagnosis) -> float:
    """Seconds that all queries lost waiting for executors."""
    hot = diagnosis.graph.hot_resources()
    return float(hot["lost_ms"][hot["resource"] == "executors"].sum()) / 1e3


@pytest.mark.parametrize("master", list(MANAGERS))
def test_who_held_the_whole_cluster_is_blamed_for_the_time_until_it_gave_back(
    master: str, tmp_path: Path
) -> None:
    settings = {"spark_executor_instances": "4", "spark_executor_cores": "2"}
    found = iqcar.diagnose(read(whole_cluster_held(master, **settings), tmp_path), expected=False)
    lost = lost_by_source(found, "report")
    # It asked at 2 s; the executors were free from 30 s on and took 2 s to start.
    assert lost["load"] == pytest.approx(28, abs=1)
    assert lost["known causes"] == pytest.approx(2, abs=0.2)
    assert executors_lost(found) == pytest.approx(lost["load"])


def test_who_held_most_of_the_cluster_is_blamed_and_not_the_query_itself(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(), tmp_path), expected=False)
    lost = lost_by_source(found, "report")
    # It took 20 s in one slot; in four it would have taken 5 s.
    assert lost["load"] == pytest.approx(15, abs=1)
    assert lost["itself"] < 4


def test_a_task_launched_before_the_end_of_another_is_noted_makes_the_cluster_no_larger(
    tmp_path: Path,
) -> None:
    found = iqcar.diagnose(read(three_of_four_held(early=0.005), tmp_path), expected=False)
    assert lost_by_source(found, "report")["load"] == pytest.approx(15, abs=1)


def test_idle_executors_are_told_apart(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=10), tmp_path), expected=False)
    row = found.tables.queries["name"].tolist().index("report")
    (load,) = [one for one in found.graph.blame_rows(row) if one["source_name"] == "load"]
    assert 0.3 < load["idle_ms"] / load["lost_ms"] < 0.8
    always = iqcar.diagnose(read(three_of_four_held(), tmp_path), expected=False)
    assert all(one["idle_ms"] == 0 for one in always.graph.blame_rows(row))


def test_an_application_takes_no_more_than_its_settings_allow(tmp_path: Path) -> None:
    logs = three_of_four_held(spark_cores_max="1")
    assert executors_lost(iqcar.diagnose(read(logs, tmp_path), expected=False)) == 0


def test_a_cluster_that_has_room_delays_nobody(tmp_path: Path) -> None:
    other = application(
        3, "before", [Executor(3, 8, 0.5, 1.5)], [Query("x", 0.5, [(0, 0.6, 1.4)])], end=2.0
    )
    found = iqcar.diagnose(read([*three_of_four_held(), other], tmp_path), expected=False)
    assert executors_lost(found) == 0


def test_executors_that_start_as_slowly_as_ever_are_nobodys_fault(tmp_path: Path) -> None:
    first = application(
        1, "first", [Executor(1, 4, 9.0)], [Query("a", 0.5, [(0, 9.0, 30.0)])], end=21.0
    )
    second = application(
        2,
        "second",
        [Executor(1, 4, 22.0)],
        [Query("b", 12.5, [(0, 22.0 + n, 23.0 + n) for n in range(3)])],
        start=12.0,
        end=26.0,
    )
    assert executors_lost(iqcar.diagnose(read([first, second], tmp_path), expected=False)) == 0


def test_clusters_that_are_not_the_same_share_nothing(tmp_path: Path) -> None:
    load, _ = whole_cluster_held(STANDALONE)
    _, report = whole_cluster_held(KUBERNETES)
    assert executors_lost(iqcar.diagnose(read([load, report], tmp_path), expected=False)) == 0


def test_what_dynamic_allocation_asked_for_is_measured_and_bounds_what_was_missing(
    tmp_path: Path,
) -> None:
    for wanted, missing in ((1, False), (4, True)):
        load, report = three_of_four_held(spark_dynamicAllocation_enabled="true")
        event = {"version": 1, "timeMs": 1_002_500, "executors": wanted}
        report.event("org.iqcar.spark.IqcarEventExecutors", event)
        blame = iqcar.diagnose(read([load, report], tmp_path), expected=False).blame
        waited = blame.demands[blame.demands["request"] == EXECUTORS]
        assert len(waited) == missing
        assert (waited["evidence"] == 3).all()


def test_an_application_that_ran_nothing_is_named_as_a_doubt(tmp_path: Path) -> None:
    idle = application(1, "notebook", [Executor(1, 3, 1.0)], [], end=30.0)
    found = iqcar.diagnose(read([idle, three_of_four_held()[1]], tmp_path), expected=False)
    assert lost_by_source(found, "report")["unattributed"] == pytest.approx(15, abs=1)
    assert any("notebook held 3 slots and ran no task" in doubt for doubt in found.doubts)


SEEDS = st.integers(0, 2**32)


def blamed(seed: int) -> tuple[Tables, pd.DataFrame, Blame]:
    tables = random_shared_cluster(seed)
    waits = measure_waits(tables)
    return tables, waits, attribute(tables, waits)


@pytest.mark.slow
@examples(25)
@given(SEEDS)
def test_the_wait_for_launch_is_divided_and_nothing_counts_twice(seed: int) -> None:
    tables = random_shared_cluster(seed)
    waits = measure_waits(tables)
    slots, executors = waits["slot_wait_ms"], waits["executor_wait_ms"]
    assert (slots >= 0).all()
    assert (executors >= 0).all()
    tasks = tables.tasks
    submitted = tables.stages["submission_ms"].to_numpy()[tasks["stage"].to_numpy()]
    np.testing.assert_allclose(slots + executors, tasks["launch_ms"] - submitted, atol=1e-3)


@pytest.mark.slow
@examples(25)
@given(SEEDS)
def test_waits_for_executors_are_shared_out_among_all_who_held_slots(seed: int) -> None:
    tables, waits, blame = blamed(seed)
    demands, sources = blame.demands, blame.sources
    lost = np.bincount(sources["demand"], sources["lost_ms"], len(demands))
    np.testing.assert_allclose(lost, demands["lost_ms"], rtol=1e-7, atol=1e-6)
    assert (sources["idle_ms"] <= sources["lost_ms"] * (1 + 1e-9)).all()
    mine = (demands["request"] == EXECUTORS).to_numpy()
    rows = sources[mine[sources["demand"]]]
    assert not (rows["kind"] == OWN).any()
    assert (rows["lost_ms"][rows["kind"] == KNOWN] == 0).all()
    # An application that ran no task has no stage that could be named.
    assume(tables.tasks["app"].nunique() == len(tables.applications))
    empty = rows["kind"] == UNATTRIBUTED
    np.testing.assert_allclose(rows["lost_ms"][empty], 0, atol=1e-6)
    assert (sources["idle_ms"][~sources["demand"].isin(np.flatnonzero(mine))] == 0).all()
    app = tables.stages["app"].to_numpy()
    named = rows[rows["kind"] == QUERY]
    target = demands["stage"].to_numpy()[named["demand"]]
    assert (app[target] != app[named["source_stage"]]).all()
    expected = naive_shares(tables, waits)
    for demand, stage, amount in named[["demand", "source_stage", "lost_ms"]].itertuples(False):
        key = (int(demands["stage"][demand]), int(stage))
        expected[key] -= amount
    assert max(map(abs, expected.values()), default=0.0) < 1e-3


def naive_shares(tables: Tables, waits: pd.DataFrame) -> dict[tuple[int, int], float]:
    """Lost ms by target stage and source stage, one moment after another."""
    columns = BlameColumns.from_tables(tables, waits)
    lost = waits["executor_wait_ms"].to_numpy()
    tasks, executors = tables.tasks.to_dict("records"), tables.executors.to_dict("records")
    moments = sorted(
        {t[name] for t in tasks for name in ("launch_ms", "finish_ms")}
        | {m for e in executors for m in (e["added_ms"], e["removed_ms"])}
        | set(columns.asked.tolist())
    )
    shares: dict[tuple[int, int], float] = defaultdict(float)
    for i in np.flatnonzero(lost > 0).tolist():
        shortage = columns.shortages[tasks[i]["app"]]
        parts: dict[int, float] = defaultdict(float)
        for a, b in itertools.pairwise(moments):
            middle = (a + b) / 2
            at = np.searchsorted(shortage.when, middle, side="right") - 1
            if not columns.asked[i] <= a < b <= columns.launch[i] or shortage.missing[at] <= 0:
                continue
            held = slots_held(tables, tasks, executors, middle, besides=tasks[i]["app"])
            for stage, slots in held.items():
                parts[stage] += slots / sum(held.values()) * (b - a)
        for stage, part in parts.items():
            shares[tasks[i]["stage"], stage] += lost[i] * part / sum(parts.values())
    return shares


def running(tasks: list[dict], when: float) -> dict[int, float]:
    """Slots that ran tasks, by stage."""
    busy: dict[int, float] = defaultdict(float)
    for task in tasks:
        if task["launch_ms"] <= when < task["finish_ms"]:
            busy[task["stage"]] += 1
    return busy


def slots_held(
    tables: Tables, tasks: list[dict], executors: list[dict], when: float, besides: int
) -> dict[int, float]:
    """Slots that each stage of other applications held, idle ones with their neighbours."""
    held: dict[int, float] = defaultdict(float)
    for app in set(range(len(tables.applications))) - {besides}:
        mine = [t for t in tasks if t["app"] == app]
        busy = running(mine, when)
        offered = sum(
            e["cores"]
            for e in executors
            if e["app"] == app and e["added_ms"] <= when < e["removed_ms"]
        )
        idle = offered - sum(busy.values())
        if idle > 0:
            # All times are whole seconds.
            ended = [t["finish_ms"] - 1 for t in mine if t["finish_ms"] <= when]
            near = max(ended, default=min(t["launch_ms"] for t in mine) + 1)
            beside = busy or running(mine, near)
            busy[max(sorted(beside), key=lambda stage: beside[stage])] += idle
        for stage, slots in busy.items():
            held[stage] += slots
    return held


@pytest.mark.slow
@examples(15)
@given(SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_tasks_and_executors_changes_nothing(seed: int, shuffle: st.randoms) -> None:
    tables, waits, blame = blamed(seed)
    order = list(range(len(tables.tasks)))
    shuffle.shuffle(order)
    other = tables.with_(
        tasks=tables.tasks.iloc[order].reset_index(drop=True),
        executors=tables.executors.iloc[::-1].reset_index(drop=True),
    )
    # Tasks name executors by row.
    moved = other.tasks.assign(executor=len(tables.executors) - 1 - other.tasks["executor"])
    other = other.with_(tasks=moved)
    again = measure_waits(other)
    np.testing.assert_allclose(
        again["executor_wait_ms"], waits["executor_wait_ms"].to_numpy()[order], atol=1e-3
    )

    def by_name(found: Blame) -> dict[tuple[int, int], float]:
        of = found.demands.iloc[found.sources["demand"].to_numpy()]
        mine = (of["request"] == EXECUTORS).to_numpy()
        keys = zip(of["stage"][mine], found.sources["source_stage"][mine], strict=True)
        return dict(zip(keys, found.sources["lost_ms"][mine], strict=True))

    one, two = by_name(blame), by_name(attribute(other, again))
    assert set(one) == set(two)
    assert all(abs(one[key] - two[key]) < 1e-3 for key in one)
