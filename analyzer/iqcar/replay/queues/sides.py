"""Tells which applications of a cluster waited for executors, and which held them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.replay.queues.cluster_setup import Tenant
from iqcar.rules.advice_rules import LEAST_DELAY_MS, LEAST_SHARE
from iqcar.rules.executor_advice import ExecutorWait, executor_waits
from iqcar.tables import Tables
from iqcar.tables.arrays import Ints

Key = tuple[str, str, str]
"""What is one application from run to run: its queue, user and name."""


class Sides(NamedTuple):
    """Who waited for whom.

    victims, holders: applications that recur, the one that lost, or cost, most first.
    targets: rows of the queries that lost enough to matter.
    lost_ms: elapsed, of all targets.
    """

    victims: tuple[Key, ...]
    holders: tuple[Key, ...]
    targets: Ints
    lost_ms: float


def key_of(tenant: Tenant) -> Key:
    """Return what an application is known by from run to run."""
    return tenant.queue, tenant.user, tenant.name


def sides_of(tables: Tables, graph: IQCGraph, tenants: list[Tenant]) -> Sides:
    """Divide applications of one cluster by what each lost to others, and cost them.

    One that lost more than it cost is a victim. Queries that lost less than
    :data:`iqcar.rules.advice_rules.LEAST_DELAY_MS` or
    :data:`iqcar.rules.advice_rules.LEAST_SHARE` of their duration do not count.
    """
    of_app = {one.app: key_of(one) for one in tenants}
    app = tables.queries["app"].to_numpy(np.int64)
    ran = tables.queries["duration_ms"].to_numpy(np.float64)
    by_target: dict[int, list[ExecutorWait]] = defaultdict(list)
    for wait in executor_waits(tables, graph):
        if wait.holder in of_app and int(app[wait.target]) in of_app:
            by_target[wait.target].append(wait)
    lost: dict[Key, float] = defaultdict(float)
    cost: dict[Key, float] = defaultdict(float)
    targets, total = [], 0.0
    for target, waits in by_target.items():
        of_target = sum(wait.lost_ms for wait in waits)
        if of_target < LEAST_DELAY_MS or not of_target >= LEAST_SHARE * ran[target]:
            continue
        targets.append(target)
        total += of_target
        lost[of_app[int(app[target])]] += of_target
        for wait in waits:
            cost[of_app[wait.holder]] += wait.lost_ms
    victims = [key for key in lost if lost[key] > cost.get(key, 0.0)]
    holders = [key for key in cost if key not in victims]
    of_victims = [t for t in sorted(targets) if of_app[int(app[t])] in victims]
    return Sides(
        victims=tuple(sorted(victims, key=lambda key: (-lost[key], key))),
        holders=tuple(sorted(holders, key=lambda key: (-cost[key], key))),
        targets=np.array(of_victims, np.int64),
        lost_ms=total,
    )
