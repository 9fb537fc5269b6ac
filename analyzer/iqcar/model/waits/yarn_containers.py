"""Lists the containers that a YARN resource manager's nodes held: who held how much, where, when.

Executors are those of the logs, at the size that their settings ask for, rounded up as the manager
does. Masters of applications are where the manager tells. Of an application without a log it tells
how much memory it held in all: that is spread evenly over its life, and on no node in particular.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.base.units import read_size
from iqcar.model.waits.executor_memory import HEAP, memory_settings
from iqcar.model.waits.shared_cluster import Offers
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints
from iqcar.tables.yarn_told import YarnTold

LEAST_OVERHEAD_MB = 384.0
"""Least memory beside the heap of a container (``spark.executor.minMemoryOverhead``)."""
OVERHEAD = 0.1
"""Default of ``spark.executor.memoryOverheadFactor`` and of the same for drivers."""
MASTER_MEMORY = "512m"
"""Default of ``spark.yarn.am.memory``."""
MOST_MB = 1e12
"""A larger size (an exabyte) is damage."""
MIB = float(1 << 20)
MB_MS = 1e3
"""MB·ms in a MB·s."""


class Containers(NamedTuple):
    """Containers, or what an application without a log held; one entry each.

    app: (n,) row of the application; −1 without a log.
    node: (n,) position of the node; −1 where it is not known, or does not run any more.
    mb, cores: (n,) size.
    since, until: (n,), ms.
    queue, label, user: (n,) str; of its application, and label of the nodes that it may be on.
    """

    app: Ints
    node: Ints
    mb: Floats
    cores: Floats
    since: Floats
    until: Floats
    queue: NDArray[np.object_]
    label: NDArray[np.object_]
    user: NDArray[np.object_]

    def of(self, kept: Flags) -> Containers:
        """Return some of them."""
        return Containers._make(column[kept] for column in self)


class ContainerRequest(NamedTuple):
    """What an application asks for: MB and cores of an executor, its queue, node label, user."""

    mb: float
    cores: float
    queue: str
    label: str
    user: str


def requests_of(tables: Tables, told: YarnTold) -> dict[int, ContainerRequest]:
    """Return what each application that the manager knows asks for, by row.

    Empty where the manager does not tell how it rounds sizes.
    """
    if not told.least_mb >= 1:  # NaN is not
        return {}
    settings = memory_settings(tables)
    cores = tables.applications["executor_cores"].to_numpy(np.float64)
    default = {queue.path: queue.label for queue in told.queues}
    found = {}
    by_id = {one.application_id: one for one in told.applications}
    paths = queue_paths(told)
    for row, name in enumerate(texts(tables.applications, "application_id")):
        if name in by_id:
            of_app, one = settings.get(row, {}), by_id[name]
            queue = paths.get(one.queue, one.queue)
            label = of_app.get("spark.yarn.executor.nodeLabelExpression", one.label).strip()
            found[row] = ContainerRequest(
                mb=_executor_mb(of_app, told.least_mb),
                cores=float(cores[row]) if cores[row] > 0 else 1.0,
                queue=queue,
                label=label or default.get(queue, ""),
                user=one.user,
            )
    return found


def queue_paths(told: YarnTold) -> dict[str, str]:
    """Return the path of each queue by its path, and by its last name where only one has that.

    Older managers tell an application's queue by its last name alone.
    """
    paths = [queue.path for queue in told.queues]
    names = [path.rpartition(".")[2] for path in paths]
    seen = Counter(names)
    by_name = {name: path for name, path in zip(names, paths, strict=True) if seen[name] == 1}
    return {**by_name, **dict(zip(paths, paths, strict=True))}


def containers_of(
    tables: Tables, told: YarnTold, offers: Offers, requests: Mapping[int, ContainerRequest]
) -> Containers:
    """Return the executors of some applications, and what the manager tells beside them.

    offers: executors of the cluster's applications.
    """
    hosts, node_of = texts(tables.hosts, "host"), {n.host: at for at, n in enumerate(told.nodes)}
    settings = memory_settings(tables)
    rows = []
    for app, cores, since, until, host in zip(*(column.tolist() for column in offers), strict=True):
        node = node_of.get(hosts[host], NONE) if host >= 0 else NONE
        asked = requests.get(app)
        mb = asked.mb if asked else _executor_mb(settings.get(app, {}), told.least_mb)
        whose = (asked.queue, asked.label, asked.user) if asked else ("", "", "")
        rows.append((app, node, mb, cores, since, until, *whose))
    default = {queue.path: queue.label for queue in told.queues}
    paths, row_of = queue_paths(told), dict[str, int]()
    for row, name in enumerate(texts(tables.applications, "application_id")):
        row_of.setdefault(name, row)
    for one in told.applications:
        if not one.until_ms > one.launched_ms:  # NaN is neither
            continue
        app, queue = row_of.get(one.application_id, NONE), paths.get(one.queue, one.queue)
        life = one.launched_ms, one.until_ms
        if app != NONE:
            mb, cores = master_of(settings.get(app, {}), told.least_mb)
            node = node_of.get(one.master_host, NONE)
            label = told.nodes[node].labels[0] if node >= 0 and told.nodes[node].labels else ""
            rows.append((app, node, mb, cores, *life, queue, label, one.user))
        elif one.memory_mb_s > 0:
            mb = min(one.memory_mb_s * MB_MS / (life[1] - life[0]), MOST_MB)
            label = one.label or default.get(queue, "")
            rows.append((NONE, NONE, mb, 0.0, *life, queue, label, one.user))
    columns = list(zip(*rows, strict=True)) or [()] * len(Containers._fields)
    kinds = (np.int64, np.int64, *[np.float64] * 4, object, object, object)
    return Containers(*(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))


def _executor_mb(settings: Mapping[str, str], least_mb: float) -> float:
    """Return the memory of an executor's container: heap, overhead, off the heap, Python."""
    heap = _mb(settings.get("spark.executor.memory"), HEAP)
    least = _mb(settings.get("spark.executor.minMemoryOverhead"), f"{LEAST_OVERHEAD_MB:.0f}m")
    factor = _share(settings.get("spark.executor.memoryOverheadFactor"))
    overhead = max(float(int(factor * heap)), least)
    for name in ("spark.yarn.executor.memoryOverhead", "spark.executor.memoryOverhead"):
        overhead = _mb(settings.get(name), f"{overhead:.0f}m")
    off_heap = settings.get("spark.memory.offHeap.enabled", "").strip().lower() == "true"
    more = _bytes_mb(settings.get("spark.memory.offHeap.size")) if off_heap else 0.0
    more += _mb(settings.get("spark.executor.pyspark.memory"), "0")
    return _rounded(heap + overhead + more, least_mb)


def master_of(settings: Mapping[str, str], least_mb: float) -> tuple[float, float]:
    """Return MB and cores of the container of an application's master: of its driver, if there."""
    name, default = "spark.yarn.am", MASTER_MEMORY
    if settings.get("spark.submit.deployMode", "") == "cluster":
        name, default = "spark.driver", HEAP
    heap = _mb(settings.get(f"{name}.memory"), default)
    factor = OVERHEAD
    if name == "spark.driver":
        factor = _share(settings.get("spark.driver.memoryOverheadFactor"))
    overhead = max(float(int(factor * heap)), LEAST_OVERHEAD_MB)
    overhead = _mb(settings.get(f"{name}.memoryOverhead"), f"{overhead:.0f}m")
    try:
        cores = float(min(max(int(settings.get(f"{name}.cores", "1")), 1), 1_000_000))
    except ValueError:
        cores = 1.0
    return _rounded(heap + overhead, least_mb), cores


def _rounded(mb: float, least_mb: float) -> float:
    return max(ceil(mb / least_mb), 1) * least_mb


def _mb(text: str | None, default: str) -> float:
    """Return a size in whole MB; a number alone is in MB."""
    found = read_size(text, "m") if text else None
    return _whole(found if found is not None else read_size(default, "m"))


def _bytes_mb(text: str | None) -> float:
    """Return a size in whole MB; a number alone is in bytes."""
    return _whole(read_size(text) if text else None)


def _whole(size: float | None) -> float:
    return float(int(min((size or 0.0) / MIB, MOST_MB)))


def _share(text: str | None) -> float:
    try:
        value = float(text) if text else OVERHEAD
    except ValueError:
        return OVERHEAD
    return value if 0 < value < 100 else OVERHEAD
