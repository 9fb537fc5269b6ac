"""Parts of a change sum to it, and neither order nor side decides what is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_tables import COMPARISON_TABLES
from iqcar.errors import IqcarError
from iqcar.logs.merge import leave_out, merge
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.tables import Tables
from tests.support.compared_runs import SUITE, run_log, suite_with
from tests.support.examples import examples
from tests.support.random_runs import random_runs

seeds = st.integers(0, 2**16)


def compared(before: int, after: int) -> Comparison | None:
    try:
        return iqcar.compare(random_runs(before), random_runs(after))
    except IqcarError:
        return None  # no query is on both sides


@pytest.mark.slow
@given(seeds, seeds)
@examples(12)
def test_changes_of_stages_and_driver_sum_to_that_of_their_query(before: int, after: int) -> None:
    comparison = compared(before, after)
    if comparison is None:
        return
    for query in comparison.common.tolist():
        parts = comparison.parts(query)
        whole = comparison.effects.iloc[query]
        for name in ("contribution_ms", "before_ms", "after_ms"):
            assert parts[name].sum() == pytest.approx(whole[name], abs=1e-6)


@pytest.mark.slow
@given(seeds, seeds)
@examples(12)
def test_parts_of_a_change_sum_to_it(before: int, after: int) -> None:
    comparison = compared(before, after)
    if comparison is None:
        return
    effects = comparison.effects
    changes = [f"{name.removesuffix('_ms')}_change_ms" for name in PART_NAMES]
    np.testing.assert_allclose(effects[changes].sum(axis=1), effects["contribution_ms"], atol=1e-6)
    runs = comparison.category_runs
    assert (runs[list(PART_NAMES)].to_numpy() >= -1e-6).all()
    np.testing.assert_allclose(runs[list(PART_NAMES)].sum(axis=1), runs["time_ms"], atol=1e-6)
    known = effects["data_ms"].notna()
    np.testing.assert_allclose(
        (effects["data_ms"] + effects["rate_ms"])[known],
        effects["contribution_ms"][known],
        atol=1e-6,
    )


@pytest.mark.slow
@given(seeds, seeds)
@examples(12)
def test_swapping_the_sides_changes_signs_only(before: int, after: int) -> None:
    forth, back = compared(before, after), compared(after, before)
    if forth is None or back is None:
        assert forth is back
        return
    one = sorted_effects(forth, "before_ms", "after_ms", "low_ms", "high_ms", sign=1)
    other = sorted_effects(back, "after_ms", "before_ms", "high_ms", "low_ms", sign=-1)
    pd.testing.assert_frame_equal(one, other, rtol=1e-9, atol=1e-5)


def sorted_effects(
    comparison: Comparison, first: str, second: str, low: str, high: str, *, sign: int
) -> pd.DataFrame:
    """Effects in the order of what they are, as if the sides were in the order named."""
    effects = comparison.effects
    parts = [f"{name.removesuffix('_ms')}_change_ms" for name in PART_NAMES]
    signed = [low, high, "contribution_ms", "data_ms", "rate_ms", *parts]
    columns = {
        "kind": comparison.categories["kind"],
        "query": comparison.categories["fingerprint"],
        "verdict": effects["verdict"],
        "evidence": effects["evidence"],
        "first": effects[first],
        "second": effects[second],
        **{str(place): sign * effects[name] + 0.0 for place, name in enumerate(signed)},
    }
    frame = pd.DataFrame(columns)
    return frame.round(6).sort_values(list(frame.columns)).reset_index(drop=True)


@pytest.mark.slow
@given(seeds, seeds, seeds)
@examples(12)
def test_the_order_of_tasks_and_applications_does_not_matter(
    before: int, after: int, shuffle: int
) -> None:
    comparison = compared(before, after)
    if comparison is None:
        return
    again = iqcar.compare(random_runs(before), random_runs(after, shuffle=shuffle))
    for name in ("effects", "changes", "category_runs"):
        pd.testing.assert_frame_equal(getattr(comparison, name), getattr(again, name))


@given(seeds)
@examples(12)
def test_a_set_against_itself_finds_nothing(seed: int) -> None:
    comparison = compared(seed, seed)
    if comparison is None:
        return
    assert comparison.changes.empty
    assert comparison.effects["contribution_ms"].abs().max() == 0
    assert comparison.total_ms[0] == comparison.total_ms[1]


@pytest.mark.slow
def test_a_recorded_log_against_itself_finds_nothing(shared_logs: Path) -> None:
    for log in sorted(shared_logs.glob("[!R]*")):
        tables = iqcar.read(log)
        try:
            comparison = iqcar.compare(tables, tables)
        except IqcarError as error:
            assert "no query ended well" in str(error)
            continue
        assert comparison.changes.empty, log
        assert comparison.new_graphs == {}, log


def test_frames_are_as_declared() -> None:
    comparison = next(found for seed in range(20) if (found := compared(seed, seed + 1)))
    frames = (
        comparison.categories, comparison.category_runs, comparison.effects, comparison.changes,
        comparison.causes,
    )  # fmt: skip
    for spec, frame in zip(COMPARISON_TABLES, frames, strict=True):
        assert list(frame.columns) == spec.column_names()


def told(comparison: Comparison) -> list[pd.DataFrame]:
    """What a comparison tells, by what its rows are called and in a fixed order."""
    category = np.arange(len(comparison.categories))
    frame = comparison.categories.drop(columns=["query_category", "parent"])
    names = pd.Series([comparison.name(row) for row in category.tolist()])
    key = names + " of " + names[comparison.categories["query_category"]].to_numpy()
    order = np.argsort(key + frame["kind"], kind="stable")
    effects = comparison.effects.assign(category=key)
    runs = comparison.category_runs.assign(
        category=key[comparison.category_runs["category"]].to_numpy()
    )
    changes = comparison.changes.assign(category=key[comparison.changes["category"]].to_numpy())
    return [
        frame.iloc[order].reset_index(drop=True),
        effects.iloc[order].reset_index(drop=True),
        runs.sort_values(["category", "side", "run"], kind="stable").reset_index(drop=True),
        changes,
        comparison.causes,
    ]


def assert_same_told(one: Comparison, other: Comparison) -> None:
    for mine, theirs in zip(told(one), told(other), strict=True):
        pd.testing.assert_frame_equal(mine, theirs, rtol=1e-9, atol=1e-6)
    assert one.doubts == other.doubts


@pytest.mark.slow
@given(seeds, seeds, st.randoms(use_true_random=False))
@examples(12)
def test_the_order_of_runs_does_not_matter(before: int, after: int, shuffle: Random) -> None:
    comparison = compared(before, after)
    if comparison is None:
        return
    sides = (in_other_order(random_runs(seed), shuffle) for seed in (before, after))
    assert_same_told(comparison, iqcar.compare(*sides))


def in_other_order(tables: Tables, shuffle: Random) -> Tables:
    """The same runs as if their logs had been given in another order."""
    apps = list(range(len(tables.applications)))
    parts = [leave_out(tables, {other: "" for other in apps if other != app}) for app in apps]
    shuffle.shuffle(parts)
    bare = [part.with_(queries=Tables.empty().queries) for part in parts]
    return add_critical_path(identify(merge(bare)))


@pytest.mark.slow
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 3, 0, 2)])
def test_the_order_of_logs_does_not_matter(
    dated: tuple[list[Path], list[Path]], order: tuple[int, ...]
) -> None:
    one = iqcar.compare(*dated)
    assert len(one.causes) > 0
    assert_same_told(one, iqcar.compare(*([logs[at] for at in order] for logs in dated)))


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    """Logs of four runs a side, of queries that are called after their days."""
    root = tmp_path_factory.mktemp("dated")
    slower = SUITE["etl_load"].slower(1, 1.5)
    sides: tuple[list[Path], list[Path]] = ([], [])
    for day in range(8):
        load = replace(SUITE["etl_load"] if day < 4 else slower, description=f"load 202610{day:02}")
        log = run_log(f"app-{day}", suite_with(etl_load=load), day, noise=0.02, seed=day)
        sides[day // 4].append(log.write(root / f"app-{day}"))
    return sides


@pytest.mark.slow
@given(seeds, seeds)
@examples(12)
def test_causes_claim_no_more_than_the_change(before: int, after: int) -> None:
    comparison = compared(before, after)
    if comparison is None:
        return
    claimed = comparison.causes.dropna(subset="share_of_change")
    assert (claimed["share_of_change"] >= 0).all()
    assert (claimed.groupby("change")["share_of_change"].sum() <= 1 + 1e-9).all()
    queries = comparison.changes[comparison.changes["parent"] < 0]
    sizes = queries["contribution_ms"].abs().to_numpy()
    assert (np.diff(sizes) <= 1e-9).all()
    for one in claimed[claimed["sentence"].str.startswith("CPU time of its tasks")].itertuples():
        change = comparison.changes.iloc[one.change]
        effect = comparison.effects.iloc[change["category"]]
        if change["parent"] >= 0 and effect["instances"] == 1:
            claims = one.share_of_change * abs(change["contribution_ms"])
            assert claims <= abs(effect["compute_change_ms"]) + 1e-6
