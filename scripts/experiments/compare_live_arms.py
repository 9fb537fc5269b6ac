"""What the live comparison changes, one thing at a time, and what a comparison should say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

WARM_UP = """
    SELECT count(*), sum(place), sum(score(ss_quantity, ss_net_paid)) FROM (
        SELECT s.*, row_number() OVER (PARTITION BY ss_addr_sk ORDER BY ss_net_paid) place
        FROM store_sales s JOIN date_dim ON ss_sold_date_sk = d_date_sk
        WHERE ss_item_sk % 20 = 0)"""
"""Loads and compiles what the queries need, so that the first of them does not."""
RANKS = """
    SELECT count(*), sum(place), max(paid_before), max(xxhash64(
        ss_sold_date_sk, ss_sold_time_sk, ss_customer_sk, ss_store_sk, ss_quantity, ss_list_price,
        ss_sales_price, ss_net_profit)) FROM (
        SELECT s.*, row_number() OVER w place, lag(ss_net_paid) OVER w paid_before
        FROM store_sales s
        WINDOW w AS (PARTITION BY ss_addr_sk ORDER BY ss_net_paid, ss_item_sk, ss_ticket_number))"""
"""Sorts all sales by address: no aggregate makes them fewer before they are exchanged."""
SCORES = "SELECT sum(score(ss_quantity, ss_net_paid)) FROM store_sales WHERE ss_item_sk % 4 = 0"
"""Calls a Python function for every fourth sale."""
NEIGHBOUR = """
    SELECT sum(length(sha2(sha2(sha2(cast(id AS string), 256), 256), 256)))
    FROM range(0, 160000, 1, 16)"""
"""Only computes."""
TPCDS = {"q97": "97", "q51": "51", "q96": "96"}
"""Queries of TPC-DS, by their names here."""
WARM_UP_NAME, NEIGHBOUR_NAME = "warm-up", "neighbour"
EXCHANGED = (WARM_UP_NAME, "q97", "q51", "ranks")
"""Queries that exchange data by key: their stages have as many tasks as the setting says."""
JOINED = (WARM_UP_NAME, "q97", "q51", "q96")
"""Queries that join a table which is sent to all."""
OF_STORE_SALES = (WARM_UP_NAME, "q97", "q51", "q96", "ranks", "scores")
EVERY = (*JOINED, "ranks", "scores")


@dataclass(frozen=True)
class Setup:
    """How an application runs.

    conf: Spark settings beyond those of all.
    data: plain, doubled or skewed store sales.
    rounds: of the Python function, for each row.
    beside: ``query`` of the same application, or another ``application``; empty for nothing.
    spark: a line of Spark releases (``scripts/sparks``); empty for the installed one.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    data: str = "plain"
    rounds: int = 20
    beside: str = ""
    spark: str = ""


@dataclass(frozen=True)
class Arm:
    """One change, and the queries that it concerns with the causes that are right for them."""

    name: str
    change: str
    after: Setup
    planted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    before: Setup = Setup()


def planted(queries: tuple[str, ...], *causes: str) -> dict[str, tuple[str, ...]]:
    """Return the same causes for several queries; each is the beginning of a right one."""
    return dict.fromkeys(queries, causes)


PARTITIONS = "spark.sql.shuffle.partitions"
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
MEMORY = "spark.driver.memory"
BASE = Setup()
PLAIN_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""Without the archive of loaded classes, which fits the installed Spark alone."""
ARMS = (
    Arm("nothing", "nothing", BASE),
    Arm(
        "partitions", f"`{PARTITIONS}` 8 → 32", Setup({PARTITIONS: "32"}),
        planted(EXCHANGED, "partitions", f"conf:{PARTITIONS}"),
    ),
    Arm(
        "broadcast", f"`{THRESHOLD}` 10 MB → −1", Setup({THRESHOLD: "-1"}),
        planted(JOINED, "plan:", f"conf:{THRESHOLD}"),
    ),
    Arm(
        "memory", f"`{MEMORY}` 1 GB → 480 MB", Setup({MEMORY: "480m"}),
        planted(EVERY, "metric:spill_bytes", "metric:gc_ms", f"conf:{MEMORY}"),
    ),
    Arm("data", "store sales twice", Setup(data="doubled"), planted(OF_STORE_SALES, "data:")),
    Arm(
        "skew", "three of four sales have one address", Setup(data="skewed"),
        planted((WARM_UP_NAME, "ranks"), "skew:"),
    ),
    Arm(
        "function", "a Python function computes three times as long",
        replace(BASE, rounds=60), planted((WARM_UP_NAME, "scores"), "metric:cpu_ms"),
    ),
    Arm(
        "query beside", "a new query of the same application", Setup(beside="query"),
        planted(EVERY, f"query:{NEIGHBOUR_NAME}"),
    ),
    Arm(
        "application beside", "a new application on the same cores",
        Setup(beside="application"), planted(EVERY, f"query:{NEIGHBOUR_NAME}"),
    ),
    Arm(
        "version", "Spark 3.5 → the installed one", Setup(PLAIN_JVM),
        planted(EVERY, "version:"), Setup(PLAIN_JVM, spark="3.5"),
    ),
    Arm("nothing again", "nothing", BASE),
)  # fmt: skip
