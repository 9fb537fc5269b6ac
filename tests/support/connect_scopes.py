"""A Spark Connect client that names queries and chooses pools; it runs its own server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import iqcar
from iqcar.errors import IqcarError

folder, pool = Path(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.remote("local[2]")
for key, value in {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.dir": (folder / "log").as_uri(),
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()


def now() -> list[str | None]:
    return [spark.conf.get(f"spark.{key}", None) for key in ("job.description", "scheduler.pool")]


def job(rows: int) -> None:
    """As many tasks as rows tell the jobs apart."""
    spark.range(0, rows, 1, rows).write.format("noop").mode("overwrite").save()


seen = {"before": now()}
with iqcar.query("q39b", pool=pool):
    job(3)
    with iqcar.query("inner"):
        job(4)
        seen["inner"] = now()
    seen["inside"] = now()
seen["after"] = now()
job(5)
try:
    with iqcar.query("q39b", pool=pool, spark=spark):
        raise KeyError
except KeyError:
    seen["after-error"] = now()


class Refusing:
    """A server that keeps its settings to itself."""

    def get(self, key: str, default: object) -> object:
        return default

    def set(self, key: str, value: str) -> None:
        spark.conf.set("spark.sql.warehouse.dir", value)  # static: every server refuses it


from pyspark.sql.connect.session import SparkSession as Remote  # noqa: E402


class Locked(Remote):
    """The session, with settings that cannot be set."""

    def __init__(self) -> None: ...

    def __del__(self) -> None: ...

    conf = Refusing()


Locked.__module__ = Remote.__module__
try:
    iqcar.query("q39b", spark=Locked()).__enter__()
except IqcarError as error:
    seen["refused"] = str(error)
spark.stop()
try:
    iqcar.query("q39b").__enter__()
except IqcarError as error:
    seen["stopped"] = str(error)
print("SEEN", json.dumps(seen))
