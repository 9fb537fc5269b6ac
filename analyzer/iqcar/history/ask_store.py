"""Asks a store with DuckDB: who lost to whom, what is aggressive, slow or hot, how a query does.

Only the last addition of each application counts, and only rows whose addition was finished.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.formatting import short
from iqcar.history.stored_files import Part, Store, open_store, part_of
from iqcar.history.stored_tables import (
    APPLICATIONS,
    BLAME,
    CAUSES,
    HOSTS,
    PROPERTIES,
    QUERIES,
    STORED,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from iqcar.tables import TableSpec

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
    def _connection(self) -> DuckDBPyConnection:
        """A connection with the table ``latest``: the last addition of each application."""
        for day in (self.since, self.until):
            if day and not _DAY.fullmatch(day):
                raise UsageError("is no day", day, "write it as 2026-11-23")
        self.store.must_exist()
        connection = self.store.connect()
        with self.store.reading():
            self.store.add_view(connection, APPLICATIONS, self.since, self.until)
            connection.execute(
                f"""
                CREATE TEMP TABLE latest AS
                SELECT cluster, application_id, attempt_id, max(batch) AS batch,
                       arg_max(day, batch) AS day
                FROM (SELECT *, {_start("day")} AS started FROM every_{APPLICATIONS.name})
                WHERE (started IS NULL OR started BETWEEN $1 AND $2) AND $3 IN ('', cluster)
                GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
                [self.since or "0", self.until or "9", self.cluster],
            )
        return connection

    @cached_property
    def _parts(self) -> set[Part]:
        """The files of the other tables that hold rows that count."""
        every = self._connection.execute("SELECT DISTINCT cluster, day, batch FROM latest")
        return {part_of(*row) for row in every.fetchall()}

    @cached_property
    def _made(self) -> set[str]:
        """Names of the views and tables that are there."""
        return set()

    def ask(self, sql: str, *values: Any, **frames: pd.DataFrame) -> pd.DataFrame:
        """Return what a query answers.

        It can name the stored tables, each with the rows that count and the number of their
        application as ``app``; ``query_keys``: what queries are grouped by, numbered by ``rowid``;
        and ``losses``: rows of blame with the numbers of the query that lost (``query``) and of
        the blamed one (``source``; null if none). Only what it names is read.

        Parameters
        ----------
        sql : str
        *values
            Parameters of the query.
        **frames
            Further tables, by name.

        Raises
        ------
        UsageError
            If a day is none.
        IqcarError
            If there is no store, or it cannot be read.
        """
        with self.store.reading():
            found: pd.DataFrame = self._run(sql, values, frames).df()
        return found

    def ask_arrow(self, sql: str, *values: Any) -> pa.Table:
        """As :meth:`ask`, but return the answer as an Arrow table."""
        with self.store.reading():
            found: pa.Table = self._run(sql, values, {}).to_arrow_table()
        return found

    def _run(
        self, sql: str, values: Sequence[Any], frames: Mapping[str, pd.DataFrame]
    ) -> DuckDBPyConnection:
        for name, frame in frames.items():
            self._connection.register(name, frame)
        self._make(sql)
        return self._connection.execute(sql, list(values))

    def _make(self, sql: str) -> None:
        """Make the views and tables that a query names, and those that these need."""
        for name, made_by in _VIEWS.items():
            if name in self._made or not re.search(rf"\b{name}\b", sql):
                continue
            self._made.add(name)
            if name in _READ:
                self.store.add_view(
                    self._connection, _READ[name], self.since, self.until, self._parts
                )
            self._make(made_by)
            self._connection.execute(made_by)


def _counting(table: TableSpec) -> str:
    """Make the view of a stored table: the rows that count."""
    return (
        f"CREATE TEMP VIEW {table.name} AS SELECT a.rowid AS app, t.* FROM every_{table.name} t "
        "JOIN latest a USING (cluster, batch, application_id, attempt_id)"
    )


_READ = {table.name: table for table in (QUERIES, BLAME, CAUSES, HOSTS, PROPERTIES)}
_VIEWS = {
    **{table.name: _counting(table) for table in STORED},
    "query_keys": f"""
        CREATE TEMP TABLE query_keys AS
        SELECT q.app, q.query_id, q.cluster, q.fingerprint, {_LABEL} AS label, q.pool, q.user,
               q.session
        FROM queries q""",
    "losses": """
        CREATE TEMP VIEW losses AS
        SELECT b.app, v.rowid AS query, s.rowid AS source, b.cluster, b.kind, b.resource, b.host,
               b.lost_ms
        FROM blame b JOIN query_keys v USING (app, query_id)
        LEFT JOIN latest a ON a.cluster = b.cluster
          AND a.application_id = b.source_application_id AND a.attempt_id = b.source_attempt_id
        LEFT JOIN query_keys s ON s.app = a.rowid AND s.query_id = b.source_query_id""",
}
"""What questions can name, and how it is made."""


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
    periods = (
        f"WITH a AS MATERIALIZED (SELECT a.app, {_period(period)} AS period FROM applications a)"
    )
    queries = about.ask(
        f"""
        {periods}
        SELECT a.period, l.cluster, q.fingerprint, max(q.label) AS name,
               count(DISTINCT l.source) AS runs, count(DISTINCT l.query) AS victims,
               sum(l.lost_ms) AS lost_ms
        FROM losses l JOIN a USING (app) JOIN query_keys q ON q.rowid = l.source
        WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2, 3
        QUALIFY row_number() OVER
          (PARTITION BY period ORDER BY sum(l.lost_ms) DESC, q.fingerprint) <= ?
        ORDER BY period DESC, lost_ms DESC, q.fingerprint""",
        most,
    )
    hosts = about.ask(
        f"""
        {periods}
        SELECT a.period, h.cluster, h.host, count(*) AS applications,
               sum(h.tasks)::BIGINT AS tasks,
               sum(h.compared_ms) / nullif(sum(h.expected_ms), 0) AS slowdown,
               sum(h.compared_ms) - sum(h.expected_ms) AS excess_ms,
               sum(h.stragglers)::BIGINT AS stragglers, sum(h.delay_ms) AS delay_ms
        FROM hosts h JOIN a USING (app)
        GROUP BY 1, 2, 3 HAVING sum(h.expected_ms) > 0
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY excess_ms DESC, h.host) <= ?
        ORDER BY period DESC, excess_ms DESC, host""",
        most,
    )
    resources = about.ask(
        f"""
        {periods}
        SELECT a.period, b.cluster, b.resource, b.host, sum(b.lost_ms) AS lost_ms,
               count(DISTINCT v.rowid) AS victims
        FROM blame b JOIN a USING (app) JOIN query_keys v USING (app, query_id)
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
    return f"coalesce({_start(period)}, 'unknown')"


def _start(period: str) -> str:
    """The first day of the day, week or month in which an application started; null if unknown."""
    return f"strftime(date_trunc('{period}', make_timestamp_ms(start_ms::BIGINT)), '%Y-%m-%d')"


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
               CASE l.kind WHEN '{BlameKind.REST.value}' THEN '(others)' ELSE s.owner END AS source,
               l.resource, sum(l.lost_ms) AS lost_ms, count(DISTINCT l.query) AS runs,
               sum(l.lost_ms) / nullif(sum(sum(l.lost_ms)) OVER (), 0) AS share
        FROM losses l JOIN owners v ON v.query = l.query LEFT JOIN owners s ON s.query = l.source
        WHERE l.kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
        GROUP BY 1, 2, 3 ORDER BY lost_ms DESC, victim, source, resource"""
    )


def _add_owners(about: Asked, by: str) -> None:
    """Make the table ``owners``: one row per query with whom it belongs to."""
    columns = {
        "query": "q.label",
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
        SELECT app, query_id,
               CASE count(DISTINCT value) WHEN 1 THEN max(value)
                    ELSE '(several values of ' || $1 || ')' END AS value
        FROM properties WHERE name = $1 GROUP BY app, query_id"""
    set_for = f"""
        LEFT JOIN ({own}) o USING (app, query_id)
        LEFT JOIN ({own}) p ON p.app = q.app AND p.query_id = ''"""
    about.ask(
        f"""
        CREATE OR REPLACE TEMP TABLE owners AS
        SELECT q.rowid AS query,
               coalesce(nullif({columns.get(by, "coalesce(o.value, p.value)")}, ''),
                        '(no ' || $1 || ')') AS owner
        FROM query_keys q JOIN applications a USING (app) {"" if by in columns else set_for}""",
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
    return runs_of(about, [find_fingerprint(about, query)])


def runs_of(about: Asked, fingerprints: Sequence[str]) -> pd.DataFrame:
    """List the runs of recurring queries by their fingerprints; columns and order as of trend."""
    waits = ", ".join(f"q.{resource.value}_wait_ms" for resource in Resource)
    return about.ask(
        f"""
        WITH chosen AS (
          SELECT k.rowid AS query, k.app, k.query_id FROM query_keys k
          WHERE k.fingerprint IN (SELECT unnest($1::VARCHAR[]))),
        sources AS (
          SELECT l.query, s.label AS source, sum(l.lost_ms) AS source_lost_ms
          FROM losses l SEMI JOIN chosen USING (query) LEFT JOIN query_keys s ON s.rowid = l.source
          WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2
          QUALIFY row_number() OVER
            (PARTITION BY l.query ORDER BY sum(l.lost_ms) DESC, s.label) = 1)
        SELECT q.cluster, q.application_id, q.attempt_id, q.query_id, a.path, q.name, q.fingerprint,
               q.start_ms, q.duration_ms, q.failed, q.task_ms, q.cpu_ms, q.read_bytes, q.lost_ms,
               q.lost_to_others_ms, {waits}, coalesce(s.source, '') AS source,
               coalesce(s.source_lost_ms, 0) AS source_lost_ms
        FROM queries q JOIN chosen c USING (app, query_id) JOIN applications a USING (app)
        LEFT JOIN sources s USING (query)
        ORDER BY q.start_ms, q.application_id, q.query_id""",
        [*fingerprints],
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
