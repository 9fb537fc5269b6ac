"""Opens a store in DuckDB with a view of each table, and merges its small files.

Only the last addition of each application counts, and only rows whose addition was finished.

A store lies where others can write, too: files can be cut, or of other programs. None is removed.

A question opens every file of the days that it asks about, so many small files cost most of its
time. What is merged counts as a new addition of the same applications: rows keep the name of their
addition, with that of the merger after it, which sorts after the first and before any later one.
So questions, additions and other mergers can go on meanwhile.

A merger notes what it has replaced in empty files of the store:
``replaced/cluster=NAME/month=YYYY-MM/OLD_by_NEW``. So no content of a file decides what is removed.
"""

from __future__ import annotations

import calendar
import re
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pandas as pd

from iqcar.errors import UsageError
from iqcar.history.stored_files import (
    APPLICATIONS,
    BATCH,
    NO_DAY,
    STORED,
    Part,
    Store,
    StoredFile,
    bounded_cluster,
    cluster_folder,
    first_line,
    new_batch,
    open_store,
    part_of,
    this_month,
    unfinished_since,
)
from iqcar.tables import LAST_PLAUSIBLE_MS, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


_PARQUET = {"str": "BYTE_ARRAY", "float64": "DOUBLE", "int64": "INT64", "bool": "BOOLEAN"}
"""How Parquet calls the types of columns."""
_SQL = {"str": "VARCHAR", "float64": "DOUBLE", "int64": "BIGINT", "bool": "BOOLEAN"}
RESERVED = ("cluster", "day", "filename", "wrote")
"""Names that the views give to columns of their own."""
_NEEDED = ("batch", "application_id", "attempt_id")
"""Columns by which rows count."""
_SENSIBLE = (
    f"CASE WHEN isfinite(start_ms) AND abs(start_ms) <= {LAST_PLAUSIBLE_MS:.0f} THEN start_ms END"
)
"""The start of an application if it is a time, else null."""


def add_view(
    store: Store,
    connection: DuckDBPyConnection,
    table: TableSpec,
    since: str = "",
    until: str = "",
    parts: Container[Part] | None = None,
) -> None:
    """Add a view ``every_TABLE`` of a table's rows, which are read when asked.

    Beside its columns a view has ``cluster`` and ``day``, which is a month in merged files.
    Where ``parts`` are given, other files are not read.
    """
    files = store.list(table, since, until)
    if parts is not None:
        files = [one for one in files if one.part in parts]
    found = sound_files(store, connection, table, files)
    columns = ", ".join(f'NULL::{_SQL[c.dtype]} AS "{c.name}"' for c in table.columns)
    view = f"SELECT {columns}, '' AS cluster, '' AS day WHERE false"
    if found:
        told = [list(map(store.opened, found))]
        told += [[getattr(one, name) for one in found] for name in ("cluster", "day", "batch")]
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE files_{table.name} AS SELECT"
            " unnest($1) AS filename, unnest($2) AS cluster, unnest($3) AS day,"
            " unnest($4) AS wrote",
            told,
        )
        # By name: a file of an older iqcar may lack a column, one of a newer have more.
        there = set().union(*found.values())
        known = ", ".join(f'r."{c.name}"' for c in table.columns if c.name in there)
        view += (
            f" UNION ALL BY NAME SELECT {known}, f.cluster, f.day"
            f" FROM read_parquet([{quoted(told[0])}], union_by_name = true,"
            " hive_partitioning = false, filename = true) r"
            f" JOIN files_{table.name} f ON r.filename = f.filename"
            " AND (r.batch = f.wrote OR ends_with(r.batch, '+' || f.wrote))"
        )
    connection.execute(f"CREATE TEMP VIEW every_{table.name} AS {view}")


def known_applications(store: Store) -> pd.DataFrame:
    """Return the rows of ``applications`` of all additions, the last one last."""
    connection = store.connect()
    with store.reading():
        add_view(store, connection, APPLICATIONS)
        sql = f"SELECT * FROM every_{APPLICATIONS.name} ORDER BY batch"
        known: pd.DataFrame = connection.execute(sql).df()
    return known


def sound_files(
    store: Store, connection: DuckDBPyConnection, table: TableSpec, files: Sequence[StoredFile]
) -> dict[StoredFile, set[str]]:
    """Return the files that hold what a table declares, with their columns.

    The others are set aside: what cannot be read, has other types, or, of `applications`, rows
    that iqcar cannot have written there.
    """
    import duckdb

    if not files:
        return {}
    try:
        found = _columns(store, connection, table, files)
        if table is APPLICATIONS and found:
            _check_rows(store, connection, found)
    except duckdb.Error as error:
        if len(files) == 1:
            store.put_aside(files[0].path, first_line(error))
            return {}
        half = len(files) // 2
        return {
            **sound_files(store, connection, table, files[:half]),
            **sound_files(store, connection, table, files[half:]),
        }
    return found


def _columns(
    store: Store, connection: DuckDBPyConnection, table: TableSpec, files: Sequence[StoredFile]
) -> dict[StoredFile, set[str]]:
    """Read what the files say of their columns; set those aside with other types."""
    paths = {store.opened(one): one for one in files}
    rows = connection.execute(
        "SELECT file_name, name, type, coalesce(num_children, 0) FROM "
        f"parquet_schema([{quoted(paths)}])"
    ).fetchall()
    types = {c.name: _PARQUET[c.dtype] for c in table.columns}
    found: dict[StoredFile, set[str]] = {one: set() for one in files}
    for path, name, kind, children in rows:
        one = paths[path]
        if name in RESERVED or (name in types and (kind, children) != (types[name], 0)):
            store.put_aside(one.path, f"its column {name!r} is not one of iqcar's")
            found.pop(one, None)
        elif name in types and one in found:
            found[one].add(name)
    for one in [one for one, names in found.items() if not names.issuperset(_NEEDED)]:
        store.put_aside(one.path, "it lacks columns that every file of iqcar has")
        del found[one]
    return found


def _check_rows(
    store: Store, connection: DuckDBPyConnection, found: dict[StoredFile, set[str]]
) -> None:
    """Set files of `applications` aside with rows that do not belong where they are."""
    paths = {store.opened(one): one for one in found}
    lists = [[getattr(one, name) for one in found] for name in ("day", "batch")]
    day = f"strftime(make_timestamp_ms({_SENSIBLE}::BIGINT), '%Y-%m-%d')"
    wrong = connection.execute(
        f"""
        WITH f AS (SELECT unnest($1) AS filename, unnest($2) AS day, unnest($3) AS wrote)
        SELECT DISTINCT r.filename
        FROM read_parquet([{quoted(paths)}], union_by_name = true, hive_partitioning = false,
                          filename = true) r JOIN f ON r.filename = f.filename
        WHERE (r.batch = f.wrote OR ends_with(r.batch, '+' || f.wrote)) IS NOT TRUE
           OR coalesce(NOT starts_with({day}, f.day), f.day <> '{NO_DAY}')
           OR (start_ms IS NOT NULL AND NOT isnan(start_ms) AND {_SENSIBLE} IS NULL)""",
        [list(paths), *lists],
    ).fetchall()
    for (path,) in wrong:
        one = paths[path]
        store.put_aside(one.path, "its rows are not of the day and addition that its name says")
        del found[one]


def quoted(paths: Iterable[str]) -> str:
    """Write paths as SQL texts."""
    return ", ".join("'" + path.replace("'", "''") + "'" for path in paths)


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

    since, until: first and last day (YYYY-MM-DD, UTC) on which an application started; empty for
        any.
    cluster: empty for all.
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

        *values: parameters of the query.
        **frames: further tables, by name.
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


FOLDER = "replaced"
_REPLACED = re.compile(rf"cluster=([^/]*)/month=([^/]*)/({BATCH})_by_{BATCH}$")


def note_replaced(
    store: Store, cluster: str, month: str, batches: Iterable[str], merger: str
) -> None:
    """Note that what some additions wrote of a month is in the files of a merger, too."""
    for batch in batches:
        folder = f"{FOLDER}/{cluster_folder(cluster)}/month={month}"
        store.note(folder, f"{batch}_by_{merger}")


def replaced_parts(store: Store) -> dict[Part, tuple[str, ...]]:
    """Return the paths of the notes about each part that was replaced."""
    found: dict[Part, tuple[str, ...]] = {}
    for path in store.found(FOLDER):
        if name := _REPLACED.search(path):
            part = unquote(name[1]), name[2], name[3]
            found[part] = (*found.get(part, ()), path)
    return found


ENOUGH_BYTES = 16_000_000
"""What an addition or merger wrote of a month is left as it is if it is as large."""
MOST_OF_THIS_MONTH = 32
"""Files of a table in the current month that are left as they are; in a past month, one."""
KEPT_S = 3600.0
"""Files are kept so long after they were replaced: somebody may be reading them."""
ABANDONED_S = 86_400.0
"""An addition that was not finished after so long never will be."""


def merge_months(store: Store) -> int:
    """Merge small files of past days, and remove what was replaced before.

    Raises IqcarError if the store cannot be read or written.

    Returns how many files were merged.
    """
    files = [one for table in STORED for one in store.list(table)]
    replaced = replaced_parts(store)
    _remove_old(store, files, replaced)
    sizes: Counter[Part] = Counter()
    for one in files:
        sizes[one.part] += one.size
    whole = {one.part for one in files if one.table == APPLICATIONS.name} - replaced.keys()
    small = [
        one
        for one in files
        if one.part in whole and sizes[one.part] < ENOUGH_BYTES and one.day != NO_DAY
    ]
    small = _sound(store, small)
    small.sort(key=lambda one: one.part)
    merged = 0
    for (cluster, month), group in groupby(small, key=lambda one: one.part[:2]):
        of_month = list(group)
        most = max(Counter(one.table for one in of_month).values())
        if most > (MOST_OF_THIS_MONTH if month == this_month() else 1):
            for names in _together({one.part: sizes[one.part] for one in of_month}):
                _merge(store, cluster, month, names)
            merged += len(of_month)
    return merged


def _together(sizes: dict[Part, int]) -> Iterator[list[str]]:
    """Divide parts of a month into groups that are merged at once; yield their names."""
    names: list[str] = []
    total = 0
    for (_, _, name), size in sizes.items():
        names.append(name)
        total += size
        if total >= ENOUGH_BYTES:
            yield names
            names, total = [], 0
    if names:
        yield names


def _merge(store: Store, cluster: str, month: str, names: list[str]) -> None:
    """Write the rows that count of some additions to a month once more, as one addition."""
    year, number = map(int, month.split("-"))
    last = calendar.monthrange(year, number)[1]
    about = StoreView(store, f"{month}-01", f"{month}-{last:02d}", cluster)
    merger = new_batch(after=max(names))
    for table in reversed(STORED):  # that of applications is last, and makes the others count
        rows = about.ask_arrow(
            f"""
            SELECT t.* REPLACE (split_part(t.batch, '+', 1) || '+' || $1 AS batch)
            FROM {table.name} t JOIN latest a ON a.rowid = t.app
            WHERE a.day[:7] = $2 AND list_contains($3::VARCHAR[], split_part(a.batch, '+', -1))""",
            merger,
            month,
            names,
        )
        if rows.num_rows:
            store.write(table, cluster, month, merger, rows)
    note_replaced(store, cluster, month, names, merger)


def _remove_old(
    store: Store, files: list[StoredFile], replaced: Mapping[Part, tuple[str, ...]]
) -> None:
    """Remove what was replaced an hour ago or abandoned a day ago, as names tell."""
    now = time.time()
    named = {one.part for one in files if one.table == APPLICATIONS.name}
    gone = {
        part: notes
        for part, notes in replaced.items()
        if now - min(_written_s(note.rpartition("_by_")[2]) for note in notes) > KEPT_S
    }
    old = [
        one.path
        for one in files
        if one.part in gone
        or (
            one.part not in named
            and one.part not in replaced
            and now - _written_s(one.batch) > ABANDONED_S
        )
    ]
    if not store.has_whole_files:
        old += [
            path
            for folder in (*(table.name for table in STORED), FOLDER)
            for path in store.found(folder)
            if now - (unfinished_since(path) or now) > ABANDONED_S
        ]
    store.remove(old)
    left = {one.part for one in files} - gone.keys()
    store.remove(note for part, notes in gone.items() if part not in left for note in notes)


def _sound(store: Store, files: list[StoredFile]) -> list[StoredFile]:
    """Leave out what any file of was set aside: a merger would lose it."""
    bad: set[Part] = set()
    with closing(store.connect()) as connection:
        for table in STORED:
            of_table = [one for one in files if one.table == table.name]
            sound = sound_files(store, connection, table, of_table)
            bad.update(one.part for one in of_table if one not in sound)
    return [one for one in files if one.part not in bad]


def _written_s(batch: str) -> float:
    """Return when an addition or merger began, by its name."""
    try:
        return int(batch.rpartition("+")[2].partition("-")[0]) / 1000.0
    except ValueError:  # not of our making
        return time.time()
