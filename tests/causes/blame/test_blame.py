"""Blame: the sweep against the formulas, and what must hold whatever the input."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iqcar.causes.blame.attribute import Blame, attribute
from iqcar.causes.blame.demand_weights import (
    DEMANDS,
    KNOWN,
    OWN,
    QUERY,
    SOURCES,
    STAGE_LOSSES,
    UNATTRIBUTED,
    elapsed_shares,
    stage_losses,
)
from iqcar.causes.blame.ratp import ROUNDING
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.columns import WAITS
from iqcar.tables import Tables
from tests.support.examples import examples
from tests.support.naive_blame import naive_blame
from tests.support.random_tables import (
    RandomInput,
    random_devices,
    random_input,
    tables_and_waits,
    with_lock_owners,
)

SEEDS = st.integers(0, 2**32)
RELATIVE = 1e-7


def close(value: float, expected: float, scale: float) -> bool:
    return bool(abs(value - expected) <= max(RELATIVE * abs(scale), ROUNDING))


Row = dict[str, Any]


def by_demand(blame: Blame) -> dict[tuple[int, Request, int], tuple[Row, list[Row]]]:
    """Each demand with its sources, by (stage, request, host)."""
    demands, sources = (frame.to_dict("records") for frame in (blame.demands, blame.sources))
    found: list[tuple[Row, list[Row]]] = [(row, []) for row in demands]
    for source in sources:
        found[source["demand"]][1].append(source)
    return {(d["stage"], REQUESTS[d["request"]], d["host"]): (d, some) for d, some in found}


@pytest.mark.slow
@examples(150)
@given(tables_and_waits(), SEEDS)
def test_the_sweep_gives_the_blame_of_the_formulas_pair_by_pair(
    random: RandomInput, seed: int
) -> None:
    tables, waits, _ = with_lock_owners(random, seed)
    devices = random_devices(len(tables.hosts), seed)
    blame = attribute(tables, waits, devices)
    expected = naive_blame(tables, waits, devices)
    found = by_demand(blame)
    assert set(found) == set(expected)
    for key, (told, sources) in found.items():
        want = expected[key]
        assert close(told["wait_ms"], want.wait, want.wait)
        assert close(told["ratp"], want.ratp, want.ratp)
        assert close(told["lost_ms"], want.lost, want.wait)
        beta, lost = ({one["source_stage"]: one[c] for one in sources} for c in ("beta", "lost_ms"))
        for stage in {stage for stage in beta if stage >= 0} | set(want.beta):
            assert close(beta.get(stage, 0.0), want.beta[stage], want.slowdown), key
            assert close(lost.get(stage, 0.0), want.beta_lost[stage], want.lost), key
        known = [one for one in sources if one["kind"] == KNOWN]
        assert close(sum(one["beta"] for one in known), want.known, want.slowdown)
        assert close(sum(one["lost_ms"] for one in known), want.known_lost, want.lost)
        assert close(sum(one["beta"] for one in sources), want.slowdown, want.slowdown)


@pytest.mark.slow
@examples(100)
@given(tables_and_waits(30), SEEDS)
def test_blame_of_every_demand_is_never_negative_and_sums_to_what_was_lost(
    random: RandomInput, seed: int
) -> None:
    devices = random_devices(len(random.tables.hosts), seed)
    random = with_lock_owners(random, seed)
    blame = attribute(random.tables, random.waits, devices)
    demands, sources = blame.demands, blame.sources
    assert (sources["beta"] >= 0).all()
    assert (sources["lost_ms"] >= 0).all()
    n = len(demands)
    lost = np.bincount(sources["demand"], sources["lost_ms"], n)
    np.testing.assert_allclose(lost, demands["lost_ms"], rtol=RELATIVE, atol=1e-9)
    for kind in (KNOWN, UNATTRIBUTED):
        only = sources[sources["kind"] == kind]
        assert sorted(only["demand"]) == list(range(n))
        assert (only["source_stage"] == -1).all()
    named = sources[sources["kind"].isin([QUERY, OWN])]
    assert not named.duplicated(["demand", "source_stage"]).any()
    assert (demands["over_attribution"] >= 1).all()
    assert (demands["lost_ms"] <= demands["wait_ms"] + random.waits["gc_ms"].sum() + 1e-6).all()


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(30))
def test_frames_have_the_declared_columns_and_dtypes(random: RandomInput) -> None:
    blame = attribute(random.tables, random.waits)
    for frame, spec in (
        (blame.demands, DEMANDS),
        (blame.sources, SOURCES),
        (blame.stages, STAGE_LOSSES),
    ):
        assert [(c, str(frame[c].dtype)) for c in frame] == [
            (c.name, c.dtype) for c in spec.columns
        ]
    assert len(blame.stages) == len(random.tables.stages)
    assert np.isfinite(blame.stages.to_numpy()).all()
    assert (blame.stages["lost_ms"] <= blame.stages["elapsed_ms"] + 1e-9).all()


def by_name(
    blame: Blame, hosts: np.ndarray | None = None
) -> dict[tuple[int, int, int, int, int], tuple[float, float]]:
    """Blame by (stage, request, host, kind, source stage), independent of the order of rows."""
    demands = blame.demands.iloc[blame.sources["demand"].to_numpy()]
    host = demands["host"].to_numpy()
    if hosts is not None and len(host):
        host = np.where(host >= 0, hosts[host], -1)
    columns = [demands["stage"], demands["request"], host]
    columns += [blame.sources["kind"], blame.sources["source_stage"]]
    values = zip(blame.sources["beta"], blame.sources["lost_ms"], strict=True)
    keys = zip(*(np.asarray(c).tolist() for c in columns), strict=True)
    return dict(zip(keys, values, strict=True))


def assert_same(one: dict[tuple[int, ...], tuple], two: dict[tuple[int, ...], tuple]) -> None:
    scale = max((max(v) for v in one.values()), default=1.0)
    keys = list(set(one) | set(two))
    # A pair whose blame is all rounding may be there or not.
    a, b = ([side.get(key, (0.0, 0.0)) for key in keys] for side in (one, two))
    np.testing.assert_allclose(a, b, rtol=RELATIVE, atol=1e-9 * scale, err_msg=str(keys))


def rows(random: RandomInput, order: np.ndarray) -> RandomInput:
    place = np.append(np.argsort(order), -1)
    owners = random.tables.lock_owners
    tables = random.tables.with_(
        tasks=random.tables.tasks.iloc[order].reset_index(drop=True),
        lock_owners=owners.assign(task=place[owners["task"]], owner=place[owners["owner"]]),
    )
    return random._replace(tables=tables, waits=random.waits.iloc[order].reset_index(drop=True))


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(30), st.randoms(use_true_random=False), st.none() | SEEDS)
def test_the_order_of_tasks_changes_nothing(
    random: RandomInput, shuffle: st.randoms, seed: int | None
) -> None:
    devices = None if seed is None else random_devices(len(random.tables.hosts), seed)
    random = with_lock_owners(random, seed or 0)
    order = list(range(len(random.waits)))
    shuffle.shuffle(order)
    other = rows(random, np.array(order, dtype=int))
    assert_same(
        by_name(attribute(random.tables, random.waits, devices)),
        by_name(attribute(other.tables, other.waits, devices)),
    )


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(30), SEEDS)
def test_numbering_applications_and_hosts_differently_changes_nothing(
    random: RandomInput, seed: int
) -> None:
    tables = random.tables
    n_apps, n_hosts = len(tables.applications), len(tables.hosts)
    devices = random_devices(n_hosts, seed)
    turned = {r: device._replace(slower=device.slower[::-1]) for r, device in devices.items()}

    def renumbered(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        for column, n in (("app", n_apps), ("host", n_hosts)):
            if column in frame and frame[column].dtype.kind == "i":
                old = frame[column].to_numpy()
                frame[column] = np.where(old >= 0, n - 1 - old, -1).astype(old.dtype)
        return frame

    other = Tables(**{name: renumbered(frame) for name, frame in tables})
    other = other.with_(
        applications=tables.applications.iloc[::-1].reset_index(drop=True),
        hosts=tables.hosts.iloc[::-1].reset_index(drop=True),
    )
    assert_same(
        by_name(attribute(tables, random.waits, devices)),
        by_name(attribute(other, random.waits, turned), np.arange(n_hosts)[::-1]),
    )


def quiet(random: RandomInput, row: int, compute_ms: float) -> RandomInput:
    """Make one task wait for nothing and move nothing, so that it is only a source."""
    tasks, waits = random.tables.tasks.copy(), random.waits.copy()
    for column in tasks.columns[tasks.columns.str.endswith("_bytes")]:
        tasks.loc[row, column] = 0.0
    for request in REQUESTS:
        waits.loc[row, f"{request}_ms"] = np.nan if request is Request.SLOT_WAIT else 0.0
    waits.loc[row, "gc_ms"] = 0.0
    waits.loc[row, "compute_ms"] = compute_ms
    return random._replace(tables=random.tables.with_(tasks=tasks), waits=waits)


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20))
def test_cutting_a_source_in_two_changes_nothing(random: RandomInput) -> None:
    assume(len(random.waits) > 0)
    tasks = random.tables.tasks
    span = tasks["finish_ms"][0] - tasks["launch_ms"][0]
    assume(span >= 4)
    whole = quiet(random, 0, span * 0.6)
    first, second = (t.iloc[[0]].copy() for t in (whole.tables.tasks, whole.tables.tasks))
    first["finish_ms"] = second["launch_ms"] = tasks["launch_ms"][0] + 1
    waits = [whole.waits.iloc[[0]].copy() for _ in range(2)]
    waits[0]["compute_ms"], waits[1]["compute_ms"] = 0.6, (span - 1) * 0.6
    cut_tasks = pd.concat([first, second, whole.tables.tasks.iloc[1:]], ignore_index=True)
    cut_waits = pd.concat([*waits, whole.waits.iloc[1:]], ignore_index=True)
    assert_same(
        by_name(attribute(whole.tables, whole.waits)),
        by_name(attribute(whole.tables.with_(tasks=cut_tasks), cut_waits)),
    )


@pytest.mark.slow
@examples(60)
@given(tables_and_waits(20))
def test_a_source_that_used_nothing_gets_nothing(random: RandomInput) -> None:
    assume((random.tables.tasks["stage"] == 0).any())
    for row in np.flatnonzero(random.tables.tasks["stage"] == 0):
        random = quiet(random, row, 0.0)
    cached = random.tables.cached
    tables = random.tables.with_(cached=cached[cached["stage"] != 0].reset_index(drop=True))
    blame = attribute(tables, random.waits)
    blamed = blame.sources[blame.sources["source_stage"] == 0]
    requests = blame.demands["request"].to_numpy()[blamed["demand"].to_numpy()]
    assert set(requests) <= {REQUESTS.index(Request.SLOT_WAIT)}


@examples(100)
@given(tables_and_waits(20), SEEDS)
def test_who_only_ran_beside_a_task_that_waited_for_a_lock_gets_no_share(
    random: RandomInput, seed: int
) -> None:
    random = with_lock_owners(random, seed)
    tables, tasks = random.tables, random.tables.tasks
    blame = attribute(tables, random.waits)
    demands, sources = blame.demands, blame.sources
    named = defaultdict[tuple[int, int], dict[int, float]](lambda: defaultdict(float))
    for task, owner, ms in tables.lock_owners.itertuples(index=False):
        if owner >= 0 and ms > 0:
            place = tasks["stage"][task], tasks["host"][task]
            named[place][tasks["stage"][owner]] += ms
    for row, demand in enumerate(demands.to_dict("records")):
        request = REQUESTS[demand["request"]]
        if request not in (Request.MONITOR_BLOCKED, Request.NOTIFICATION_WAIT):
            continue
        mine = sources[sources["demand"] == row]
        assert mine["lost_ms"].sum() == pytest.approx(demand["lost_ms"])
        holders = named[demand["stage"], demand["host"]]
        for one in mine[mine["kind"] != UNATTRIBUTED].itertuples():
            if request is Request.NOTIFICATION_WAIT or one.kind == KNOWN:
                assert one.lost_ms == one.beta == 0
            else:
                assert one.lost_ms <= holders[one.source_stage] * (1 + RELATIVE)


def test_tables_without_tasks_have_no_blame() -> None:
    blame = attribute(Tables.empty(), WAITS.empty())
    assert len(blame.demands) == len(blame.sources) == len(blame.stages) == 0
    assert blame.doubts == ()


@examples(60)
@given(tables_and_waits(10))
def test_the_stages_of_a_query_share_the_time_in_which_one_runs(random: RandomInput) -> None:
    tables = random.tables
    shares = elapsed_shares(tables)
    query = tables.stages["query"].to_numpy()
    assert (shares >= 0).all()
    assert (shares[query < 0] == 0).all()
    begin = np.fmax(tables.stages["submission_ms"], tables.queries["start_ms"].iloc[0]).to_numpy()
    end = np.fmin(tables.stages["completion_ms"], tables.queries["end_ms"].iloc[0]).to_numpy()
    for q in range(len(tables.queries)):
        mine = query == q
        covered = {t for a, b in zip(begin[mine], end[mine], strict=True) for t in np.arange(a, b)}
        assert shares[mine].sum() == pytest.approx(len(covered), abs=1e-3)


def test_lost_time_of_a_stage_is_its_elapsed_time_by_the_share_its_tasks_lost() -> None:
    random = random_input(20, 1, 1, 2, 1, 2, 1)
    lost = np.array([10.0, 0.0])
    frame = stage_losses(random.tables, random.waits, lost)
    np.testing.assert_allclose(
        frame["lost_ms"], frame["elapsed_ms"] * lost / frame["life_ms"], rtol=1e-12
    )
    assert frame["lost_ms"][0] > 0
