"""A standalone Spark cluster whose workers run on hosts that can be loaded alone."""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadable_hosts import Host, Size, hosts

from iqcar.apps.demo.run_mix import ENVIRONMENT_OF_ANOTHER_SPARK
from iqcar.logs.attach.spark_conf import SparkConf, listener_jar

MASTER = "127.0.0.1"
START_S = 180.0
"""A worker starts in about 5 s alone; five at once on a busy machine take much longer."""
EXECUTOR_MEMORY = "512m"
DAEMON_MEMORY = "128m"
QUIET_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Compiling for minutes in the background would take from a host with a fraction of a core."""
CONF = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUIET_JVM,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    hosts: list[Host]

    def limit(self) -> None:
        """Give every host its share of processor and disk, once all is warm."""
        for host in self.hosts:
            host.limit()


def spark_home() -> Path:
    """The installed pyspark's folder."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("cluster: pyspark is not installed (pip install pyspark)")
    return Path(spec.origin).parent


def environment(address: str) -> dict[str, str]:
    """Environment variables of Spark's processes on a host."""
    kept = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT_OF_ANOTHER_SPARK}
    ours = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": address,
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": QUIET_JVM,
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**kept, **ours}


@contextmanager
def cluster(
    names: Sequence[str], folder: Path, size: Size, worker_cores: int = 1
) -> Iterator[Cluster]:
    """Start a master and one worker per host; stop exactly these at the end.

    names: loopback addresses, such as 127.0.0.2.
    folder: for work folders and messages; on a disk that can be throttled.
    size: what each host has once :meth:`Cluster.limit` is called.
    worker_cores: tasks that a worker may run at once.
    """
    deploy = "org.apache.spark.deploy"
    start = str(spark_home() / "bin" / "spark-class")
    port = free_port()
    url = f"spark://{MASTER}:{port}"
    log = folder / "daemons.log"
    running: list[subprocess.Popen[bytes]] = []
    with hosts(names, folder, size) as made:
        try:
            words = [f"{deploy}.master.Master", "--host", MASTER, "--port", str(port)]
            with log.open("ab") as out:
                running.append(
                    subprocess.Popen(
                        [start, *words, "--webui-port", "0"],
                        env=environment(MASTER),
                        stdout=out,
                        stderr=out,
                        cwd=folder,
                    )
                )
            for host in made:
                words = [f"{deploy}.worker.Worker", "--host", host.name]
                words += ["--cores", str(worker_cores), "--memory", "1g"]
                words += ["--webui-port", "0", "--work-dir"]
                words += [str(host.folder / "work"), url]
                local = {**environment(host.name), "SPARK_LOCAL_DIRS": str(host.folder / "local")}
                running.append(host.start([start, *words], host.spark, local, log))
            wait_until(
                lambda: log.read_text("utf-8", "replace").count("Registering worker") >= len(made),
                "workers",
                running,
            )
            yield Cluster(url, made)
        finally:
            for daemon in reversed(running):
                daemon.terminate()
            for daemon in running:
                daemon.wait()


def start_application(
    words: Sequence[str],
    master: str,
    folder: Path,
    name: str,
    conf: Mapping[str, str],
    on: Host | None = None,
) -> subprocess.Popen[bytes]:
    """Start a PySpark program with the plugin attached.

    words: the program's file and its arguments.
    folder: gets ``eventlogs/`` and the program's messages, ``NAME.log``.
    conf: Spark settings beyond :data:`CONF`.
    on: run it, as somebody else's work, on this host; by default beside the hosts.
    """
    logs = folder / "eventlogs"
    logs.mkdir(exist_ok=True)
    settings = {
        **SparkConf(jar=str(listener_jar()), log_dir=str(logs)).settings(),
        **CONF,
        "spark.driver.memory": "1g",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "true",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        **conf,
    }
    given = ["--master", master]
    for key, value in settings.items():
        given += ["--conf", f"{key}={value}"]
    address = on.name if on else MASTER
    env = environment(address) | {"SPARK_LOCAL_HOSTNAME": address}
    env["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*given, "pyspark-shell"]))
    log = folder / f"{name}.log"
    if on is not None:
        return on.start([sys.executable, *words], on.hogs, env, log)
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, *words], env=env, stdout=out, stderr=out, cwd=folder
        )


def wait_until(
    condition: Callable[[], bool], what: str, running: Sequence[subprocess.Popen[bytes]] = ()
) -> None:
    """Wait for a condition while processes run; end with a line if it does not come true."""
    deadline = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"cluster: no {what} within {START_S:.0f} s")
        for process in running:
            if process.poll() is not None:
                raise SystemExit(f"cluster: a process ended while waiting for {what}")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((MASTER, 0))
        return int(probe.getsockname()[1])
