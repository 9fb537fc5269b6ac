"""Finds the applications that got their executors from one cluster, and the slots each held."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero

LOCAL_EXECUTORS = ("driver", "<driver>", "localhost")
"""Ids of the only executor of an application in local mode, which no cluster manager gave it."""
_YARN_ID = re.compile(r"application_(\d+)_\d+")
"""Ids on YARN hold the start time of the resource manager, which all its applications share."""
_NAMED = ("spark://", "k8s://", "mesos://")
"""Masters that name their cluster."""


class Offers(NamedTuple):
    """Slots of the executors that a cluster manager gave, one entry per executor.

    app: (n_executors,) row of the application.
    cores: (n_executors,), slots.
    since, until: (n_executors,), ms; times between which the application held it; not beyond the
        application's end.
    host: (n_executors,) row of the host; −1 where it is not recorded.
    """

    app: Ints
    cores: Floats
    since: Floats
    until: Floats
    host: Ints

    def of(self, kept: Flags) -> Offers:
        """Return some of the executors."""
        return Offers._make(column[kept] for column in self)


def executor_offers(tables: Tables) -> Offers:
    """Return the executors of clusters whose cores are recorded; those of local mode are none."""
    executors, apps = tables.executors, tables.applications
    app = executors["app"].to_numpy(np.int64)
    cores = known_or_zero(executors["cores"].to_numpy(np.float64))
    in_cluster = np.array(
        [name not in LOCAL_EXECUTORS for name in texts(executors, "executor_id")], bool
    )
    rows = np.flatnonzero(in_cluster & (app >= 0) & (app < len(apps)) & (cores > 0))
    app = app[rows]
    start, end = (apps[name].to_numpy(np.float64)[app] for name in ("start_ms", "end_ms"))
    since = executors["added_ms"].to_numpy(np.float64)[rows]
    until = executors["removed_ms"].to_numpy(np.float64)[rows]
    since, until = np.where(np.isnan(since), start, since), np.fmin(until, end)
    usable = np.flatnonzero(until > since)
    host = executors["host"].to_numpy(np.int64)[rows]
    return Offers(app[usable], cores[rows][usable], since[usable], until[usable], host[usable])


def clusters_of(tables: Tables) -> Ints:
    """Return the number of each application's cluster.

    Applications of one standalone, Kubernetes or Mesos master share its cluster, and those of one
    YARN resource manager its. Where the log does not name the cluster, applications with executors
    on the same host share one. Shape (n_applications,). −1 for an application without executors of
    a cluster.
    """
    apps, executors = tables.applications, tables.executors
    group = _Groups()
    masters, ids = texts(apps, "master"), texts(apps, "application_id")
    known = [_cluster_name(*pair) for pair in zip(masters, ids, strict=True)]
    has_executors: set[int] = set()
    by_host = zip(
        executors["app"].tolist(),
        executors["host"].tolist(),
        texts(executors, "executor_id"),
        strict=True,
    )
    for app, host, name in by_host:
        if not 0 <= app < len(apps) or name in LOCAL_EXECUTORS or masters[app].startswith("local"):
            continue
        if app not in has_executors:
            has_executors.add(app)
            if known[app]:
                group.join(("app", app), ("name", known[app]))
        if host >= 0 and not known[app].startswith(_NAMED):
            group.join(("app", app), ("host", host))
    numbers: dict[object, int] = {}
    return np.array(
        [
            numbers.setdefault(group.of(("app", app)), len(numbers))
            if app in has_executors
            else NONE
            for app in range(len(apps))
        ],
        np.int64,
    )


def _cluster_name(master: str, application_id: str) -> str:
    """Return what names an application's cluster; empty where nothing does."""
    if master.startswith(_NAMED):
        return master
    of_yarn = _YARN_ID.fullmatch(application_id)
    return f"yarn {of_yarn[1]}" if of_yarn and not master.startswith("local") else ""


class _Groups:
    """Disjoint sets of keys."""

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def of(self, key: object) -> object:
        """Return the key that stands for the set of a key."""
        while (parent := self._parent.setdefault(key, key)) != key:
            self._parent[key] = self._parent.setdefault(parent, parent)
            key = parent
        return key

    def join(self, one: object, other: object) -> None:
        """Make the sets of two keys one."""
        self._parent[self.of(one)] = self.of(other)
