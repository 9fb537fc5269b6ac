"""Table declarations (each column once: dtype, unit, sentence), and array operations by group."""

from iqcar.tables.declarations import NONE, Column, TableSpec, texts
from iqcar.tables.recorded_applications import recorded_applications
from iqcar.tables.recorded_tables import (
    EXECUTOR_TARGETS,
    INTERVALS,
    POOLS,
    SAMPLES,
    TASK_RECORDS,
)
from iqcar.tables.specs import (
    APPLICATIONS,
    EXECUTORS,
    HOSTS,
    INPUTS,
    JOBS,
    LAST_PLAUSIBLE_MS,
    QUERIES,
    SPECS,
    SQL_EXECUTIONS,
    SQL_METRICS,
    STAGE_PARENTS,
    STAGES,
    TASK_FAILURES,
    TASKS,
    Tables,
    recurring_queries,
)

__all__ = [
    "APPLICATIONS",
    "EXECUTORS",
    "EXECUTOR_TARGETS",
    "HOSTS",
    "INPUTS",
    "INTERVALS",
    "JOBS",
    "LAST_PLAUSIBLE_MS",
    "NONE",
    "POOLS",
    "QUERIES",
    "SAMPLES",
    "SPECS",
    "SQL_EXECUTIONS",
    "SQL_METRICS",
    "STAGES",
    "STAGE_PARENTS",
    "TASKS",
    "TASK_FAILURES",
    "TASK_RECORDS",
    "Column",
    "TableSpec",
    "Tables",
    "recorded_applications",
    "recurring_queries",
    "texts",
]
