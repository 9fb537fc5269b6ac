"""Runs of simulated queries by themselves: stored, or measured beside hogs as curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.enums import Request
from iqcar.history.stored_files import (
    APPLICATIONS,
    DEMANDS,
    HOSTS,
    QUERIES,
    STORED,
    new_batch,
    open_store,
    write_batch,
)
from iqcar.history.stored_rows import demand_values, known_demand
from iqcar.replay.alone import blame_run
from iqcar.replay.whatif.curves import SCHEMA_VERSION, STAGE, MeasuredCurves
from iqcar.tables import Tables, TableSpec, texts
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import costs_of_others
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from iqcar_lab.experiment.curves_file import Point, curve_of

EMPTY = {"str": "", "int64": 0, "float64": 0.0, "bool": False}


@dataclass(frozen=True, eq=False)
class Crowd:
    """A run of several queries at once, and what the others cost each, as a share of its run."""

    cluster: Cluster
    plans: list[QueryPlan]
    tables: Tables
    waits: pd.DataFrame
    cost: np.ndarray


def named(run: Simulation, application_id: str) -> tuple[Tables, pd.DataFrame]:
    """A plain log of a run, with what tells its queries and stages in another run."""
    tables, waits = replayable(run, plain=True)
    rows = tables.stages["query"].to_numpy(np.int64)
    position = tables.stages.groupby("query").cumcount()
    tables = tables.with_(
        applications=tables.applications.assign(application_id=application_id),
        queries=tables.queries.assign(fingerprint=[f"name:{plan.name}" for plan in run.plans]),
        stages=tables.stages.assign(
            label=[label_of(run.plans[q], p) for q, p in zip(rows, position, strict=True)]
        ),
    )
    return tables, waits


def label_of(plan: QueryPlan, stage: int) -> str:
    """What tells a stage of a query in every run."""
    return f"scan of {plan.name} {stage}"


def crowd_of(plans: tuple[Cluster, list[QueryPlan]], seed: int) -> Crowd:
    """Simulate queries at once."""
    cluster, queries = plans
    run = Simulation(cluster, queries, seed)
    return Crowd(cluster, queries, *named(run, "crowd"), np.array(costs_of_others(run)))


def store_alone(store: Path, crowd: Crowd, which: Sequence[int], seed: int) -> None:
    """Store a run of some queries of a crowd, each by itself on the same cluster."""
    for q in which:
        plan = replace(crowd.plans[q], submit=0.0, app=0)
        run = Simulation(replace(crowd.cluster, apps=1), [plan], seed + 100)
        tables, waits = named(run, f"alone-{q}")
        keep(store, tables, demands_of(tables, blame_run(tables, waits)[0]))


def demands_of(tables: Tables, blame: Blame) -> pd.DataFrame:
    """What a store keeps of a run's own rates and capacities."""
    return demand_values(tables, blame.demand.learned.told)


def keep(store: Path, tables: Tables, demands: pd.DataFrame) -> None:
    """Write a run's addition; of other tables only what is asked about."""
    ids = texts(tables.applications, "application_id")
    batch = new_batch()
    rows = {table.name: table.empty() for table in STORED}
    rows[APPLICATIONS.name] = _filled(APPLICATIONS, batch, ids, start_ms=[1e12] * len(ids))
    prints = texts(tables.queries, "fingerprint")
    rows[QUERIES.name] = _filled(QUERIES, batch, ids[:1] * len(prints), fingerprint=prints)
    hosts = texts(tables.hosts, "host")
    rows[HOSTS.name] = _filled(HOSTS, batch, ids[:1] * len(hosts), host=hosts)
    columns = {name: demands[name].to_numpy() for name in demands.columns if name != "app"}
    rows[DEMANDS.name] = _filled(DEMANDS, batch, ids[:1] * len(demands), **columns)
    write_batch(open_store(str(store)), "test", batch, rows)


def _filled(table: TableSpec, batch: str, ids: list[str], **columns: object) -> pd.DataFrame:
    key = {"batch": batch, "application_id": ids}
    n = len(ids)
    given = {
        c.name: np.full(n, EMPTY[c.dtype], object if c.dtype == "str" else c.dtype)
        for c in table.columns
    }
    frame = pd.DataFrame({**given, "application_id": ids}).assign(**{**key, **columns})
    return table.frame({c.name: frame[c.name] for c in table.columns})


def blamed(crowd: Crowd, store: Path | None = None) -> Blame:
    """What is said of a crowd, with what a store holds or without."""
    known = None if store is None else known_demand(str(store), crowd.tables).of(crowd.tables)
    return blame_run(crowd.tables, crowd.waits, known=known)[0]


def said(crowd: Crowd, blame: Blame) -> np.ndarray:
    """What others cost each query, lowest and highest, as shares of its run: (3, n_queries)."""
    cost, lasted = blame.cost, crowd.tables.queries["duration_ms"].to_numpy(np.float64)
    assert cost is not None
    return np.array([cost.lost_ms, cost.low_ms, cost.high_ms]) / lasted


STREAMS = (4, 12)
"""Greedy readers on each host, at two levels."""
BEGINS = 500.0
"""Hogs are there before the query, and for a minute."""
HOG_MS = 60_000.0


def curves_of(crowd: Crowd, which: Sequence[int], seed: int) -> MeasuredCurves:
    """Run some queries of a crowd alone and under hogs of the disks of all hosts."""
    cluster, found = crowd.cluster, []
    for q in which:
        plan = replace(crowd.plans[q], submit=BEGINS, app=0)
        alone = Simulation(replace(cluster, apps=2), [plan], seed + 100)
        points: dict[int, list[Point]] = {}
        for level, streams in enumerate(STREAMS, 1):
            each = StagePlan(
                streams * cluster.hosts, read=cluster.disk * HOG_MS / streams, cpu=1.0, spread=0.0
            )
            hogs = QueryPlan("hogs", (each,), app=1)
            loaded = Simulation(replace(cluster, apps=2), [plan, hogs], seed + 100)
            for stage in range(len(plan.stages)):
                (mine, moved, at_once), (then, _, _) = (
                    _of_stage(run, stage, cluster.hosts) for run in (alone, loaded)
                )
                if mine > 0 and moved > 0:
                    point = Point(level, streams / at_once, mine, then, at_once, 1e3 * moved / mine)
                    points.setdefault(stage, []).append(point)
        found += [
            curve_of((STAGE, plan.name, label_of(plan, stage), "disk"), of)
            for stage, of in points.items()
        ]
    names = list(crowd.tables.hosts["host"])
    return MeasuredCurves(SCHEMA_VERSION, found, names)


def _of_stage(run: Simulation, stage: int, hosts: int) -> tuple[float, float, float]:
    """Of the first query's tasks: mean time in the disk, bytes moved, and how many ran at once."""
    tasks = [task for task in run.tasks if task.query == 0 and task.stage == stage]
    plan = run.plans[0].stages[stage]
    moved = np.mean([(plan.read + plan.write) * task.scale for task in tasks])
    reads, writes = (
        np.mean([task.spent.get(request, 0.0) for task in tasks])
        for request in (Request.IO_READ, Request.IO_WRITE)
    )
    lasted = sum(task.finish - task.launch for task in tasks)
    covered = max(task.finish for task in tasks) - min(task.launch for task in tasks)
    return float(reads + writes), float(moved), lasted / covered / hosts
