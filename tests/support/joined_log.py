"""An event log of a query that shuffles both sides of a join, of which one may be small."""

from __future__ import annotations

from typing import Any

from iqcar_lab.clusters.event_log import (
    SyntheticLog,
    node,
    sql_update,
    stage_info,
    task_metrics,
)

MB = 1 << 20
START = 1_700_000_000_000
_LARGE, _SMALL, _JOINED = 11, 12, 13
_HASHED = "Exchange hashpartitioning(k#1L, 8), ENSURE_REQUIREMENTS, [plan_id=1]"


def join_plan(
    join: str = "SortMergeJoin", kind: str = "Inner", exchange: str = _HASHED, above: str = ""
) -> dict[str, Any]:
    """The large side is the left one; ``above``: operators on top, the outermost first."""

    def side(accumulator: int, text: str) -> dict[str, Any]:
        metrics = [(accumulator, "data size", "size")]
        inner = node("Exchange", text, node("Scan parquet t"), metrics=metrics)
        wrapped = node("InputAdapter", None, node("Sort", None, node("InputAdapter", None, inner)))
        return node("WholeStageCodegen (1)", None, wrapped)

    rows = [(_JOINED, "number of output rows", "sum")]
    text = f"{join} [k#1L], [k#5L], {kind}"
    plan = node(join, text, side(_LARGE, exchange), side(_SMALL, _HASHED), metrics=rows)
    for name in reversed(above.split()):
        plan = node(name, None, plan)
    return node("WholeStageCodegen (3)", None, plan)


def joined_log(
    plan: dict[str, Any],
    adapted: dict[str, Any] | None = None,
    small: int = 2 * MB,
    shuffled: tuple[int, int] = (400 * MB, MB),
    queries: int = 1,
    **settings: str,
) -> SyntheticLog:
    """Four slots. The sides take 8 s and 1 s of them, the join 20 s, of 16 million rows.

    ``shuffled``: bytes that the large and the small side write.
    """
    log = SyntheticLog("app-1").app("joined", START).environment(**settings)
    log.executor("1", "host-a", 4, START)
    for query in range(queries):
        _query(log, query, START + 40_000 * query, plan, adapted, small, shuffled)
    return log.end(START + 40_000 * queries)


def _query(
    log: SyntheticLog, query: int, start: int, plan: dict[str, Any],
    adapted: dict[str, Any] | None, small: int, shuffled: tuple[int, int],
) -> None:  # fmt: skip
    properties = {"spark.sql.execution.id": str(query), "spark.job.description": "joined"}
    more = 1000 * query
    log.sql(query, _numbered(plan, more), description="joined", time=start)
    if adapted is not None:
        log.event(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
            {"executionId": query, "physicalPlanDescription": "",
             "sparkPlanInfo": _numbered(adapted, more)},
        )  # fmt: skip
    first = 3 * query
    # tasks, from and to in ms, accumulator, its value, rows and bytes of the shuffle
    stages = [
        (8, 0, 8_000, _LARGE, 600 * MB, 16_000_000, shuffled[0]),
        (1, 0, 1_000, _SMALL, small, 50_000, shuffled[1]),
        (8, 8_000, 28_000, _JOINED, 16_000_000, 0, 0),
    ]
    infos = [
        stage_info(first + number, parents=[first, first + 1] if number == 2 else [],
                   submission=start + begin, **{"Number of Tasks": tasks})
        for number, (tasks, begin, *_) in enumerate(stages)
    ]  # fmt: skip
    log.job(query, infos, start, properties)
    for number, (tasks, begin, end, fed, value, rows, wrote) in enumerate(stages):
        log.stage(infos[number], properties)
        waves = -(-tasks // 4)
        lasts = (end - begin) // waves
        for task in range(tasks):
            launch = start + begin + lasts * (task // 4)
            written = {
                "Shuffle Bytes Written": wrote // tasks,
                "Shuffle Write Time": 0,
                "Shuffle Records Written": rows // tasks,
            }
            metrics = task_metrics(
                Executor_Run_Time=lasts - 20, Executor_CPU_Time=(lasts - 20) * 1_000_000 // 2,
                JVM_GC_Time=0, Shuffle_Read_Metrics={}, Input_Metrics={},
                Shuffle_Write_Metrics=written,
            )  # fmt: skip
            log.task(
                100 * first + 10 * number + task, stage=first + number, metrics=metrics,
                launch=launch, finish=launch + lasts, host="host-a", index=task,
            )  # fmt: skip
        done = {**infos[number], "Accumulables": [sql_update(fed + more, "x", None, value)]}
        log.stage_end(done, start + end)
    log.job_end(query, start + 28_000).sql_end(query, start + 28_100)


def _numbered(plan: dict[str, Any], more: int) -> dict[str, Any]:
    """The plan with other accumulators."""
    metrics = [{**one, "accumulatorId": one["accumulatorId"] + more} for one in plan["metrics"]]
    children = [_numbered(child, more) for child in plan["children"]]
    return {**plan, "metrics": metrics, "children": children}
