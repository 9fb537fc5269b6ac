"""Run by spark_event_logs.py: one Spark application per way of writing.

Into the folder given as argument it writes ``<name>/`` with the event log of each application,
``running/<name>/`` with a copy made while the application ran, and ``<name>.expected`` with the
lines that Spark's own reader finds in the log.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

CODECS = ("plain", "lz4", "snappy", "lzf", "zstd")
ROLLED_EVENT_BYTES = 2_500_000
"""Spark rolls no earlier than after 10 MB: each job and stage carries a property of this size."""

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
}


def application(folder: Path, name: str, **conf: str) -> SparkSession:
    logs = folder / name
    logs.mkdir()
    builder = SparkSession.builder.master("local[1]").appName(name)
    for key, value in {**CONF, "spark.eventLog.dir": logs.as_uri(), **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def write_one_file(folder: Path, name: str) -> None:
    compress = {"spark.eventLog.compress": str(name != "plain").lower()}
    codec = {} if name == "plain" else {"spark.eventLog.compression.codec": name}
    spark = application(folder, name, **compress, **codec)
    spark.range(1000).repartition(2).count()
    shutil.copytree(folder / name, folder / "running" / name)
    spark.stop()


def write_rolling(folder: Path, name: str) -> None:
    spark = application(
        folder,
        name,
        **{
            "spark.eventLog.compress": "true",
            "spark.eventLog.compression.codec": "zstd",
            "spark.eventLog.rolling.enabled": "true",
            "spark.eventLog.rolling.maxFileSize": "10m",
        },
    )
    spark.sparkContext.setLocalProperty("filler", "x" * ROLLED_EVENT_BYTES)
    for _ in range(6):
        spark.range(2).count()
    shutil.copytree(folder / name, folder / "running" / name)
    spark.stop()


class SparkReader:
    """Spark's own classes for reading event logs, from a session that writes none."""

    def __init__(self) -> None:
        # The compactor names its file after the original's codec and compresses as configured here.
        conf = {
            **CONF,
            "spark.eventLog.enabled": "false",
            "spark.eventLog.compress": "true",
            "spark.eventLog.compression.codec": "zstd",
        }
        builder = SparkSession.builder.master("local[1]")
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        context: Any = self.spark.sparkContext
        self.jvm = context._jvm
        self.conf = context._jsc.sc().conf()
        self.hadoop = context._jsc.hadoopConfiguration()
        self.files = self.jvm.org.apache.hadoop.fs.FileSystem.getLocal(self.hadoop)
        self.package = self.jvm.org.apache.spark.deploy.history

    def log_files(self, log: Path) -> Any:
        path = self.jvm.org.apache.hadoop.fs.Path(str(log))
        return self.package.EventLogFileReader.apply(self.files, path).get().listEventLogFiles()

    def write_lines(self, log: Path, target: Path) -> None:
        files = self.log_files(log)
        output = self.jvm.java.io.FileOutputStream(str(target))
        for index in range(files.size()):
            path = files.apply(index).getPath()
            stream = self.package.EventLogFileReader.openEventLog(path, self.files)
            self.jvm.org.apache.commons.io.IOUtils.copyLarge(stream, output)
            stream.close()
        output.close()

    def compact(self, log: Path) -> None:
        compactor = self.package.EventLogFileCompactor(self.conf, self.hadoop, self.files, 1, 0.0)
        compactor.compact(self.log_files(log))


def main(folder: Path) -> None:
    for name in CODECS:
        write_one_file(folder, name)
    write_rolling(folder, "rolling")
    reader = SparkReader()
    (rolling,) = (folder / "rolling").iterdir()
    compacted = folder / "compacted" / rolling.name
    shutil.copytree(rolling, compacted)
    reader.compact(compacted)
    for name in (*CODECS, "rolling", "compacted"):
        (log,) = (path for path in (folder / name).iterdir() if path.suffix != ".crc")
        reader.write_lines(log, folder / f"{name}.expected")
    reader.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
