"""What one side did not record is unknown: it is rest on both sides, and nobody's cause."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.sides.side import dump_baseline
from iqcar.errors import IqcarError
from iqcar.model.waits.stage_parts import PART_NAMES, TASK_PARTS
from iqcar_lab.clusters.changes import pair_of
from tests.support.examples import examples
from tests.support.random_runs import random_runs
from tests.support.recorded_waits import with_records

ALIKE = ("compute_ms", "slots_ms", "executors_ms", "tail_ms", "rest_ms")
"""Parts that plain logs and the plugin's records tell in the same way."""


def assert_parts_sum(comparison: Comparison) -> None:
    runs, effects = comparison.category_runs, comparison.effects
    assert (runs[list(PART_NAMES)].to_numpy() >= -1e-6).all()
    np.testing.assert_allclose(runs[list(PART_NAMES)].sum(axis=1), runs["time_ms"], atol=1e-6)
    changes = [f"{name.removesuffix('_ms')}_change_ms" for name in PART_NAMES]
    np.testing.assert_allclose(effects[changes].sum(axis=1), effects["contribution_ms"], atol=1e-6)
    for query in comparison.common.tolist():
        parts = comparison.parts(query)
        for name in changes:
            assert parts[name].sum() == pytest.approx(effects[name].iloc[query], abs=1e-6)


@given(st.integers(0, 2**16), st.booleans())
@examples(12)
def test_runs_against_the_same_without_records_find_nothing(seed: int, swapped: bool) -> None:
    plain = random_runs(seed)
    sides = (with_records(plain), plain) if swapped else (plain, with_records(plain))
    try:
        comparison = iqcar.compare(*sides)
    except IqcarError:
        return  # no query ended well
    assert comparison.changes.empty
    assert_parts_sum(comparison)
    unlike = [name for name in TASK_PARTS if name not in ALIKE]
    # What is left of the other parts is from stages whose tasks took no time.
    assert comparison.category_runs[unlike].to_numpy().max() == pytest.approx(0, abs=1e-6)


def recorded_pair(kind: str, side: int) -> tuple[Comparison, Comparison]:
    """A pair of plain logs compared, and the same where one side has records."""
    pair = pair_of(kind, 21, 3)
    sides = [pair.before, pair.after]
    recorded = [with_records(one) if at == side else one for at, one in enumerate(sides)]
    return iqcar.compare(*sides), iqcar.compare(*recorded)


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_causes_do_not_come_from_what_one_side_alone_recorded(side: int) -> None:
    plain, mixed = recorded_pair("slower code", side)
    assert mixed.changes["category"].tolist() == plain.changes["category"].tolist()
    assert mixed.causes["cause"].tolist() == plain.causes["cause"].tolist()
    assert_parts_sum(mixed)
    (doubt,) = [doubt for doubt in mixed.doubts if "measured by the plugin" in doubt]
    assert doubt.startswith(f"Only the tasks {('before', 'after')[side]} were measured")
    assert "monitor blocked" in doubt
    assert "compute" not in doubt
    assert not [doubt for doubt in plain.doubts if "unknown, not zero" in doubt]


@pytest.mark.slow
def test_nobody_is_blamed_for_what_one_side_alone_recorded() -> None:
    _, mixed = recorded_pair("slow disk", 1)
    for query in mixed.common.tolist():
        assert set(mixed.blame_change(query)["resource"]) <= {"slots", "executors"}
    assert not {"environment:hosts"} & set(mixed.causes["cause"])


@pytest.mark.slow
def test_a_wait_that_one_side_does_not_know_is_no_shorter_there() -> None:
    pair = pair_of("quiet", 21, 3)
    tasks = pair.after.tasks.assign(scan_ms=np.nan, storage_read_ms=np.nan)
    whole = iqcar.compare(pair.before, pair.after)
    comparison = iqcar.compare(pair.before, pair.after.with_(tasks=tasks))
    reads = whole.category_runs["io_read_ms"].groupby(whole.category_runs["category"]).max() > 0
    assert reads.any()
    assert (comparison.effects["io_read_change_ms"] == 0).all()
    assert_parts_sum(comparison)
    (doubt,) = [doubt for doubt in comparison.doubts if "unknown, not zero" in doubt]
    assert doubt.startswith("The logs of both sides do not record the same waits")
    assert "io read" in doubt


def test_a_baseline_keeps_what_was_recorded(tmp_path: Path) -> None:
    pair = pair_of("slower code", 21, 3)
    whole = iqcar.compare(with_records(pair.before), pair.after)
    file = tmp_path / "baseline.json"
    file.write_bytes(dump_baseline(whole.sides[0]))
    kept = iqcar.compare(file, pair.after)
    assert kept.effects.equals(whole.effects)
    assert (kept.unlike == whole.unlike).all()
    assert kept.unlike.any()
