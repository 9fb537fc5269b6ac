"""Own rates, capacities and the way of sharing, fitted to simulated runs whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from iqcar.causes.blame.attribute import measure_demand
from iqcar.enums import Request
from iqcar.model.demand.estimate import Demand
from iqcar.model.waits.columns import wait_column
from iqcar.replay.loop.fit_demands import fit_demands
from iqcar.replay.loop.open_loop import replayable, rows_of
from iqcar.replay.loop.rate_point import Rates
from iqcar.replay.loop.rate_search import RateSearch
from iqcar.replay.loop.task_demands import DISK, FETCH, READ, WRITE, Way, task_demands
from iqcar.tables import Tables
from iqcar_lab.clusters.quiet import QUIET
from iqcar_lab.clusters.recorded import replayable as as_log
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

MB = 1e6
DISKS = 4e5
"""Capacity of each disk below, in bytes per ms."""
SLOW, MIDDLE = 1e4, 4e4
"""Own rates of two queries, which they have until a hog comes."""
NOISY = (Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH)


@dataclass(frozen=True)
class Found:
    """What a fit says of a run, by name of the query and phase."""

    tables: Tables
    demand: Demand
    rates: Rates
    way: Way
    rate: dict[tuple[str, int], float]
    low: dict[tuple[str, int], float]
    high: dict[tuple[str, int], float]
    limited: dict[tuple[str, int], bool]

    @property
    def capacity(self) -> dict[int, float]:
        """Capacity of each kind of device that was short."""
        return {device: float(np.exp(log)) for device, log in self.rates.at.log_capacity.items()}


def found_in(run: Simulation, sigma: float = 0.0) -> Found:
    return fit_to(*with_noise(*as_log(run), sigma))


def with_noise(tables: Tables, waits: pd.DataFrame, sigma: float) -> tuple[Tables, pd.DataFrame]:
    """Log-normal noise on every wait for a disk or the network."""
    rng = np.random.default_rng(1)
    for request in NOISY if sigma else ():
        column = wait_column(request)
        waits[column] = waits[column] * np.exp(sigma * rng.standard_normal(len(waits)))
    return tables, waits


def fit_to(tables: Tables, waits: pd.DataFrame) -> Found:
    demand = measure_demand(tables, waits)
    needs = task_demands(tables, waits, demand)
    launches, rows = replayable(tables, needs)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    fit = RateSearch(rows_of(needs, rows), launches.of(rows), stage[rows], demand)
    best, way, _ = fit.best()
    low, high = fit.bounds(best)
    query = tables.queries["name"].to_numpy()[tables.stages["query"].to_numpy()]
    keys = [(str(query[key // 5]), int(key % 5)) for key in fit.keys]
    said = (
        dict(zip(keys, values.tolist(), strict=True))
        for values in (np.exp(best.at.log_rate), np.exp(low), np.exp(high), best.limited)
    )
    return Found(tables, demand, best, way, *said)


def one(name: str, at: float, **work: float) -> QueryPlan:
    return QueryPlan(name, (StagePlan(**work),), 0, at)


def beside_a_hog(seed: int = 3, by: float = 1.0, **cluster: float) -> Simulation:
    """Two queries that read at their own rates, until a hog comes that reads as fast as it can.

    by: How much faster all is.
    """
    plans = [
        one("hog", 2500.0, tasks=60, read=by * 200 * MB, cpu=20.0),
        one("slow", 0.0, tasks=40, read=by * 1500 * SLOW, read_rate=by * SLOW, cpu=200.0),
        one("middle", 200.0, tasks=40, read=by * 1500 * MIDDLE, read_rate=by * MIDDLE, cpu=200.0),
    ]
    given = {"hosts": 2, "cores": 64, "slots": 24, "disk": by * DISKS, **cluster}
    return Simulation(Cluster(**given), plans, seed)


@pytest.fixture(scope="module")
def hogged() -> Found:
    return found_in(beside_a_hog())


def test_rates_that_were_seen_and_the_capacity_are_found(hogged: Found) -> None:
    assert hogged.capacity[DISK] == pytest.approx(DISKS, rel=0.02)
    assert hogged.rate["slow", READ] == pytest.approx(SLOW, rel=0.03)
    assert hogged.rate["middle", READ] == pytest.approx(MIDDLE, rel=0.03)
    assert hogged.way == Way()


def test_noise_of_30_percent_on_waits_leaves_them_near(hogged: Found) -> None:
    noisy = found_in(beside_a_hog(), 0.3)
    assert noisy.capacity[DISK] == pytest.approx(DISKS, rel=0.15)
    assert noisy.rate["slow", READ] == pytest.approx(SLOW, rel=0.1)
    for name, true in (("slow", SLOW), ("middle", MIDDLE)):
        assert 0.97 * noisy.low[name, READ] < true < 1.03 * noisy.high[name, READ]
        wider = noisy.high[name, READ] / noisy.low[name, READ]
        assert wider > hogged.high[name, READ] / hogged.low[name, READ]


def test_what_the_data_do_not_tell_has_wide_bounds(hogged: Found) -> None:
    """How fast the hog is alone is not seen; the rates of the others are."""
    width = {name: hogged.high[name, READ] / hogged.low[name, READ] for name, _ in hogged.rate}
    assert width["slow"] < 1.1
    assert width["middle"] < 1.1
    assert width["hog"] > 2.0
    assert hogged.rate["hog", READ] > 2 * MIDDLE


def test_rounds_of_tasks_are_found() -> None:
    assert found_in(beside_a_hog(rounds=1)).way.rounds == 1
    assert found_in(beside_a_hog(rounds=4)).way.rounds == 4


@pytest.mark.parametrize("seed", [3, 4])
def test_disks_that_slow_with_streams_and_share_in_proportion_are_found(seed: int) -> None:
    plans = [
        one("hog", 2500.0, tasks=16, read=200 * MB, read_rate=2e5, cpu=20.0),
        one("slow", 0.0, tasks=8, read=4000 * SLOW, read_rate=SLOW, cpu=100.0),
        one("middle", 200.0, tasks=4, read=4000 * MIDDLE, read_rate=MIDDLE, cpu=100.0),
    ]
    cluster = Cluster(hosts=2, cores=128, slots=24, disk=DISKS, rough=True)
    found = found_in(Simulation(cluster, plans, seed))
    assert found.way[1:] == Way(proportional=True, slowing=0.03)[1:]
    assert found.capacity[DISK] == pytest.approx(DISKS, rel=0.03)
    assert found.rate["slow", READ] == pytest.approx(SLOW, rel=0.1)
    assert found.rate["middle", READ] == pytest.approx(MIDDLE, rel=0.1)


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_a_slow_host_is_found(sigma: float) -> None:
    found = found_in(beside_a_hog(hosts=4, slow_host=0.4), sigma)
    speed = found.rates.at.slower[DISK]
    np.testing.assert_allclose(speed[:3], 1.0)
    assert speed[3] == pytest.approx(0.4, rel=0.05 if sigma == 0 else 0.2)


@pytest.mark.parametrize(("by", "sigma"), [(1.0, 0.0), (1.0, 0.3), (8.75, 0.0), (8.75, 0.1)])
def test_who_reads_from_the_page_cache_does_not_use_the_disk(by: float, sigma: float) -> None:
    """The page cache gives 4 GB/s: ten times what the disk can, or hardly more than that."""
    run = beside_a_hog(by=by)
    cached = one("cached", 300.0, tasks=16, read=2000 * MB, cpu=300.0, cached=True)
    found = found_in(Simulation(run.cluster, [*run.plans, cached], 3), sigma)
    assert found.capacity[DISK] == pytest.approx(by * DISKS, rel=0.15)
    assert not found.limited.get(("cached", READ), False)
    assert found.limited["slow", READ]
    assert found.limited["hog", READ]


def test_readers_and_writers_share_one_disk() -> None:
    plans = [
        one("writer", 2500.0, tasks=60, write=200 * MB, cpu=20.0),
        one("reader", 0.0, tasks=40, read=1500 * SLOW, read_rate=SLOW, cpu=200.0),
        one("both", 200.0, tasks=40, read=1500 * SLOW, read_rate=MIDDLE, write=1500 * SLOW,
            write_rate=MIDDLE, cpu=200.0),
    ]  # fmt: skip
    cluster = Cluster(hosts=2, cores=64, slots=24, disk=DISKS)
    found = found_in(Simulation(cluster, plans, 3))
    assert found.demand.devices[Request.IO_READ] is found.demand.devices[Request.IO_WRITE]
    assert list(found.capacity) == [DISK]
    assert found.capacity[DISK] == pytest.approx(DISKS, rel=0.05)
    assert found.rate["reader", READ] == pytest.approx(SLOW, rel=0.05)
    assert found.rate["both", READ] == pytest.approx(MIDDLE, rel=0.1)
    assert found.rate["both", WRITE] == pytest.approx(MIDDLE, rel=0.1)


@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("family", ["formats", "fetches", "page cache", "skew", "slow host"])
def test_nothing_is_short_where_there_is_plenty(family: str, sigma: float) -> None:
    cluster, plans = QUIET[family](np.random.default_rng([2, 7, len(family), False]))
    found = found_in(Simulation(cluster, plans, 2), sigma)
    assert found.capacity == {}
    assert not any(found.limited.values())


@pytest.mark.parametrize("family", ["formats", "fetches", "garbage collection"])
def test_where_nothing_is_short_rates_are_those_that_were_seen(family: str) -> None:
    cluster, plans = QUIET[family](np.random.default_rng([2, 7, len(family), False]))
    found = found_in(Simulation(cluster, plans, 2))
    for plan in plans:
        for phase, name in ((READ, "read_rate"), (FETCH, "fetch_rate")):
            true = {getattr(stage, name) for stage in plan.stages}
            if (plan.name, phase) in found.rate:
                said = found.rate[plan.name, phase]
                assert min(abs(said / rate - 1.0) for rate in true) < 0.03, (plan.name, phase)


def test_the_order_of_tasks_names_of_hosts_and_the_time_of_day_change_nothing(
    hogged: Found,
) -> None:
    tables, waits = as_log(beside_a_hog())
    rng = np.random.default_rng(5)
    order = rng.permutation(len(tables.tasks))
    shuffled = tables.with_(tasks=tables.tasks.iloc[order].reset_index(drop=True))
    swapped = tables.with_(
        tasks=tables.tasks.assign(host=1 - tables.tasks["host"]),
        executors=tables.executors.assign(host=1 - tables.executors["host"]),
    )
    later = 3_600_000.0 * 24 * 7
    names = [name for name in tables.tasks if name.endswith(("launch_ms", "finish_ms"))]
    moved = tables.with_(
        tasks=tables.tasks.assign(**{name: tables.tasks[name] + later for name in names}),
        stages=tables.stages.assign(
            submission_ms=tables.stages["submission_ms"] + later,
            completion_ms=tables.stages["completion_ms"] + later,
        ),
    )
    for other, its_waits in (
        (shuffled, waits.iloc[order].reset_index(drop=True)), (swapped, waits), (moved, waits),
    ):  # fmt: skip
        found = fit_to(other, its_waits)
        assert found.way == hogged.way
        assert found.capacity[DISK] == pytest.approx(hogged.capacity[DISK], rel=0.01)
        for key in hogged.rate:
            wide = hogged.high[key] / hogged.low[key] > 1.5
            assert found.rate[key] == pytest.approx(hogged.rate[key], rel=0.3 if wide else 0.01)


def test_what_is_fitted_belongs_to_the_same_task_in_any_order_of_rows() -> None:
    """Tasks of a log are not in the order of their launches."""
    tables, waits = as_log(beside_a_hog())
    order = np.random.default_rng(5).permutation(len(tables.tasks))
    shuffled = tables.with_(tasks=tables.tasks.iloc[order].reset_index(drop=True))
    its_waits = waits.iloc[order].reset_index(drop=True)
    fits = []
    for given, of in ((tables, waits), (shuffled, its_waits)):
        demand = measure_demand(given, of)
        fits.append(fit_demands(given, task_demands(given, of, demand), demand))
    for name in ("alone", "use", "spent"):
        first, then = (getattr(fit.check, name) for fit in fits)
        # The hog's rate is not told: it may end anywhere.
        told = tables.tasks["query"].to_numpy() > 0
        np.testing.assert_allclose(
            then[told[order]], first[order][told[order]], rtol=0.02, atol=5.0
        )
    moved = [fit.fitted.alone * fit.fitted.use for fit in fits]
    np.testing.assert_allclose(moved[1], moved[0][order], rtol=1e-6, atol=1e-3)


def test_devices_that_were_not_short_keep_data_and_a_capacity_that_is_enough() -> None:
    cluster, plans = QUIET["formats"](np.random.default_rng([2, 7, 7, False]))
    tables, waits = as_log(Simulation(cluster, plans, 2))
    demand = measure_demand(tables, waits)
    fitted = fit_demands(tables, task_demands(tables, waits, demand), demand).fitted
    assert (fitted.evidence[:, DISK] == "assumed").all()
    assert np.isfinite(fitted.capacity[:, DISK]).all()
    moved = (fitted.alone * fitted.use)[:, READ]
    np.testing.assert_allclose(moved, tables.tasks["input_bytes"], rtol=1e-6)
    rate = np.array([plan.stages[0].read_rate for plan in plans])
    assert fitted.capacity[0, DISK] > 2 * rate.max()


def test_tasks_that_lost_all_their_time_moved_their_data() -> None:
    """Replays may say that a task lost more than it took; its data are evidence all the same."""
    cluster, plans = QUIET["formats"](np.random.default_rng([2, 7, 7, False]))
    tables, waits = as_log(Simulation(cluster, plans, 2))
    demand = measure_demand(tables, waits)
    assert not demand.devices[Request.IO_READ].identified
    found = demand.contention[Request.IO_READ]
    whole = {Request.IO_READ: found._replace(to_tasks=np.ones(len(waits)))}
    needs = task_demands(tables, waits, replace(demand, contention=demand.contention | whole))
    moved = (needs.alone * needs.use)[:, READ]
    np.testing.assert_allclose(moved, tables.tasks["input_bytes"], rtol=1e-6)
