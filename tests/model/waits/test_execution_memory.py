"""Waits for execution memory in a plain log: estimated where holders explain them, else nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request
from iqcar.model.doubts import find_doubts
from iqcar.model.waits.columns import (
    ACCOUNT,
    ESTIMATED,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    evidence_column,
    wait_column,
)
from iqcar.model.waits.execution_memory import with_memory_waits
from iqcar.model.waits.measure import measure_waits
from iqcar.model.waits.stage_parts import TASK_PARTS, part_evidence
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

MIB = float(1 << 20)
POOL = 600.0
"""MiB of execution memory of an executor with these settings."""
SETTINGS = {"spark.master": "yarn", "spark.executor.memory": "1300m"}
WAIT, EVIDENCE = wait_column(Request.EXECUTION_MEMORY), evidence_column(Request.EXECUTION_MEMORY)


def task(launch: float, finish: float, peak: float, cpu: float = 100.0, **more: Any) -> dict:
    """A task of so many MiB that computes for some time, and of whose time nothing else is told."""
    told = dict.fromkeys(
        ("getting_result_ms", "deserialize_ms", "deserialize_cpu_ms", "gc_ms", "fetch_wait_ms",
         "result_serialize_ms", "shuffle_write_ms", "input_bytes", "output_bytes", "scan_ms"), 0.0,
    )  # fmt: skip
    times = {"launch_ms": launch, "finish_ms": finish, "run_ms": finish - launch, "cpu_ms": cpu}
    return {**told, **times, "peak_memory_bytes": peak * MIB, **more}


HOLDER = task(1000, 6000, 550)
WAITER = task(2000, 6200, 120, stage=1)


def tables_of(*tasks: dict, settings: dict[str, str] = SETTINGS, **more: Any) -> Tables:
    conf = [{"app": 0, "sql_execution": -1, "key": k, "value": v} for k, v in settings.items()]
    rows = [{"task_id": number, **one} for number, one in enumerate(tasks)]
    return tiny_tables(tasks=rows, conf=conf, **{"stages": [{}, {}], "executors": [{}, {}], **more})


def waited(*tasks: dict, **more: Any) -> list[float]:
    return np.nan_to_num(measure_waits(tables_of(*tasks, **more))[WAIT]).tolist()


def test_a_task_waits_until_who_holds_all_memory_ends() -> None:
    waits = measure_waits(tables_of(HOLDER, WAITER))
    assert np.nan_to_num(waits[WAIT]).tolist() == [0.0, 4000.0]
    assert waits[EVIDENCE].tolist() == [MISSING, ESTIMATED]
    assert waits["run_queue_ms"].tolist() == [4900.0, 100.0]


def test_it_waits_no_longer_than_nothing_else_explains() -> None:
    assert waited(HOLDER, {**WAITER, "fetch_wait_ms": 1500.0}) == [0.0, 4200.0 - 100.0 - 1500.0]


@pytest.mark.parametrize(
    ("holder", "waiter"),
    [
        pytest.param({"peak_memory_bytes": 450 * MIB}, {"peak_memory_bytes": 80 * MIB},
                     id="enough is left"),
        pytest.param({"peak_memory_bytes": 300 * MIB}, {}, id="half is left"),
        pytest.param({"peak_memory_bytes": 370 * MIB}, {"peak_memory_bytes": 400 * MIB},
                     id="more than 1/2N is left"),
        pytest.param({}, {"peak_memory_bytes": 0.0}, id="it wants none"),
        pytest.param({}, {"peak_memory_bytes": -5.0}, id="its peak is absurd"),
        pytest.param({"peak_memory_bytes": np.nan}, {}, id="who holds is not known"),
        pytest.param({"peak_memory_bytes": 700 * MIB}, {}, id="more was held than there is"),
        pytest.param({"executor": 1}, {}, id="it is held in another executor"),
        pytest.param({"executor": -1}, {}, id="the executor is not known"),
        pytest.param({"finish_ms": 2000.0}, {}, id="who held it has ended"),
        pytest.param({"finish_ms": 9000.0}, {}, id="it ends before there is enough"),
        pytest.param({}, {"cpu_ms": 4200.0}, id="it computes all the time"),
        pytest.param({}, {"cpu_ms": np.nan}, id="what it computes is not known"),
    ],
)  # fmt: skip
def test_nobody_waits_where(holder: dict, waiter: dict) -> None:
    assert waited({**HOLDER, **holder}, {**WAITER, **waiter}) == [0.0, 0.0]


def test_a_task_that_spilled_wanted_more_than_it_held() -> None:
    little = {**WAITER, "peak_memory_bytes": 40 * MIB}
    holder = {**HOLDER, "peak_memory_bytes": 480 * MIB}
    assert waited(holder, little) == [0.0, 0.0]
    assert waited(holder, {**little, "memory_spilled_bytes": 90 * MIB}) == [0.0, 4000.0]


def test_work_of_python_is_not_taken_for_a_wait_for_memory() -> None:
    assert waited(HOLDER, WAITER, stages=[{}, {"python": True}]) == [0.0, 0.0]


def test_who_ends_shortly_before_the_holder_waited_for_memory_that_it_had_given_back() -> None:
    assert waited(HOLDER, {**WAITER, "finish_ms": 5970.0, "run_ms": 3970.0}) == [0.0, 3870.0]


def test_the_plugins_waits_stay() -> None:
    record = {"task": 1, "wall_ms": 4200.0, "cpu_ms": 100.0, "execution_memory_ms": 70.0}
    waits = measure_waits(tables_of(HOLDER, WAITER, task_records=[record]))
    assert waits[WAIT].tolist()[1] == 70.0
    assert waits[EVIDENCE].tolist() == [MISSING, MEASURED]


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        (SETTINGS, True),
        ({"spark.master": "yarn"}, False),
        ({}, False),
        ({**SETTINGS, "spark.executor.memory": "much"}, False),
        ({**SETTINGS, "spark.executor.memory": "200m"}, False),
        ({**SETTINGS, "spark.memory.useLegacyMode": "true"}, False),
        ({"spark.master": "local[4]", "spark.executor.memory": "1300m"}, False),
        ({"spark.master": "local[4]", "spark.driver.memory": "1300m"}, True),
        ({**SETTINGS, "spark.master": "local-cluster[1,4,2048]"}, True),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "600m"}, True),
        ({**SETTINGS, "spark.memory.offHeap.enabled": "true"}, False),
    ],
)
def test_settings_have_to_say_how_much_there_is(settings: dict[str, str], known: bool) -> None:
    tables = tables_of(HOLDER, WAITER, settings=settings)
    waits = measure_waits(tables)
    assert (waits[WAIT].to_numpy()[1] > 0) == known
    doubts = " ".join(find_doubts(tables, waits))
    assert ("are estimated for" in doubts) == known
    assert ("no setting tells" in doubts) == (not known)


def test_memory_that_settings_do_not_leave_is_a_doubt() -> None:
    tables = tables_of({**HOLDER, "peak_memory_bytes": 5e12}, WAITER)
    doubts = find_doubts(tables, measure_waits(tables))
    assert any("more execution memory than their settings" in doubt for doubt in doubts)


def test_spills_beside_others_are_told_and_no_wait() -> None:
    spilling = task(1000, 6000, 180, stage=1, memory_spilled_bytes=900 * MIB, cpu=4990.0)
    tables = tables_of(task(1000, 6000, 400, cpu=5000.0), spilling)
    waits = measure_waits(tables)
    assert np.nan_to_num(waits[WAIT]).tolist() == [0.0, 0.0]
    assert any("1 tasks spilled" in doubt for doubt in find_doubts(tables, waits))


def test_runs_in_which_memory_was_full_and_ample_are_known_alike() -> None:
    full, ample = tables_of(HOLDER, WAITER), tables_of({**HOLDER, "finish_ms": 1500.0}, WAITER)
    codes = [part_evidence(tables, measure_waits(tables)) for tables in (full, ample)]
    place = TASK_PARTS.index(WAIT)
    assert [code[1, place] for code in codes] == [ESTIMATED, ESTIMATED]


def test_tasks_that_sleep_alike_however_full_it_is_do_not_wait() -> None:
    sleepers = [task(1000 + 300 * k, 4000 + 300 * k, 100, stage=1) for k in range(20)]
    assert sum(waited(task(1000, 3500, 580), *sleepers)) == 0.0
    # The same tasks, if who came before the holder ended is later by that time.
    late = [{**one, "finish_ms": max(one["launch_ms"], 3500.0) + 500.0} for one in sleepers]
    late = [{**one, "run_ms": one["finish_ms"] - one["launch_ms"]} for one in late]
    found = waited(task(1000, 3500, 580), *late[:5])
    assert found[1:] == [max(3500.0 - one["launch_ms"], 0.0) for one in late[:5]]


def random_tasks(seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(int(rng.integers(1, 25))):
        launch = float(rng.integers(1000, 3000))
        lasted = float(rng.integers(0, 3000))
        peak = float(rng.choice([0, 50, 200, 500, 590, -1, np.nan]))
        rows.append(
            task(
                launch,
                launch + lasted,
                peak,
                lasted * rng.choice([0.0, 0.1, 0.9, 2.0]),
                stage=int(rng.integers(-1, 2)),
                executor=int(rng.integers(-1, 2)),
                memory_spilled_bytes=rng.choice([0.0, 300 * MIB]),
                gc_ms=lasted * rng.choice([0.0, 0.3]),
            )
        )
    return tables_of(*rows)


@given(st.integers(0, 2**32))
def test_parts_sum_to_the_duration_and_no_more_is_taken_than_was_unexplained(seed: int) -> None:
    tables = random_tasks(seed)
    waits = measure_waits(tables)
    parts = [name for name, _ in ACCOUNT] + [wait_column(r) for r in IN_TASK_REQUESTS]
    np.testing.assert_allclose(waits[parts].sum(axis=1), waits["duration_ms"], atol=1e-6)
    assert (waits[["run_queue_ms", WAIT]].fillna(0.0) >= 0.0).all(axis=None)
    assert (np.isnan(waits[WAIT]) == (waits[EVIDENCE] == MISSING)).all()
    pd.testing.assert_frame_equal(with_memory_waits(tables, waits), waits)


@given(st.integers(0, 2**32))
def test_the_order_of_tasks_changes_nothing(seed: int) -> None:
    tables = random_tasks(seed)
    order = np.random.default_rng(seed).permutation(len(tables.tasks))
    other = tables.with_(tasks=tables.tasks.iloc[order].reset_index(drop=True))
    found, again = measure_waits(tables)[WAIT].to_numpy(), measure_waits(other)[WAIT].to_numpy()
    np.testing.assert_array_equal(found[order], again)
