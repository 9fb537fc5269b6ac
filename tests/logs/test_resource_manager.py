"""What a resource manager tells; those that lie, hang, lead elsewhere or send too much: a line."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler
from math import isnan
from typing import Any

import pytest

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.find import http_client, resource_manager
from iqcar.logs.find.resource_manager import ask_resource_manager
from iqcar.tables.yarn_told import YarnTold
from tests.support.web_server import send, web_server

WAIT_S = 0.3
SUBMITTED = 1_795_885_234_293
ONE = {
    "id": "application_1795885027308_0001",
    "user": "ann",
    "name": "nightly",
    "queue": "root.etl",
    "state": "RUNNING",
    "applicationType": "SPARK",
    "diagnostics": "",
    "startedTime": SUBMITTED,
    "launchTime": SUBMITTED + 7765,
    "finishedTime": 0,
    "elapsedTime": 476_535,
    "memorySeconds": 506_352,
    "numNonAMContainerPreempted": 2,
}
NODE = {
    "state": "RUNNING",
    "nodeHostName": "127.0.0.2",
    "usedMemoryMB": 384,
    "availMemoryMB": 3712,
    "usedVirtualCores": 1,
    "availableVirtualCores": 3,
    "nodeLabels": ["gpu"],
}
LEAF = {"queueName": "etl", "capacity": 50.0, "absoluteCapacity": 25.0, "absoluteMaxCapacity": 100}
ROOT = {
    "type": "capacityScheduler",
    "queueName": "root",
    "capacity": 100.0,
    "maxCapacity": 100.0,
    "queues": {"queue": [{"queueName": "day", "queues": {"queue": [LEAF]}}]},
}


def told(apps: Any = (ONE,), nodes: Any = (NODE,), scheduler: Any = ROOT) -> YarnTold:
    """Ask a server that has these; keys of the API's answers are around them."""
    answers = {
        "apps": {"apps": {"app": list(apps)}},
        "nodes": {"nodes": {"node": list(nodes)}},
        "scheduler": {"scheduler": {"schedulerInfo": scheduler}},
    }

    def answer(to: BaseHTTPRequestHandler) -> None:
        send(to, json.dumps(answers[to.path.rpartition("/")[2]]).encode())

    with web_server(answer) as url:
        return ask_resource_manager(f"{url}/cluster/apps/RUNNING")


def test_applications_nodes_and_queues_are_what_it_tells() -> None:
    found = told()
    (one,), (node,) = found.applications, found.nodes
    assert (one.name, one.queue) == ("nightly", "root.etl")
    assert (one.preempted, one.memory_mb_s) == (2, 506_352)
    assert (one.submitted_ms, one.launched_ms) == (SUBMITTED, SUBMITTED + 7765)
    assert one.until_ms == SUBMITTED + 476_535  # by the manager's clock: it runs still
    assert node == ("127.0.0.2", 4096, 4, ("gpu",))
    assert [queue.path for queue in found.queues] == ["root", "root.day", "root.day.etl"]
    assert [queue.capacity for queue in found.queues][::2] == [100, 25]
    assert isnan(found.queues[1].capacity)


def test_limits_of_queues_are_told_by_label() -> None:
    least = {"name": "memory-mb", "minimumAllocation": 256}
    of_all = {"memory": 4096, "vCores": 4}
    parts = [
        {"partitionName": "", "effectiveMaxResource": of_all},
        {"partitionName": "gpu", "effectiveMaxResource": {"memory": 1024}},
        {"partitionName": 3, "effectiveMaxResource": of_all},
        {"partitionName": "odd", "effectiveMaxResource": 7},
    ]
    inside = {"resourceInformations": {"resourceInformation": [7, {"name": "vcores"}, least]}}
    of_leaf = {"capacities": {"queueCapacitiesByPartition": parts}}
    leaf = {**LEAF, **of_leaf, "defaultNodeLabelExpression": "gpu"}
    of_root = {"queueCapacitiesByPartition": [None, {"configuredMaxResource": inside}]}
    found = told(
        [{**ONE, "masterNodeId": "127.0.0.2:4711"}],
        [{**NODE, "usedVirtualCores": 9, "availableVirtualCores": -5}],
        {**ROOT, "capacities": of_root, "queues": {"queue": [leaf]}},
    )
    assert found.queues[1].limits[0] == ("", 4096, 4)
    assert found.queues[1].limits[1][:2] == ("gpu", 1024)
    assert isnan(found.queues[1].limits[1].cores)
    assert len(found.queues[1].limits) == 2
    assert (found.queues[1].label, found.queues[0].limits) == ("gpu", ())
    assert (found.least_mb, found.applications[0].master_host) == (256, "127.0.0.2")
    assert found.nodes[0].cores == 4  # it counts memory only: cores are overcommitted


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        # 1,000 MB and 3 cores are guaranteed, rounded up to containers of 256 MB.
        (1.0, (("", 1024, 3), ("gpu", 256, 1))),
        (2, (("", 2048, 6), ("gpu", 512, 2))),
        (0.5, (("", 512, 1), ("gpu", 256, 0))),
        (1.0245, (("", 1024, 3), ("gpu", 512, 1))),
        (1e12, (("", 1e12, 1e12), ("gpu", 1e12, 1e12))),
        (1e300, ()),
        (-1.0, ()),
        (None, ()),
        ("2", ()),
    ],
)
def test_what_one_user_may_hold_is_a_factor_of_what_is_guaranteed(
    factor: Any, expected: tuple[tuple[str, float, float], ...]
) -> None:
    parts = [
        {"partitionName": "", "effectiveMinResource": {"memory": 1000, "vCores": 3}},
        {"partitionName": "gpu", "effectiveMinResource": {"memory": 256, "vCores": 1}},
        {"partitionName": "a", "effectiveMinResource": {"memory": 255, "vCores": 1}},
        {"partitionName": "b", "effectiveMinResource": {"memory": 1000, "vCores": 0}},
        {"partitionName": "c", "effectiveMinResource": {"memory": 1000}},
    ]
    least = {"name": "memory-mb", "minimumAllocation": 256}
    inside = {"resourceInformations": {"resourceInformation": [least]}}
    leaf = {**LEAF, "userLimitFactor": factor, "capacities": {"queueCapacitiesByPartition": parts}}
    of_root = {"queueCapacitiesByPartition": [{"configuredMaxResource": inside}]}
    found = told(scheduler={**ROOT, "capacities": of_root, "queues": {"queue": [leaf]}})
    limits = found.queues[1].user_limits
    assert [limit.label for limit in limits] == [one[0] for one in expected]
    assert [limit[1:] for limit in limits] == [pytest.approx(one[1:]) for one in expected]


def test_what_is_not_told_is_not_zero() -> None:
    found = told(
        [{"id": ONE["id"], "launchTime": 0, "memorySeconds": -1, "startedTime": 1e300}],
        [{"state": "RUNNING", "nodeHostName": "n"}, {"state": "LOST", "nodeHostName": "m"}],
        {"type": "fairScheduler", "rootQueue": {}},
    )
    (one,), (node,) = found.applications, found.nodes
    numbers = (one.submitted_ms, one.launched_ms, one.until_ms, one.memory_mb_s, one.preempted)
    assert all(map(isnan, (*numbers, node.memory_mb, node.cores)))
    assert found.queues == ()


NO_NUMBERS = (10**309, 10**400, 2**63, 1e300, -1, -(10**309), True, "7", None, [1], {})


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:8])
def test_a_number_of_a_queue_that_cannot_be_is_not_told(value: Any) -> None:
    least = {"name": "memory-mb", "minimumAllocation": value}
    resource = {
        "memory": value,
        "vCores": value,
        "resourceInformations": {"resourceInformation": [least]},
    }
    kinds = ("effectiveMaxResource", "effectiveMinResource", "configuredMaxResource")
    part = {"partitionName": "", **dict.fromkeys(kinds, resource)}
    shares = ("capacity", "maxCapacity", "usedCapacity", "userLimitFactor")
    of_root = {**ROOT, **dict.fromkeys(shares, value), "queues": None}
    found = told(scheduler={**of_root, "capacities": {"queueCapacitiesByPartition": [part]}})
    (queue,) = found.queues
    (limit,) = queue.limits
    numbers = (queue.capacity, queue.most, queue.used, limit.memory_mb, limit.cores)
    assert all(map(isnan, (*numbers, found.least_mb)))
    assert queue.user_limits == ()


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: str(value)[:8])
def test_a_number_of_an_application_or_node_that_cannot_be_is_not_told(value: Any) -> None:
    times = ("startedTime", "launchTime", "finishedTime", "elapsedTime")
    amounts = ("memorySeconds", "numNonAMContainerPreempted")
    sizes = ("usedMemoryMB", "availMemoryMB", "usedVirtualCores", "availableVirtualCores")
    one = {"id": ONE["id"], **dict.fromkeys((*times, *amounts), value)}
    try:
        found = told([one], [{**NODE, **dict.fromkeys(sizes, value)}])
    except IqcarError as error:
        assert "something else than apps of YARN" in str(error)
        return
    (app,), (node,) = found.applications, found.nodes
    numbers = (app.submitted_ms, app.launched_ms, app.until_ms, app.memory_mb_s, app.preempted)
    assert all(isnan(number) for number in (*numbers, node.memory_mb, node.cores))


def test_what_it_makes_up_does_no_harm() -> None:
    deep: dict[str, Any] = dict(LEAF)
    for _ in range(60):
        deep = {"queueName": "q" * 50, "queues": {"queue": [deep, 3, None, {"queueName": 7}]}}
    found = told(
        [{"id": "../etc"}, {**ONE, "name": "n" * 9999}], [], {**deep, "type": ROOT["type"]}
    )
    (one,) = found.applications
    assert len(one.name) == resource_manager.MOST_TEXT
    assert all(len(queue.path) <= resource_manager.MOST_TEXT for queue in found.queues)
    assert len(found.queues) == 61


def test_a_cluster_without_applications_or_nodes_is_no_error() -> None:
    answers = {"apps": b'{"apps":null}', "nodes": b'{"nodes":{}}'}
    scheduler = b'{"scheduler":{"schedulerInfo":{"type":"fifoScheduler"}}}'
    with web_server(lambda to: send(to, answers.get(to.path.rpartition("/")[2], scheduler))) as url:
        assert ask_resource_manager(url)[1:4] == ((), (), ())


def endless(to: BaseHTTPRequestHandler) -> None:
    send(to, b'{"apps":', length=-1)
    while True:
        to.wfile.write(b" " * 65536)


def silent(to: BaseHTTPRequestHandler) -> None:
    time.sleep(4 * WAIT_S)


def dripping(to: BaseHTTPRequestHandler) -> None:
    send(to, b"{", length=-1)
    while True:
        to.wfile.write(b" ")
        time.sleep(WAIT_S / 9)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            lambda to: send(to, b"<html>Sign in</html>", kind="text/html"),
            "in place of apps of YARN",
        ),
        (lambda to: send(to, b"never mind"), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps": 3}'), "something else than apps of YARN"),
        (lambda to: send(to, b"[" * 1_000_000), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps":{"app":[{"id":[]}]}}'), "something else than apps of YARN"),
        (lambda to: send(to, b'{"apps":null}'), "something else than nodes of YARN"),
        (lambda to: send(to, status=401), "answers 401: it wants to know who asks; put a token"),
        (lambda to: send(to, status=404), "answers 404"),
        (
            lambda to: send(to, status=307, Location="http://standby.invalid:8088/"),
            "redirects to http://standby.invalid:8088, which is another server: not followed",
        ),
        (lambda to: send(to, status=302, Location=to.path), "a redirect in a circle"),
        (lambda to: send(to, b"{", length=100), "broke off after 1 of 100 bytes"),
        (endless, "answers with more than 1 MiB"),
        (silent, "does not answer in time"),
        (dripping, "answers too slowly"),
    ],
)
def test_a_bad_server_is_one_line(answer: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_manager, "MAX_APPS_BYTES", 1 << 20)
    monkeypatch.setattr(http_client, "SILENCE_S", WAIT_S)
    monkeypatch.setattr(http_client, "ANSWER_S", 2 * WAIT_S)
    with web_server(answer) as url, pytest.raises(IqcarError) as raised:
        ask_resource_manager(url)
    message = str(raised.value)
    assert says in message
    assert message.startswith(f"{url}/ws/v1/cluster/")
    assert message.isprintable()


@pytest.mark.parametrize(
    "url", ["rm:8088", "ftp://rm", "http://", "http://rm:x/", "https://ann:pw@rm:8088", "rm"]
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        ask_resource_manager(url)
    assert "--yarn" in str(raised.value)
    assert "pw" not in str(raised.value)
