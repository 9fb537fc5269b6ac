"""Waits for storage memory go to whose cached blocks filled it, in proportion to bytes and time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import OWN, QUERY, UNATTRIBUTED
from iqcar.enums import REQUESTS, Request
from iqcar.say.verdict import find_verdict
from iqcar.tables import TASK_RECORDS, Tables
from iqcar_lab.clusters.frames import waits_frame
from tests.causes.blame.test_blame import SEEDS
from tests.support.random_tables import RandomInput, tables_and_waits
from tests.support.tiny_tables import tiny_tables

WAIT = 400.0
"""Of the one task that waits, from 1000 to 2000 ms, in executor 0."""
Row = tuple[int, int, float, float, float]
"""Executor, stage, since, until and bytes of cached data."""


def run(rows: list[Row]) -> tuple[Tables, Blame]:
    """Stage 0 of query 0 waits; stages 1 and 2 are of queries of their own."""
    tables = tiny_tables(
        executors=[{"executor_id": str(n)} for n in range(2)],
        queries=[{"query_id": f"q{n}", "name": f"q{n}", "start_ms": 0.0, "end_ms": 2000.0,
                  "duration_ms": 2000.0} for n in range(3)],
        jobs=[{"job_id": n, "query": n} for n in range(3)],
        stages=[{"stage_id": n, "job": n, "query": n, "critical": True} for n in range(3)],
        tasks=[{"launch_ms": 1000.0, "finish_ms": 2000.0, "peak_memory_bytes": 1e9}]
        + [{"stage": n, "query": n, "launch_ms": 1000.0, "finish_ms": 2000.0,
            "peak_memory_bytes": 1e9} for n in (1, 2)],
        cached=[
            {"executor": executor, "stage": stage, "rdd": n, "name": f"rdd {n}",
             "since_ms": since, "until_ms": until, "bytes": size}
            for n, (executor, stage, since, until, size) in enumerate(rows)
        ],
    )  # fmt: skip
    waits = waits_frame(tables.tasks, {Request.STORAGE_MEMORY: np.array([WAIT, 0.0, 0.0])})
    return tables, attribute(tables, waits)


def lost(blame: Blame) -> dict[tuple[int, int], float]:
    """Lost ms by kind and source stage."""
    rows = blame.sources[blame.sources["lost_ms"] > 0]
    return {(row.kind, row.source_stage): row.lost_ms for row in rows.itertuples()}


def test_each_holder_has_the_share_of_its_bytes_and_time() -> None:
    _, blame = run([(0, 1, 0, 1500, 3e9), (0, 2, 1000, 2000, 1e9), (1, 2, 0, 9000, 9e9)])
    assert lost(blame) == pytest.approx({(QUERY, 1): 0.375 * WAIT, (QUERY, 2): 0.625 * WAIT})


def test_what_it_cached_itself_is_its_own_and_what_is_of_nobody_is_unattributed() -> None:
    _, blame = run([(0, 0, 0, 2000, 1e9), (0, -1, 0, 2000, 3e9)])
    assert lost(blame) == pytest.approx({(OWN, 0): 0.25 * WAIT, (UNATTRIBUTED, -1): 0.75 * WAIT})


@pytest.mark.parametrize("rows", [[], [(1, 1, 0, 2000, 1e9)], [(0, 1, 2000, 3000, 1e9)]])
def test_where_nothing_is_known_to_be_held_the_wait_is_unattributed(rows: list[Row]) -> None:
    _, blame = run(rows)
    assert lost(blame) == pytest.approx({(UNATTRIBUTED, -1): WAIT})
    told = any("logBlockUpdates" in doubt for doubt in blame.doubts)
    assert told == (not rows)


@given(tables_and_waits(), SEEDS)
def test_who_cached_nothing_gets_no_share_and_parts_sum(random: RandomInput, seed: int) -> None:
    tables = random.tables
    cached = tables.cached.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    blame = attribute(tables.with_(cached=cached), random.waits, {}, most_sources=None)
    storage = (blame.demands["request"] == REQUESTS.index(Request.STORAGE_MEMORY)).to_numpy()
    sources = blame.sources[storage[blame.sources["demand"]]]
    assert (sources["lost_ms"] >= 0).all()
    assert (sources["beta"] >= 0).all()
    named = set(sources["source_stage"][(sources["lost_ms"] > 0)]) - {-1}
    assert named <= set(cached["stage"])
    summed = sources.groupby("demand")["lost_ms"].sum()
    np.testing.assert_allclose(summed, blame.demands["lost_ms"][summed.index], rtol=1e-9)


@given(st.floats(1.0, 1e15))
def test_the_unit_of_bytes_does_not_matter(factor: float) -> None:
    rows: list[Row] = [(0, 1, 0, 1500, 3.0), (0, 2, 1000, 2000, 1.0)]
    _, blame = run([(*row[:4], row[4] * factor) for row in rows])
    assert lost(blame) == pytest.approx({(QUERY, 1): 0.375 * WAIT, (QUERY, 2): 0.625 * WAIT})


def test_a_blamed_query_is_said_to_hold_its_cached_data() -> None:
    tables, _ = run([(0, 1, 0, 1500, 3e9), (0, 1, 0, 1500, 1e9), (0, 2, 1000, 2000, 5e8)])
    record = {"task": 0, "start_ms": 1000.0, "wall_ms": 1000.0, "cpu_ms": 600.0,
              "run_queue_ms": 0.0, "off_cpu_ms": WAIT, "storage_memory_ms": WAIT}  # fmt: skip
    found = iqcar.diagnose(
        tables.with_(task_records=TASK_RECORDS.frame(whole(record))), rules=False
    )
    (target,) = find_verdict(found).targets
    held = {one.name: one.cached for one in target.blamed}
    assert held == {"q1": "4.0 GB of cached `rdd 0` and 1 more", "q2": "500.0 MB of cached `rdd 2`"}
    assert "memory held by q1 (holds 4.0 GB of cached `rdd 0` and 1 more)" in target.sentence


def whole(record: dict[str, float]) -> dict[str, list[object]]:
    """A record with all columns, as far as they are not given empty or 0."""
    rest = {one.name: "" if one.dtype == "str" else 0.0 for one in TASK_RECORDS.columns}
    return {name: [value] for name, value in {**rest, **record}.items()}
