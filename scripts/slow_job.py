"""Record examples/slow_job.zstd: an application with one slow query, on an embedded Spark.

Most sales are those of one customer, so that one task of the join does most of its work.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import zstandard
from pyspark.sql import SparkSession

from tests.support.golden import of_anybody
from tests.support.listener_spark import spark_homes

REPO = Path(__file__).resolve().parent.parent
LOG = REPO / "examples" / "slow_job.zstd"
SALES, CUSTOMERS, PARTITIONS = 8_000_000, 1_000_000, 16
LEVEL = 19
"""Of compression: the file is written seldom and fetched by everybody."""
SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.driver.memory": "3g",
    "spark.driver.host": "localhost",
    "spark.ui.enabled": "false",
}


def run(folder: Path) -> None:
    """Run three queries; the second is the slow one."""
    made = SparkSession.builder.master("local[4]").appName("nightly_revenue")
    spark = made.config(map=SETTINGS | {"spark.eventLog.dir": folder.as_uri()}).getOrCreate()
    customer = f"if(pmod(xxhash64(id), 10) < 7, 0, pmod(xxhash64(id, 1), {CUSTOMERS})) as customer"
    sales = spark.range(0, SALES, 1, PARTITIONS).selectExpr(
        customer, "pmod(id, 1000) as cents", "sha1(cast(id as string)) as receipt"
    )
    customers = spark.range(0, CUSTOMERS, 1, PARTITIONS).selectExpr(
        "id as customer", "sha1(cast(id as string)) as address"
    )
    both = sales.join(customers, "customer")
    queries = {
        "customers": customers.selectExpr("max(address)"),
        "revenue_by_address": both.selectExpr("max(sha2(concat(address, receipt), 512))"),
        "sales_by_price": sales.groupBy("cents").count().selectExpr("max(count)"),
    }
    for name, query in queries.items():
        spark.sparkContext.setJobDescription(name)
        query.collect()
    spark.stop()


def main() -> None:
    """Run, and keep the log without what tells of this machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder)
        (log,) = folder.iterdir()
        text = of_anybody(log.read_text("utf-8"), folder, spark_homes()[0])
    LOG.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(text.encode()))
    sys.stdout.write(f"Wrote {LOG.relative_to(REPO)}\n")


if __name__ == "__main__":
    main()
