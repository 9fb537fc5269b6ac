"""Generate the TPC-DS tables and query texts of the demo, with DuckDB's tpcds extension.

One Parquet file per table, `schemas.json` (table → Spark schema) and `queries.json` (number → SQL).
The folder is created atomically, so a second run can reuse it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

import duckdb
import duckdb_extension_tpcds

from iqcar.errors import IqcarError


def data_folder(out: Path, scale: float) -> Path:
    """Return the folder under `out` for the data of one scale."""
    return out / f"tpcds-sf{scale:g}"


def make_data(out: Path, scale: float) -> Path:
    """Generate the data of `scale` under `out` unless they exist; return their folder.

    Raises
    ------
    IqcarError
        If the versions of DuckDB and of its generator differ.
    """
    folder = data_folder(out, scale)
    if folder.is_dir():
        return folder
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=out))
    try:
        scratch.chmod(0o755)
        _write(scratch, scale)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        if not folder.is_dir():  # else another run finished the same data first: use those
            raise
    return folder


def _write(folder: Path, scale: float) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"LOAD '{_extension_binary()}'")
        connection.execute(f"CALL dsdgen(sf={scale!r})")
        schemas = {}
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            columns = connection.execute(f"DESCRIBE {table}").fetchall()
            schemas[table] = ", ".join(f"{name} {_spark_type(kind)}" for name, kind, *_ in columns)
            target = folder / f"{table}.parquet"
            connection.execute(f"COPY {table} TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        queries = connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    (folder / "schemas.json").write_text(json.dumps(schemas, indent=1))
    (folder / "queries.json").write_text(json.dumps(dict(queries), indent=1))


def _spark_type(kind: str) -> str:
    return "STRING" if kind == "VARCHAR" else kind


def _extension_binary() -> Path:
    """Return the extension's path in its package; loaded by path, nothing is downloaded."""
    folder = Path(duckdb_extension_tpcds.__file__).parent / "extensions"
    binary = folder / f"v{metadata.version('duckdb')}" / "tpcds.duckdb_extension"
    if not binary.is_file():
        built_for = ", ".join(sorted(path.name for path in folder.glob("v*")))
        raise IqcarError(
            f"duckdb-extension-tpcds is for duckdb {built_for}, not {metadata.version('duckdb')}",
            str(folder),
            "pip install --upgrade 'iqcar[demo]'",
        )
    return binary
