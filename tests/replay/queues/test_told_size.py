"""The size of a cluster as its resource manager tells it, for replays of its queues."""

from __future__ import annotations

from math import nan
from pathlib import Path

import pytest

from iqcar.replay.queues.cluster_setup import capacity_of, tenants_of
from iqcar.replay.queues.told_size import told_size
from iqcar.rules.queues.queue_setup import Capacity, SizeSource, Unit
from iqcar.tables import Tables
from iqcar.tables.yarn_told import YarnApplication, YarnNode, YarnTold
from tests.support.shared_cluster_logs import YARN, Executor, Query, application, read

NODE_MB = 8192.0


def two_applications(folder: Path, cores: int, memory: str) -> Tables:
    """An executor each on two nodes, of so many cores and so much memory."""
    logs = [
        application(
            number, f"app-{number}", [Executor(number, cores, 5.0)],
            [Query("q", 1.0, [(0, 6.0, 16.0)])], start=0.0, end=20.0, master=YARN,
            spark_executor_instances="1", spark_executor_memory=memory,
            spark_executor_cores=str(cores),
        )
        for number in (1, 2)
    ]  # fmt: skip
    return read(logs, folder)


def told_of(
    tables: Tables, cores: float, labels: tuple[tuple[str, ...], ...] = ((), ())
) -> YarnTold:
    ids = tables.applications["application_id"].tolist()
    apps = tuple(
        YarnApplication(
            application_id=one, name=one, user="ann", queue="root.default", state="RUNNING",
            kind="SPARK", label="", diagnostics="", submitted_ms=1e6, launched_ms=1e6,
            until_ms=1.1e6, memory_mb_s=nan, preempted=0.0, master_host="node-1",
        )
        for one in ids
    )  # fmt: skip
    nodes = tuple(
        YarnNode(f"node-{at}", NODE_MB, cores, of) for at, of in enumerate(labels, start=1)
    )
    return YarnTold("http://rm:8088", apps, nodes, (), 1024.0)


@pytest.mark.parametrize(
    ("cores", "memory", "node_cores", "expected"),
    [
        # Memory is scarcer: 4 GB and 10 % of overhead, rounded up, of 8 GB; 1 core of 16.
        (1, "4g", 16.0, (Capacity(2 * 8192, Unit.MB, SizeSource.MANAGER), 5120, 1024)),
        # Cores are: 6 of 8.
        (6, "1g", 8.0, (Capacity(16, Unit.CORES, SizeSource.MANAGER), 6, 1)),
        # More cores at once than a node has: the manager does not count them.
        (6, "1g", 4.0, (Capacity(2 * 8192, Unit.MB, SizeSource.MANAGER), 2048, 1024)),
    ],
)
def test_the_scarcer_of_memory_and_cores_is_counted(
    tmp_path: Path,
    cores: int,
    memory: str,
    node_cores: float,
    expected: tuple[Capacity, int, int],
) -> None:
    tables = two_applications(tmp_path, cores, memory)
    tables = tables.with_(yarn=told_of(tables, node_cores))
    found = told_size(tables, tenants_of(tables, [0, 1]))
    assert found is not None
    capacity, tenants = found
    assert [(capacity, one.size, one.master_size) for one in tenants] == [expected] * 2
    assert capacity_of(tables, tenants).amount == 2 * sum(expected[1:])


def test_a_size_is_not_told_where_nodes_are_labelled_or_were_more(tmp_path: Path) -> None:
    tables = two_applications(tmp_path, 1, "4g")
    tenants = tenants_of(tables, [0, 1])
    assert told_size(tables, tenants) is None
    labelled = tables.with_(yarn=told_of(tables, 16.0, (("gpu",), ("gpu",))))
    assert told_size(labelled, tenants) is None
    fewer = tables.with_(yarn=told_of(tables, 16.0, ((),)))
    assert told_size(fewer, tenants) is None
    partly = told_of(tables, 16.0)
    unknown = tables.with_(yarn=partly._replace(applications=partly.applications[:1]))
    assert told_size(unknown, tenants) is None
