"""Declares the tables of blame, and how much each stage and demand weighs in a query's lost time.

What a stage lost is the contribution of level 1 of iQC-Graph; the weights of demands are those of
its level 3 (iQCAR §5 and §6.1). No level up to 3 depends on sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS, BlameKind, Resource
from iqcar.model.waits.columns import LAUNCH_REQUESTS, wait_column
from iqcar.tables import NONE, Column, Tables, TableSpec
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    by_group_and_time,
    positive_or_zero,
    running_total,
    share_of,
    sum_by,
)

BLAME_KINDS: tuple[BlameKind, ...] = tuple(BlameKind)
"""All kinds of blame; the code in numpy columns is the position here."""
QUERY, OWN, KNOWN, UNATTRIBUTED, REST = range(len(BLAME_KINDS))

DEMANDS = TableSpec(
    "demands",
    "One row per target stage, request and host whose tasks waited there.",
    (
        Column("stage", "int32", "row", "The target stage."),
        Column("query", "int32", "row", "Its query."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("host", "int32", "row", "The machine; −1 if unknown."),
        Column("tasks", "int64", "count", "Tasks that waited."),
        Column("wait_ms", "float64", "ms", "Task time waited."),
        Column("evidence", "int8", "code", "Worst evidence among these tasks."),
        Column("ratp", "float64", "ms per unit", "Cumulative RATP, Σ WT / DP (eq. 8)."),
        Column("slowdown", "float64", "", "Mean S of these tasks (eq. 3), weighted by task time."),
        Column(
            "lost_ms",
            "float64",
            "ms",
            "Task time lost, Σ `Loss.lost` of its tasks; in a device with the waits for slots that "
            "the query's own tasks held longer because of it.",
        ),
        Column("over_attribution", "float64", "", "Σ β / S where sources exceeded S; else 1."),
    ),
)

SOURCES = TableSpec(
    "sources",
    "One row per blame explanation: a demand and one source stage or cause of its loss.",
    (
        Column("demand", "int32", "row", "The demand."),
        Column("kind", "int8", "code", "Position of the kind in `BlameKind`."),
        Column("source_stage", "int32", "row", "The source stage; −1 where no single one is."),
        Column("beta", "float64", "", "Blame Σ β over its tasks (eq. 9), after conservation."),
        Column("lost_ms", "float64", "ms", "Its part of the demand's lost task time."),
        Column("idle_ms", "float64", "ms", "Part of that in which its executors were idle."),
    ),
)

FOLDED = TableSpec(
    "folded",
    "One row per query, or none where nothing was folded: its sums in REST rows.",
    (
        Column("sources", "int64", "count", "Source queries in its REST rows, as a target."),
        Column("victims", "int64", "count", "Targets whose REST rows include it, as a source."),
        Column("worst_victim", "int32", "row", "That of these which lost most to it; else −1."),
        Column("worst_lost_ms", "float64", "ms", "Time that this target lost to it."),
        Column("dor", "float64", "", "Sum of its degrees of responsibility in those rows."),
        Column("lost_ms", "float64", "ms", "Elapsed time that those targets lost to it."),
        Column("recurring_ms", "float64", "ms", "The part lost by runs of the same fingerprint."),
        *(Column(f"{r}_lost_ms", "float64", "ms", f"The part lost to {r}.") for r in Resource),
    ),
)
"""REST rows keep the sums per target; this table keeps the sums per source."""


RESOURCES: tuple[Resource, ...] = tuple(Resource)
"""All resources; a resource's code in numpy columns is its position here."""
_RESOURCE_OF_REQUEST = np.array([RESOURCES.index(r.resource) for r in REQUESTS], np.int64)

STAGE_LOSSES = TableSpec(
    "stage_losses",
    "One row per row of `stages`: its share of its query's time, and the lost part of it.",
    (
        Column(
            "life_ms",
            "float64",
            "ms",
            "Task time: Σ over its tasks of the wait to launch + duration.",
        ),
        Column("lost_task_ms", "float64", "ms", "Task time lost, over all requests."),
        Column("elapsed_ms", "float64", "ms", "Its share of its query's elapsed time."),
        Column("lost_ms", "float64", "ms", "Elapsed time lost: elapsed · lost task / life."),
        Column("cpu_ms", "float64", "ms", "CPU time of its tasks; unknown counts as 0."),
    ),
)


def stage_losses(tables: Tables, waits: pd.DataFrame, lost_task_ms: Floats) -> pd.DataFrame:
    """Scale the time that tasks lost to the elapsed time of their query.

    Frame of `STAGE_LOSSES`.

    tables: ``stages``, ``queries`` and ``tasks`` are used.
    waits: from :func:`iqcar.model.waits.measure.measure_waits`.
    lost_task_ms: (n_stages,), ms; task time lost.
    """
    stage = tables.tasks["stage"].to_numpy(np.int64)
    here = np.flatnonzero((stage >= 0) & (stage < len(tables.stages)))
    parts = [waits[name].to_numpy(np.float64)[here] for name in _LIFE]
    life = sum((np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in parts), np.zeros(len(here)))
    cpu = np.nan_to_num(waits["compute_ms"].to_numpy(np.float64)[here])
    n = len(tables.stages)
    life_ms = sum_by(stage[here], life, n)
    elapsed_ms = elapsed_shares(tables)
    share = share_of(lost_task_ms, life_ms)
    return STAGE_LOSSES.frame(
        {
            "life_ms": life_ms,
            "lost_task_ms": lost_task_ms,
            "elapsed_ms": elapsed_ms,
            "lost_ms": elapsed_ms * np.minimum(share, 1.0),
            "cpu_ms": sum_by(stage[here], cpu, n),
        }
    )


_LIFE = ("duration_ms", *(wait_column(r) for r in LAUNCH_REQUESTS))


def elapsed_shares(tables: Tables) -> Floats:
    """Divide the elapsed time of each query among its stages; concurrent stages share equally.

    Shape (n_stages,), ms. Time without a running stage (planning, driver) is not divided, so the
    shares of a query's stages sum to at most its duration.
    """
    stages, queries = tables.stages, tables.queries
    shares = np.zeros(len(stages))
    query = stages["query"].to_numpy(np.int64)
    start = stages["submission_ms"].to_numpy(np.float64)
    start = np.where(np.isnan(start), stages["first_launch_ms"].to_numpy(np.float64), start)
    end = stages["completion_ms"].to_numpy(np.float64)
    if len(queries) == 0:
        return shares
    known = (query >= 0) & (query < len(queries))
    own = np.where(known, query, 0)
    for limit, bound in (("start_ms", np.fmax), ("end_ms", np.fmin)):
        limits = queries[limit].to_numpy(np.float64)[own]
        start, end = bound(start, limits), bound(end, limits)
    with np.errstate(invalid="ignore"):
        usable = known & np.isfinite(start) & np.isfinite(end) & (end > start)
    rows = np.flatnonzero(usable)
    if len(rows) == 0:
        return shares
    group = np.concatenate([query[rows], query[rows]])
    when = np.concatenate([start[rows], end[rows]])
    order = by_group_and_time(group, when)
    running = np.cumsum(np.repeat([1, -1], len(rows))[order])
    step = np.diff(when[order], append=0.0)
    step[(np.diff(group[order], append=-1) != 0) | (running == 0)] = 0.0
    clock = np.empty(len(order))
    clock[order] = running_total(step / np.maximum(running, 1))
    shares[rows] = np.maximum(clock[len(rows) :] - clock[: len(rows)], 0.0)
    return shares


class DemandLevels(NamedTuple):
    """Levels 1 to 3 of iQC-Graph: stages, resources and demands; each vertex has one edge down.

    Stages without a demand have no vertex, nor has a stage of a target that lost no time.

    stage, target_of_stage: (n1,) row of the stage, and position of its target.
    resource, stage_of_resource: (n2,) code of the resource, and position of its stage.
    demand, resource_of_demand: (n3,) row of the demand, and position of its resource.
    """

    stage: Ints
    target_of_stage: Ints
    resource: Ints
    stage_of_resource: Ints
    demand: Ints
    resource_of_demand: Ints


def demand_levels(
    tables: Tables, demands: pd.DataFrame, losses: pd.DataFrame, targets: Ints, critical_path: bool
) -> DemandLevels:
    """Lay out levels 1 to 3 for some target queries (iQCAR §5.2 to §5.4, table 2)."""
    stage_query = tables.stages["query"].to_numpy(np.int64)
    demand_stage = demands["stage"].to_numpy(np.int64)
    position = np.full(len(tables.queries) + 1, NONE, np.int64)  # the last one is for no query
    position[targets] = np.arange(len(targets))
    target_of_stage = position[stage_query]
    explained = target_of_stage >= 0
    if critical_path:
        explained &= tables.stages["critical"].to_numpy(bool)
    has_demand = np.zeros(len(stage_query), bool)
    has_demand[demand_stage] = True
    explained &= has_demand
    lost = non_negative(losses["lost_ms"])
    lost_of_target = sum_by(target_of_stage[explained], lost[explained], len(targets))
    explained[explained] = lost_of_target[target_of_stage[explained]] > 0

    stage, demand = np.flatnonzero(explained), np.flatnonzero(explained[demand_stage])
    key = positions(explained)[demand_stage[demand]] * len(RESOURCES)
    key += _RESOURCE_OF_REQUEST[demands["request"].to_numpy(np.int64)[demand]]
    keys, resource_of_demand = compact(key, len(stage) * len(RESOURCES))
    return DemandLevels(
        stage=stage,
        target_of_stage=target_of_stage[stage],
        resource=keys % len(RESOURCES),
        stage_of_resource=keys // len(RESOURCES),
        demand=demand,
        resource_of_demand=resource_of_demand,
    )


def contributions(
    levels: DemandLevels, stages: pd.Series, demands: pd.Series
) -> tuple[Floats, Floats, Floats]:
    """Return the vertex contributions VC of levels 1 to 3.

    stages: what each stage contributes, such as the elapsed time it lost, in ms.
    demands: what each demand contributes, such as task time lost, in ms.
    """
    of_stage = non_negative(stages)[levels.stage]
    of_demand = non_negative(demands)[levels.demand]
    of_resource = sum_by(levels.resource_of_demand, of_demand, len(levels.resource))
    return of_stage, of_resource, of_demand


def impact_factors(
    contribution: Floats, towards: Ints, vertices: int, only: Flags | None = None
) -> Floats:
    """Return the impact factor of each vertex's edge towards level 0 (eq. 13), of shape (n,).

    The entries that lead to one vertex sum to 1. Where no in-neighbour of a vertex contributes, all
    get equal parts, or those marked by ``only`` get 1.

    contribution: (n,) VC of each vertex.
    towards: (n,) vertex at the level below that each edge leads to.
    vertices: number of vertices at the level below.
    """
    total = sum_by(towards, contribution, vertices)
    total_of_edge = total[towards]
    with np.errstate(divide="ignore", invalid="ignore"):
        factors: Floats = contribution / total_of_edge
    without = total_of_edge == 0
    if without.any():
        if only is None:
            equal = 1.0 / np.maximum(np.bincount(towards, minlength=vertices), 1)
            factors = np.where(without, equal[towards], factors)
        else:
            factors = np.where(without, only, factors)
    return factors


class DemandWeights(NamedTuple):
    """Weight of each demand in its target query, by which its sources are ranked and summed.

    dor: (n_demands,) degree of responsibility.
    lost_ms: (n_demands,) elapsed time lost, ms.
    """

    dor: Floats
    lost_ms: Floats


def weigh_demands(
    tables: Tables, demands: pd.DataFrame, losses: pd.DataFrame, critical_path: bool
) -> DemandWeights:
    """Compute the weight of each demand in its target query."""
    targets = np.arange(len(tables.queries), dtype=np.int64)
    levels = demand_levels(tables, demands, losses, targets, critical_path)
    towards = levels.target_of_stage, levels.stage_of_resource, levels.resource_of_demand
    contribution = contributions(levels, losses["lost_ms"], demands["lost_ms"])
    dor, lost = np.ones(len(targets)), sum_by(levels.target_of_stage, contribution[0], len(targets))
    for vc, to in zip(contribution, towards, strict=True):
        factor = impact_factors(vc, to, len(dor))
        dor, lost = factor * dor[to], factor * lost[to]
    weights = np.zeros((2, len(demands)))
    weights[:, levels.demand] = dor, lost
    return DemandWeights(weights[0], weights[1])


def non_negative(values: pd.Series) -> Floats:
    """Return a float column with NaN, infinities and negative values replaced by 0."""
    return positive_or_zero(values.to_numpy(np.float64))


def positions(kept: Flags) -> Ints:
    """Return each kept row's position among the kept rows; undefined for other rows."""
    return np.cumsum(kept, dtype=np.int64) - 1


def compact(keys: Ints, limit: int) -> tuple[Ints, Ints]:
    """Return the sorted distinct keys, and each key's position among them; keys are < limit."""
    present = np.zeros(limit, bool)
    present[keys] = True
    return np.flatnonzero(present), positions(present)[keys]
