"""Finds whom each query belongs to: a user, pool, session, application, or value of a property."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from iqcar.errors import UsageError
from iqcar.logs.events.settings import CLUSTER_TAGS
from iqcar.logs.text import REDACTED
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Ints

OWNERS = ("user", "pool", "session", "application")
"""What queries can be grouped by besides any Spark property."""

HIDDEN = "(redacted)"
"""The owner where a property holds a secret."""

DATABRICKS = {
    "notebook": "spark.databricks.notebook.path",
    "workflow": "spark.databricks.job.id",
    "workflow-run": "spark.databricks.job.runId",
}
"""Short names of properties by which Databricks tells whose a job of Spark is."""
TAG = "tag:"
"""How a grouping by a tag of the cluster begins; Databricks notes them."""

_OWN_COLUMN = {"spark.scheduler.pool": "pool", "spark.app.name": "application"}
"""Properties that a grouping of :data:`OWNERS` knows from elsewhere."""

ELSE = (
    f", on Databricks {', '.join(DATABRICKS)} or {TAG}NAME of a cluster's tag, or a Spark property "
    "such as spark.yarn.queue"
)
"""What else queries can be grouped by, in words."""


def checked_grouping(by: str) -> str:
    """Return what to group by, under one name; raises UsageError if it is nothing to group by."""
    by = _OWN_COLUMN.get(by, by)
    if by in OWNERS or "." in property_of(by):
        return by
    raise UsageError(
        f"queries cannot be grouped by {by!r}", "--by", f"use {', '.join(OWNERS)}{ELSE}"
    )


def property_of(by: str) -> str:
    """Return the Spark property that a grouping stands for; itself where it is no short name.

    >>> property_of("workflow")
    'spark.databricks.job.id'
    """
    if by.startswith(TAG) and by != TAG:
        return f"{CLUSTER_TAGS}.{by.removeprefix(TAG)}"
    return DATABRICKS.get(by, by)


def owners(tables: Tables, by: str) -> list[str]:
    """Name whom each query belongs to.

    One per query. Nothing known is ``(no pool)``, a secret ``(redacted)``, a query whose jobs
    belong to several ``(several pools)``. Raises UsageError if it is none of these.

    tables: with identified queries.
    by: ``user`` (of the Spark Connect or Thrift session, else as Databricks names it, else of the
        application), ``pool``, ``session`` (of Spark Connect or the SQL Thrift server),
        ``application`` (its name), a short name of :data:`DATABRICKS`, ``tag:NAME`` of a cluster's
        tag, or a property such as ``spark.yarn.queue``: as the query's jobs set it, else its SQL
        session, else its application.
    """
    by = checked_grouping(by)
    told = _told_by_jobs(tables, by)
    app = tables.queries["app"].to_numpy(np.int64)
    if by == "user":
        default = _of_applications(texts(tables.applications, "user"), app)
    elif by == "application":
        default = _of_applications(texts(tables.applications, "name"), app)
    elif by in OWNERS:
        default = [""] * len(app)
    else:
        default = _of_applications(_set_by_applications(tables, property_of(by)), app)
    several = f"(several {by}s)" if by in OWNERS else f"(several values of {by})"
    return [
        _shown(next(iter(own)) if own else one, by) if len(own) < 2 else several
        for own, one in zip(told, default, strict=True)
    ]


def _shown(value: str, by: str) -> str:
    if REDACTED in value:
        return HIDDEN
    return value or f"(no {by})"


def _told_by_jobs(tables: Tables, by: str) -> list[set[str]]:
    """Values that the jobs of each query have of their own, without what is not known."""
    found: list[set[str]] = [set() for _ in range(len(tables.queries))]
    if by == "application":
        return found
    jobs = tables.jobs
    of_job = texts(jobs, by) if by in OWNERS else _set_by_jobs(tables, property_of(by))
    for query, value in zip(jobs["query"].tolist(), of_job, strict=True):
        if query >= 0 and value:
            found[query].add(value)
    if by == "pool":  # a stage says it where its job's start is not in the log
        stages = tables.stages
        alone = stages["job"].to_numpy() == NONE
        for query, value in zip(
            stages["query"].to_numpy()[alone].tolist(), texts(stages[alone], "pool"), strict=True
        ):
            if query >= 0 and value:
                found[query].add(value)
    return found


def _set_by_jobs(tables: Tables, key: str) -> list[str]:
    """Value of a property by job, as it or its SQL session sets it; empty where neither does."""
    of_session = _rows(tables.conf, key)
    of_session = of_session[of_session["sql_execution"] >= 0]
    by_execution = dict(
        zip(of_session["sql_execution"].tolist(), texts(of_session, "value"), strict=True)
    )
    values = [by_execution.get(one, "") for one in tables.jobs["sql_execution"].tolist()]
    own = _rows(tables.job_properties, key)
    for job, value in zip(own["job"].tolist(), texts(own, "value"), strict=True):
        values[job] = value
    return values


def _set_by_applications(tables: Tables, key: str) -> list[str]:
    values = [""] * len(tables.applications)
    rows = _rows(tables.conf, key)
    rows = rows[rows["sql_execution"] < 0]
    for app, value in zip(rows["app"].tolist(), texts(rows, "value"), strict=True):
        values[app] = value
    return values


def _of_applications(values: Sequence[str], app: Ints) -> list[str]:
    return [values[one] for one in app.tolist()]


def _rows(settings: pd.DataFrame, key: str) -> pd.DataFrame:
    return settings[(settings["key"] == key).to_numpy(bool)]
