"""Blame of queries beside which nothing ran tells the same causes as the blame of all queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import iqcar
from iqcar.comparison import explain_sides
from iqcar.comparison.blame_change import blame_change
from iqcar.comparison.compared_rows import ComparedRows, compared_rows
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.lone_queries import lone_rows
from tests.support.compare_pairs import pair_of
from tests.support.compared_runs import SUITE, StageWork, suite_with, write_runs


def rows_of(comparison: Comparison) -> list[ComparedRows]:
    found = (
        compared_rows(side, of, comparison.unlike)
        for side, of in zip(comparison.sides, comparison.category_of, strict=True)
    )
    return [rows for rows in found if rows is not None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in which the join has more waves of slower tasks, so that they wait for slots longer."""
    root = tmp_path_factory.mktemp("lone")
    load = SUITE["etl_load"]
    waves = replace(load, stages=(load.stages[0], StageWork("join", 12, 2000.0, 0.5)))
    write_runs(root / "before", suite_with(etl_load=waves))
    write_runs(root / "after", suite_with(etl_load=waves.slower(1, 1.6)), first_day=20)
    return root


def test_causes_of_lone_queries_are_those_from_the_blame_of_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = iqcar.read(folder / "before"), iqcar.read(folder / "after")
    lone = iqcar.compare(*tables)
    assert lone.blame is None
    monkeypatch.setattr(explain_sides, "lone_rows", lambda *_: None)
    whole = iqcar.compare(*tables)
    assert whole.blame is not None
    assert len(lone.causes) > 1
    pd.testing.assert_frame_equal(lone.causes, whole.causes, rtol=1e-9)
    pd.testing.assert_frame_equal(lone.changes, whole.changes)
    query = lone.find("etl_load")
    pd.testing.assert_frame_equal(lone.blame_change(query), whole.blame_change(query))


def test_a_lone_query_loses_as_much_to_itself_as_among_all(folder: Path) -> None:
    comparison = iqcar.compare(folder / "before", folder / "after")
    query = comparison.find("etl_load")
    found = []
    for side in rows_of(comparison):
        alone = lone_rows(side, np.array([query]))
        assert alone is not None
        assert 0 < len(alone.tables.tasks) < len(side.tables.tasks)
        found.append(alone)
    own, among = blame_change(*found), comparison.blame_change(query)
    slots = [
        blame[(blame["category"] == query) & (blame["resource"] == "slots")]
        .set_index("kind")["change_ms"]
        .to_dict()
        for blame in (own, among)
    ]
    assert slots[0] == pytest.approx(slots[1])
    assert slots[0]["own"] > 0


def test_a_query_beside_others_is_not_lone() -> None:
    pair = pair_of("slower code", 21, 3)
    comparison = iqcar.compare(pair.before, pair.after)
    changed = comparison.changes["category"].to_numpy(np.int64)
    for side in rows_of(comparison):
        assert lone_rows(side, changed) is None
        every = np.unique(side.category)
        assert lone_rows(side, every) is None


def test_tasks_of_no_query_make_none_lone(folder: Path) -> None:
    comparison = iqcar.compare(folder / "before", folder / "after")
    side = rows_of(comparison)[0]
    query = side.tables.tasks["query"].to_numpy().copy()
    query[0] = -1
    tables = side.tables.with_(tasks=side.tables.tasks.assign(query=query))
    assert lone_rows(side._replace(tables=tables), np.array([0])) is None
