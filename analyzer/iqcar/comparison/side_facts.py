"""Describe one side of a comparison: its logs, applications, versions, hosts, slots, settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.enums import InputStatus
from iqcar.model.demand.outside_load import outside_load
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags

OF_ONE_APPLICATION = (
    *("spark.app.", "spark.driver.host", "spark.driver.port", "spark.driver.appUIAddress"),
    *("spark.executor.id", "spark.repl.class.uri", "spark.yarn.app.", "spark.ui.proxyBase"),
    *("spark.org.apache.hadoop.yarn.server.webproxy", "spark.eventLog.dir", "spark.version"),
    *("spark.fs.s3a.committer.uuid", "spark.sql.warehouse.dir", "spark.submit.", "spark.jars"),
    *("spark.blockManager.port", "spark.repl.local.jars", "spark.yarn.dist.", "spark.yarn.cache."),
    "spark.plugins.internal.",
)
"""Beginnings of settings that differ between any two applications, or name where their files are;
the Spark version is told apart."""


class SideFacts(NamedTuple):
    """What a side was measured from.

    Attributes
    ----------
    runs : int
        Runs: the units of statistics.
    logs : tuple of str
        Paths of its logs.
    applications : tuple of str
        Ids of its applications, sorted.
    versions : tuple of str
        Spark versions, sorted.
    hosts : tuple of str
        Hosts that ran its tasks, sorted.
    settings : dict of str to tuple of str
        Values of each Spark property over the applications, sorted.
    damaged : bool
        Whether an input failed or was truncated.
    outside_load : float or None
        Share of the hosts' processors that processes other than the executors used; None where no
        host was sampled.
    host_cores : float or None
        Cores of an application's executors on a host, median; None where unknown.
    """

    runs: int
    logs: tuple[str, ...]
    applications: tuple[str, ...]
    versions: tuple[str, ...]
    hosts: tuple[str, ...]
    settings: dict[str, tuple[str, ...]]
    damaged: bool
    outside_load: float | None = None
    host_cores: float | None = None


def side_facts(tables: Tables, here: Flags, runs: int) -> SideFacts:
    """Describe the applications of some queries.

    Parameters
    ----------
    tables : Tables
    here : ndarray of shape (n_queries,), bool
        The queries of this side.
    runs : int
        How many runs they make.
    """
    apps = sorted(set(tables.queries["app"].to_numpy(np.int64)[here].tolist()))
    ids, versions = (
        texts(tables.applications, name) for name in ("application_id", "spark_version")
    )
    query = tables.tasks["query"].to_numpy(np.int64)
    of_side = (query >= 0) & np.append(here, False)[query]
    host_names = texts(tables.hosts, "host")
    used = np.unique(tables.tasks["host"].to_numpy(np.int64)[of_side])
    inputs = tables.inputs
    input_app = inputs["app"].tolist()
    chosen = set(apps)
    bad = {str(InputStatus.FAILED), str(InputStatus.TRUNCATED)}
    return SideFacts(
        runs=runs,
        logs=tuple(
            path
            for path, app in zip(texts(inputs, "path"), input_app, strict=True)
            if app in chosen
        ),
        applications=tuple(sorted(ids[app] for app in apps)),
        versions=tuple(sorted({versions[app] for app in apps} - {""})),
        hosts=tuple(sorted(host_names[host] for host in used.tolist() if host >= 0)),
        settings=settings_of(tables, chosen),
        damaged=bool(bad & set(texts(inputs, "status"))),
        outside_load=outside_load(tables).share,
        host_cores=_host_cores(tables, chosen),
    )


def _host_cores(tables: Tables, apps: set[int]) -> float | None:
    executors = tables.executors
    known = executors[executors["app"].isin(apps) & (executors["host"] >= 0)]
    each = known.groupby(["app", "host"])["cores"].sum(min_count=1).dropna()
    return float(each.median()) if len(each) else None


def settings_of(tables: Tables, apps: set[int]) -> dict[str, tuple[str, ...]]:
    """Return the values that each Spark property has in some applications."""
    conf = tables.conf
    conf = conf[conf["sql_execution"].to_numpy() < 0]
    found: dict[str, set[str]] = {}
    for app, key, value in zip(
        conf["app"].tolist(), texts(conf, "key"), texts(conf, "value"), strict=True
    ):
        if app in apps and not key.startswith(OF_ONE_APPLICATION):
            found.setdefault(key, set()).add(value)
    return {key: tuple(sorted(values)) for key, values in sorted(found.items())}
