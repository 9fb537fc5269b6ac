"""The workload of the demo: start times and SQL of its queries, and of the heavy hitter."""

from __future__ import annotations

from dataclasses import dataclass

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
