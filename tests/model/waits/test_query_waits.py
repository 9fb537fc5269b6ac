"""Waits of queries: sums over tasks with the weakest evidence, unknown never turned into zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from iqcar.enums import Resource
from iqcar.model.waits.measure import QUERY_WAITS, measure_waits, sum_query_waits
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

TASK = {"query": 0, "launch_ms": 2000.0, "finish_ms": 3000.0, "run_ms": 1000.0, "input_bytes": 0.0}


def rows_of(tasks: list[dict[str, object]], queries: int = 2) -> pd.DataFrame:
    tables = tiny_tables(tasks=tasks, stages=[{}], queries=[{}] * queries)
    return sum_query_waits(tables, measure_waits(tables)).set_index(["query", "resource"])


def test_waits_are_summed_by_query_and_resource() -> None:
    rows = rows_of(
        [
            {**TASK, "cpu_ms": 400.0, "fetch_wait_ms": 100.0, "shuffle_write_ms": 0.0},
            {**TASK, "cpu_ms": 900.0, "fetch_wait_ms": 50.0, "shuffle_write_ms": 10.0},
            {**TASK, "query": 1, "cpu_ms": 1000.0, "fetch_wait_ms": 0.0, "shuffle_write_ms": 0.0},
        ]
    )
    assert rows["wait_ms"].loc[0].tolist()[:3] == [2000.0, 0.0, 540.0]
    assert rows["wait_ms"].loc[0, "network"] == 150
    assert rows["wait_ms"].loc[0, "io"] == 10
    assert rows["wait_ms"].loc[1, "cpu"] == 0
    assert rows["evidence"].loc[0, "cpu"] == "estimated"
    assert rows["evidence"].loc[0, "network"] == "reported"
    assert rows["missing_share"].loc[0, "cpu"] == 0


def test_what_nobody_recorded_is_missing_not_zero() -> None:
    rows = rows_of([{**TASK, "cpu_ms": np.nan}], queries=1)
    for resource in ("cpu", "memory", "network"):
        assert np.isnan(rows["wait_ms"].loc[0, resource])
        assert rows["evidence"].loc[0, resource] == "missing"
        assert rows["missing_share"].loc[0, resource] == 1


def test_a_wait_known_for_some_tasks_says_for_how_much_it_is_not() -> None:
    rows = rows_of([{**TASK, "cpu_ms": 700.0}, {**TASK, "finish_ms": 5000.0}], queries=1)
    assert rows["wait_ms"].loc[0, "cpu"] == 300
    assert rows["evidence"].loc[0, "cpu"] == "estimated"
    assert rows["missing_share"].loc[0, "cpu"] == pytest.approx(0.75)


def test_every_query_has_every_resource_even_without_tasks() -> None:
    rows = rows_of([TASK], queries=3)
    assert len(rows) == 3 * len(Resource)
    assert rows["wait_ms"].loc[2].isna().all()


def test_no_queries() -> None:
    tables = Tables.empty()
    rows = sum_query_waits(tables, measure_waits(tables))
    assert list(rows.columns) == QUERY_WAITS.column_names()
    assert len(rows) == 0
