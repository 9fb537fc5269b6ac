"""Blame of some queries needs their tasks and what ran beside them, and tells the same causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import iqcar
from iqcar.comparison.causes import blame_change as module
from iqcar.comparison.causes.blame_change import blame_change, concurrent_rows
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.match.compared_rows import ComparedRows, compared_rows
from iqcar.tables import LOCK_OWNERS
from iqcar_lab.clusters.changes import pair_of
from tests.support.compared_runs import SUITE, StageWork, suite_with, write_runs

NOBODY = np.zeros(0, np.int64)


def rows_of(comparison: Comparison) -> tuple[ComparedRows, ComparedRows]:
    before, after = (
        compared_rows(side, of, comparison.unlike)
        for side, of in zip(comparison.sides, comparison.category_of, strict=True)
    )
    assert before is not None
    assert after is not None
    return before, after


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in which the join has more waves of slower tasks, so that they wait for slots longer."""
    root = tmp_path_factory.mktemp("apart")
    load = SUITE["etl_load"]
    waves = replace(load, stages=(load.stages[0], StageWork("join", 12, 2000.0, 0.5)))
    others = {f"report_{n}": SUITE["dashboard"] for n in range(4)}
    before = {**suite_with(etl_load=waves), **others}
    write_runs(root / "before", before)
    write_runs(root / "after", {**before, "etl_load": waves.slower(1, 1.6)}, first_day=20)
    return root


@pytest.fixture(scope="module")
def concurrent() -> Comparison:
    """A query of slower code whose tasks run beside those of others."""
    pair = pair_of("slower code", 21, 3)
    return iqcar.compare(pair.before, pair.after)


def test_causes_of_some_queries_are_those_from_the_blame_of_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = iqcar.read(folder / "before"), iqcar.read(folder / "after")
    whole = iqcar.compare(*tables)
    assert whole.blame is not None
    monkeypatch.setattr(module, "concurrent_rows", partial(concurrent_rows, enough=1))
    some = iqcar.compare(*tables)
    assert some.blame is None
    assert len(some.causes) > 1
    pd.testing.assert_frame_equal(some.causes, whole.causes, rtol=1e-9)
    pd.testing.assert_frame_equal(some.changes, whole.changes)
    query = some.find("etl_load")
    pd.testing.assert_frame_equal(some.blame_change(query), whole.blame_change(query))


def selections(comparison: Comparison) -> Iterator[tuple[ComparedRows, ComparedRows, int]]:
    """Rows selected for each query that is on both sides, where these are not most."""
    for query in comparison.common.tolist():
        found = concurrent_rows(rows_of(comparison), np.array([query]), NOBODY, enough=1)
        if found is not None:
            yield found[0], found[1], query


@pytest.mark.slow
def test_a_query_loses_as_much_slot_time_to_each_as_among_all(
    concurrent: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORTH", 0.99)
    sides = rows_of(concurrent)
    whole = blame_change(*sides)
    keys, others = ["category", "resource", "kind", "source"], 0
    for before, after, query in selections(concurrent):
        assert 0 < len(before.tables.tasks) < len(sides[0].tables.tasks)
        some = blame_change(*sides, of=(before, after))
        expected, found = (
            blame[(blame["category"] == query) & (blame["resource"] == "slots")]
            .set_index(keys)
            .sort_index()
            for blame in (whole, some)
        )
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9, atol=1e-6)
        others += int((expected.reset_index()["kind"] == "query").sum())
    assert others > 0


def test_who_moved_beside_a_query_is_selected_too(
    concurrent: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORTH", 1.0)
    sides = rows_of(concurrent)
    before, _, query = next(selections(concurrent))
    beside = np.unique(before.category[before.tables.tasks["query"]])
    beside = beside[(beside >= 0) & (beside != query)]
    found = concurrent_rows(sides, np.array([query]), beside[:1], enough=1)
    assert found is not None
    assert set(found[2]) == {query, beside[0]}


def test_too_few_tasks_for_the_devices_are_more_time(folder: Path) -> None:
    comparison = iqcar.compare(folder / "before", folder / "after")
    sides, query = rows_of(comparison), np.array([comparison.find("etl_load")])
    least = concurrent_rows(sides, query, NOBODY, enough=1)
    assert least is not None
    count = len(least[0].tables.tasks)
    more = concurrent_rows(sides, query, NOBODY, enough=count + 1)
    assert more is None or len(more[0].tables.tasks) > count
    assert concurrent_rows(sides, query, NOBODY, enough=10**6) is None


def test_selected_tasks_keep_who_held_their_locks(folder: Path) -> None:
    comparison = iqcar.compare(folder / "before", folder / "after")
    before, after = rows_of(comparison)
    query = np.array([comparison.find("etl_load")])
    every = np.arange(len(before.tables.tasks))
    tables = before.tables.with_(
        tasks=before.tables.tasks.assign(task_id=every),
        lock_owners=LOCK_OWNERS.frame(
            {"task": every, "owner": np.roll(every, 1), "wait_ms": every + 1.0}
        ),
    )
    found = concurrent_rows((before._replace(tables=tables), after), query, NOBODY, enough=1)
    assert found is not None
    ids, owners = found[0].tables.tasks["task_id"].tolist(), found[0].tables.lock_owners
    assert 0 < len(ids) < len(every)
    assert [ids[task] for task in owners["task"]] == ids
    assert owners["wait_ms"].tolist() == [task + 1.0 for task in ids]
    expected = [(one - 1) % len(every) for one in ids]
    named = [ids[owner] if owner >= 0 else -1 for owner in owners["owner"]]
    assert named == [one if one in ids else -1 for one in expected]
    assert {-1} < set(named)


def test_tasks_of_no_query_count_as_what_ran_beside(folder: Path) -> None:
    comparison = iqcar.compare(folder / "before", folder / "after")
    before, after = rows_of(comparison)
    query = np.array([comparison.find("etl_load")])
    found = concurrent_rows((before, after), query, NOBODY, enough=1)
    assert found is not None
    lost = before.tables.tasks["query"].to_numpy().copy()
    inside = np.flatnonzero(np.isin(before.category[lost], query))
    lost[inside[0]] = -1
    tables = before.tables.with_(tasks=before.tables.tasks.assign(query=lost))
    again = concurrent_rows((before._replace(tables=tables), after), query, NOBODY, enough=1)
    assert again is not None
    assert len(again[0].tables.tasks) == len(found[0].tables.tasks)
