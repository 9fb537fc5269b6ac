"""What earlier runs told of own rates and capacities makes later runs known; absurd rows do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from iqcar.errors import IqcarError
from iqcar.history.stored_files import DEMANDS, new_batch
from iqcar.history.stored_rows import MOST_KEPT, VERSION, demand_values, known_demand, merged
from iqcar.model.demand.estimate import HISTORY, OTHER_HOSTS, Known, KnownRates
from iqcar_lab.clusters.known_runs import (
    Crowd,
    blamed,
    crowd_of,
    demands_of,
    keep,
    said,
    store_alone,
)
from iqcar_lab.clusters.steady import twins

UNTOLD = "steady, or as slow alone", 4
"""A crowd in which queries lose a third of their run, and the log alone says that they do not."""
WIDE = "steady reads beside writes", 0
"""A crowd in which the log alone leaves most of a query's run open."""


@pytest.fixture(scope="module")
def untold() -> Crowd:
    family, seed = UNTOLD
    return crowd_of(twins(family, seed).loud, seed)


@pytest.fixture(scope="module")
def store(untold: Crowd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known") / "store"
    store_alone(folder, untold, range(len(untold.plans)), 4)
    return folder


def changed(store: Path, to: Path, crowd: Crowd, **change: object) -> Path:
    """The same rows of `demands`, changed, in a store of their own."""
    rows = rows_of(store)
    keep(to, crowd.tables.with_(applications=other(crowd)), rows.assign(**change))
    return to


def other(crowd: Crowd) -> pd.DataFrame:
    return crowd.tables.applications.assign(application_id="before")


def rows_of(store: Path) -> pd.DataFrame:
    parts = [pd.read_parquet(path) for path in sorted((store / "demands").rglob("*.parquet"))]
    return pd.concat(parts, ignore_index=True).drop(
        columns=["batch", "application_id", "attempt_id"]
    )


@pytest.mark.long
def test_queries_that_ran_alone_once_are_known_in_a_crowd(untold: Crowd, store: Path) -> None:
    (without, *_), (found, *_) = said(untold, blamed(untold)), said(untold, blamed(untold, store))
    assert np.abs(without - untold.cost).mean() > 0.1
    assert np.abs(found - untold.cost).mean() < 0.01


@pytest.mark.long
def test_earlier_runs_narrow_what_the_log_leaves_open(tmp_path: Path) -> None:
    family, seed = WIDE
    crowd = crowd_of(twins(family, seed).loud, seed)
    store_alone(tmp_path / "store", crowd, range(len(crowd.plans)), seed)
    without, blame = said(crowd, blamed(crowd)), blamed(crowd, tmp_path / "store")
    found = said(crowd, blame)
    assert np.abs(found[0] - crowd.cost).mean() < 0.6 * np.abs(without[0] - crowd.cost).mean()
    assert (found[2] - found[1]).mean() < 0.75 * (without[2] - without[1]).mean()
    rates = blame.demand.own_rates()
    rates = rates[rates["evidence"] == HISTORY]
    assert len(rates) > 0
    assert (rates["low"] < rates["own_rate"]).all()
    assert (rates["own_rate"] < rates["high"]).all()


@pytest.mark.long
@pytest.mark.parametrize("factor", [3.0, 1 / 3, 10.0, 1 / 10])
def test_a_store_that_the_run_contradicts_changes_nothing(
    untold: Crowd, store: Path, tmp_path: Path, factor: float
) -> None:
    wrong = changed(
        store, tmp_path / "wrong", untold, log_value=rows_of(store)["log_value"] + np.log(factor)
    )
    blame = blamed(untold, wrong)
    assert blame.demand.learned.refused
    np.testing.assert_array_equal(said(untold, blame), said(untold, blamed(untold)))


def test_a_run_does_not_confirm_itself(untold: Crowd, store: Path, tmp_path: Path) -> None:
    keep(tmp_path / "own", untold.tables, rows_of(store))
    assert not known_demand(str(tmp_path / "own"), untold.tables).of(untold.tables)


def test_runs_are_merged_by_precision_and_scatter() -> None:
    rows = pd.DataFrame(
        {"key": ["a", "a", "b"], "log_value": [1.0, 4.0, 7.0], "variance": [0.1, 0.2, 0.5],
         "runs": [1, 2, 1]}
    )  # fmt: skip
    found = merged(rows, ["key"]).set_index("key")
    assert found["log_value"].tolist() == pytest.approx([2.0, 7.0])
    assert found["variance"].tolist() == pytest.approx([1 / 15 + 2.0, 0.5])
    assert found["runs"].tolist() == [3, 1]


def test_only_what_tasks_told_is_kept(untold: Crowd) -> None:
    """Queries that were together all along, and nothing says whether they were in the way."""
    assert len(demands_of(untold.tables, blamed(untold))) == 0


def test_so_many_rows_of_an_application_are_kept(untold: Crowd) -> None:
    n, stages = MOST_KEPT + 500, untold.tables.stages
    many = untold.tables.with_(
        stages=pd.concat([stages.iloc[:1]] * n, ignore_index=True).assign(stage_id=np.arange(n))
    )
    one = np.zeros(n, np.int64)
    told = KnownRates(np.arange(n), one, one, np.zeros(n), np.linspace(0.2, 0.1, n))
    kept = demand_values(many, Known(told))
    assert len(kept) == MOST_KEPT
    assert kept["variance"].max() < 0.2 - 0.1 * 499 / n


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("log_value", np.nan), ("log_value", np.inf), ("log_value", 80.0), ("variance", -1.0),
        ("variance", 0.0), ("variance", np.nan), ("variance", 1e9), ("runs", 0), ("version", 0),
    ],
)  # fmt: skip
def test_absurd_values_are_ignored_with_a_doubt(
    untold: Crowd, store: Path, tmp_path: Path, column: str, value: float
) -> None:
    values = rows_of(store)[column].to_numpy().copy()
    values[:3] = value
    recalled = known_demand(
        str(changed(store, tmp_path / "absurd", untold, **{column: values})), untold.tables
    )
    (doubt,) = recalled.doubts
    assert doubt == (
        f"3 of {len(values)} own rates and capacities in the store are absurd and were ignored"
    )
    known = recalled.of(untold.tables).rates
    assert len(known.stage) == len(values) - 3
    assert np.isfinite(known.log_rate).all()
    assert (known.variance > 0).all()


def test_a_store_of_another_cluster_is_not_used(untold: Crowd, store: Path, tmp_path: Path) -> None:
    crowd = untold.tables
    elsewhere = crowd.with_(
        hosts=crowd.hosts.assign(host=[f"else-{n}" for n in range(len(crowd.hosts))]),
        queries=crowd.queries.assign(fingerprint=[f"name:x{n}" for n in range(len(crowd.queries))]),
    )
    recalled = known_demand(str(store), elsewhere)
    assert not recalled.of(elsewhere)
    (doubt,) = recalled.doubts
    assert "it knows none of these hosts and no run of these queries" in doubt


def test_on_other_hosts_own_rates_are_less_sure(untold: Crowd, store: Path) -> None:
    tables = untold.tables
    moved = tables.with_(
        hosts=tables.hosts.assign(host=[f"else-{n}" for n in range(len(tables.hosts))])
    )
    here, there = (known_demand(str(store), one).of(one).rates for one in (tables, moved))
    np.testing.assert_array_equal(here.log_rate, there.log_rate)
    np.testing.assert_allclose(there.variance, here.variance + OTHER_HOSTS**2)


def test_a_log_of_no_query_asks_for_nothing(untold: Crowd, store: Path) -> None:
    tables = untold.tables.with_(
        queries=untold.tables.queries.assign(fingerprint=""), hosts=untold.tables.hosts.iloc[:0]
    )
    assert len(known_demand(str(store), tables).rates) == 0


def test_a_store_of_an_older_iqcar_is_read_with_a_doubt(untold: Crowd, tmp_path: Path) -> None:
    tables = untold.tables.with_(applications=other(untold))
    keep(tmp_path / "old", tables, demand_values(untold.tables, Known()))
    assert not (tmp_path / "old" / DEMANDS.name).exists()
    recalled = known_demand(str(tmp_path / "old"), untold.tables)
    assert not recalled.of(untold.tables)
    (doubt,) = recalled.doubts
    assert "iqcar history add --again" in doubt


def test_own_rates_of_a_newer_iqcar_are_refused(untold: Crowd, store: Path, tmp_path: Path) -> None:
    newer = changed(store, tmp_path / "newer", untold, version=VERSION + 1)
    with pytest.raises(IqcarError, match="its own rates have version 2; a newer iqcar can read it"):
        known_demand(str(newer), untold.tables)


def test_a_damaged_file_of_own_rates_is_set_aside(
    untold: Crowd, store: Path, tmp_path: Path
) -> None:
    broken = changed(store, tmp_path / "broken", untold)
    (file,) = (broken / DEMANDS.name).rglob("*.parquet")
    file.with_name(f"{new_batch()}.parquet").write_bytes(file.read_bytes()[:100])
    file.write_bytes(file.read_bytes()[:100])
    recalled = known_demand(str(broken), untold.tables)
    assert not recalled.of(untold.tables)
    assert all(doubt.startswith("set aside ") for doubt in recalled.doubts)
