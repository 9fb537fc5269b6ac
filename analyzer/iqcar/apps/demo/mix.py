"""Makes the workload of the demo: its TPC-DS tables, and start times and SQL of its queries.

DuckDB's tpcds extension generates the tables and query texts.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import duckdb
import duckdb_extension_tpcds

from iqcar.errors import IqcarError

HEAVY_HITTER = "etl_heavy"
"""Name of the query that the diagnosis should blame."""

HEAVY_TASKS_PER_SLOT = 24
"""Tasks of the heavy hitter's long stage per task slot: other queries queue behind them."""

DEFAULT_SCALE = 0.3
"""TPC-DS scale factor: 0.86 M store sales, 75 MB, generated in ten seconds on one core."""

HEAVY_COPIES = 10
"""Scorings of each pair of a basket at the default scale on two slots, which take 15 to 60 s. Less
data are scored more often, so that the heavy hitter takes as long."""


@dataclass(frozen=True)
class Arrival:
    """One query of a mix."""

    name: str
    start_s: float
    tpcds: int = 0
    """Number of the TPC-DS query; 0 for the heavy hitter."""


SCHEDULE = (
    Arrival("q97", 0.0, 97),
    Arrival(HEAVY_HITTER, 2.0),
    Arrival("q39b", 3.0, 39),
    Arrival("q51", 4.0, 51),
    Arrival("q75", 5.0, 75),
    Arrival("q67", 6.0, 67),
    Arrival("q88", 7.0, 88),
)
"""Start times in seconds after the first query; always the same. They are close together, so that
queries overlap with the heavy hitter also on a machine several times as fast."""


@dataclass(frozen=True)
class Query:
    """One query to run, with its start time; each runs in a thread of its own."""

    name: str
    start_s: float
    sql: str
    writes: bool = False
    """Whether its result goes to files instead of the driver."""
    pool: str = ""
    """FAIR pool; empty for none."""


def queries_of(
    schedule: tuple[Arrival, ...], tpcds: dict[str, str], slots: int, scale: float
) -> list[Query]:
    """Return the queries of a mix for a cluster of ``slots`` slots and data of this scale."""
    return [
        Query(arrival.name, arrival.start_s, heavy_text(slots, scale), writes=True)
        if arrival.tpcds == 0
        else Query(arrival.name, arrival.start_s, query_text(arrival, tpcds))
        for arrival in schedule
    ]


def query_text(arrival: Arrival, tpcds: dict[str, str]) -> str:
    """Return the SQL of a TPC-DS query; DuckDB ships 39a, and 39b is 39a for cov > 1.5."""
    text = tpcds[str(arrival.tpcds)].strip().rstrip(";")
    if arrival.name == "q39b":
        last = "AND inv2.d_moy=1+1"
        if last not in text:
            raise ValueError(f"TPC-DS query 39 does not read as expected: no {last!r}")
        return text.replace(last, f"{last}\n  AND inv1.cov > 1.5")
    return text


def heavy_text(slots: int, scale: float) -> str:
    """Return the SQL of the heavy hitter, which scores all pairs of items in a basket repeatedly.

    Its size grows with the slots, so that it fills large and small machines alike.
    """
    tasks = HEAVY_TASKS_PER_SLOT * slots
    copies = max(1, round(HEAVY_COPIES * max(slots / 2, 1) * DEFAULT_SCALE / scale))
    basket = (
        f"SELECT /*+ REPARTITION({tasks}, ss_ticket_number) */ "
        "ss_ticket_number, ss_item_sk, ss_net_paid FROM store_sales"
    )
    return f"""
        SELECT a.ss_ticket_number, a.ss_item_sk, count(*) AS pairs,
               avg(ln(1 + a.ss_net_paid * b.ss_net_paid * copy)) AS score
        FROM ({basket}) a
        JOIN ({basket}) b
          ON a.ss_ticket_number = b.ss_ticket_number AND a.ss_item_sk <> b.ss_item_sk
        LATERAL VIEW explode(sequence(1, {copies})) AS copy
        GROUP BY a.ss_ticket_number, a.ss_item_sk"""


def data_folder(out: Path, scale: float) -> Path:
    """Return the folder under `out` for the data of one scale."""
    return out / f"tpcds-sf{scale:g}"


def make_data(out: Path, scale: float) -> Path:
    """Generate the data of `scale` under `out` unless they exist; return their folder.

    It holds a Parquet file per table, `schemas.json` (table → Spark schema) and `queries.json`
    (number → SQL), and appears only when it is whole. Raises IqcarError if the versions of DuckDB
    and of its generator differ.
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
