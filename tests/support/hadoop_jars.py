"""Hadoop's servers, which Spark's own Hadoop jars lack: some jars, fetched by Maven when needed."""

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


@functools.cache
def hadoop_class_path() -> str:
    """Class path of Hadoop's servers, of the version of Spark's Hadoop; skips where none is had."""
    if not shutil.which("java"):
        pytest.skip("needs a JDK")
    (client,) = SPARK_JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    folder = FETCHED / version
    FETCHED.mkdir(parents=True, exist_ok=True)
    with (FETCHED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(version, folder)
    if not folder.exists():
        pytest.skip(f"Maven cannot get org.apache.hadoop:hadoop-client-minicluster:{version}")
    return os.pathsep.join(f"{place}/*" for place in (folder, SPARK_JARS))


def _fetch(version: str, folder: Path) -> None:
    """Copy the jars from Maven's cache, else from its repositories; all of them or none."""
    if not shutil.which("mvn"):
        return
    with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
        pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        shutil.copy(Path(__file__).with_name("hadoop_servers.xml"), pom)
        words = ["-f", str(pom), f"-Dhadoop={version}", f"-DoutputDirectory={jars}"]
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
