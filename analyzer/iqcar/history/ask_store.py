"""Asks a store with DuckDB: who lost to whom, what is aggressive, slow or hot, how a query does.

Only the last addition of each application counts, and only rows whose addition was finished.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from iqcar.enums import BlameKind, Resource
from iqcar.errors import IqcarError, UsageError
from iqcar.formatting import short
from iqcar.history.stored_files import Store, open_store
from iqcar.history.stored_tables import APPLICATIONS, BLAME, CAUSES, HOSTS, PROPERTIES, QUERIES

if TYPE_CHECKING:
    import pandas as pd
    from duckdb import DuckDBPyConnection

PERIODS = ("day", "week", "month", "all")
OWNERS = ("query", "user", "pool", "session", "application", "cluster")
"""What victims and sources can be grouped by, besides any Spark property."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NEAR = 8
"""Names that are suggested for a query that is not there."""

_LABEL = "coalesce(nullif(q.family, ''), nullif(q.name, ''), q.query_id)"


@dataclass(frozen=True)
class Asked:
    """A store, and the part of it that is asked about.

    Attributes
    ----------
    store : Store
    since, until : str
        First and last day (YYYY-MM-DD, UTC) on which an application started; empty for any.
    cluster : str
        Empty for all.
    """

    store: Store
    since: str = ""
    until: str = ""
    cluster: str = ""

    @cached_property
    def tables(self) -> DuckDBPyConnection:
        """A connection with a view of the rows that count of each stored table.

        Raises
        ------
        UsageError
            If a day is none.
        IqcarError
            If there is no store, or it cannot be read.
        """
        import duckdb

        for day in (self.since, self.until):
            if day and not _DAY.fullmatch(day):
                raise UsageError("is no day", day, "write it as 2026-11-23")
        self.store.must_exist()
        connection = self.store.connect(self.since, self.until)
        chosen = "WHERE cluster = ?" if self.cluster else ""
        try:
            connection.execute(
                f"CREATE TEMP TABLE applications AS SELECT * FROM every_{APPLICATIONS.name} "
                f"{chosen} QUALIFY row_number() OVER "
                "(PARTITION BY cluster, application_id, attempt_id ORDER BY batch DESC) = 1",
                [self.cluster] if self.cluster else [],
            )
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise IqcarError(f"cannot be read: {first_line(error)}", self.store.url) from error
        for table in (QUERIES, BLAME, CAUSES, HOSTS, PROPERTIES):
            connection.execute(
                f"CREATE TEMP VIEW {table.name} AS SELECT t.* FROM every_{table.name} t "
                "SEMI JOIN applications USING (cluster, batch, application_id, attempt_id)"
            )
        return connection

    def ask(self, sql: str, *values: Any) -> pd.DataFrame:
        """Return what a query over the views answers."""
        import duckdb

        try:
            return self.tables.execute(sql, list(values)).df()
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise IqcarError(f"cannot be read: {first_line(error)}", self.store.url) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]


def asked(store: Store | str | Asked, since: str = "", until: str = "", cluster: str = "") -> Asked:
    """Return a store with the part of it that is asked about."""
    if isinstance(store, Asked):
        return store
    return Asked(open_store(store) if isinstance(store, str) else store, since, until, cluster)


@dataclass(frozen=True)
class Top:
    """What stands out in a store, the worst first in each period.

    Attributes
    ----------
    queries : DataFrame
        period, cluster, fingerprint, name, runs, victims, lost_ms (that others lost to it).
    hosts : DataFrame
        period, cluster, host, applications, tasks, slowdown (time of its tasks over what they take
        by the medians of their stages), excess_ms (their difference), stragglers, delay_ms.
    resources : DataFrame
        period, cluster, resource, host, lost_ms (to other queries), victims.
    """

    queries: pd.DataFrame
    hosts: pd.DataFrame
    resources: pd.DataFrame


def top(store: Store | str | Asked, period: str = "week", most: int = 10) -> Top:
    """Rank aggressive queries, slow nodes and hot resources in each period.

    Parameters
    ----------
    store : Store, str or Asked
    period : str
        One of :data:`PERIODS`.
    most : int
        Rows of each ranking and period.
    """
    if period not in PERIODS:
        raise UsageError(f"there is no period {period!r}", "", f"use {', '.join(PERIODS)}")
    about = asked(store)
    when = _period(period)
    queries = about.ask(
        f"""
        WITH source AS (
          SELECT b.cluster, {when} AS period, q.fingerprint, {_LABEL} AS name, b.lost_ms,
                 b.source_application_id || b.source_query_id AS run,
                 b.application_id || b.query_id AS victim
          FROM blame b JOIN applications a USING (cluster, batch, application_id, attempt_id)
          JOIN queries q ON q.cluster = b.cluster AND q.application_id = b.source_application_id
            AND q.attempt_id = b.source_attempt_id AND q.query_id = b.source_query_id
          WHERE b.kind = '{BlameKind.QUERY.value}')
        SELECT period, cluster, fingerprint, max(name) AS name, count(DISTINCT run) AS runs,
               count(DISTINCT victim) AS victims, sum(lost_ms) AS lost_ms
        FROM source GROUP BY period, cluster, fingerprint
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY sum(lost_ms) DESC, fingerprint) <= ?
        ORDER BY period DESC, lost_ms DESC, fingerprint""",
        most,
    )
    hosts = about.ask(
        f"""
        SELECT {when} AS period, h.cluster, h.host, count(*) AS applications,
               sum(h.tasks)::BIGINT AS tasks,
               sum(h.compared_ms) / nullif(sum(h.expected_ms), 0) AS slowdown,
               sum(h.compared_ms) - sum(h.expected_ms) AS excess_ms,
               sum(h.stragglers)::BIGINT AS stragglers, sum(h.delay_ms) AS delay_ms
        FROM hosts h JOIN applications a USING (cluster, batch, application_id, attempt_id)
        GROUP BY 1, 2, 3 HAVING sum(h.expected_ms) > 0
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY excess_ms DESC, h.host) <= ?
        ORDER BY period DESC, excess_ms DESC, host""",
        most,
    )
    resources = about.ask(
        f"""
        SELECT {when} AS period, b.cluster, b.resource, b.host, sum(b.lost_ms) AS lost_ms,
               count(DISTINCT b.application_id || b.query_id) AS victims
        FROM blame b JOIN applications a USING (cluster, batch, application_id, attempt_id)
        WHERE b.kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
        GROUP BY 1, 2, 3, 4
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY sum(b.lost_ms) DESC, b.resource,
                                   b.host) <= ?
        ORDER BY period DESC, lost_ms DESC, resource, host""",
        most,
    )
    return Top(queries, hosts, resources)


def _period(period: str) -> str:
    if period == "all":
        return "''"
    start = f"date_trunc('{period}', make_timestamp_ms(a.start_ms::BIGINT))"
    return f"coalesce(strftime({start}, '%Y-%m-%d'), 'unknown')"


def who(store: Store | str | Asked, by: str = "query") -> pd.DataFrame:
    """Sum who lost to whom, and for which resource.

    Parameters
    ----------
    store : Store, str or Asked
    by : str
        One of :data:`OWNERS`, or the name of a Spark property, such as spark.yarn.queue.

    Returns
    -------
    DataFrame
        victim, source, resource, lost_ms (elapsed time), runs (queries of the victim that lost),
        share (of all that victims lost to other queries); the largest first. What was summed
        because it was small has the source ``(others)``; an owner that is not known is
        ``(no BY)``.
    """
    about = asked(store)
    _add_owners(about, by)
    return about.ask(
        f"""
        SELECT v.owner AS victim,
               CASE b.kind WHEN '{BlameKind.REST.value}' THEN '(others)' ELSE s.owner END AS source,
               b.resource, sum(b.lost_ms) AS lost_ms,
               count(DISTINCT b.application_id || b.query_id) AS runs,
               sum(b.lost_ms) / nullif(sum(sum(b.lost_ms)) OVER (), 0) AS share
        FROM blame b
        JOIN owners v USING (cluster, application_id, attempt_id, query_id)
        LEFT JOIN owners s ON s.cluster = b.cluster AND s.application_id = b.source_application_id
          AND s.attempt_id = b.source_attempt_id AND s.query_id = b.source_query_id
        WHERE b.kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
        GROUP BY 1, 2, 3 ORDER BY lost_ms DESC, victim, source, resource"""
    )


def _add_owners(about: Asked, by: str) -> None:
    """Make the table ``owners``: one row per query with whom it belongs to."""
    columns = {
        "query": _LABEL,
        "user": "coalesce(q.user, a.user)",
        "session": "q.session",
        "application": "a.name",
        "pool": "q.pool",
        "cluster": "q.cluster",
    }
    if by not in columns and "." not in by:
        raise UsageError(
            f"nothing can be grouped by {by!r}",
            "--by",
            f"use {', '.join(OWNERS)}, or a Spark property such as spark.yarn.queue",
        )
    own = """
        SELECT cluster, batch, application_id, attempt_id, query_id,
               CASE count(DISTINCT value) WHEN 1 THEN max(value)
                    ELSE '(several values of ' || $1 || ')' END AS value
        FROM properties WHERE name = $1 GROUP BY 1, 2, 3, 4, 5"""
    about.ask(
        f"""
        CREATE OR REPLACE TEMP TABLE owners AS
        WITH set_for AS ({own})
        SELECT q.cluster, q.application_id, q.attempt_id, q.query_id,
               coalesce(nullif({columns.get(by, "coalesce(o.value, p.value)")}, ''),
                        '(no ' || $1 || ')') AS owner
        FROM queries q JOIN applications a USING (cluster, batch, application_id, attempt_id)
        LEFT JOIN (SELECT * FROM set_for WHERE query_id = '') p
          USING (cluster, batch, application_id, attempt_id)
        LEFT JOIN set_for o
          ON o.cluster = q.cluster AND o.batch = q.batch AND o.query_id = q.query_id
          AND o.application_id = q.application_id AND o.attempt_id = q.attempt_id""",
        by,
    )


def trend(store: Store | str | Asked, query: str) -> pd.DataFrame:
    """List the runs of one recurring query, the first first.

    Parameters
    ----------
    store : Store, str or Asked
    query : str
        Its fingerprint, or a name that one recurring query has.

    Returns
    -------
    DataFrame
        cluster, application_id, query_id, path (of the log), name, fingerprint, start_ms,
        duration_ms, failed, task_ms, cpu_ms, read_bytes, lost_ms, lost_to_others_ms, a wait per
        resource, and source and source_lost_ms: who cost it most.

    Raises
    ------
    UsageError
        If no query has that name, or several have.
    """
    about = asked(store)
    fingerprint = find_fingerprint(about, query)
    waits = ", ".join(f"q.{resource.value}_wait_ms" for resource in Resource)
    return about.ask(
        f"""
        WITH sources AS (
          SELECT b.cluster, b.application_id, b.attempt_id, b.query_id,
                 coalesce(nullif(s.family, ''), s.name) AS source, sum(b.lost_ms) AS source_lost_ms
          FROM blame b LEFT JOIN queries s
            ON s.cluster = b.cluster AND s.application_id = b.source_application_id
            AND s.attempt_id = b.source_attempt_id AND s.query_id = b.source_query_id
          WHERE b.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2, 3, 4, 5
          QUALIFY row_number() OVER (
            PARTITION BY b.cluster, b.application_id, b.attempt_id, b.query_id
            ORDER BY sum(b.lost_ms) DESC, source) = 1)
        SELECT q.cluster, q.application_id, q.attempt_id, q.query_id, a.path, q.name, q.fingerprint,
               q.start_ms, q.duration_ms, q.failed, q.task_ms, q.cpu_ms, q.read_bytes, q.lost_ms,
               q.lost_to_others_ms, {waits}, coalesce(s.source, '') AS source,
               coalesce(s.source_lost_ms, 0) AS source_lost_ms
        FROM queries q JOIN applications a USING (cluster, batch, application_id, attempt_id)
        LEFT JOIN sources s USING (cluster, application_id, attempt_id, query_id)
        WHERE q.fingerprint = ?
        ORDER BY q.start_ms, q.application_id, q.query_id""",
        fingerprint,
    )


def find_fingerprint(about: Asked, query: str) -> str:
    """Return the fingerprint of a recurring query by itself or by name; raises UsageError."""
    found = about.ask(
        f"""
        SELECT q.fingerprint, max({_LABEL}) AS name, count(*) AS runs,
               bool_or(q.fingerprint = $1) AS exact
        FROM queries q WHERE q.fingerprint = $1 OR lower(q.name) = lower($1)
          OR lower(q.family) = lower($1)
        GROUP BY q.fingerprint ORDER BY exact DESC, runs DESC, q.fingerprint""",
        query,
    )
    if len(found) == 1 or (len(found) and bool(found["exact"].iloc[0])):
        return str(found["fingerprint"].iloc[0])
    if len(found):
        each = ", ".join(found["fingerprint"].head(_NEAR))
        raise UsageError(
            f"{len(found)} recurring queries have this name", query, f"name one: {each}"
        )
    near = about.ask(
        f"SELECT max({_LABEL}) AS name FROM queries q GROUP BY q.fingerprint "
        "ORDER BY count(*) DESC, name LIMIT ?",
        _NEAR,
    )
    known = ", ".join(short(name, 60) for name in near["name"]) or "none"
    raise UsageError("there is no such query in the store", query, f"there are {known}")
