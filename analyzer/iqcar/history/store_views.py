"""Opens a store in DuckDB with a view of each table: the rows that count.

Only the last addition of each application counts, and only rows whose addition was finished.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from iqcar.errors import UsageError
from iqcar.history.file_names import Part, bounded_cluster, part_of
from iqcar.history.sound_files import add_view
from iqcar.history.stored_files import Store, open_store
from iqcar.history.stored_tables import APPLICATIONS, STORED
from iqcar.tables import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

LABEL = "coalesce(nullif(q.family, ''), nullif(q.name, ''), q.query_id)"
"""What a query q is called, in SQL."""


def _is_day(text: str) -> bool:
    try:
        return text.isascii() and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@dataclass(frozen=True)
class StoreView:
    """A store, and the part of it that is asked about.

    Attributes
    ----------
    since, until : first and last day (YYYY-MM-DD, UTC) on which an application started; empty for
        any.
    cluster : empty for all.
    """

    store: Store
    since: str = ""
    until: str = ""
    cluster: str = ""

    @cached_property
    def _connection(self) -> DuckDBPyConnection:
        """A connection with the table ``latest``: the last addition of each application."""
        for day in (self.since, self.until):
            if day and not _is_day(day):
                raise UsageError("is no day", day, "write it as 2026-11-23")
        self.store.must_exist()
        connection = self.store.connect()
        with self.store.reading():
            add_view(self.store, connection, APPLICATIONS, self.since, self.until)
            connection.execute(
                f"""
                CREATE TEMP TABLE latest AS
                SELECT cluster, application_id, attempt_id, max(batch) AS batch,
                       arg_max(day, batch) AS day
                FROM (SELECT *, {start_of("day")} AS started FROM every_{APPLICATIONS.name})
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
        and ``losses``: rows of blame with the numbers of the query that lost (``query``) and of the
        blamed one (``source``; null if it is none, or not asked about). Only what it names is read.
        Raises UsageError if a day is none; IqcarError if there is no store, or it cannot be read.

        Parameters
        ----------
        *values : parameters of the query.
        **frames : further tables, by name.
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
                add_view(
                    self.store, self._connection, _READ[name], since=self.since, until=self.until,
                    parts=self._parts,
                )  # fmt: skip
            self._make(made_by)
            self._connection.execute(made_by)


def _counting(table: TableSpec) -> str:
    """Make the view of a stored table: the rows that count."""
    return (
        f"CREATE TEMP VIEW {table.name} AS SELECT a.rowid AS app, t.* FROM every_{table.name} t "
        "JOIN latest a USING (cluster, batch, application_id, attempt_id)"
    )


_READ = {table.name: table for table in STORED if table is not APPLICATIONS}
_VIEWS = {
    **{table.name: _counting(table) for table in STORED},
    "query_keys": f"""
        CREATE TEMP TABLE query_keys AS
        SELECT q.app, q.query_id, q.cluster, q.fingerprint, {LABEL} AS label, q.pool, q.user,
               q.session
        FROM queries q""",
    "losses": """
        CREATE TEMP VIEW losses AS
        SELECT b.app, v.rowid AS query, s.rowid AS source, b.cluster, b.kind, b.resource, b.host,
               b.lost_ms, b.source_application_id AS source_id
        FROM blame b JOIN query_keys v USING (app, query_id)
        LEFT JOIN latest a ON a.cluster = b.cluster
          AND a.application_id = b.source_application_id AND a.attempt_id = b.source_attempt_id
        LEFT JOIN (  -- applications on shared hosts can be of clusters of other names
            SELECT application_id, attempt_id, min(rowid) AS row FROM latest GROUP BY ALL
        ) o ON o.application_id = b.source_application_id AND o.attempt_id = b.source_attempt_id
        LEFT JOIN query_keys s
          ON s.app = coalesce(a.rowid, o.row) AND s.query_id = b.source_query_id""",
}
"""What questions can name, and how it is made."""


def view_of(
    store: Store | str | StoreView, since: str = "", until: str = "", cluster: str = ""
) -> StoreView:
    """Return a store with the part of it that is asked about."""
    if isinstance(store, StoreView):
        return store
    kept = open_store(store) if isinstance(store, str) else store
    return StoreView(kept, since, until, bounded_cluster(cluster))


def start_of(period: str) -> str:
    """The first day of the day, week or month in which an application started; null if unknown."""
    return f"strftime(date_trunc('{period}', make_timestamp_ms(start_ms::BIGINT)), '%Y-%m-%d')"
