"""What an experiment measured makes the amount right where a log alone cannot tell."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from iqcar.enums import REQUESTS, DemandEvidence, Request
from iqcar.errors import UsageError
from iqcar.model.demand.estimate import EXPERIMENT, HISTORY, Known, KnownCapacities, KnownRates
from iqcar.replay.alone import blame_run
from iqcar.replay.whatif.curve_rates import LEAST_SPREAD, NO_CURVE, known_of_curves
from iqcar.replay.whatif.curves import Curve, MeasuredCurves, read_curves
from iqcar.show.json.analyze import result_schema
from iqcar_lab.clusters.known_runs import Crowd, blamed, crowd_of, curves_of, said
from iqcar_lab.clusters.steady import twins
from tests.support.command import iqcar
from tests.support.small_log import small_log
from tests.support.tiny_tables import tiny_tables

UNTOLD = "steady, or as slow alone", 4
"""Queries that lose a third of their run, and the log alone says that they do not."""
WIDE = "steady reads beside writes", 0
"""The log alone leaves most of a query's run open."""
READ, WRITE = REQUESTS.index(Request.IO_READ), REQUESTS.index(Request.IO_WRITE)


@pytest.fixture(scope="module", params=[UNTOLD, WIDE], ids=["untold", "wide"])
def crowd(request: pytest.FixtureRequest) -> Crowd:
    family, seed = request.param
    return crowd_of(twins(family, seed).loud, seed)


@pytest.fixture(scope="module")
def curves(crowd: Crowd) -> MeasuredCurves:
    return curves_of(crowd, range(len(crowd.plans)), 4)


def known(crowd: Crowd, curves: MeasuredCurves) -> Known:
    found, doubts = known_of_curves(curves, crowd.tables, Known())
    assert doubts == ()
    return found


@pytest.mark.long
def test_an_experiment_makes_the_amount_right_where_the_log_cannot_tell(
    crowd: Crowd, curves: MeasuredCurves
) -> None:
    without = said(crowd, blamed(crowd))[0]
    blame = blame_run(crowd.tables, crowd.waits, known=known(crowd, curves))[0]
    assert np.abs(without - crowd.cost).mean() > 0.05
    assert np.abs(said(crowd, blame)[0] - crowd.cost).mean() < 0.005


def test_what_the_experiment_decided_has_its_evidence() -> None:
    crowd = crowd_of(twins(*WIDE).loud, WIDE[1])
    found = known(crowd, curves_of(crowd, range(len(crowd.plans)), 4))
    rates = blame_run(crowd.tables, crowd.waits, known=found)[0].demand.own_rates()
    assert (rates["evidence"] == EXPERIMENT).any()
    assert not (rates["evidence"] == HISTORY).any()


def test_the_capacity_of_hosts_under_hogs_is_measured(crowd: Crowd, curves: MeasuredCurves) -> None:
    found = known(crowd, curves).capacities
    assert set(found.request) == {READ, WRITE}
    np.testing.assert_allclose(np.exp(found.log_capacity), crowd.cluster.disk, rtol=0.1)
    elsewhere = msgspec.structs.replace(curves, hosts=["elsewhere"])
    assert len(known(crowd, elsewhere).capacities.host) == 0


@pytest.mark.long
@pytest.mark.parametrize("factor", [3.0, 1 / 10])
def test_curves_that_the_run_contradicts_change_nothing(factor: float) -> None:
    crowd = crowd_of(twins(*UNTOLD).loud, UNTOLD[1])
    true = curves_of(crowd, range(len(crowd.plans)), 4)
    wrong = [
        msgspec.structs.replace(one, own_rate_per_s=(one.own_rate_per_s or 0.0) * factor)
        for one in true.curves
    ]
    found = known(crowd, msgspec.structs.replace(true, curves=wrong))
    blame = blame_run(crowd.tables, crowd.waits, known=found)[0]
    assert blame.demand.learned.refused
    np.testing.assert_array_equal(said(crowd, blame), said(crowd, blamed(crowd)))


def curve(**given: object) -> Curve:
    """A curve of a stage whose tasks alone fill a fifth of a disk of 1 GB/s."""
    fields = {
        "of": "stage", "query": "q", "label": "scan", "resource": "disk", "alone_ms": 100.0,
        "tasks_at_once": 2.0, "share": 0.2, "low": 0.19, "high": 0.21, "identified": True,
        "own_rate_share": 0.1, "residual": 0.0, "pairs": 4, "own_rate_per_s": 1e8, **given,
    }  # fmt: skip
    return msgspec.convert(fields, Curve)


def told(*curves: Curve) -> Known:
    tables = tiny_tables(
        queries=[{"query_id": "a", "name": "q"}, {"query_id": "b", "name": "other"}],
        stages=[{"label": "scan", "query": 0}, {"label": "scan", "query": 1},
                {"label": "join", "query": 0}, {"label": "scan", "query": -1}],
    )  # fmt: skip
    return known_of_curves(MeasuredCurves("1", list(curves), ["h0"]), tables, Known())[0]


def test_a_curve_tells_the_stages_of_its_label_reads_and_writes_alike() -> None:
    rates, capacities = told(curve()).rates, told(curve()).capacities
    assert list(zip(rates.stage, rates.request, strict=True)) == [
        (0, READ), (0, WRITE), (1, READ), (1, WRITE),
    ]  # fmt: skip
    np.testing.assert_allclose(rates.log_rate, np.log(1e5))
    np.testing.assert_allclose(rates.variance, LEAST_SPREAD**2)
    np.testing.assert_allclose(capacities.log_capacity, np.log(1e6))


def test_the_curve_of_a_query_of_this_name_counts_before_others() -> None:
    rates = told(curve(), curve(query="x", own_rate_per_s=4e8)).rates
    np.testing.assert_allclose(rates.log_rate[:2], np.log(1e5))
    np.testing.assert_allclose(rates.log_rate[2:], np.log(2e5))
    assert (rates.variance[2:] > np.log(2.0) ** 2).all()


@pytest.mark.parametrize(
    "useless",
    [
        {"high": 0.95}, {"own_rate_per_s": None}, {"own_rate_per_s": 0.0}, {"label": "else"},
        {"resource": "memory"}, {"resource": "cpu"}, {"of": "query"}, {"own_rate_per_s": 1e-300},
        {"residual": 1e300}, {"own_rate_per_s": 1e300},
        {"own_rate_per_s": 1e-323},
    ],
)  # fmt: skip
def test_a_curve_that_tells_no_own_rate_is_not_used(useless: dict[str, object]) -> None:
    found = told(curve(**useless))
    assert not found


def test_hogs_of_the_loopback_tell_no_capacity_of_a_network() -> None:
    found = told(curve(resource="network"))
    assert set(found.rates.request) == {REQUESTS.index(Request.SHUFFLE_FETCH)}
    assert len(found.capacities.host) == 0


def test_an_experiment_is_surer_than_a_store_and_leaves_what_it_does_not_tell() -> None:
    one = np.array([0, 2])
    earlier = Known(
        KnownRates(one, one * 0, np.full(2, READ), np.array([1.0, 2.0]), np.ones(2)),
        KnownCapacities(np.array([0, 1]), np.full(2, READ), np.array([3.0, 4.0]), np.ones(2)),
    )
    tables = tiny_tables(
        queries=[{"name": "q"}], stages=[{"label": "scan"}, {"label": "x"}, {"label": "join"}]
    )
    found, _ = known_of_curves(MeasuredCurves("1", [curve()], ["h0"]), tables, earlier)
    values = {
        (int(s), int(r)): v
        for s, r, v in zip(
            found.rates.stage, found.rates.request, found.rates.log_rate, strict=True
        )
    }
    assert values == pytest.approx(
        {(0, READ): np.log(1e5), (0, WRITE): np.log(1e5), (2, READ): 2.0}
    )
    assert sorted(found.capacities.log_capacity) == pytest.approx(
        sorted([4.0, np.log(1e6), np.log(1e6)])
    )


def test_analyze_reads_curves_and_says_where_they_tell_nothing(tmp_path: Path) -> None:
    log = small_log().write(tmp_path / "app")
    file = tmp_path / "curves.json"
    file.write_bytes(msgspec.json.encode(MeasuredCurves("1", [curve()], ["h0"])))
    done = iqcar("analyze", str(log), "--curves", str(file), "--json", "-")
    assert done.returncode == 0, done.stderr
    assert NO_CURVE in json.loads(done.stdout)["doubts"]
    file.write_text("{}", "utf-8")
    done = iqcar("analyze", str(log), "--curves", str(file))
    assert done.returncode == 2
    assert "is no file of curves" in done.stderr


def test_a_file_without_hosts_is_of_an_older_iqcar_and_read(tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    content = msgspec.to_builtins(MeasuredCurves("1", [curve()]))
    file.write_text(json.dumps({k: v for k, v in content.items() if k != "hosts"}), "utf-8")
    assert read_curves(str(file)).hosts == []
    with pytest.raises(UsageError):
        read_curves(str(tmp_path))


def test_every_evidence_of_own_rates_is_in_the_schema() -> None:
    fields = json.loads(result_schema())["$defs"]["ResultOwnRate"]["properties"]
    assert set(fields["evidence"]["enum"]) == set(map(str, DemandEvidence))
