"""Tables of SQL queries with times in the driver."""

from __future__ import annotations

from iqcar.enums import QueryBy
from iqcar.model.queries.identify import identify
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables


def queries_of(
    runs: list[tuple[int, int, list[tuple[int, list[tuple[int, int]]]]]],
    metrics: list[tuple[str, float]] = (),
    query_by: QueryBy = QueryBy.SQL,
    phases: list[tuple[str, int, int]] = (),
    jobs: list[tuple[int, int, int]] = (),
    late: int = 0,
) -> Tables:
    """SQL queries from start to end, and of each stage: its submission, and of its tasks the wait
    for a slot and the run; the first query has the metrics, and the phases from start to length.

    Each stage has a job of its own time; ``jobs`` are more: query, start and length. Completions of
    stages are noticed ``late``.
    """
    stages = [(query, *stage) for query, (_, _, stages) in enumerate(runs) for stage in stages]
    spans = [(begin, begin + max(sum(task) for task in tasks)) for _, begin, tasks in stages]
    times = [(query, *span) for (query, *_), span in zip(stages, spans, strict=True)]
    times += [(query, start, start + length) for query, start, length in jobs]
    return identify(
        tiny_tables(
            sql_executions=[
                {"execution_id": row, "root_execution_id": row, "start_ms": start, "end_ms": end}
                for row, (start, end, _) in enumerate(runs)
            ],
            jobs=[
                {"job_id": row, "sql_execution": of, "submission_ms": start, "completion_ms": end}
                for row, (of, start, end) in enumerate(times)
            ],
            stages=[
                {
                    "stage_id": row,
                    "job": row,
                    "declared_tasks": len(tasks),
                    "submission_ms": begin,
                    "first_launch_ms": begin + min(wait for wait, _ in tasks),
                    "completion_ms": spans[row][1] + late,
                }
                for row, (_, begin, tasks) in enumerate(stages)
            ],
            tasks=[
                {"stage": row, "launch_ms": begin + wait, "finish_ms": begin + wait + ran}
                for row, (_, begin, tasks) in enumerate(stages)
                for wait, ran in tasks
            ],
            sql_metrics=[
                {"metric": name, "total": total, "unit": "ms", "node": "Scan"}
                for name, total in metrics
            ],
            driver_phases=[
                {"phase": name, "start_ms": start, "end_ms": start + length}
                for name, start, length in phases
            ],
        ),
        query_by,
    )
