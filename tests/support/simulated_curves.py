"""Experiments on simulated clusters: curves of queries' stages, alone and beside hogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iqcar.enums import Request
from iqcar.replay.whatif.curves import SCHEMA_VERSION, STAGE, MeasuredCurves
from iqcar_lab.experiment.curves_file import Point, curve_of
from tests.support.cluster_simulator import Simulation
from tests.support.known_runs import Crowd, label_of
from tests.support.simulated_work import QueryPlan, StagePlan

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
