"""Record examples/slow_job.zstd: an application with one slow query, on an embedded Spark.

Most clicks are those of one visitor, so that one task does most of the work.
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
CLICKS, VISITORS, PARTITIONS = 12_000_000, 1_000_000, 16
LEVEL = 19
"""Of compression: the file is written seldom and fetched by everybody."""
SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.driver.memory": "3g",
    "spark.driver.host": "localhost",
    "spark.ui.enabled": "false",
}


def run(folder: Path) -> None:
    """Run three queries; the second is the slow one."""
    made = SparkSession.builder.master("local[4]").appName("nightly_pauses")
    spark = made.config(map=SETTINGS | {"spark.eventLog.dir": folder.as_uri()}).getOrCreate()
    visitor = f"if(pmod(xxhash64(id), 10) < 7, 0, pmod(xxhash64(id, 1), {VISITORS})) as visitor"
    clicks = spark.range(0, CLICKS, 1, PARTITIONS).selectExpr(
        visitor, "id as ms", "pmod(id, 1000) as page"
    )
    before = "lag(ms) over (partition by visitor order by ms)"
    queries = {
        "clicks_by_page": clicks.groupBy("page").count().selectExpr("max(count)"),
        "pauses_of_visitors": clicks.selectExpr(f"ms - {before} as pause").selectExpr("avg(pause)"),
        "last_click": clicks.selectExpr("max(ms)"),
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
