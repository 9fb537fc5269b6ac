"""Contention that begins late in a long run is found, and input that Spark did not count too."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from iqcar.replay.alone import blame_run
from iqcar.replay.loop.fit_demands import FEW_TASKS
from iqcar.tables import Tables
from iqcar_lab.clusters.quiet import said
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import costs_of_others
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

RATE = 1e4
"""Bytes per ms that one task reads: all slots of an application take four fifths of a disk."""
CLUSTER = Cluster(hosts=1, cores=32.0, disk=1e5, slots=8, apps=2)
READS = StagePlan(48, read=2e6, read_rate=RATE)
QUERIES = 36


@pytest.fixture(scope="module")
def run() -> tuple[Tables, pd.DataFrame, np.ndarray]:
    """Queries again and again; another application reads beside the last ones."""
    apart = 2 * READS.tasks / CLUSTER.slots * READS.read / RATE
    plans = [QueryPlan(f"mine {k}", (READS,), 0, submit=k * apart) for k in range(QUERIES)]
    hog = StagePlan(60, read=2e7, read_rate=3 * RATE)
    plans.append(QueryPlan("hog", (hog,), 1, submit=0.85 * QUERIES * apart))
    simulation = Simulation(CLUSTER, plans, seed=5)
    assert READS.tasks * QUERIES > 4 * FEW_TASKS
    tables, waits = replayable(simulation)
    return tables, waits, np.array(costs_of_others(simulation))


def test_who_comes_late_is_blamed_for_what_it_cost(
    run: tuple[Tables, pd.DataFrame, np.ndarray],
) -> None:
    tables, waits, truth = run
    found = said(blame_run(tables, waits)[0], tables)
    assert truth[-3:-1].min() > 0.3 and truth[: QUERIES // 2].max() < 0.01
    assert np.abs(found - truth).max() < 0.15


@pytest.mark.long
@pytest.mark.parametrize("row_bytes", [6.0, 20.0, 60.0])
def test_bytes_that_were_not_counted_are_told_by_rows(
    run: tuple[Tables, pd.DataFrame, np.ndarray], row_bytes: float
) -> None:
    tables, waits, truth = run
    mine = (tables.tasks["app"] == 0).to_numpy()
    size = tables.tasks["input_bytes"].to_numpy(np.float64)
    tasks = tables.tasks.assign(
        input_bytes=np.where(mine, 2_000.0, size), input_records=np.where(mine, size / row_bytes, 1)
    )
    other = tables.with_(tasks=tasks)
    found = said(blame_run(other, waits)[0], tables)
    late = truth[:-1] > 0.3
    assert found[:-1][~late].max() < 0.02
    assert abs(found[:-1][late].mean() - truth[:-1][late].mean()) < 0.2
