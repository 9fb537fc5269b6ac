"""Holds what was measured of one side, describes its runs, and keeps it as a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from iqcar.base.units import HOUR_MS
from iqcar.comparison.sides.comparison_tables import NODE_RUNS, NODES, QUERY_GRAPHS, QUERY_SETTINGS
from iqcar.enums import EVIDENCES, InputStatus, RunBy
from iqcar.errors import IqcarError
from iqcar.model.demand.host_samples import outside_load
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.model.waits.stage_parts import TASK_PARTS
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

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
    """What a side was measured from."""

    runs: int
    """Runs: the units of statistics."""
    logs: tuple[str, ...]
    """Paths of its logs."""
    applications: tuple[str, ...]
    """Ids of its applications, sorted."""
    versions: tuple[str, ...]
    """Spark versions, sorted."""
    hosts: tuple[str, ...]
    """Hosts that ran its tasks, sorted."""
    settings: dict[str, tuple[str, ...]]
    """Values of each Spark property over the applications, sorted."""
    damaged: bool
    """Whether an input failed or was truncated."""
    outside_load: float | None = None
    """Share of the hosts' processors that processes other than the executors used; None where no
    host was sampled."""
    host_cores: float | None = None
    """Cores of an application's executors on a host, median; None where unknown."""


class SideRows(NamedTuple):
    """Where the rows of the tables went."""

    query_node: Ints
    query_run: Ints
    """(n_queries,): node and run of each query; −1 where it was left out."""
    stage_node: Ints
    """(n_stages,): node of each stage; −1 where its query was left out."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison, measured; what a baseline keeps."""

    facts: SideFacts
    """Its logs, applications, hosts, versions and settings."""
    nodes: pd.DataFrame
    """Recurring queries, their stages and drivers (:data:`NODES`)."""
    node_runs: pd.DataFrame
    """Measures of each node and run (:data:`NODE_RUNS`)."""
    graphs: pd.DataFrame
    """Stage graphs of each query and run (:data:`QUERY_GRAPHS`)."""
    evidence: Floats
    """Share of each node's task time by the evidence of each part: (n_nodes, n_parts, n_evidences)
    (``node_evidence``)."""
    settings: pd.DataFrame
    """Settings that sessions of its queries changed (:data:`QUERY_SETTINGS`)."""
    doubts: tuple[str, ...] = ()
    """What was left out, and why."""
    tables: Tables | None = None
    """What it was measured from; None for a baseline."""
    rows: SideRows | None = None
    """Nodes of the rows of its tables; None for a baseline."""
    waits: pd.DataFrame | None = None
    """Waits of its tasks (``WAITS``); None for a baseline."""


def side_facts(tables: Tables, here: Flags, runs: int) -> SideFacts:
    """Describe the applications of some queries.

    ``here``, (n_queries,): the queries of this side. ``runs``: how many runs they make.
    """
    apps = set(tables.queries["app"].to_numpy(np.int64)[here].tolist())
    ids, versions = (
        texts(tables.applications, name) for name in ("application_id", "spark_version")
    )
    query = tables.tasks["query"].to_numpy(np.int64)
    of_side = (query >= 0) & np.append(here, False)[query]
    host_names = texts(tables.hosts, "host")
    used = np.unique(tables.tasks["host"].to_numpy(np.int64)[of_side])
    inputs, bad = tables.inputs, {str(InputStatus.FAILED), str(InputStatus.TRUNCATED)}
    return SideFacts(
        runs=runs,
        logs=tuple(texts(inputs[inputs["app"].isin(apps)], "path")),
        applications=tuple(sorted(ids[app] for app in apps)),
        versions=tuple(sorted({versions[app] for app in apps} - {""})),
        hosts=tuple(sorted(host_names[host] for host in used.tolist() if host >= 0)),
        settings=settings_of(tables, apps),
        damaged=bool(bad & set(texts(inputs, "status"))),
        outside_load=outside_load(tables).share,
        host_cores=_host_cores(tables, apps),
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


def runs_of_queries(tables: Tables, run_by: RunBy) -> Ints:
    """Return the run of each query.

    ``tables``: their queries must be identified. ``run_by``: what one run is. Returns (n_queries,):
    numbered from 0 in the order of time.
    """
    app = tables.queries["app"].to_numpy(np.int64)
    start = tables.queries["start_ms"].to_numpy(np.float64)
    if run_by is RunBy.QUERY:
        run = np.arange(len(app))
    elif run_by is RunBy.APPLICATION:
        run = app
    else:
        run = _runs_of_applications(tables)[app]
    return _numbered_by_time(run, start)


def _runs_of_applications(tables: Tables) -> Ints:
    """Return the run of each application: those of one cluster and hour that overlap share one.

    Applications one after another repeat what runs do, so each is a run, whatever the hour.
    """
    apps = tables.applications
    start, end = (apps[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    start = np.nan_to_num(start)
    end = np.fmax(np.nan_to_num(end), start)
    cluster = clusters_of(tables)
    run = np.arange(len(apps))
    last: dict[tuple[int, int], tuple[int, float]] = {}
    for app in np.argsort(start, kind="stable").tolist():
        if cluster[app] < 0:
            continue  # nothing says that it shared a cluster
        key = (int(cluster[app]), int(start[app] // HOUR_MS))
        first, until = last.get(key, (app, -np.inf))
        if start[app] >= until:
            first = app
        run[app] = first
        last[key] = (first, max(until, float(end[app])))
    return run


def _numbered_by_time(run: Ints, start: Floats) -> Ints:
    """Number groups from 0 by their first start."""
    _, first, group = np.unique(run, return_index=True, return_inverse=True)
    began = np.full(len(first), np.inf)
    np.minimum.at(began, group, np.nan_to_num(start))
    number = np.empty(len(first), np.int64)
    number[np.lexsort((first, began))] = np.arange(len(first))
    numbered: Ints = number[group]
    return numbered


def query_settings(tables: Tables, query_node: Ints, execution: Sequence[int]) -> pd.DataFrame:
    """Return :data:`QUERY_SETTINGS` of the queries that are nodes.

    ``query_node``, (n_queries,): node of each query; −1 where it was left out. ``execution``: from
    :func:`iqcar.model.queries.identify.execution_rows`.
    """
    conf = tables.conf
    of_app: dict[tuple[int, str], str] = {}
    of_execution: dict[int, dict[str, str]] = {}
    for app, row, key, value in zip(
        conf["app"].tolist(), conf["sql_execution"].tolist(), texts(conf, "key"),
        texts(conf, "value"), strict=True,
    ):  # fmt: skip
        if row < 0:
            of_app[app, key] = value
        elif not key.startswith(OF_ONE_APPLICATION):
            of_execution.setdefault(row, {})[key] = value
    apps = tables.queries["app"].tolist()
    rows = np.flatnonzero(query_node >= 0).tolist() if of_execution else []
    changed: dict[int, set[str]] = {}
    for query in rows:
        changed.setdefault(int(query_node[query]), set()).update(
            of_execution.get(execution[query], ())
        )
    found: dict[tuple[int, str, str], None] = {}
    for query in rows:
        node, own = int(query_node[query]), of_execution.get(execution[query], {})
        for key in changed[node]:
            told = own.get(key, of_app.get((apps[query], key)))
            if told is not None:
                found[node, key, told] = None
    columns = zip(*sorted(found), strict=True) if found else ([], [], [])
    return QUERY_SETTINGS.frame(dict(zip(QUERY_SETTINGS.column_names(), columns, strict=True)))


HEAD = b'{"iqcar_baseline":'
"""How a baseline begins; no event log does."""
VERSION = 1
"""Changes when an older file can no longer be read."""
_TABLES = (NODES, NODE_RUNS, QUERY_GRAPHS, QUERY_SETTINGS)


class _Stored(msgspec.Struct):
    iqcar_baseline: int
    facts: SideFacts
    doubts: tuple[str, ...]
    tables: dict[str, dict[str, list[str | int | float | None]]]
    evidence: list[list[list[float]]]


def dump_baseline(side: Side) -> bytes:
    """Encode what was measured on one side; numbers nobody knows become null."""
    frames = (side.nodes, side.node_runs, side.graphs, side.settings)
    tables = {
        spec.name: {name: frame[name].tolist() for name in spec.column_names()}
        for spec, frame in zip(_TABLES, frames, strict=True)
    }
    evidence = side.evidence.tolist()
    return msgspec.json.encode(_Stored(VERSION, side.facts, side.doubts, tables, evidence)) + b"\n"


def is_baseline(path: str | Path) -> bool:
    """Tell whether a file is a baseline."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(HEAD)) == HEAD
    except (OSError, ValueError):
        return False


def load_baseline(path: str | Path) -> Side:
    """Read a file that :func:`dump_baseline` made.

    Raises IqcarError if it is damaged, or of another version.
    """
    data = Path(path).read_bytes()
    try:
        stored = msgspec.json.decode(data, type=_Stored)
        if stored.iqcar_baseline != VERSION:
            raise IqcarError(
                f"is a baseline of version {stored.iqcar_baseline}, not {VERSION}",
                str(path),
                "make it again with --save-baseline",
            )
        frames = [spec.frame(stored.tables[spec.name]) for spec in _TABLES]
        nodes, node_runs, graphs, settings = frames
        _check_rows(*frames)
        shape = (len(nodes), len(TASK_PARTS), len(EVIDENCES))
        evidence = np.array(stored.evidence, np.float64).reshape(shape)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError) as error:
        raise IqcarError(
            f"is a damaged baseline: {' '.join(str(error).split())[:200]}",
            str(path),
            "make it again with --save-baseline",
        ) from error
    return Side(
        stored.facts, nodes, node_runs, graphs, evidence, settings=settings, doubts=stored.doubts
    )


def _check_rows(
    nodes: pd.DataFrame, node_runs: pd.DataFrame, graphs: pd.DataFrame, settings: pd.DataFrame
) -> None:
    """Raise ValueError if a row number leads nowhere."""
    for frame, name in (
        *((nodes, "query"), (node_runs, "node")),
        *((graphs, "node"), (settings, "node")),
    ):
        if not frame[name].between(0, len(nodes) - 1).all():
            raise ValueError(f"column {name} names rows that do not exist")
    if len(node_runs) and (node_runs[["run", "instances"]].min() < [0, 1]).any():
        raise ValueError("runs are counted from 0 and instances from 1")
