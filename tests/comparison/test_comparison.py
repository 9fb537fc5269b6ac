"""``iqcar.compare`` in Python: what a comparison answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.comparison.comparison import compare_sides, split_sides
from iqcar.comparison.explore import VARIATION
from iqcar.comparison.sides import dump_baseline, load_baseline
from iqcar.enums import RunBy
from iqcar.errors import IqcarError, UsageError
from tests.support.compared_runs import DAY_MS, FIRST_DAY_MS, SUITE, run_log, suite_with, write_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("comparison")
    write_runs(root / "before", SUITE)
    slower = suite_with(etl_load=SUITE["etl_load"].slower(1, 1.5))
    write_runs(root / "after", slower, first_day=20)
    return root


@pytest.fixture(scope="module")
def comparison(folder: Path) -> iqcar.Comparison:
    return iqcar.compare(folder / "before", str(folder / "after"))


def test_it_names_itself_by_the_largest_change(comparison: iqcar.Comparison) -> None:
    assert repr(comparison) == "<Comparison: 1 changed, most etl_load; 18.3 s → 20.6 s a run>"


def test_parts_of_a_query_are_its_stages_and_driver(comparison: iqcar.Comparison) -> None:
    parts = comparison.parts("etl_load")
    assert sorted(parts["name"]) == ["driver", "join", "scan"]
    assert parts["contribution_ms"].sum() == pytest.approx(
        comparison.effects["contribution_ms"].iloc[comparison.find("etl_load")]
    )
    with pytest.raises(UsageError, match="did you mean etl_load"):
        comparison.parts("etl_loads")


def test_a_gate_tells_whether_it_passed_and_why_not(comparison: iqcar.Comparison) -> None:
    assert comparison.gate("60%").passed
    assert comparison.gate(0.6, "etl_load=5s")
    failed = comparison.gate(0.1)
    assert not failed
    assert failed.failures == ("etl_load: 9.2 s → 11.5 s, slower than allowed (10 %)",)


def test_a_faster_query_passes_every_gate(folder: Path) -> None:
    faster = iqcar.compare(folder / "after", folder / "before")
    assert faster.changes["contribution_ms"].iloc[0] < 0
    assert faster.gate("0%").passed


def test_an_explanation_leaves_out_what_it_is_told_to(comparison: iqcar.Comparison) -> None:
    first = comparison.explain("1.1")
    again = comparison.explain("1.1", without=[first.split.parameter])
    assert again.split.parameter != first.split.parameter
    assert set(first.parameters["side"]) == {0, 1}
    assert "time_ms" not in first.parameters


def test_variation_browses_both_sides(comparison: iqcar.Comparison) -> None:
    variation = comparison.variation()
    assert list(variation.columns) == VARIATION.column_names()
    query = comparison.find("etl_load")
    times = comparison.category_runs.query(f"category == {query} and side == 0")["time_ms"]
    assert variation["runs_c2_before"].iloc[query] == pytest.approx(
        times.var(ddof=1) / times.mean() ** 2
    )


def test_a_baseline_keeps_everything_that_is_compared(folder: Path, tmp_path: Path) -> None:
    whole = iqcar.compare(folder / "before", folder / "after")
    file = tmp_path / "baseline.json"
    file.write_bytes(dump_baseline(whole.sides[0]))
    kept = load_baseline(file)
    assert kept.facts == whole.before
    for name in ("nodes", "node_runs", "graphs"):
        assert getattr(kept, name).equals(getattr(whole.sides[0], name))
    assert iqcar.compare(file, folder / "after").effects.equals(whole.effects)


def test_a_baseline_that_names_rows_it_has_not_is_refused(folder: Path, tmp_path: Path) -> None:
    side = iqcar.compare(folder / "before", folder / "after").sides[0]
    file = tmp_path / "baseline.json"
    data = dump_baseline(side).replace(b'"node":[0,', b'"node":[99,', 1)
    file.write_bytes(data)
    with pytest.raises(IqcarError, match="is a damaged baseline: column node names rows"):
        load_baseline(file)
    file.write_bytes(dump_baseline(side).replace(b'"iqcar_baseline":1', b'"iqcar_baseline":2', 1))
    with pytest.raises(IqcarError, match="is a baseline of version 2, not 1"):
        load_baseline(file)


def test_one_application_is_cut_in_time(tmp_path: Path) -> None:
    log = run_log("app-1", SUITE)
    tables = iqcar.read(log.write(tmp_path / "app-1"))
    doubled = tables.with_(queries=tables.queries.assign(fingerprint="same", family="same"))
    moment = float(tables.queries["start_ms"].iloc[1])
    sides = split_sides(doubled, moment, RunBy.QUERY)
    assert [side.facts.runs for side in sides] == [1, 2]
    compared = compare_sides(sides)
    assert not [doubt for doubt in compared.doubts if "applications" in doubt]
    with pytest.raises(IqcarError, match="nothing to compare after"):
        compare_sides(split_sides(tables, FIRST_DAY_MS + 9 * DAY_MS, RunBy.HOUR))


@pytest.mark.parametrize(("margin", "alpha"), [(0, 0.05), (-1, 0.05), (0.05, 0), (0.05, 0.5)])
def test_levels_out_of_range_are_refused(folder: Path, margin: float, alpha: float) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        iqcar.compare(folder / "before", folder / "after", margin=margin, alpha=alpha)


def test_a_wider_margin_hides_a_smaller_change(folder: Path) -> None:
    wide = iqcar.compare(folder / "before", folder / "after", margin=0.8)
    assert wide.changes.empty
