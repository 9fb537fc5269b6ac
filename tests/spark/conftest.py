"""What several files of tests on a real Spark share: each is made once for each Spark.

What lives as long as the session has no parameters: pytest would bring the tests of all files that
use one parameter together, and make what lives as long as a file several times.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.listener_spark import (
    PLUGIN,
    App,
    build_jar,
    environment,
    run_workloads,
    spark_params,
)
from tests.support.standalone_cluster import Cluster, standalone_cluster

POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="gold">
    <schedulingMode>FAIR</schedulingMode><weight>3</weight><minShare>1</minShare>
  </pool>
</allocations>
"""
SPIN_CORES = 2
FIFO_PAUSES = 5
FIFO_PAUSE_S = 0.25


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Cluster]]:
    """The cluster of each Spark, started when it is first asked for."""
    with ExitStack() as running:

        @functools.cache
        def start(home: Path) -> Cluster:
            build_jar()
            folder = tmp_path_factory.mktemp("cluster")
            return running.enter_context(standalone_cluster(home, folder, environment(home)))

        yield start


@pytest.fixture(scope="module", params=spark_params())
def cluster(request: pytest.FixtureRequest, clusters: Callable[[Path], Cluster]) -> Cluster:
    """A cluster of two hosts; whoever needs one slot on each asks for it: ONE_SLOT_EACH."""
    return clusters(request.param)


@pytest.fixture(scope="session")
def waiting_apps(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], App]:
    """The application of known waits of each Spark, recorded when it is first asked for."""
    return functools.cache(lambda home: record_known_waits(home, tmp_path_factory.mktemp("waits")))


@pytest.fixture(scope="module", params=spark_params())
def known_waits(request: pytest.FixtureRequest, waiting_apps: Callable[[Path], App]) -> App:
    """One application with every workload of the test jar, on at most two cores."""
    return waiting_apps(request.param)


def record_known_waits(home: Path, folder: Path) -> App:
    fifo = folder / "slow"
    os.mkfifo(fifo)
    feeder = threading.Thread(target=feed, args=(fifo,), daemon=True)
    feeder.start()
    (folder / "pools.xml").write_text(POOLS)
    done = run_workloads(
        home,
        folder,
        *("lock", "memory", "hoard", "queue", "notify", "sleep", f"fifo:{fifo}", "spin"),
        *("long:3000", "failed", "pooled:gold", "killed", "many"),
        master="local[4,2]",
        conf={
            **PLUGIN,
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": (folder / "pools.xml").as_uri(),
            "spark.iqcar.profile.buckets": "8",
        },
        two_cores=True,
    )
    assert done.exit_code == 0, done.errors[-3000:]
    feeder.join()
    return done


def feed(fifo: Path) -> None:
    """Write to a named pipe slowly, once somebody reads it."""
    with fifo.open("w") as out:
        for _ in range(FIFO_PAUSES):
            time.sleep(FIFO_PAUSE_S)
            out.write("x")
            out.flush()
