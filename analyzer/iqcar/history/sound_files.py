"""Reads those files of a store that hold what iqcar wrote, and sets the others aside.

A store lies where others can write, too: files can be cut, or of other programs. None is removed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from iqcar.history.file_names import NO_DAY, Part, StoredFile
from iqcar.history.stored_files import Store, first_line
from iqcar.history.stored_tables import APPLICATIONS
from iqcar.tables import LAST_PLAUSIBLE_MS, TableSpec

if TYPE_CHECKING:
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
