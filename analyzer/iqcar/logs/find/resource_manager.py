"""What a YARN resource manager tells over its REST API: applications, queues, the size of nodes.

It is only asked: ``/ws/v1/cluster/apps``, ``/nodes`` and ``/scheduler``. What it answers is
untrusted, as a log is.
"""

from __future__ import annotations

import re
from collections import deque
from math import ceil, floor, isfinite, nan
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.decode.streams import DamageError
from iqcar.logs.find.http_client import TOKEN, told
from iqcar.tables.yarn_told import QueueLimit, YarnApplication, YarnNode, YarnQueue, YarnTold

API = "/ws/v1/cluster"
MAX_APPS_BYTES = 64 << 20
"""Largest list of applications (64 MiB); one takes some 2 kB, and a manager keeps 1,000 to 10,000
that have ended."""
MAX_OTHER_BYTES = 64 << 20
"""Largest answer about nodes or queues (64 MiB); a queue takes 2 to 15 kB."""
MOST_TEXT = 500
"""Characters kept of any text."""
MOST_QUEUES = 20_000
"""Queues that are looked at, children included."""
MOST_LABELS = 1_000
"""Node labels of a queue that are looked at."""
LARGEST = 1e12
"""A larger number of MB (an exabyte), cores or ms is none."""
LARGEST_MB_S = 1e18
"""A larger sum of memory × time is none: a petabyte for 30 years."""
LAST_MS = 1e14
"""A time beyond it (the year 5138) is damage, not a time."""
_APP_ID = re.compile(r"application_\d{1,20}_\d{1,12}", re.ASCII)
_Told = TypeVar("_Told")


class _App(msgspec.Struct, gc=False):
    id: str
    name: str | None = None
    user: str | None = None
    queue: str | None = None
    state: str | None = None
    kind: str | None = msgspec.field(default=None, name="applicationType")
    label: str | None = msgspec.field(default=None, name="appNodeLabelExpression")
    diagnostics: str | None = None
    submitted: float = msgspec.field(default=nan, name="startedTime")
    launched: float = msgspec.field(default=nan, name="launchTime")
    ended: float = msgspec.field(default=nan, name="finishedTime")
    elapsed: float = msgspec.field(default=nan, name="elapsedTime")
    memory: float = msgspec.field(default=nan, name="memorySeconds")
    preempted: float = msgspec.field(default=nan, name="numNonAMContainerPreempted")
    master: str | None = msgspec.field(default=None, name="masterNodeId")


class _AppList(msgspec.Struct, gc=False):
    app: list[_App] = msgspec.field(default_factory=list)


class _Apps(msgspec.Struct, gc=False):
    apps: _AppList | None


class _NodeAnswer(msgspec.Struct, gc=False):
    state: str
    host: str = msgspec.field(name="nodeHostName")
    used_mb: float = msgspec.field(default=nan, name="usedMemoryMB")
    free_mb: float = msgspec.field(default=nan, name="availMemoryMB")
    used_cores: float = msgspec.field(default=nan, name="usedVirtualCores")
    free_cores: float = msgspec.field(default=nan, name="availableVirtualCores")
    labels: list[str] | str | None = msgspec.field(default=None, name="nodeLabels")


class _NodeList(msgspec.Struct, gc=False):
    node: list[_NodeAnswer] = msgspec.field(default_factory=list)


class _Nodes(msgspec.Struct, gc=False):
    nodes: _NodeList | None


class _Info(msgspec.Struct, gc=False):
    info: dict[str, Any] = msgspec.field(name="schedulerInfo")


class _SchedulerAnswer(msgspec.Struct, gc=False):
    scheduler: _Info


def ask_resource_manager(url: str) -> YarnTold:
    """Ask a resource manager for its applications, nodes and queues.

    Raises UsageError if the URL is none of a resource manager; IqcarError if it cannot be asked,
    refuses, or answers with something else.

    url: such as ``http://host:8088``; what a browser shows behind that is left out.
    """
    root = _root(url)
    apps = _ask(root, "apps", _Apps, MAX_APPS_BYTES).apps
    nodes = _ask(root, "nodes", _Nodes, MAX_OTHER_BYTES).nodes
    scheduler = _ask(root, "scheduler", _SchedulerAnswer, MAX_OTHER_BYTES).scheduler
    found = (_application(one) for one in (apps.app if apps else []))
    least = _least(scheduler.info)
    return YarnTold(
        root,
        tuple(one for one in found if _APP_ID.fullmatch(one.application_id)),
        tuple(_node(one) for one in (nodes.node if nodes else []) if one.state == "RUNNING"),
        _queues(scheduler.info, least),
        least,
    )


def _root(url: str) -> str:
    if re.match(r"https?://[^/]", url, re.IGNORECASE) is None:
        raise UsageError("is no address of a resource manager", "--yarn", "give http://HOST:8088")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is none
    except ValueError:
        raise UsageError("is no address", "--yarn", "give http://HOST:8088") from None
    if "@" in parts.netloc:
        raise UsageError("holds a user or password", "--yarn", f"set {TOKEN}")
    path = re.sub(r"/(?:ws/v1/cluster|cluster)(?:/.*)?$", "", parts.path.rstrip("/"))
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def _ask(root: str, what: str, kind: type[_Told], most: int) -> _Told:
    """Ask for one thing, and read it as what it should be."""
    where = f"{root}{API}/{what}"
    try:
        return told(where, most, kind, f"{what} of YARN", "resource manager")
    except DamageError as error:
        advice = "give --yarn the active resource manager's address, or leave it out"
        raise IqcarError(str(error), where, advice) from error


def _application(one: _App) -> YarnApplication:
    label, submitted, ended = _text(one.label), _time(one.submitted), _time(one.ended)
    return YarnApplication(
        application_id=_text(one.id),
        name=_text(one.name),
        user=_text(one.user),
        queue=_text(one.queue),
        state=_text(one.state),
        kind=_text(one.kind),
        label="" if label == "<Not set>" else label,
        diagnostics=_text(one.diagnostics),
        submitted_ms=submitted,
        launched_ms=_time(one.launched),
        until_ms=ended if isfinite(ended) else _time(submitted + _amount(one.elapsed)),
        memory_mb_s=_amount(one.memory, LARGEST_MB_S),
        preempted=_amount(one.preempted),
        master_host=_text(one.master).rpartition(":")[0],
    )


def _node(one: _NodeAnswer) -> YarnNode:
    # Free cores are below 0 where only memory limits what runs.
    memory, cores = _amount(one.used_mb + one.free_mb), _amount(one.used_cores + one.free_cores)
    named = [one.labels] if isinstance(one.labels, str) else one.labels or []
    labels = tuple(_text(label) for label in named if label)
    return YarnNode(_text(one.host), memory, cores, labels)


def _text(value: str | None) -> str:
    return (value or "")[:MOST_TEXT]


def _time(value: float) -> float:
    """Return a time; 0 is the manager's word for never."""
    return value if 0 < value < LAST_MS else nan


def _amount(value: float, most: float = LARGEST) -> float:
    """Return a number, NaN if out of bounds; an integer may be larger than any float."""
    return float(value) if 0 <= value <= most else nan


def _queues(info: dict[str, Any], least_mb: float) -> tuple[YarnQueue, ...]:
    """Return the queues of a capacity scheduler, parents before their children."""
    if info.get("type") != "capacityScheduler":
        return ()
    found: list[YarnQueue] = []
    left: deque[tuple[str, Any]] = deque([("", info)])
    while left and len(found) < MOST_QUEUES:
        parent, queue = left.popleft()
        if not isinstance(queue, dict) or not isinstance(queue.get("queueName"), str):
            continue
        path = f"{parent}.{queue['queueName']}"[-MOST_TEXT:].lstrip(".")
        shares = [
            queue.get(own if not parent else f"absolute{own[:1].upper()}{own[1:]}")
            for own in ("capacity", "maxCapacity", "usedCapacity")
        ]
        capacity, most, used = map(_number, shares)
        label = queue.get("defaultNodeLabelExpression")
        label = _text(label) if isinstance(label, str) else ""
        found.append(
            YarnQueue(
                path,
                capacity,
                most,
                used,
                limits=_limits(queue, "effectiveMaxResource"),
                label=label,
                user_limits=_user_limits(queue, least_mb),
            )
        )
        inner = queue.get("queues")
        children = inner.get("queue") if isinstance(inner, dict) else None
        left += [(path, one) for one in children] if isinstance(children, list) else []
    return tuple(found)


def _limits(queue: dict[str, Any], which: str) -> tuple[QueueLimit, ...]:
    """Return what a queue may hold at most or is guaranteed, of each node label."""
    found = []
    for part in _partitions(queue):
        label, most = part.get("partitionName"), part.get(which)
        if isinstance(label, str) and isinstance(most, dict):
            memory, cores = (_number(most.get(name)) for name in ("memory", "vCores"))
            found.append(QueueLimit(_text(label), memory, cores))
    return tuple(found)


def _user_limits(queue: dict[str, Any], least_mb: float) -> tuple[QueueLimit, ...]:
    """Return what one user may hold of a queue: what it is guaranteed × user-limit-factor.

    UsersManager.computeUserLimit: whole MB and cores, memory up to whole containers. Where the
    factor is −1, or the queue is guaranteed nothing, there is no limit; where it is guaranteed less
    than a container, the limit is not told. A queue with children has no factor.
    """
    factor, least = _number(queue.get("userLimitFactor")), least_mb if least_mb >= 1 else 1.0
    found = []
    for label, memory, cores in _limits(queue, "effectiveMinResource"):
        if memory >= least and cores >= 1 and isfinite(factor):
            most, cores = (floor(min(amount * factor, LARGEST)) for amount in (memory, cores))
            found.append(QueueLimit(label, ceil(most / least) * least, float(cores)))
    return tuple(found)


def _partitions(queue: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is told of a queue's capacity by label."""
    capacities = queue.get("capacities")
    parts = capacities.get("queueCapacitiesByPartition") if isinstance(capacities, dict) else None
    known = parts[:MOST_LABELS] if isinstance(parts, list) else []
    return [part for part in known if isinstance(part, dict)]


def _least(root: dict[str, Any]) -> float:
    """Return the smallest memory of a container in MB, which is told beside limits of queues."""
    for part in _partitions(root):
        most = part.get("configuredMaxResource")
        inside = most.get("resourceInformations") if isinstance(most, dict) else None
        told = inside.get("resourceInformation") if isinstance(inside, dict) else None
        for one in told if isinstance(told, list) else []:
            if isinstance(one, dict) and one.get("name") == "memory-mb":
                least = _number(one.get("minimumAllocation"))
                return least if least > 0 else nan
    return nan


def _number(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return _amount(value) if is_number else nan
