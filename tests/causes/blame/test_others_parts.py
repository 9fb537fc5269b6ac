"""What replays say that others cost is divided without loss, and adds up to what was said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import KNOWN, OWN, QUERY, REST, UNATTRIBUTED
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.estimate import OthersCost
from iqcar.model.waits.columns import wait_column
from iqcar.tables import Tables
from iqcar_lab.clusters.quiet import LOUD, QUIET, Run, blame_of, run_of, said
from tests.support.examples import examples
from tests.support.random_tables import RandomInput, random_devices, tables_and_waits

SEEDS = st.integers(0, 2**32)
RELATIVE = 1e-7
DEVICES = (Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH, Request.RUN_QUEUE)
DIVIDED = (*DEVICES, Request.SLOT_WAIT, Request.EXECUTION_MEMORY)


def random_cost(tables: Tables, waits: pd.DataFrame, seed: int) -> OthersCost:
    """Any parts, nothing and all among them, some unknown; amounts from nothing to too much."""
    rng = np.random.default_rng([seed, 8])
    n, queries = len(tables.tasks), len(tables.queries)

    def in_device(request: Request) -> np.ndarray:
        waited = waits[wait_column(request)].to_numpy() > 0
        return np.where(waited, parts(), 0.0)

    def parts() -> np.ndarray:
        part = np.where(rng.random(n) < 0.4, rng.choice([0.0, 1.0], n), rng.random(n))
        return np.where(rng.random(n) < 0.1, np.nan, part)

    lost = np.where(rng.random(queries) < 0.2, np.nan, rng.exponential(1e4, queries))
    return OthersCost(
        lost_ms=lost, low_ms=0.5 * lost, high_ms=2.0 * lost,
        to_others={request: parts() for request in DIVIDED},
        to_tasks={request: in_device(request) for request in DEVICES},
    )  # fmt: skip


@examples(60)
@given(tables_and_waits(30), SEEDS)
def test_parts_of_every_demand_sum_to_what_was_lost_whatever_replays_say(
    random: RandomInput, seed: int
) -> None:
    """Lost time is all there, and dividing changes no sum of blame, nor of a stage's lost time."""
    cost = random_cost(random.tables, random.waits, seed)
    nothing = {request: np.full(len(random.tables.tasks), np.nan) for request in DIVIDED}
    undivided = replace(cost, to_others=nothing, lost_ms=np.full(len(cost.lost_ms), np.nan))
    devices = random_devices(len(random.tables.hosts), seed)
    divided, whole = (
        attribute(random.tables, random.waits, devices, cost=one) for one in (cost, undivided)
    )
    sums, nobodys, of_stages = [], [], []
    for blame in (divided, whole):
        demands, sources = blame.demands, blame.sources
        at, n = sources["demand"].to_numpy(), len(demands)
        assert (sources["beta"] >= 0).all()
        assert (sources["lost_ms"] >= 0).all()
        lost = np.bincount(at, sources["lost_ms"], n)
        np.testing.assert_allclose(lost, demands["lost_ms"], rtol=RELATIVE, atol=1e-9)
        sums.append(np.bincount(at, sources["beta"], n))
        of_nobody = sources["kind"] == UNATTRIBUTED
        nobodys.append(np.bincount(at[of_nobody], sources["lost_ms"][of_nobody], n))
        of_stages.append(np.bincount(demands["stage"], demands["lost_ms"]))
        np.testing.assert_allclose(
            of_stages[-1], blame.stages["lost_task_ms"][: len(of_stages[-1])], rtol=RELATIVE
        )
    np.testing.assert_allclose(*sums, rtol=RELATIVE, atol=1e-9)
    np.testing.assert_allclose(*of_stages, rtol=RELATIVE, atol=1e-9)
    # What others have less is the query's own, not nobody's; nobody held slots for others only.
    slots = (divided.demands["request"] == REQUESTS.index(Request.SLOT_WAIT)).to_numpy()
    with_others, without = (part[~slots] for part in nobodys)
    np.testing.assert_allclose(with_others, without, rtol=1e-6, atol=1e-6)
    with_others, without = (part[slots] for part in nobodys)
    assert (with_others >= without * (1 - 1e-6) - 1e-6).all()


@examples(60)
@given(tables_and_waits(30), SEEDS)
def test_who_used_nothing_is_blamed_for_nothing_whatever_replays_say(
    random: RandomInput, seed: int
) -> None:
    """A source that the load alone does not name is not named; but a query may be its own."""
    devices = random_devices(len(random.tables.hosts), seed)
    plain = attribute(random.tables, random.waits, devices)
    cost = random_cost(random.tables, random.waits, seed)
    replayed = attribute(random.tables, random.waits, devices, cost=cost)

    def named(blame: Blame) -> set[tuple[int, int, int, int]]:
        sources, demand = blame.sources, blame.sources["demand"].to_numpy()
        place = blame.demands[["stage", "request", "host"]].to_numpy()[demand]
        others = (sources["kind"] == QUERY).to_numpy() & (sources["lost_ms"] > 0).to_numpy()
        rows = zip(place[others].tolist(), sources["source_stage"][others].tolist(), strict=True)
        return {(*one, source) for one, source in rows}

    # What was no loss by the load may be one in a replay: only waits for slots can be compared.
    of_slots = REQUESTS.index(Request.SLOT_WAIT)
    assert {one for one in named(replayed) if one[1] == of_slots} <= named(plain)


def elapsed_by_kind(run: Run, blame: Blame, kinds: tuple[int, ...]) -> np.ndarray:
    """Share of each query's duration that parts of these kinds cost it."""
    lost = blame.stages["lost_task_ms"].to_numpy()
    elapsed = blame.stages["lost_ms"].to_numpy()
    weight = np.divide(elapsed, lost, out=np.zeros(len(lost)), where=lost > 0)
    demand = blame.sources["demand"].to_numpy()
    mine = np.isin(blame.sources["kind"].to_numpy(), kinds)
    stage, query = (blame.demands[name].to_numpy()[demand][mine] for name in ("stage", "query"))
    total = blame.sources["lost_ms"].to_numpy()[mine] * weight[stage]
    lasted = run.tables.queries["duration_ms"].to_numpy()
    return np.bincount(query, total, len(lasted)) / lasted


@pytest.mark.long
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("family", [name for name in LOUD if name not in ("sleeping", "python")])
def test_what_a_query_is_said_to_have_lost_is_what_replays_say(family: str, plain: bool) -> None:
    """Within 1 % of the run, where it lost that much in all; it can be said to lose no more."""
    run = run_of(family, 1, True, plain)
    blame = blame_of(run)
    assert blame.cost is not None
    cost = blame.cost.lost_ms / run.tables.queries["duration_ms"].to_numpy()
    told, found = np.isfinite(cost), said(blame, run.tables)
    assert told.sum() >= 0.7 * len(cost)
    left = elapsed_by_kind(run, blame, (OWN,)) + elapsed_by_kind(run, blame, (UNATTRIBUTED,))
    assert (found[told] <= cost[told] + 0.01).all()
    enough = told & (left > 0.1)
    assert (found[enough] >= cost[enough] - 0.01).all()
    assert np.median(np.abs(found - cost)[told]) < 0.002


@pytest.mark.parametrize("family", QUIET)
def test_on_a_quiet_cluster_nobody_lost_anything_to_others(family: str) -> None:
    run = run_of(family, 1)
    found = said(blame_of(run), run.tables)
    np.testing.assert_allclose(found, 0.0, atol=0.005)


@pytest.mark.parametrize("family", ["skew", "itself", "page cache", "garbage collection"])
def test_where_the_record_tells_all_the_amount_is_the_true_one(family: str) -> None:
    run = run_of(family, 1, True)
    found = said(blame_of(run), run.tables)
    np.testing.assert_allclose(found, run.cost, atol=0.05)


@pytest.mark.parametrize("family", ["sleeping", "python"])
def test_waits_for_processors_that_no_task_explains_make_the_range_wide(family: str) -> None:
    """Measured waits on hosts whose processors nobody counted: a replay does not show them."""
    run = run_of(family, 1, True)
    blame = blame_of(run)
    assert blame.cost is not None
    true = np.array(run.cost) * run.tables.queries["duration_ms"].to_numpy()
    assert (blame.cost.high_ms >= 0.7 * true).all()
    assert KNOWN not in blame.sources["kind"][blame.sources["lost_ms"] > 0].unique()
    assert REST not in blame.sources["kind"].unique()
