"""Shares of a replay: the recorded scheduler mode and pools, or those of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.replay.loop.loop_input import Shares
from iqcar.rules.recorded_setup import DEFAULT_POOL, FAIR, cap_or_none
from iqcar.rules.rule import Assignment, Pool, PoolPlan
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.replay.loop.recorded_workload import Workload


NO_CAP = 2**31 - 1
"""Tasks at once that no application has slots for."""


class StageOrder(NamedTuple):
    """What does not depend on a plan: laid out once for each application.

    query: Row of the query of each stage that runs.
    asked: Pool that each asked for.
    pools: Pools by name, as the plugin saw them last.
    by_stage, by_name: As in :class:`~iqcar.replay.loop.loop_input.Shares`.
    """

    query: list[int]
    asked: list[str]
    pools: dict[str, Pool]
    by_stage: Ints
    by_name: Ints


def stage_order(tables: Tables, workload: Workload) -> StageOrder:
    """Rank the stages of an application by number and by name."""
    order = workload.order
    stages = tables.stages[["query", "stage_id", "attempt", "pool"]].iloc[order.stage]
    by_stage, by_name = (np.zeros(len(order.begin), np.int64) for _ in range(2))
    numbers = zip(stages["stage_id"].tolist(), stages["attempt"].tolist(), strict=True)
    called = [f"TaskSet_{stage}.{attempt}" for stage, attempt in numbers]
    ranks = np.arange(len(called))
    by_stage[order.stage_step] = ranks
    by_name[order.stage_step[sorted(range(len(called)), key=called.__getitem__)]] = ranks
    pools = recorded_pools(tables, workload.app)
    return StageOrder(stages["query"].tolist(), texts(stages, "pool"), pools, by_stage, by_name)


def recorded_shares(tables: Tables, workload: Workload, order: StageOrder) -> Shares:
    """Shares as they were: FIFO, or FAIR among the pools that the record names.

    Weights are those that the plugin saw last; without it, Spark's defaults.
    """
    fair = is_fair(tables, workload.app)
    return shares_of_pools(
        workload, order, fair, order.pools, ran_in_pools(tables, workload.order.stage)
    )


def planned_shares(
    workload: Workload, order: StageOrder, plan: PoolPlan, chosen: Mapping[int, str]
) -> Shares:
    """Shares under a plan: FAIR, queries with an assignment in its pool.

    The others stay in the pool they asked for themselves; rules that put them elsewhere in the
    recorded run are not those of the plan.

    chosen: mapping of query row to pool, from :func:`chosen_pools`.
    """
    pools = {**order.pools, **{pool.name: pool for pool in plan.pools}}
    stages = zip(order.query, order.asked, strict=True)
    after = [chosen.get(query, pool or DEFAULT_POOL) for query, pool in stages]
    return shares_of_pools(workload, order, True, pools, after)


def chosen_pools(tables: Tables, plan: PoolPlan) -> dict[int, str]:
    """Pool of each query that an assignment matches: the first that does, as the plan has them."""
    queries, jobs = tables.queries, tables.jobs
    fingerprints = texts(queries, "fingerprint")
    said: dict[str, dict[int, set[str]]] = {"description": {}, "job_group": {}}
    for field, of_query in said.items():
        if any(getattr(assignment, field) for assignment in plan.assignments):
            for query, text in zip(jobs["query"].tolist(), texts(jobs, field), strict=True):
                of_query.setdefault(query, set()).add(text)

    def matches(assignment: Assignment, query: int) -> bool:
        wanted = (assignment.fingerprint, assignment.description, assignment.job_group)
        return any(wanted) and (
            assignment.fingerprint in ("", fingerprints[query])
            and all(
                not text or text in said[field].get(query, ())
                for field, text in zip(said, wanted[1:], strict=True)
            )
        )

    found: dict[int, str] = {}
    for query in range(len(fingerprints)):
        pool = next((a.pool for a in plan.assignments if matches(a, query)), None)
        if pool is not None:
            found[query] = pool
    return found


def is_fair(tables: Tables, app: int) -> bool:
    """Whether an application ran with spark.scheduler.mode=FAIR."""
    return bool(tables.applications["scheduler_mode"].iloc[app] == FAIR)


def recorded_pools(tables: Tables, app: int) -> dict[str, Pool]:
    """Pools of an application that the plugin saw, as they were last."""
    pools = tables.pools[(tables.pools["app"] == app).to_numpy()]
    pools = pools.iloc[np.argsort(pools["time_ms"].to_numpy(), kind="stable")]
    return {
        name: Pool(
            name, max(1, int(weight)), max(0, int(min_share)), mode, cap_or_none(cap), strict=strict
        )
        for name, weight, min_share, mode, cap, strict in zip(
            texts(pools, "name"),
            np.nan_to_num(pools["weight"].to_numpy(np.float64), nan=1.0).tolist(),
            np.nan_to_num(pools["min_share"].to_numpy(np.float64)).tolist(),
            texts(pools, "mode"),
            pools["cap"].tolist(),
            pools["strict"].tolist(),
            strict=True,
        )
    }


def ran_in_pools(tables: Tables, stage: Ints) -> list[str]:
    """Pool that each stage's tasks ran in: as the plugin saw it at the executor, else as set.

    Rules act after Spark has written down which pool a job asked for: only the executor tells.
    """
    measured = np.full(len(tables.stages), -1, np.int64)
    records = tables.task_records
    named = np.flatnonzero((records["pool"] != "").to_numpy(bool))
    if len(named):
        of_stage = tables.tasks["stage"].to_numpy(np.int64)[records["task"].to_numpy()[named]]
        measured[of_stage[of_stage >= 0]] = named[of_stage >= 0]
    record = measured[stage]
    seen = iter(texts(records.iloc[record[record >= 0]], "pool"))
    asked = texts(tables.stages.iloc[stage], "pool")
    return [
        next(seen) if known else pool or DEFAULT_POOL
        for known, pool in zip((record >= 0).tolist(), asked, strict=True)
    ]


def shares_of_pools(
    workload: Workload,
    order: StageOrder,
    fair: bool,
    pools: Mapping[str, Pool],
    stage_pool: list[str],
    weights: Mapping[str, int] | None = None,
) -> Shares:
    """Number the pools.

    fair: Whether pools divide slots by their weights.
    pools: Those that are declared.
    stage_pool: Pool of each stage that runs.
    weights: Further pools, with their weights.
    """
    pools = {**pools, **{name: Pool(name, weight) for name, weight in (weights or {}).items()}}
    names = sorted({*stage_pool, DEFAULT_POOL})
    number = {name: at for at, name in enumerate(names)}
    # A pool that nobody declared is made by Spark with its defaults: FIFO, weight 1, no minShare.
    declared = [pools.get(name, Pool(name)) for name in names]
    pool = np.zeros(len(order.by_stage), np.int64)
    pool[workload.order.stage_step] = [number[name] for name in stage_pool]
    # Under FIFO there are no pools.
    cap_of, caps = _caps(declared if fair else [], pool, workload.order.stage_step)
    return Shares(
        fair=np.array([fair]), pool_app=np.zeros(len(names), np.int64),
        first_pool=np.array([0, len(names)]), pool=pool,
        by_stage=order.by_stage, by_name=order.by_name,
        pool_fair=np.array([each.mode == FAIR for each in declared], bool),
        pool_weight=np.array([each.weight for each in declared], np.float64),
        pool_min_share=np.array([each.min_share for each in declared], np.float64),
        pool_by_name=np.arange(len(names)), cap_of=cap_of,
        cap=np.array([NO_CAP if each.cap is None else each.cap for each in caps], np.int64),
        cap_share=np.array(
            [1.0 if each.cap_share is None else each.cap_share for each in caps], np.float64
        ),
        cap_strict=np.array([each.strict for each in caps], bool),
    )  # fmt: skip


def _caps(pools: Sequence[Pool], pool: Ints, stage_step: Ints) -> tuple[Ints, list[Pool]]:
    """Number the pools that have a cap; return the cap of each step, and the pools in order."""
    capped = [at for at, one in enumerate(pools) if one.is_capped]
    cap_of = np.full(len(pool), NONE, np.int64)
    for number, at in enumerate(capped):
        cap_of[stage_step[pool[stage_step] == at]] = number
    return cap_of, [pools[at] for at in capped]
