"""Jars of Hadoop that Spark lacks, its servers and S3's client: Maven fetches them when needed."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark
import pytest

REPO = Path(__file__).resolve().parents[2]
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
FETCHED = REPO / "build" / "hadoop"
FETCH_TIMEOUT_S = 900
"""They are some 66 MB; a repository behind a slow proxy takes minutes."""


S3A_HADOOP = "3.5.0"
"""Each version of S3's client goes with versions of a dozen other jars: one is kept."""


@functools.cache
def hadoop_class_path() -> str:
    """Class path of Hadoop's servers, of the version of Spark's Hadoop; skips where none is had."""
    if not shutil.which("java"):
        pytest.skip("needs a JDK")
    servers = _jars("hadoop_servers.xml", FETCHED, hadoop_of(SPARK_JARS))
    return os.pathsep.join(f"{place}/*" for place in (servers, SPARK_JARS))


def s3a_jars(spark_jars: Path) -> list[Path]:
    """Jars that a Spark needs to read ``s3a://``; skips where none is had."""
    version = hadoop_of(spark_jars)
    if version != S3A_HADOOP:
        pytest.skip(f"S3's client is tested with Hadoop {S3A_HADOOP}; this Spark has {version}")
    return sorted(_jars("hadoop_aws.xml", FETCHED / "aws", version).glob("*.jar"))


def hadoop_of(spark_jars: Path) -> str:
    """Version of a Spark's Hadoop jars."""
    (client,) = spark_jars.glob("hadoop-client-api-*.jar")
    return client.stem.rpartition("-")[2]


def _jars(pom: str, kept: Path, version: str) -> Path:
    """Folder of what a file of Maven's names; fetched once, by one process."""
    folder = kept / version
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(pom, version, folder)
    if not folder.exists():
        pytest.skip(f"Maven cannot get what tests/support/{pom} names, of Hadoop {version}")
    return folder


def _fetch(pom: str, version: str, folder: Path) -> None:
    """Copy the jars from Maven's cache, else from its repositories; all of them or none."""
    if not shutil.which("mvn"):
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        copy, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        shutil.copy(Path(__file__).with_name(pom), copy)
        words = ["-f", str(copy), f"-Dhadoop={version}", f"-DoutputDirectory={jars}"]
        for offline in ("-o",), ():
            done = subprocess.run(
                ["mvn", "-q", "-B", *offline, "dependency:copy-dependencies", *words],
                capture_output=True,
                check=False,
                timeout=FETCH_TIMEOUT_S,
            )
            if done.returncode == 0:
                jars.rename(folder)
                return
