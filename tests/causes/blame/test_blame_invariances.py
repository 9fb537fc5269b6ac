"""What must not change blame where devices are estimated from the tasks themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import REQUESTS, Request
from iqcar.tables import Tables
from iqcar_lab.clusters.quiet import LOUD, NOISY, QUIET, Run, run_of, said
from tests.causes.blame.test_blame import SEEDS, assert_same, by_name
from tests.support.examples import examples
from tests.support.random_tables import RandomInput, random_devices, tables_and_waits

pytestmark = pytest.mark.slow

RUNS = st.one_of(
    st.tuples(st.sampled_from(sorted(QUIET)), st.just(False), st.booleans()),
    st.tuples(st.sampled_from(sorted(LOUD)), st.just(True), st.booleans()),
).map(lambda drawn: run_of(drawn[0], 101, drawn[1], drawn[2]))


@examples(12)
@given(RUNS, SEEDS)
def test_the_order_of_tasks_changes_no_estimate_of_a_device(run: Run, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(run.waits))
    tables = run.tables.with_(tasks=run.tables.tasks.iloc[order].reset_index(drop=True))
    other = attribute(tables, run.waits.iloc[order].reset_index(drop=True))
    assert_same(by_name(attribute(run.tables, run.waits)), by_name(other))


def beside_an_idle_query(
    tables: Tables, waits: pd.DataFrame, count: int, seed: int
) -> tuple[Tables, pd.DataFrame]:
    """The same with a query of another application whose tasks only sleep, on the same hosts."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(waits), count)
    idle, none = tables.tasks.iloc[rows].copy(), waits.iloc[rows].copy()
    idle[idle.columns[idle.columns.str.endswith(("_bytes", "_records"))]] = 0.0
    idle["app"], idle["query"] = len(tables.applications), len(tables.queries)
    idle["stage"], idle["executor"] = len(tables.stages), len(tables.executors)
    for request in REQUESTS:
        none[f"{request}_ms"] = np.nan if request is Request.SLOT_WAIT else 0.0
    none["gc_ms"] = none["compute_ms"] = 0.0

    def longer(frame: pd.DataFrame, **values: int) -> pd.DataFrame:
        return pd.concat([frame, frame.iloc[[0]].assign(**values)], ignore_index=True)

    app, host = len(tables.applications), int(tables.tasks["host"].iloc[rows[0]])
    both = tables.with_(
        applications=longer(tables.applications, application_id="idle"),
        executors=longer(tables.executors, app=app, host=max(host, 0)),
        queries=longer(tables.queries, app=app, query_id="idle", name="idle"),
        stages=longer(tables.stages, app=app, query=len(tables.queries)),
        tasks=pd.concat([tables.tasks, idle], ignore_index=True),
    )
    return both, pd.concat([waits, none], ignore_index=True)


@examples(12)
@given(RUNS, SEEDS)
def test_a_query_that_uses_nothing_changes_nobodys_blame(run: Run, seed: int) -> None:
    both = beside_an_idle_query(run.tables, run.waits, 30, seed)
    assert_same(by_name(attribute(run.tables, run.waits)), by_name(attribute(*both)))


@examples(60)
@given(tables_and_waits(20), SEEDS)
def test_tasks_that_use_nothing_change_nobodys_blame(random: RandomInput, seed: int) -> None:
    assume(len(random.waits) > 0)
    devices = random_devices(len(random.tables.hosts), seed)
    both = beside_an_idle_query(random.tables, random.waits, 5, seed)
    assert_same(
        by_name(attribute(random.tables, random.waits, devices)),
        by_name(attribute(*both, devices)),
    )


STEADY = ("formats", "fetches", "garbage collection", "a day")


@examples(20)
@given(st.sampled_from(STEADY), st.integers(0, 11), st.floats(0.3, 1.0), st.booleans())
def test_how_fast_a_quiet_query_is_hardly_changes_what_another_lost(
    family: str, query: int, factor: float, plain: bool
) -> None:
    """Nobody lost anything, and a faster format of one query is no reason to say so."""
    run = run_of(family, 102, plain=plain)
    mine = run.tables.tasks["query"].to_numpy() == query % len(run.cost)
    waits = run.waits.copy()
    for request in NOISY:
        waits.loc[mine, f"{request}_ms"] *= factor
    before = said(attribute(run.tables, run.waits), run.tables)
    after = said(attribute(run.tables, waits), run.tables)
    # A percent of a query's duration is what a quiet cluster may say at all.
    assert np.abs(after - before).max() < TOLERANCE


TOLERANCE = 0.01


@examples(12)
@given(RUNS)
def test_nobody_lost_more_than_it_waited_and_shares_sum_to_one(run: Run) -> None:
    blame = attribute(run.tables, run.waits)
    demands, sources = blame.demands, blame.sources
    gc = run.waits["gc_ms"].sum()
    assert (demands["lost_ms"] <= demands["wait_ms"] + gc + 1e-6).all()
    lost = np.bincount(sources["demand"], sources["lost_ms"], len(demands))
    some = demands["lost_ms"].to_numpy() > 1e-6
    np.testing.assert_allclose(lost[some] / demands["lost_ms"].to_numpy()[some], 1.0, rtol=1e-9)
    assert (sources["lost_ms"] >= 0).all()
