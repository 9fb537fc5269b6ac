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
SCORE = " + ".join(f"exp(-amount / {n}) * sin({n} * day)" for n in range(1, 41))
"""A model of many terms: computes for some microseconds a row, and makes no garbage."""


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
    scores = sales.selectExpr("day", "item_id", "customer_id", f"{SCORE} as score")
    with shop.timed():
        for key in ("day", "item_id", "customer_id"):
            found = scores.groupBy(key).agg(F.max("score"), F.min("score"))
            found.write.parquet(shop.out(f"scores_by_{key}"))


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
    """All tasks lock one file while they send what they have; or each a file of its own."""
    folder, mended, service = shop.folder, shop.mended, shop.service

    def send(rows: Iterable[Row]) -> None:
        lines = [f"{row.sale_id};{row.note};{row.amount}" for row in rows]
        name = f"sending-{hash(lines[0])}" if mended else "sending"
        for _ in range(2):
            with Path(folder, name).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                packed = lzma.compress(str(lines).encode())
                with urlopen(f"{service}/send?ms=500", packed) as sent:  # noqa: S310 (as below)
                    sent.read()

    shop.table("customers").repartition(4).foreachPartition(lambda rows: None)
    sales = shop.table("sales").where("sale_id % 100 = 7").repartition(16)
    with shop.timed():
        sales.foreachPartition(send)


def tiny_tasks(shop: Shop) -> None:
    """The partitions of a shuffle are as many as a large cluster needs."""
    shop.views("sales", "customers")
    shop.spark.sql("select count(*) from sales").collect()
    with shop.timed():
        totals = shop.spark.sql("select sum(amount) as total from sales group by customer_id")
        totals.selectExpr("avg(total)", "max(total)").collect()


def schema(shop: Shop) -> None:
    """Spark reads the footers of all files to know their columns; or it is told."""
    shop.table("sales").selectExpr("max(amount)").collect()
    with shop.timed():
        if shop.mended:
            columns = ", ".join(f"c{n} double" for n in range(300))
            reader = shop.spark.read.schema(f"{columns}, day int")
        else:
            reader = shop.spark.read.option("mergeSchema", "true")
        measured = reader.parquet(str(shop.data / "measurements"))
        measured.where("day = 7 and c1 > 0.5").agg(F.avg("c2")).collect()


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
      from (select * from sales union all select * from web_sales where customer_id > 0)
      where sale_id % 8 < {eighths}
    ) where place <= 3 group by customer_id
    """
    shop.views("sales", "web_sales")
    shop.spark.sql(latest.format(eighths=1)).collect()
    with shop.timed():
        shop.spark.sql(latest.format(eighths=8)).write.parquet(shop.out("latest"))


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
    joined = sales.join(accounts, keys).selectExpr("region", "address", f"{SCORE} as score")
    joined.where("sale_id < 2000").groupBy("region").agg(F.max("score")).collect()
    with shop.timed():
        joined.groupBy("region").agg(F.max("score"), F.max("address")).write.parquet(
            shop.out("scores")
        )


def broadcast(shop: Shop) -> None:
    """No small table is broadcast, as a setting forbids it."""
    shop.views("sales", "customers", "days")
    joined = """
    select region, month, sum(amount) as revenue, max(note) as note
    from sales
    join customers on sales.customer_id = customers.customer_id
    join days on sales.day = days.day
    where sale_id % 8 < {eighths} group by region, month
    """
    shop.spark.sql(joined.format(eighths=1)).collect()
    with shop.timed():
        shop.spark.sql(joined.format(eighths=8)).collect()


def partitions(shop: Shop) -> None:
    """All is written as one file, and so computed by one task."""
    sales = shop.table("sales")
    scores = sales.selectExpr("customer_id", f"{SCORE} as score")
    scores.limit(2000).agg(F.max("score")).collect()
    with shop.timed():
        chosen = scores if shop.mended else scores.coalesce(1)
        chosen.write.parquet(shop.out("scores"))


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
