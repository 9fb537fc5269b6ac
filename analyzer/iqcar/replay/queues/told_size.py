"""Reads how large a cluster is, and what containers take of it, as its resource manager tells.

A cluster counts memory, or cores where those are scarcer and no node ever held more of them than it
has: YARN's DefaultResourceCalculator ignores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iqcar.model.waits.executor_memory import memory_settings
from iqcar.model.waits.shared_cluster import executor_offers
from iqcar.model.waits.told_room import ToldCluster
from iqcar.model.waits.yarn_containers import master_of, requests_of
from iqcar.replay.queues.cluster_setup import Tenant, capacity_of
from iqcar.rules.queues.queue_setup import Capacity, SizeSource, Unit
from iqcar.tables import Tables


def told_size(tables: Tables, tenants: Sequence[Tenant]) -> tuple[Capacity, list[Tenant]] | None:
    """Return the size of a cluster, and its tenants with what they take of it.

    None where that is not told of all of them, where some of them ask for nodes with a label, and
    where they held more at once than the nodes have that run now.
    """
    told = tables.yarn
    requests = {} if told is None else requests_of(tables, told)
    asked = [requests.get(one.app) for one in tenants]
    if told is None or any(one is None or one.label for one in asked):
        return None
    offers = executor_offers(tables)
    offers = offers.of(np.isin(offers.app, [one.app for one in tenants]))
    cluster = ToldCluster.of(tables, offers, requests)
    nodes = [node for node in told.nodes if not node.labels]
    whole = {
        Unit.MB: sum(node.memory_mb for node in nodes),
        Unit.CORES: sum(node.cores for node in nodes),
    }
    if cluster is None or not nodes or not np.isfinite(list(whole.values())).all():
        return None
    sizes = {
        one.app: (request.mb, request.cores)
        for one, request in zip(tenants, asked, strict=True)
        if request
    }
    lasted = offers.until - offers.since
    held = lasted @ np.array([sizes[app] for app in offers.app.tolist()])
    by_cores = cluster.cores_count and held[1] * whole[Unit.MB] > held[0] * whole[Unit.CORES]
    unit, part = (Unit.CORES, 1) if by_cores else (Unit.MB, 0)
    settings = memory_settings(tables)
    sized = []
    for one in tenants:
        master = master_of(settings.get(one.app, {}), told.least_mb)
        size, own = (round(of[part]) for of in (sizes[one.app], master))
        sized.append(replace(one, size=size, master_size=own))
    capacity = Capacity(int(whole[unit]), unit, SizeSource.MANAGER)
    return (capacity, sized) if capacity_of(tables, sized).amount <= capacity.amount else None
