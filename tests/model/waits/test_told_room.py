"""Room for one more executor, by the sizes and limits that a resource manager tells."""

from __future__ import annotations

from math import nan
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.enums import BlameKind, FindingKind
from iqcar.model.waits.measure import measure_waits
from iqcar.model.waits.shared_cluster import executor_offers
from iqcar.model.waits.told_room import ToldCluster
from iqcar.model.waits.yarn_containers import requests_of
from iqcar.say.blamed import cause_name
from iqcar.say.findings import find_findings
from iqcar.tables import Tables
from iqcar.tables.yarn_told import (
    QueueLimit,
    YarnApplication,
    YarnNode,
    YarnQueue,
    YarnTold,
)
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.naive_room import LEAST_MB, NaiveRoom
from tests.support.shared_cluster_logs import (
    EPOCH_S,
    YARN,
    Executor,
    Query,
    application,
    read,
)
from tests.support.tiny_tables import tiny_tables

SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.executor.memoryOverhead": "100",
    "spark.yarn.am.memory": "200m",
    "spark.yarn.am.memoryOverhead": "1m",
}


def app_told(number: int, queue: str, **more: object) -> YarnApplication:
    """An application that ran from 0 to 60 s; its master is on a node that does not count."""
    plain = YarnApplication(
        application_id=f"application_1_{number:04}", name=f"a{number}", user="ann", queue=queue,
        state="FINISHED", kind="SPARK", label="", diagnostics="", submitted_ms=0.0,
        launched_ms=0.0, until_ms=60_000.0, memory_mb_s=nan, preempted=0.0, master_host="m",
    )  # fmt: skip
    return plain._replace(**more)


def random_cluster(seed: int) -> Tables:
    """Executors on three nodes, one of them labelled, in three queues, with an unknown beside."""
    rng = np.random.default_rng(seed)
    apps = int(rng.integers(1, 5))
    queues = ["root.day.etl", "root.day.adhoc", "root.night"]
    labels = [str(rng.choice(["", "", "gpu"])) for _ in range(apps)]
    executors = []
    for _ in range(int(rng.integers(1, 12))):
        app = int(rng.integers(apps))
        since = int(rng.integers(0, 50))
        host = 2 if labels[app] else int(rng.integers(0, 2 + (rng.random() < 0.1)))
        executors.append(
            {
                "app": app,
                "executor_id": str(len(executors)),
                "host": host,
                "cores": float(rng.integers(1, 3)),
                "added_ms": 1000.0 * since,
                "removed_ms": 1000.0 * int(rng.integers(since + 1, 61)),
            }
        )
    settings = [
        SETTINGS | ({"spark.yarn.executor.nodeLabelExpression": label} if label else {})
        for label in labels
    ]
    tables = tiny_tables(
        applications=[
            {"application_id": f"application_1_{n:04}", "end_ms": 60_000.0, "executor_cores": 2.0}
            for n in range(apps)
        ],
        hosts=[{"host": f"n{n}"} for n in range(3)],
        executors=executors,
        conf=[
            {"app": app, "sql_execution": -1, "key": key, "value": value}
            for app, one in enumerate(settings)
            for key, value in one.items()
        ],
    )
    told = [
        app_told(n, str(rng.choice(queues)), user=str(rng.choice(["ann", "bob"])), master_host="n0")
        for n in range(apps)
    ]
    unknown = app_told(99, "root.night", memory_mb_s=float(rng.integers(0, 60_000)))
    nodes = [
        YarnNode(f"n{n}", 256.0 * rng.integers(6, 40), float(rng.integers(4, 20)), labels)
        for n, labels in enumerate([(), (), ("gpu",)])
    ]

    def sizes() -> tuple[QueueLimit, ...]:
        return tuple(
            QueueLimit(label, 256.0 * rng.integers(1, 40), float(rng.integers(1, 20)))
            for label in ("", "gpu")
        )

    limits = [
        YarnQueue(path, 50.0, 100.0, 0.0, sizes(), user_limits=users)
        for path in ("root", "root.day", *queues)
        for users in [sizes() if path in queues and rng.random() < 0.7 else ()]
    ]
    manager = YarnTold("http://rm", (*told, unknown), tuple(nodes), tuple(limits), LEAST_MB)
    return tables.with_(yarn=manager)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_what_fits_is_what_is_counted_container_by_container(seed: int) -> None:
    tables = random_cluster(seed)
    assert tables.yarn is not None
    requests = requests_of(tables, tables.yarn)
    cluster = ToldCluster.of(tables, executor_offers(tables), requests)
    assert cluster is not None
    naive = NaiveRoom(tables)
    assert cluster.cores_count == naive.cores_count()
    when = np.unique(cluster.times())
    for app in range(len(tables.applications)):
        limits = cluster.limits(app, when)
        found = np.stack([limit.fits for limit in limits]).T.tolist()
        assert found == [naive.fits(app, moment) for moment in when.tolist()]
    fits_on_nodes = all(
        sum(one[1] for one in naive.at(t) if one[5] == node.host) <= node.memory_mb
        for t in when.tolist()
        for node in tables.yarn.nodes
    )
    assert cluster.tells(0, 0.0, 60_000.0) == fits_on_nodes


GB = {"spark_executor_memory": "640m", "spark_executor_memoryOverhead": "384m"}
"""With two cores: a slot is half a GB."""


ON_GPU = {"spark_yarn_executor_nodeLabelExpression": "gpu"}


def logs(folder: Path, host: int = 2, **more: str) -> Tables:
    """`load` holds 2 executors for 30 s, `peer` one of node-2, `report` has one and wants two.

    The last two parameters are the host and settings of `report`; the latter also those of `load`.
    """
    load = application(
        1, "nightly", [Executor(1, 2, 1.0), Executor(1, 2, 1.0)],
        [Query("load", 1.0, [(n // 2, 1.0, 30.0) for n in range(4)])],
        end=30.0, master=YARN, **GB, **more,
    )  # fmt: skip
    peer = application(
        2, "peer", [Executor(2, 2, 1.0)], [Query("peer", 1.0, [(0, 1.0, 30.0)] * 2)],
        end=30.0, master=YARN, **GB,
    )  # fmt: skip
    return read([load, peer, reporting(host, **more)], folder)


def reporting(host: int = 2, **more: str) -> SyntheticLog:
    """`report` runs 40 tasks of 1 s from 3 s on in one executor, and may have two."""
    return application(
        3, "morning", [Executor(host, 2, 2.0)],
        [Query("report", 3.0, [(0, 3.0 + n // 2, 4.0 + n // 2) for n in range(40)])],
        end=24.0, start=1.5, master=YARN, spark_executor_instances="2", spark_executor_cores="2",
        **GB, **more,
    )  # fmt: skip


def manager(
    tables: Tables, nodes: dict[str, float], queues: dict[str, float], **more: object
) -> YarnTold:
    """A resource manager with nodes and queues of so many GB; `etl` is load's queue."""
    of_app = ("etl", "adhoc", "adhoc")
    apps = [
        app_told(n + 1, of_app[n], application_id=one, launched_ms=nan)
        for n, one in enumerate(tables.applications["application_id"])
    ]
    limits = [
        YarnQueue(
            name,
            50.0,
            100.0,
            0.0,
            tuple(QueueLimit(label, 1024 * gb, 100.0) for label in ("", "gpu")),
        )
        for name, gb in {"root": 99.0, **{f"root.{q}": gb for q, gb in queues.items()}}.items()
    ]
    running = [YarnNode(name, 1024 * gb, 100.0, ()) for name, gb in nodes.items()]
    told = YarnTold("http://rm", tuple(apps), tuple(running), tuple(limits), 256.0)
    return told._replace(**more)


def lost(tables: Tables, told: YarnTold) -> tuple[dict[str, float], str]:
    """Seconds that `report` lost waiting for executors, by whom; and the doubts."""
    found = iqcar.diagnose(tables, expected=False, yarn=told)
    row = found.tables.queries["name"].tolist().index("report")
    by = {
        one["source_name"]: one["by_resource"].get("executors", 0.0) / 1e3
        for one in found.graph.blame_rows(row)
    }
    return {name: s for name, s in by.items() if s > 0.1}, " ".join(found.doubts)


def test_where_a_node_has_room_nobody_is_blamed(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    found, _ = lost(tables, manager(tables, {"node-1": 2, "node-2": 3}, {"etl": 9, "adhoc": 9}))
    assert found == {}


def test_room_on_several_nodes_that_none_has_is_no_room(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 2.6, "node-2": 2.6}, {"etl": 9, "adhoc": 9})
    found, doubts = lost(tables, told)
    # It took 20 s in two slots; in four 10 s. `load` held 4 slots, `peer` 2.
    assert found == pytest.approx({"load": 10 * 4 / 6, "peer": 10 * 2 / 6}, rel=0.1)
    assert "size told by the resource manager" in doubts
    assert "guessed" not in doubts


def test_where_the_queue_is_full_its_other_applications_are_in_the_way(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 2, "node-2": 2}, {"etl": 9, "adhoc": 2})
    found, _ = lost(tables, told)
    assert found == pytest.approx({"peer": 10}, rel=0.1)


def test_where_it_fills_its_queue_alone_the_limit_is_a_known_cause(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 2, "node-2": 9}, {"etl": 9, "adhoc": 1})
    alone = [
        one._replace(queue="etl") if number < 2 else one
        for number, one in enumerate(told.applications)
    ]
    told = told._replace(applications=tuple(alone))
    found, doubts = lost(tables, told)
    assert found == pytest.approx({"known causes": 10}, rel=0.1)
    assert "size told by the resource manager" in doubts
    assert cause_name(BlameKind.KNOWN, "executors") == "the queue's limit"
    first = find_findings(iqcar.diagnose(tables, expected=False, yarn=told), replay=False)[0]
    assert (first.kind, first.subject) == (FindingKind.EXECUTORS, "report")
    assert "limit of its YARN queue" in first.sentence
    assert "maximum-capacity" in first.action
    full = manager(tables, {"node-1": 2, "node-2": 2}, {"etl": 9, "adhoc": 1})
    assert lost(tables, full._replace(applications=tuple(alone)))[0] == {}


def with_user_limit(told: YarnTold, gb: float, users: str) -> YarnTold:
    """One user may hold so many GB of `adhoc`, and a container more; user of each application."""
    limit = (QueueLimit("", 1024 * gb, gb),)
    return told._replace(
        applications=tuple(
            one._replace(user=user, queue="adhoc")
            for one, user in zip(told.applications, users, strict=True)
        ),
        queues=tuple(
            queue._replace(user_limits=limit) if queue.path == "root.adhoc" else queue
            for queue in told.queues
        ),
    )


def test_what_one_user_may_hold_is_filled_by_the_users_own_applications(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 2, "node-2": 9}, {"adhoc": 99})
    # Beside the 1 GB of `report`, a user holds 2 GB with `load`, 1 GB with `peer`.
    found, _ = lost(tables, with_user_limit(told, 1.9, "xaa"))
    assert found == pytest.approx({"peer": 10}, rel=0.1)
    assert lost(tables, with_user_limit(told, 2.9, "xaa"))[0] == {}
    found, _ = lost(tables, with_user_limit(told, 2.9, "axa"))
    assert found == pytest.approx({"load": 10}, rel=0.1)
    found, _ = lost(tables, with_user_limit(told, 3.9, "aaa"))
    assert found == pytest.approx({"load": 10 * 4 / 6, "peer": 10 * 2 / 6}, rel=0.1)


def test_a_user_who_fills_the_limit_of_one_user_alone_is_told(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 2, "node-2": 9}, {"adhoc": 99})
    alone = with_user_limit(told, 0.9, "xya")
    assert lost(tables, alone)[0] == pytest.approx({"known causes": 10}, rel=0.1)
    first = find_findings(iqcar.diagnose(tables, expected=False, yarn=alone), replay=False)[0]
    assert (first.kind, first.subject) == (FindingKind.EXECUTORS, "report")
    assert "limit of one user in its YARN queue" in first.sentence
    assert "user-limit-factor" in first.action


def test_an_application_without_a_log_takes_its_part_of_the_blame_unnamed(tmp_path: Path) -> None:
    tables = logs(tmp_path)
    told = manager(tables, {"node-1": 5, "node-2": 5}, {"etl": 9, "adhoc": 9})
    start = 1_000_000.0
    other = app_told(
        9, "root.etl", launched_ms=start, until_ms=start + 60_000, memory_mb_s=60 * 5.5 * 1024
    )
    found, _ = lost(tables, told._replace(applications=(*told.applications, other)))
    # 4 slots of `load`, 2 of `peer`, 11 of who has no log.
    expected = {"load": 10 * 4 / 17, "peer": 10 * 2 / 17, "unattributed": 10 * 11 / 17}
    assert found == pytest.approx(expected, rel=0.1)


def test_room_on_nodes_with_another_label_is_no_room(tmp_path: Path) -> None:
    tables = logs(tmp_path, 1, **ON_GPU)
    told = manager(tables, {"node-1": 3, "node-2": 9}, {"etl": 9, "adhoc": 9})
    found, doubts = lost(tables, told)  # no node of this label is told
    assert set(found) == {"load", "peer"}
    assert "guessed from the most held at once" in doubts
    labelled = told.nodes[0]._replace(labels=("gpu",)), told.nodes[1]
    found, doubts = lost(tables, told._replace(nodes=labelled))
    assert found == pytest.approx({"load": 10}, rel=0.1)
    assert "size told by the resource manager" in doubts
    shared = tuple(node._replace(labels=("gpu",)) for node in told.nodes)
    assert lost(tables, told._replace(nodes=shared))[0] == {}


def test_a_master_in_the_queue_is_no_holder_of_executors(tmp_path: Path) -> None:
    """`load` is in the queue of `report`, but its executors are on nodes with a label."""
    load = application(
        1, "nightly", [Executor(1, 2, 1.0), Executor(1, 2, 1.0)],
        [Query("load", 1.0, [(n // 2, 1.0, 30.0) for n in range(4)])],
        end=30.0, master=YARN, **GB, **ON_GPU,
    )  # fmt: skip
    tables = read([load, reporting()], tmp_path)
    told = manager(tables, {"node-1": 9, "node-2": 9}, {"adhoc": 2.5})
    start = 1e3 * EPOCH_S
    its_master = {"launched_ms": start, "until_ms": start + 30_000, "master_host": "node-2"}
    queue = [one._replace(queue="adhoc", **its_master) for one in told.applications]
    told = told._replace(
        applications=tuple(queue), nodes=(told.nodes[0]._replace(labels=("gpu",)), told.nodes[1])
    )
    assert lost(tables, told)[0] == pytest.approx({"known causes": 10}, rel=0.1)


def test_each_moment_is_put_down_to_who_was_in_the_way_then(tmp_path: Path) -> None:
    """Until 13 s `peer` fills the queue; then `load` takes its place, and fills the nodes."""
    load = application(
        1, "nightly", [Executor(1, 2, 1.0), Executor(2, 2, 13.0)],
        [Query("load", 1.0, [(n // 2, 13.0 * (n // 2) + 1.0, 30.0) for n in range(4)])],
        end=30.0, master=YARN, **GB,
    )  # fmt: skip
    peer = application(
        2, "peer", [Executor(2, 2, 1.0, 13.0)], [Query("peer", 1.0, [(0, 1.0, 13.0)] * 2)],
        end=14.0, master=YARN, **GB,
    )  # fmt: skip
    tables = read([load, peer, reporting()], tmp_path)
    told = manager(tables, {"node-1": 1, "node-2": 2}, {"etl": 9, "adhoc": 2})
    found, _ = lost(tables, told)
    waits = measure_waits(tables.with_(yarn=told))  # type: ignore[arg-type]
    expected = {"peer": 0.0, "load": 0.0}
    asked = 1e3 * (EPOCH_S + 3)
    for task, waited in zip(
        tables.tasks.to_dict("records"), waits["executor_wait_ms"], strict=True
    ):
        span = task["launch_ms"] - asked
        if tables.applications["name"].iloc[task["app"]] == "morning" and waited > 0:
            early = min(span, 10_000.0) / span
            expected["peer"] += waited * early
            expected["load"] += waited * (1 - early)
    total = sum(expected.values())
    assert expected["load"] > 0.1 * total
    assert found == pytest.approx(
        {name: sum(found.values()) * part / total for name, part in expected.items()}, rel=0.02
    )


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        ({"node-1": 2, "node-2": 1.5}, {}),  # it holds more than it has
        ({"node-1": 99}, {}),  # node-2 is there no more
        ({"node-1": 2, "node-2": nan}, {}),
        ({"node-1": 2, "node-2": 9}, {"least_mb": nan}),
        ({"node-1": 2, "node-2": 9}, {"applications": ()}),
    ],
)
def test_where_the_size_then_is_not_told_it_is_guessed(
    nodes: dict[str, float], more: dict[str, object], tmp_path: Path
) -> None:
    tables = logs(tmp_path)
    found, doubts = lost(tables, manager(tables, nodes, {"etl": 9, "adhoc": 9}, **more))
    assert found == pytest.approx({"load": 10 * 4 / 6, "peer": 10 * 2 / 6}, rel=0.1)
    assert "guessed from the most held at once" in doubts
    assert "told by the resource manager" not in doubts


@pytest.mark.parametrize("number", [0.0, 1e-300, 1e300])
def test_sizes_that_are_none_do_no_harm(number: float, tmp_path: Path) -> None:
    tables = logs(
        tmp_path, spark_memory_offHeap_enabled="true", spark_memory_offHeap_size="9" * 400
    )
    told = manager(tables, {"node-1": number, "node-2": number}, {"etl": number, "adhoc": number})
    other = app_told(9, "root.etl", memory_mb_s=1e308, until_ms=1e-300)
    told = told._replace(applications=(*told.applications, other), least_mb=number)
    found, doubts = lost(tables, told)
    assert set(found) == {"load", "peer"}
    assert "waits for executors" in doubts
