"""What programs outside the executors caused of a wait for the processor is blamed on no query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.blame.demand_weights import KNOWN, OWN, QUERY, UNATTRIBUTED
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.host_samples import beside_tasks, outside_load
from iqcar.tables import Tables
from iqcar.tables.specs import SAMPLES
from iqcar_lab.clusters.frames import EPOCH_MS
from tests.causes.blame.test_blame_intervals import three_on_a_core
from tests.support.examples import examples
from tests.support.hand_cluster import cluster, parts
from tests.support.random_tables import RandomInput, tables_and_waits


def samples_of(*rows: dict[str, Any]) -> pd.DataFrame:
    """Samples of host 0 by executor 0, a second each unless told; ``busy_ms`` is of all cores."""
    made = []
    for row in rows:
        one = dict.fromkeys(SAMPLES.column_names(), np.nan)
        one |= {"app": 0, "host": 0, "executor": 0, "dropped": 0, "duration_ms": 1000.0}
        busy = row.pop("busy_ms", None)
        one |= row
        one["time_ms"] = EPOCH_MS + row["time_ms"]
        if busy is not None:
            of = one.setdefault("cores", 2.0) * one["duration_ms"]
            one |= {"cpu_user": 60.0 * busy / of, "cpu_system": 40.0 * busy / of}
        made.append(one)
    return SAMPLES.frame({name: [one[name] for one in made] for name in SAMPLES.column_names()})


def both_seconds(**row: Any) -> pd.DataFrame:
    return samples_of(*({**row, "time_ms": 1000.0 * (1 + n)} for n in range(2)))


def three_on_two_cores(apps: int = 1) -> tuple[Tables, pd.DataFrame]:
    """Three queries share two cores with a program outside: each has half a core for two seconds.

    Each computes 1 s and waits 1 s. The others' use explains twice that by eq. 6.
    """
    return cluster(
        {Request.RUN_QUEUE: [1000.0] * 3}, launch=[0.0] * 3, finish=[2000.0] * 3, apps=apps,
        compute_ms=[1000.0] * 3, cpu_ms=np.full(3, 1000.0),
    )  # fmt: skip


def lost_of_first(tables: Tables, waits: pd.DataFrame, **options: Any) -> dict[str, float]:
    """What query 0 lost for the processor, by kind."""
    found = parts(tables, waits, 0, Request.RUN_QUEUE, **options)
    names = {QUERY: "others", OWN: "own", KNOWN: "known", UNATTRIBUTED: "unattributed"}
    lost = dict.fromkeys(names.values(), 0.0)
    for (kind, _), (_, ms) in found.items():
        lost[names[kind]] += ms
    return lost


OUTSIDE = {"busy_ms": 2000.0, "cores": 2.0, "jvm_cpu_ms": 1500.0}
"""In each second both cores are busy, one and a half of them with the executor."""


def test_without_samples_queries_are_blamed_for_all_that_they_can_explain() -> None:
    assert lost_of_first(*three_on_two_cores())["others"] == pytest.approx(1000.0)


def test_the_part_of_a_program_outside_stays_unattributed() -> None:
    tables, waits = three_on_two_cores()
    lost = lost_of_first(tables.with_(samples=both_seconds(**OUTSIDE)), waits)
    # Of the two cores half is its own; of the other three halves one is the program's.
    assert lost["others"] == pytest.approx(2000.0 / 3)
    assert lost["unattributed"] == pytest.approx(1000.0 / 3)


def test_where_only_executors_use_the_processors_nothing_changes() -> None:
    tables, waits = three_on_two_cores()
    alone = both_seconds(busy_ms=1500.0, cores=2.0, jvm_cpu_ms=1500.0)
    assert lost_of_first(tables.with_(samples=alone), waits)["others"] == pytest.approx(1000.0)


def test_time_that_was_not_sampled_counts_as_before() -> None:
    tables, waits = three_on_two_cores()
    half = samples_of({**OUTSIDE, "time_ms": 1000.0})
    assert lost_of_first(tables.with_(samples=half), waits)["others"] == pytest.approx(2500.0 / 3)


def test_the_samples_of_the_moment_of_the_wait_count() -> None:
    tables, waits = three_on_a_core()
    calm, busy = ({"busy_ms": ms, "cores": 4.0, "jvm_cpu_ms": 1200.0} for ms in (1200.0, 1700.0))
    for first, second, others in ((busy, calm, 600.0 * 900 / 1400), (calm, busy, 600.0)):
        samples = samples_of({**first, "time_ms": 1000.0}, {**second, "time_ms": 2000.0})
        lost = lost_of_first(tables.with_(samples=samples), waits)
        assert lost["others"] == pytest.approx(others)
        assert lost["unattributed"] == pytest.approx(600.0 - others)


def test_tasks_of_an_application_without_samples_are_no_programs_outside() -> None:
    tables, waits = three_on_two_cores(apps=2)
    # Queries 0 and 2 are on the executor that samples, query 1 is of another application.
    seen = both_seconds(busy_ms=1500.0, cores=2.0, jvm_cpu_ms=1000.0)
    assert lost_of_first(tables.with_(samples=seen), waits)["others"] == pytest.approx(1000.0)


def test_samples_from_outside_spark_know_executors_by_their_tasks() -> None:
    tables, waits = three_on_two_cores()
    sampled = both_seconds(busy_ms=2000.0, cores=2.0, app=-1, executor=-1)
    lost = lost_of_first(tables.with_(samples=sampled), waits)
    assert lost["others"] == pytest.approx(2000.0 / 3)


def test_two_samplers_of_one_host_count_its_use_once() -> None:
    tables, waits = three_on_two_cores(apps=2)
    rows = [
        {"busy_ms": 2000.0, "cores": 2.0, "executor": one, "jvm_cpu_ms": ms, "time_ms": time}
        for one, ms in ((0, 1000.0), (1, 500.0))
        for time in (1000.0, 2000.0)
    ]
    both = tables.with_(samples=samples_of(*rows))
    assert lost_of_first(both, waits)["others"] == pytest.approx(2000.0 / 3)
    load = outside_load(both)
    assert load.outside_ms.tolist() == pytest.approx([1000.0])
    assert (load.capacity_ms.tolist(), load.sampled_ms.tolist()) == ([4000.0], [2000.0])


def test_tasks_that_are_shorter_than_a_sample_share_its_use() -> None:
    """A task of 100 ms in a second in which executors used half a core, and others nothing."""
    tables, waits = cluster(
        {Request.RUN_QUEUE: [100.0, 0.0]}, launch=[0.0, 0.0], finish=[200.0, 1000.0],
        compute_ms=[100.0, 400.0], cpu_ms=np.array([100.0, 400.0]),
    )  # fmt: skip
    noise = samples_of({"busy_ms": 510.0, "cores": 2.0, "jvm_cpu_ms": 500.0, "time_ms": 1000.0})
    plain = lost_of_first(tables, waits)["others"]
    assert lost_of_first(tables.with_(samples=noise), waits)["others"] > 0.95 * plain > 0


def test_other_resources_ask_no_samples() -> None:
    tables, waits = cluster(
        {Request.EXECUTION_MEMORY: [1000.0, 0.0]}, launch=[0.0] * 2, finish=[2000.0] * 2,
        peak_memory_bytes=np.full(2, 1e6),
    )  # fmt: skip
    sampled = tables.with_(samples=both_seconds(**OUTSIDE))
    found = (parts(one, waits, 0, Request.EXECUTION_MEMORY) for one in (tables, sampled))
    assert next(found) == next(found)


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20), st.integers(0, 2**32 - 1))
def test_with_any_samples_parts_sum_to_what_was_lost_and_no_query_is_blamed_for_more(
    random: RandomInput, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, hosts = int(rng.integers(1, 20)), max(len(random.tables.hosts), 1)
    rows = [
        {
            "host": int(rng.integers(-1, hosts)),
            "executor": int(rng.integers(-1, 3)),
            "time_ms": float(rng.choice([0.0, 100.0, 1e3, 1e4, -1e4])) * rng.random(),
            "duration_ms": float(rng.choice([0.0, 10.0, 1e3, 1e5, np.nan])),
            "jvm_cpu_ms": float(rng.choice([np.nan, 0.0, 500.0, 1e9])),
            "cores": float(rng.choice([np.nan, 0.0, 2.0])),
            "cpu_user": float(rng.choice([np.nan, 0.0, 50.0, 300.0])),
            "cpu_system": float(rng.choice([0.0, 10.0])),
        }
        for _ in range(n)
    ]
    plain = attribute(random.tables, random.waits)
    blame = attribute(random.tables.with_(samples=samples_of(*rows)), random.waits)
    pd.testing.assert_frame_equal(
        blame.demands.drop(columns="over_attribution"),
        plain.demands.drop(columns="over_attribution"),
    )
    assert (blame.sources["lost_ms"] >= 0).all()
    lost = np.bincount(blame.sources["demand"], blame.sources["lost_ms"], len(blame.demands))
    np.testing.assert_allclose(lost, blame.demands["lost_ms"], rtol=1e-7, atol=1e-9)
    processor = (blame.demands["request"] == REQUESTS.index(Request.RUN_QUEUE)).to_numpy(bool)
    unattributed = [
        found.sources[found.sources["kind"] == UNATTRIBUTED].set_index("demand")["lost_ms"]
        for found in (blame, plain)
    ]
    more = (unattributed[0] - unattributed[1]).sort_index().to_numpy()
    assert (more >= -1e-7 * np.maximum(blame.demands["lost_ms"], 1.0)).all()
    assert (np.abs(more[~processor]) < 1e-7).all()


def test_what_runs_beside_tasks_is_what_the_host_used_less_their_cpu_time() -> None:
    """Both cores are busy for two seconds, and the tasks used one and a half of them."""
    tables, _ = three_on_two_cores()
    assert np.isnan(beside_tasks(tables)).all()
    sampled = tables.with_(samples=both_seconds(**OUTSIDE))
    assert beside_tasks(sampled).tolist() == pytest.approx([0.5])
    later = samples_of(*({**OUTSIDE, "time_ms": 9000.0 + 1000.0 * n} for n in range(2)))
    assert np.isnan(beside_tasks(tables.with_(samples=later))).all()
