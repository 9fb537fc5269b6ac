"""Whom a query's lost time is put down to, as rows on a terminal."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from iqcar.report.terminal.analyze import _told_apart, blame_table

LOST = st.floats(0.001, 1e9)


@given(st.dictionaries(st.sampled_from(["slots", "cpu", "io"]), LOST, min_size=1), LOST)
def test_known_causes_in_rows_of_their_own_sum_to_what_was_one_row(
    by_resource: dict[str, float], other: float
) -> None:
    lost = sum(by_resource.values())
    row = {
        "kind": "known",
        "source_name": "known causes",
        "source_query_id": None,
        "lost_ms": lost,
        "share": lost / (lost + other),
        "share_of_duration": 0.5,
        "by_resource": by_resource,
        "by_host": {"h1": lost},
    }
    parts = _told_apart(row)
    assert [part["by_resource"] for part in parts] == [{r: ms} for r, ms in by_resource.items()]
    for column in ("lost_ms", "share", "share_of_duration"):
        assert sum(part[column] for part in parts) == pytest.approx(row[column])


def test_waiting_for_executors_and_garbage_collection_are_two_rows() -> None:
    row = {
        "kind": "known",
        "source_name": "known causes",
        "source_query_id": None,
        "lost_ms": 3000.0,
        "share": 1.0,
        "share_of_duration": 0.5,
        "by_resource": {"slots": 2000.0, "cpu": 1000.0},
        "by_host": {"h1": 3000.0},
    }
    console = Console(width=120)
    with console.capture() as captured:
        console.print(blame_table(pd.DataFrame([row])))
    lines = captured.get().splitlines()
    assert any("no executors yet" in line and "2.0 s" in line for line in lines)
    assert any("garbage collection" in line and "1.0 s" in line for line in lines)
