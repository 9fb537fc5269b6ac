"""A PySpark application that something makes slow, or the same with the action taken against it.

    finding_jobs.py KIND STATE DATA FOLDER SERVICE

KIND is the name of a function below, with hyphens; STATE is ``was`` or ``mended``. DATA holds the
tables that ``planted_causes`` makes, SERVICE is the address of its slow server. FOLDER gets what is
written, and ``took.json``: when what its user waited for began and ended.
"""

from __future__ import annotations

import fcntl
import json
import lzma
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

SALES = "sale_id long, customer_id long, item_id long, day long, amount double, note string"
COLUMNS = {
    "sales": SALES,
    "web_sales": SALES,
    "customers": "customer_id long, region string",
    "accounts": "customer_id long, region string, address string",
    "payments": "customer_id long, paid string",
    "days": "day long, month long",
}
MOST_WAIT_S = 120


class Shop(NamedTuple):
    """What an application has to do with."""

    spark: SparkSession
    mended: bool
    data: Path
    folder: Path
    service: str

    def table(self, name: str) -> DataFrame:
        return self.spark.read.schema(COLUMNS[name]).parquet(str(self.data / name))

    def views(self, *names: str) -> None:
        for name in names:
            self.table(name).createOrReplaceTempView(name)

    def out(self, name: str) -> str:
        return str(self.folder / name)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """What is in here is what the user waits for."""
        began = time.time()
        try:
            yield
        finally:
            took = {"began_ms": 1e3 * began, "ended_ms": 1e3 * time.time()}
            (self.folder / "took.json").write_text(json.dumps(took))

    def limited(self) -> None:
        """Let whoever started this limit the cluster."""
        (self.folder / "ready").touch()
        until((self.folder / "go").exists)

    def second_executor(self) -> None:
        """Ask for one more executor, as a cluster that scales does, and wait for it."""
        inner = self.spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
        inner.requestExecutors(1)
        until(lambda: inner.getExecutorMemoryStatus().size() == 3)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MOST_WAIT_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit("waited in vain")
        time.sleep(0.1)


REVENUE = """
select c.region, s.day % 12 as month, sum(s.amount) as revenue, count(distinct s.item_id) as items
from sales s join customers c on s.customer_id = c.customer_id
where s.day < 90
group by c.region, s.day % 12
order by revenue desc
"""
FINGERPRINT = (
    "sha2(concat(note, sale_id, sha2(concat(note, sha2(concat(note, day), 512)), 512)), 512)"
)
"""Costs some microseconds of a row."""


def failed(shop: Shop) -> None:
    """One row's text is no number, and the function does not expect it."""

    mended = shop.mended

    def parsed(text: str) -> float | None:
        if mended and not text.replace(".", "", 1).isdigit():
            return None
        return float(text)

    amount = F.udf(parsed, "double")
    payments = shop.table("payments").withColumn("paid", amount("paid"))
    shop.table("customers").groupBy("region").count().collect()
    with shop.timed():
        by_region = payments.join(shop.table("customers"), "customer_id").groupBy("region")
        by_region.agg(F.sum("paid").alias("paid")).write.parquet(shop.out("paid_by_region"))


def cold(shop: Shop) -> None:
    """The second executor is new when the report is made; or it has run it before."""
    shop.views("sales", "customers")
    tried = REVENUE.replace("day < 90", "day < 2")
    for _ in range(1 if shop.mended else 4):
        shop.spark.sql(tried).collect()
    shop.second_executor()
    for _ in range(3 if shop.mended else 0):
        shop.spark.sql(tried).collect()
    with shop.timed():
        shop.spark.sql(REVENUE).collect()


def locality(shop: Shop) -> None:
    """Cached partitions lie on the executor that was first, and tasks wait for it."""
    sales = shop.table("sales").where("sale_id % 8 = 3").repartition(24).cache()
    sales.count()
    shop.second_executor()
    shop.table("customers").repartition(4).selectExpr("max(sha2(region, 512))").collect()
    prints = sales.selectExpr("day", "item_id", "customer_id", f"{FINGERPRINT} as print")
    with shop.timed():
        for key in ("day", "item_id", "customer_id"):
            found = prints.groupBy(key).agg(F.max("print"), F.min("print"))
            found.write.parquet(shop.out(f"prints_by_{key}"))


def throttled(shop: Shop) -> None:
    """The container may use a part of a processor."""
    shop.views("sales", "customers")
    shop.spark.sql(REVENUE.replace("day < 90", "day < 5")).collect()
    shop.limited()
    with shop.timed():
        shop.spark.sql(REVENUE).collect()


def lock(shop: Shop) -> None:
    """A function of Java asks a service over one connection that all threads share."""
    owner = "OfThread" if shop.mended else "Shared"
    shop.spark.udf.registerJavaFunction("rate", f"RateBook${owner}", "double")
    shop.views("days")
    shop.spark.sql("select max(day) from days group by month").collect()
    with shop.timed():
        shop.spark.sql("select month, avg(rate(day)) as rate from days group by month").collect()


def python_lock(shop: Shop) -> None:
    """All tasks append to one archive, one after the other; or each to its own."""
    folder, mended = shop.folder, shop.mended

    def archive(rows: Iterable[Row]) -> None:
        lines = [f"{row.sale_id};{row.note};{row.amount}\n" for row in rows]
        if not lines:
            return
        name = f"archive-{hash(lines[0]):x}.xz" if mended else "archive.xz"
        with Path(folder, name).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(lzma.compress("".join(lines).encode()))

    shop.table("sales").where("sale_id < 40").repartition(4).foreachPartition(archive)
    with shop.timed():
        shop.table("sales").where("sale_id % 10 = 7").repartition(16).foreachPartition(archive)


def tiny_tasks(shop: Shop) -> None:
    """The partitions of a shuffle are as many as a large cluster needs."""
    shop.views("sales", "customers")
    shop.spark.sql("select count(*) from sales").collect()
    with shop.timed():
        totals = shop.spark.sql("select sum(amount) as total from sales group by customer_id")
        totals.selectExpr("avg(total)", "max(total)").collect()


def schema(shop: Shop) -> None:
    """Spark reads the footers of all files to know their columns; or it is told."""
    folder = str(shop.data / "measurements")
    shop.table("sales").selectExpr("max(amount)").collect()
    with shop.timed():
        reader = shop.spark.read.option("mergeSchema", "true")
        if shop.mended:
            reader = shop.spark.read.schema(", ".join(f"c{n} double" for n in range(300)))
        reader.parquet(folder).where("c1 > 0.5").agg(F.avg("c2")).collect()


def outside(shop: Shop) -> None:
    """A function of Java asks a slow service for each row; or once for all."""
    owner = "Whole" if shop.mended else "OfThread"
    shop.spark.udf.registerJavaFunction("rate", f"RateBook${owner}", "double")
    shop.views("days")
    shop.spark.sql("select max(day) from days group by month").collect()
    with shop.timed():
        shop.spark.sql("select day, month, rate(day) as rate from days").write.parquet(
            shop.out("rates")
        )


def spill(shop: Shop) -> None:
    """A sort has a small part of the heap."""
    latest = """
    select customer_id, max(amount) as most, max(note) as note from (
      select *, row_number() over (partition by customer_id order by day desc, sale_id) as place
      from sales where sale_id % 4 < {quarters}
    ) where place <= 3 group by customer_id
    """
    shop.views("sales")
    shop.spark.sql(latest.format(quarters=1)).collect()
    with shop.timed():
        shop.spark.sql(latest.format(quarters=4)).write.parquet(shop.out("latest"))


def skew(shop: Shop) -> None:
    """Most web sales are of one customer, the guest; or the guest is salted."""
    sales, accounts = shop.table("web_sales"), shop.table("accounts")
    keys = ["customer_id"]
    if shop.mended:
        guest, first = F.col("customer_id") == 0, F.lit(0)
        salts = F.when(guest, F.sequence(first, F.lit(7))).otherwise(F.array(first))
        accounts = accounts.withColumn("salt", F.explode(salts))
        salt = F.when(guest, F.col("sale_id") % 8).otherwise(first).cast("int")
        sales = sales.withColumn("salt", salt)
        keys = ["customer_id", "salt"]
    joined = sales.join(accounts, keys).selectExpr("region", "address", f"{FINGERPRINT} as print")
    joined.where("sale_id < 2000").groupBy("region").agg(F.max("print")).collect()
    with shop.timed():
        joined.groupBy("region").agg(F.max("print"), F.max("address")).write.parquet(
            shop.out("prints")
        )


def broadcast(shop: Shop) -> None:
    """No small table is broadcast, as a setting forbids it."""
    shop.views("sales", "customers")
    joined = """
    select c.region, sum(s.amount) as revenue, max(s.note) as note
    from sales s join customers c on s.customer_id = c.customer_id
    where s.sale_id % 4 < {quarters} group by c.region
    """
    shop.spark.sql(joined.format(quarters=1)).collect()
    with shop.timed():
        shop.spark.sql(joined.format(quarters=4)).collect()


def partitions(shop: Shop) -> None:
    """All is written as one file, and so computed by one task."""
    sales = shop.table("sales").where("sale_id % 2 = 0")
    prints = sales.selectExpr("customer_id", f"{FINGERPRINT} as print")
    prints.limit(2000).agg(F.max("print")).collect()
    with shop.timed():
        chosen = prints if shop.mended else prints.coalesce(1)
        chosen.write.parquet(shop.out("prints"))


def idle(shop: Shop) -> None:
    """The driver waits for deliveries, and the executors with it."""
    shop.views("sales")
    regions = shop.table("customers").groupBy("region").count()
    with shop.timed():
        regions.collect()
        for number in range(12):
            asked = f"{shop.service}/delivery?number={number}&ms=3000"
            with urlopen(asked) as answer:  # noqa: S310 (of this machine)
                answer.read()
        shop.spark.sql("select max(amount) from sales where day < 3").collect()


def late(shop: Shop) -> None:
    """The hosts are slow to start executors."""
    shop.views("sales", "customers")
    with shop.timed():
        shop.spark.sql(REVENUE).write.parquet(shop.out("revenue"))


def collect(shop: Shop) -> None:
    """All rows come to the driver and are added up there; or the executors add them up."""
    sales = shop.table("sales").where("day < 120").select("customer_id", "day", "amount", "note")
    sales.limit(100).collect()
    with shop.timed():
        totals: dict[int, float] = {}
        if shop.mended:
            rows = sales.groupBy("day").agg(F.sum("amount").alias("amount")).collect()
        else:
            rows = sales.collect()
        for row in rows:
            totals[row.day] = totals.get(row.day, 0.0) + row.amount


if __name__ == "__main__":
    kind, state, data, folder, service = sys.argv[1:]
    session = SparkSession.builder.appName(f"shop {kind}").getOrCreate()
    shop = Shop(session, state == "mended", Path(data), Path(folder), service)
    globals()[kind.replace("-", "_")](shop)
    session.stop()
