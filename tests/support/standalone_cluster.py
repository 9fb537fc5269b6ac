"""A standalone Spark cluster of two hosts: loopback addresses of one machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import quick_spark
from tests.support.free_port import free_port

HOSTS = ("127.0.0.2", "127.0.0.3")
CORES = 2
"""Of each worker."""
ONE_SLOT_EACH = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": str(len(HOSTS)),
}
"""Settings of an application that gets one slot on each host."""
START_TIMEOUT_S = 600


@dataclass
class Cluster:
    """A standalone master with one worker per host, each with a folder of its name.

    daemons: the master's process, then those of the workers.
    """

    home: Path
    master: str
    folder: Path
    daemons: list[subprocess.Popen[bytes]]


def wait_until(
    condition: Callable[[], object], what: str, patience_s: float = START_TIMEOUT_S
) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} in {patience_s} s"
        time.sleep(0.2)


@contextmanager
def standalone_cluster(
    home: Path, folder: Path, environment: Mapping[str, str]
) -> Iterator[Cluster]:
    """Start the daemons, and stop exactly these."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    daemons = {
        "127.0.0.1": [f"{deploy}.master.Master", "--port", str(port), "--webui-port", "0"],
        **{
            host: [
                *(
                    f"{deploy}.worker.Worker",
                    "--cores",
                    str(CORES),
                    "--memory",
                    f"{CORES}g",
                    "--webui-port",
                    "0",
                ),
                *("--work-dir", str(folder / host), url),
            ]
            for host in HOSTS
        },
    }
    running: list[subprocess.Popen[bytes]] = []
    log = folder / "daemons.log"
    try:
        with log.open("w") as out:
            for host, words in daemons.items():
                env = {
                    **os.environ,
                    **environment,
                    "SPARK_LOCAL_IP": host,
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": quick_spark.options(),
                }
                start = [str(home / "bin" / "spark-class"), words[0], "--host", host, *words[1:]]
                running.append(subprocess.Popen(start, env=env, stdout=out, stderr=out, cwd=folder))
            # A master that is not elected yet takes no worker, and the worker asks again later.
            accepted = "Successfully registered with master"
            wait_until(lambda: log.read_text().count(accepted) == len(HOSTS), "workers")
        yield Cluster(home, url, folder, running)
    finally:
        for daemon in reversed(running):
            daemon.terminate()
            daemon.wait()
