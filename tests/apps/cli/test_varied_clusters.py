"""Valid logs of varied clusters through every command, always the same; `scripts/fuzz` has more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.diagnosis import Settings
from iqcar.live.watch import Watch
from iqcar_lab.clusters.varied_logs import varied_set
from tests.support.examples import examples
from tests.support.fuzz_commands import ELSEWHERE, WAYS, commands
from tests.support.fuzz_script import fuzz

CASES = 1


def test_no_command_is_forgotten() -> None:
    assert commands() == WAYS.keys() | ELSEWHERE.keys()
    assert not WAYS.keys() & ELSEWHERE.keys()


@pytest.mark.long
def test_valid_logs_of_varied_clusters_break_no_promise(tmp_path: Path) -> None:
    fuzz(tmp_path, CASES, 5, "--commands")


def test_a_set_is_the_same_whenever_it_is_made_and_sets_differ() -> None:
    sets = [varied_set(seed) for seed in range(30)]
    assert sets == [varied_set(seed) for seed in range(30)]
    assert len({tuple(one.hosts) for one in sets}) > 20
    assert {bool(one.running) for one in sets} == {True, False}
    assert {len(one.hosts) > 5 for one in sets} == {True, False}
    assert {bool(one.queries) for one in sets} == {True, False}
    names = [name for one in sets for name in one.before]
    assert {Path(name).suffix for name in names} >= {"", ".gz", ".zstd", ".inprogress"}
    assert any(name.startswith("eventlog_v2_") for name in names)


@pytest.mark.long
@examples(8)
@given(seed=st.integers(0, 10_000))
def test_accounts_hold_on_varied_clusters(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Parts of lost time sum to it, whatever hosts and ids are called; renaming changes nothing."""
    before, after = varied_set(seed).write(tmp_path_factory.mktemp("set"))
    diagnosis = iqcar.diagnose(iqcar.read([before, after], processes=1))
    queries = diagnosis.queries
    lost = diagnosis.graph.who_hurts_whom()
    summed = lost.groupby("target_query")["lost_ms"].sum()
    for row, ms in enumerate(queries["lost_ms"]):
        assert summed.get(row, 0.0) == pytest.approx(ms, abs=1e-6, rel=1e-6)
    assert (queries["lost_to_others_ms"] <= queries["lost_ms"] + 1e-6).all()
    renamed = diagnosis.tables.with_(
        hosts=diagnosis.tables.hosts.assign(
            host=[f"other-{n}" for n in range(len(diagnosis.tables.hosts))]
        )
    )
    again = iqcar.diagnose(renamed).queries
    np.testing.assert_allclose(again["lost_ms"], queries["lost_ms"], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@examples(10)
@given(seed=st.integers(0, 10_000))
def test_a_varied_log_that_came_line_by_line_says_the_same(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before, _ = varied_set(seed).write(tmp_path_factory.mktemp("set"))
    (path, *_) = sorted(one for one in before.iterdir() if one.is_file()) or [None]
    if path is None or path.suffix in (".zstd", ".gz"):
        return
    whole = iqcar.read(path, processes=1)
    watch = Watch(str(path), Settings(), float("inf"))
    watch.read()
    window = watch.window()
    if window is None:
        assert len(whole.tasks) == 0
        return
    assert len(window.tables.tasks[window.tables.tasks["status"] != "running"]) == len(
        whole.tasks[whole.tasks["status"] != "running"]
    )
    pd.testing.assert_series_equal(
        window.tables.queries["name"], whole.queries["name"], check_names=False
    )
