"""Groups jobs into queries, and gives each query its names, a fingerprint, and its owner.

A query is the root SQL execution; else the Spark Connect operation; else the job group; else the
job (``--query-by`` can ask for something coarser or finer). The fingerprint is equal for every
run of the same recurring query: rules match on it. It holds a name without dates, times, ids and
numbers of runs (:mod:`iqcar.logs.text`). Where Spark Connect describes a request,
which says nothing of the query, the fingerprint is that of the plan.

Only what is shown: fingerprints and families are of the names as they were recorded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from iqcar.enums import QueryBy
from iqcar.errors import UsageError
from iqcar.logs.events.operators import MAX_SOURCES, SEPARATOR, named_plan
from iqcar.logs.events.root_cause import is_cancelled, is_vague
from iqcar.logs.events.settings import CLUSTER_TAGS, CONNECT, is_statement
from iqcar.logs.text import REDACTED, family, tells_apart
from iqcar.tables import NONE, QUERIES, Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

_PLACES = (
    "NativeMethodAccessorImpl.java:", "DirectMethodHandleAccessor.java:", "<stdin>:", "<console>:",
    "threading.py:", "ThreadPoolExecutor.java:", "CompletableFuture.java:", "Future.java:",
)  # fmt: skip
"""Files of call sites that are the same whatever the query is."""
_THREADS = _PLACES[4:]
"""Those in which the call says nothing, either."""
_CALLS = {"showString": "show", "collectToPython": "collect", "toPandas": "toPandas"}
_NO_TABLES = ("Scan", "ExistingRDD")
"""What a plan is said to read where it names no table."""
_CODE = ("import ", "package ", "//", "#", "--", "%")


def readable_name(told: str, does: str) -> str:
    r"""Return a name that tells a query from others.

    told: its description or call site, as recorded.
    does: what its plan or its stages do; empty if unknown.

    >>> readable_name("parquet at NativeMethodAccessorImpl.java:0", "write of trips")
    'parquet: write of trips'
    >>> readable_name("import tempfile\nfile = tempfile.Named...", "join of trips, zones")
    'join of trips, zones'
    >>> readable_name("-- by day\n\nSELECT day FROM trips", "read of trips")
    'SELECT day FROM trips'
    """
    told = told.replace("<br/>", " ")  # Spark writes it into descriptions of its own
    if (call := _call_that_says_nothing(told)) is not None:
        return f"{call}: {does}" if call and does else does or call or told
    lines = [line.strip() for line in _without_comment(told).splitlines()]
    left = [line for line in lines if line and not _is_import_or_comment(line)]
    is_code = len(lines) > 1 or told.startswith(("import ", "from ")) or told.endswith("...")
    if not is_code or (left and left == [line for line in told.splitlines() if line.strip()]):
        return told
    text = " ".join(left)
    if is_statement(text):
        return text
    return does or text or told


def readable_call(told: str) -> str:
    """Return a call site without the place where that says nothing, else without its folders.

    >>> readable_call("parquet at NativeMethodAccessorImpl.java:0")
    'parquet'
    >>> readable_call("collect at /opt/jobs/nightly.py:12")
    'collect at nightly.py:12'
    """
    if (short := _call_that_says_nothing(told)) is not None:
        return short or told
    call, at, place = told.rpartition(" at ")
    return f"{call}{at}{place.rpartition('/')[2]}" if at and " " not in call + place else told


def _call_that_says_nothing(told: str) -> str | None:
    """Return the call of a call site whose file says nothing; None for any other text."""
    call, at, place = told.rpartition(" at ")
    if not at or " " in call or "\n" in told or " " in place:
        return None
    place = place.rpartition("/")[2]
    if call.startswith("$anonfun$") or place.startswith(_THREADS):
        return ""
    return _CALLS.get(call, call) if place.startswith(_PLACES) else None


def _without_comment(told: str) -> str:
    text = told.strip()
    while text.startswith("/*") and "*/" in text:
        text = text.partition("*/")[2].strip()
    return text


def _is_import_or_comment(line: str) -> bool:
    return line.startswith(_CODE) or (line.startswith("from ") and " import " in line)


def what_queries_do(tables: Tables, execution: Ints) -> list[str]:
    """Return what each query does, by its plan, else by its stages; empty where unknown.

    execution: (n_queries,) row of each query's SQL execution, −1 for none.
    """
    sql, stages = tables.sql_executions, tables.stages
    operators, sources = texts(sql, "operators"), texts(sql, "tables")
    names, labels = texts(stages, "name"), texts(stages, "label")
    query = stages["query"].to_numpy(np.int64)
    order = np.lexsort((stages["stage_id"].to_numpy(), query))
    of_query: dict[int, list[int]] = {}
    for row in order.tolist():
        of_query.setdefault(int(query[row]), []).append(row)
    does = []
    for number, row in enumerate(execution.tolist()):
        if row >= 0 and operators[row]:
            read = [one for one in sources[row].split(SEPARATOR) if one and one not in _NO_TABLES]
            does.append(named_plan(operators[row], read))
        else:
            rows = of_query.get(number, [])
            does.append(_of_stages([names[at] for at in rows], [labels[at] for at in rows]))
    return does


def _of_stages(names: Sequence[str], labels: Sequence[str]) -> str:
    """Return the last call site that says something, else what the last stage ran."""
    for name in reversed(names):
        if name and _call_that_says_nothing(name) is None:
            return name
    parts = labels[-1].split(SEPARATOR) if labels else []
    return ", ".join(parts[:MAX_SOURCES])


NAME_IN_FINGERPRINT = 120
"""Characters up to which a name stands in a fingerprint as it is; longer ones are hashed."""

_BROADCAST = "broadcast exchange"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class _Key(NamedTuple):
    """What jobs of one query have in common."""

    app: int
    kind: str
    value: Hashable


def identify(tables: Tables, query_by: QueryBy = QueryBy.SQL) -> Tables:
    """Group jobs into queries.

    With ``query_by`` set, ``queries`` made and the ``query`` column of jobs, stages and tasks set.
    Stages that belong to no known job become a query of their own per stage id.

    tables: as read; any earlier grouping is replaced.
    query_by: what counts as one query.
    """
    jobs, stages, tasks = tables.jobs, tables.stages, tables.tasks
    rows: dict[_Key, int] = {}
    job_query = np.full(len(jobs), NONE, np.int32)
    for row, job in enumerate(_job_keys(tables, query_by)):
        job_query[row] = rows.setdefault(job, len(rows))
    if query_by is QueryBy.SQL:
        # A query that failed before its first job, as at a path that is not there, ran nothing.
        sql = tables.sql_executions
        alone = (sql["error"] != "") & (sql["root_execution_id"] == sql["execution_id"])
        for app, number in sql.loc[alone, ["app", "execution_id"]].itertuples(index=False):
            rows.setdefault(_Key(int(app), "sql", int(number)), len(rows))
    stage_job = stages["job"].to_numpy()
    stage_query = np.full(len(stages), NONE, np.int32)
    if len(jobs):
        stage_query = np.where(stage_job >= 0, job_query[np.maximum(stage_job, 0)], NONE)
    stage_app, stage_id = stages["app"].tolist(), stages["stage_id"].tolist()
    for row in np.flatnonzero(stage_query == NONE).tolist():
        key = _Key(stage_app[row], "stage", stage_id[row])
        if query_by is QueryBy.APP:
            key = _Key(stage_app[row], "app", "")
        stage_query[row] = rows.setdefault(key, len(rows))
    task_stage = tasks["stage"].to_numpy()
    task_query = np.full(len(tasks), NONE, np.int32)
    if len(stages):
        task_query = np.where(task_stage >= 0, stage_query[np.maximum(task_stage, 0)], NONE)

    jobs = jobs.assign(query=job_query)
    stages = stages.assign(query=stage_query.astype(np.int32))
    tasks = tasks.assign(query=task_query.astype(np.int32))
    tables = replace(tables, jobs=jobs, stages=stages, tasks=tasks, query_by=query_by)
    return tables.with_(queries=_query_table(tables, list(rows)))


def _job_keys(tables: Tables, query_by: QueryBy) -> list[_Key]:
    jobs = tables.jobs
    app = jobs["app"].to_numpy()
    job_id = jobs["job_id"].to_numpy()
    if query_by is QueryBy.APP:
        return [_Key(int(a), "app", "") for a in app]
    if query_by is QueryBy.JOB:
        return [_Key(int(a), "job", int(j)) for a, j in zip(app, job_id, strict=True)]
    keys: list[_Key] = []
    last_of: dict[tuple[int, str], _Key] = {}
    sql = tables.sql_executions
    root = sql["root_execution_id"].to_numpy() if len(sql) else np.zeros(0, np.int64)
    for a, j, execution, operation, group, description, pool in zip(
        app, job_id, jobs["sql_execution"].tolist(), texts(jobs, "connect_operation"),
        texts(jobs, "job_group"), texts(jobs, "description"), texts(jobs, "pool"), strict=True,
    ):  # fmt: skip
        # Spark runs a broadcast in a job group of its own, and where the query is no SQL execution
        # (a cached DataFrame read through an RDD) nothing else says whose it is.
        broadcast = execution < 0 and group and description == f"{_BROADCAST} (runId {group})"
        if broadcast and (int(a), pool) in last_of:
            keys.append(last_of[int(a), pool])
            continue
        if query_by is QueryBy.SQL and execution >= 0:
            key = _Key(int(a), "sql", int(root[execution]))
        elif query_by is QueryBy.SQL and operation:
            key = _Key(int(a), "connect", operation)
        elif group:
            key = _Key(int(a), "job-group", group)
        else:
            key = _Key(int(a), "job", int(j))
        keys.append(key)
        last_of[int(a), pool] = key
    return keys


def _query_table(tables: Tables, keys: list[_Key]) -> pd.DataFrame:
    """Build one row per key: name, fingerprint, times and counts."""
    n = len(keys)
    jobs, stages, tasks, sql = tables.jobs, tables.stages, tables.tasks, tables.sql_executions
    job_query = jobs["query"].to_numpy()
    first_job = np.full(n, NONE)
    first_job[job_query[::-1]] = np.arange(len(jobs))[::-1]
    start, end, ended = _extent(tables, n)
    failed = np.zeros(n, bool)
    job_failed = ~jobs["succeeded"].to_numpy(bool) & _job_ended(jobs)
    np.logical_or.at(failed, job_query, job_failed)
    execution = _sql_rows(sql, keys)
    is_sql = execution >= 0
    if is_sql.any():
        row = execution[is_sql]
        sql_end = sql["end_ms"].to_numpy(np.float64)[row]
        sql_start = sql["start_ms"].to_numpy(np.float64)[row]
        start[is_sql] = np.where(np.isnan(sql_start), start[is_sql], sql_start)
        ended[is_sql] = ~np.isnan(sql_end)
        end[is_sql] = np.where(np.isnan(sql_end), end[is_sql], sql_end)
        # A job of a query that ended well is one that it no longer needed.
        failed[is_sql] &= ~sql["succeeded"].to_numpy(bool)[row]
        failed[is_sql] |= (sql["error"].to_numpy() != "")[row]
    app_end = tables.applications["end_ms"].to_numpy(np.float64)
    app = np.array([key.app for key in keys], np.int64)
    end = np.where(ended, end, np.fmax(end, app_end[app])) if n else end
    end = np.fmax(end, start)

    labels = _application_labels(tables.applications)
    ids = [f"{labels[key.app]}/{_id_of(key)}" for key in keys]
    identities = _Identities(tables)
    named = [
        identities.of_sql(row) if row >= 0 else identities.of_jobs(key, job)
        for key, row, job in zip(keys, execution.tolist(), first_job.tolist(), strict=True)
    ]
    pool = texts(jobs, "pool")
    return QUERIES.frame(
        {
            "query_id": ids,
            "app": app,
            "name": _shown_names(tables, keys, execution, named, ids),
            "kind": [key.kind for key in keys],
            "fingerprint": [fingerprint for _, fingerprint in named],
            "family": [family(name) for name, _ in named],
            "pool": [pool[job] if job >= 0 else "" for job in first_job.tolist()],
            "start_ms": start,
            "end_ms": end,
            "duration_ms": end - start,
            "ended": ended,
            "failed": failed,
            "error": _errors(tables, failed, execution),
            "jobs": np.bincount(job_query, minlength=n),
            "stages": np.bincount(_valid(stages["query"]), minlength=n),
            "tasks": np.bincount(
                _valid(tasks["query"][~tasks["status"].isin(("running", "waiting")).to_numpy()]),
                minlength=n,
            ),
        }
    )


def _errors(tables: Tables, failed: Flags, execution: Ints) -> list[str]:
    """Why each query failed: as the last task says for which a job of it was aborted, else its job,
    its SQL execution, its stage, its last failed task.

    A SQL execution tells the outermost error, a task the innermost. What only says that something
    else failed counts last, as do jobs that were cancelled: mostly for another one's error.

    failed, execution: (n_queries,) whether it did; row of its SQL execution, −1 for none.
    """
    said: list[list[str]] = [[] for _ in failed]
    task, tasks = tables.task_failures["task"].to_numpy(np.int64), tables.tasks
    last = -tasks["finish_ms"].to_numpy(np.float64)[task]
    not_killed = (tasks["status"] == "failed").to_numpy(bool)[task]
    jobs, stages, failures = tables.jobs, tables.stages, tables.task_failures
    of_jobs = texts(jobs, "error")
    by_itself = np.array([bool(one) and not is_cancelled(one) for one in of_jobs], bool)
    of_query, of_task = jobs["query"].to_numpy(np.int64), tasks["query"].to_numpy(np.int64)[task]
    ended = jobs["completion_ms"].to_numpy(np.float64)
    of_job = np.append(by_itself, False)[stages["job"].to_numpy(np.int64)]
    aborted = (stages["failure_reason"] != "").to_numpy(bool) & of_job
    of_aborted = np.append(aborted, False)[tasks["stage"].to_numpy(np.int64)[task]] & not_killed
    of_sql, sql = texts(tables.sql_executions, "error"), np.flatnonzero(execution >= 0)
    for words, when, query in (
        (texts(failures, "message"), last, np.where(of_aborted, of_task, NONE)),
        (of_jobs, ended, np.where(by_itself, of_query, NONE)),
        (
            [of_sql[row] for row in execution[sql].tolist()],
            np.zeros(len(sql)),
            sql,
        ),
        (of_jobs, ended, of_query),
        (
            texts(stages, "failure_reason"),
            stages["completion_ms"].to_numpy(np.float64),
            stages["query"].to_numpy(np.int64),
        ),
        (texts(failures, "message"), last, np.where(not_killed, of_task, NONE)),
    ):
        mine = np.flatnonzero((query >= 0) & np.append(failed, False)[query])
        for row in mine[np.argsort(when[mine], kind="stable")].tolist():
            said[int(query[row])].append(words[row])
    return [
        next((line for line in lines if not is_vague(line)), next(filter(None, lines), ""))
        for lines in said
    ]


def _shown_names(
    tables: Tables,
    keys: list[_Key],
    execution: Ints,
    named: list[tuple[str, str]],
    ids: list[str],
) -> list[str]:
    """Names for people; where one says more than the fingerprint, plans tell queries apart.

    named: each query's recorded name and fingerprint; ids: what stands where there is no name.
    """
    does, plans = what_queries_do(tables, execution), texts(tables.sql_executions, "plan_hash")
    names, alike = [], []
    for row, what, (told, fingerprint) in zip(execution.tolist(), does, named, strict=True):
        names.append(readable_name(told, what))
        alike.append(plans[row] if row >= 0 and names[-1] != told else fingerprint)
    of_app = texts(tables.applications, "name")
    names = [name or of_app[key.app] or i for name, key, i in zip(names, keys, ids, strict=True)]
    return _told_apart(names, alike, keys)


def _sql_rows(sql: pd.DataFrame, keys: list[_Key]) -> Ints:
    """Row of each query's SQL execution, −1 for a query that is none."""
    row_of = {
        pair: row
        for row, pair in enumerate(
            zip(sql["app"].tolist(), sql["execution_id"].tolist(), strict=True)
        )
    }
    return np.array(
        [row_of.get((k.app, k.value), NONE) if k.kind == "sql" else NONE for k in keys], np.int64
    )


def _valid(rows: pd.Series[int]) -> Ints:
    values: Ints = rows.to_numpy(np.int64)
    return values[values >= 0]


def _extent(tables: Tables, n: int) -> tuple[Floats, Floats, Flags]:
    """First start and last end of each query's jobs, stages and tasks, and whether all ended."""
    start, end = np.full(n, np.nan), np.full(n, np.nan)
    ended = np.ones(n, bool)
    jobs, stages, tasks = tables.jobs, tables.stages, tables.tasks
    for frame, first, last in (
        (jobs, "submission_ms", "completion_ms"),
        (stages, "submission_ms", "completion_ms"),
        (tasks, "launch_ms", "finish_ms"),
    ):
        query = frame["query"].to_numpy(np.int64)
        has = query >= 0
        np.fmin.at(start, query[has], frame[first].to_numpy(np.float64)[has])
        np.fmax.at(end, query[has], frame[last].to_numpy(np.float64)[has])
    np.logical_and.at(ended, jobs["query"].to_numpy(), _job_ended(jobs))
    orphan = np.bincount(_valid(jobs["query"]), minlength=n) == 0
    stage_query = stages["query"].to_numpy()
    has = (stage_query >= 0) & orphan[np.maximum(stage_query, 0)] if n else stage_query >= 0
    np.logical_and.at(ended, stage_query[has], stages["completed"].to_numpy(bool)[has])
    return start, end, ended


def _job_ended(jobs: pd.DataFrame) -> Flags:
    """Whether each job has ended; Spark 1.2 logs the ends of jobs without times."""
    told = jobs["succeeded"] | (jobs["error"] != "") | jobs["completion_ms"].notna()
    ended: Flags = told.to_numpy(bool)
    return ended


def _application_labels(applications: pd.DataFrame) -> list[str]:
    """Application ids made unique: attempts get their number, repeats a running one."""
    labels: list[str] = []
    seen: dict[str, int] = {}
    for app_id, attempt in zip(
        texts(applications, "application_id"), texts(applications, "attempt_id"), strict=True
    ):
        label = f"{app_id}_{attempt}" if attempt else app_id
        seen[label] = seen.get(label, 0) + 1
        labels.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return labels


def _told_apart(names: list[str], fingerprints: list[str], keys: list[_Key]) -> list[str]:
    """Add to a name the id of its query's first run where queries of an application share it.

    Spark names a query after the line that started it (``collect at x.py:25``): several queries
    have that line. Runs of one query, which have one fingerprint, keep one name.
    """
    first: dict[tuple[int, str], dict[str, _Key]] = {}
    for name, fingerprint, key in zip(names, fingerprints, keys, strict=True):
        first.setdefault((key.app, name), {}).setdefault(fingerprint, key)
    return [
        f"{name} ({_id_of(runs[fingerprint])})" if len(runs) > 1 else name
        for name, fingerprint, runs in zip(
            names,
            fingerprints,
            (first[key.app, name] for name, key in zip(names, keys, strict=True)),
            strict=True,
        )
    ]


def _id_of(key: _Key) -> str:
    return "app" if key.kind == "app" else f"{key.kind}-{key.value}"


def _fingerprint_of(kind: str, text: str) -> str:
    text = family(text)
    if len(text) <= NAME_IN_FINGERPRINT:
        return f"{kind}:{text}"
    return f"{kind}-sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


class _Identities:
    """Names and fingerprints of queries."""

    def __init__(self, tables: Tables) -> None:
        sql, jobs, stages = tables.sql_executions, tables.jobs, tables.stages
        self._sql_description = texts(sql, "description")
        self._sql_named: list[bool] = sql["user_named"].tolist()
        self._plan_hash = texts(sql, "plan_hash")
        self._job_description = texts(jobs, "description")
        self._job_group = texts(jobs, "job_group")
        self._connect_request = texts(jobs, "connect_request")
        self._app_name = texts(tables.applications, "name")
        self._call_sites: dict[int, set[str]] = {}
        self._stage_call_site: dict[tuple[int, int], str] = {}
        for job, app, stage_id, name in zip(
            stages["job"].tolist(), stages["app"].tolist(), stages["stage_id"].tolist(),
            texts(stages, "name"), strict=True,
        ):  # fmt: skip
            self._call_sites.setdefault(job, set()).add(name)
            self._stage_call_site[app, stage_id] = name

    def of_sql(self, row: int) -> tuple[str, str]:
        name, plan_hash = self._sql_description[row], self._plan_hash[row]
        if tells_apart(name) and (self._sql_named[row] or not plan_hash):
            return name, _fingerprint_of("name", name)
        return name, f"plan:{plan_hash}" if plan_hash else ""

    def of_jobs(self, key: _Key, job: int) -> tuple[str, str]:
        if key.kind == "app":
            name = self._app_name[key.app]
            return name, _fingerprint_of("app", name)
        if key.kind == "stage":
            name = self._stage_call_site[key.app, cast("int", key.value)]
            return name, _fingerprint_of("call", name) if name != CONNECT else ""
        description, group = self._job_description[job], self._job_group[job]
        if tells_apart(description):
            return description, _fingerprint_of("name", description)
        if key.kind == "job-group" and tells_apart(group) and not _UUID.search(group):
            return description or group, _fingerprint_of("group", group)
        # Spark Connect calls all stages and groups alike: they tell no query from another.
        of_stages = self._call_sites.get(job, set())
        call_sites = sorted(of_stages - {CONNECT})
        if not call_sites and (of_stages or key.kind == "connect"):
            return description or self._connect_request[job], ""
        name = call_sites[-1] if call_sites else group
        return description or name, _fingerprint_of("call", " / ".join(call_sites) or name)


def execution_rows(tables: Tables) -> list[int]:
    """Return the row of each query's SQL execution; −1 for a query that is none."""
    sql, queries = tables.sql_executions, tables.queries
    keys = zip(sql["app"].tolist(), sql["execution_id"].tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    found = []
    for app, query_id in zip(queries["app"].tolist(), texts(queries, "query_id"), strict=True):
        kind, _, number = query_id.rpartition("/")[2].partition("-")
        found.append(row_of.get((app, int(number)), NONE) if kind == "sql" else NONE)
    return found


def query_of_executions(tables: Tables) -> Ints:
    """Return the query that each SQL execution is, or is part of: (n_executions,); −1 if none."""
    sql = tables.sql_executions
    app, number, root = (
        sql[name].tolist() for name in ("app", "execution_id", "root_execution_id")
    )
    query_of = {
        (app[row], number[row]): query
        for query, row in enumerate(execution_rows(tables))
        if row >= 0
    }
    return np.array([query_of.get(key, NONE) for key in zip(app, root, strict=True)], np.int64)


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
