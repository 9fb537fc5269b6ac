"""Measures one side: its recurring queries, their stages and every run of them; keeps a baseline.

The stage graph of a query is text that is equal for equal graphs: one line per stage, readers
before what they read, the depth before the label. What a stage reads is sorted by content, so ids
and the order of submission do not matter; a stage that several read is written once and referred to
by its label afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from iqcar.base.units import HOUR_MS
from iqcar.comparison.comparison_tables import (
    MEASURES,
    NODE_RUNS,
    NODES,
    QUERY_GRAPHS,
    QUERY_SETTINGS,
)
from iqcar.enums import EVIDENCES, InputStatus, RunBy
from iqcar.errors import IqcarError
from iqcar.model.demand.host_samples import outside_load
from iqcar.model.queries.identify import execution_rows
from iqcar.model.waits.measure import measure_waits
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.model.waits.stage_parts import (
    PART_NAMES,
    TASK_PARTS,
    mean_known,
    node_evidence,
    python_cpu,
    query_paths,
    stage_parts,
)
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, share_of, sum_by

SCAN, SEPARATOR = "Scan ", "; "
"""How operators that read a table begin, and what stands between the operators of a label."""
AGAIN = "^"
"""Stands before the label of a stage that was written before."""


class QueryStages(NamedTuple):
    """Stages of the queries of a side, attempts of one stage taken together."""

    number: Ints
    """(n_stages,): number of each row's stage; −1 where its query was left out."""
    query: Ints
    """(n_numbers,): its query's row."""
    row: Ints
    """(n_numbers,): row of its first attempt."""

    def of_node(self, node: Ints) -> Ints:
        """Return the node of each row of the table of stages."""
        return np.where(self.number >= 0, np.append(node, -1)[self.number], -1)


def query_stages(tables: Tables, recurring: Ints, turn: Ints) -> QueryStages:
    """Number the stages of queries that recur: by the queries' order of starts, then by id."""
    query = tables.stages["query"].to_numpy(np.int64)
    number = np.full(len(query), -1)
    rows = np.flatnonzero(query >= 0)
    rows = rows[recurring[query[rows]] >= 0]
    stage_id = tables.stages["stage_id"].to_numpy(np.int64)[rows]
    attempt = tables.stages["attempt"].to_numpy(np.int64)[rows]
    rows = rows[np.lexsort((attempt, stage_id, turn[query[rows]]))]
    key = np.column_stack([query[rows], tables.stages["stage_id"].to_numpy(np.int64)[rows]])
    new = np.ones(len(rows), bool)
    new[1:] = (key[1:] != key[:-1]).any(axis=1)
    number[rows] = np.cumsum(new) - 1
    return QueryStages(number, query[rows[new]], rows[new])


class StageGraph(NamedTuple):
    """Stages of the queries of a side, by number, and what they read."""

    labels: list[str]
    reads: list[set[int]]
    """Numbers of the stages that each one reads; they are lower."""
    scans: list[frozenset[str]]
    """Operators of the stage, and of all that it reads, which scan a table."""
    digest: list[bytes]
    """Of the label and of all that is read: equal for equal graphs."""


def stage_graph(tables: Tables, stages: QueryStages) -> StageGraph:
    """Link the stages of each query, attempts taken together; one without a label has its site."""
    n = len(stages.row)
    label, site = texts(tables.stages, "label"), texts(tables.stages, "name")
    labels = [label[row] or site[row] for row in stages.row.tolist()]
    edge = [
        stages.number[tables.stage_parents[name].to_numpy(np.int64)] for name in ("stage", "parent")
    ]
    reads: list[set[int]] = [set() for _ in range(n)]
    for reader, parent in zip(edge[0].tolist(), edge[1].tolist(), strict=True):
        # A parent has the lower id, in any log but a damaged one.
        if 0 <= parent < reader and stages.query[parent] == stages.query[reader]:
            reads[reader].add(parent)
    digest = [b""] * n
    scans: list[frozenset[str]] = []
    for number in range(n):  # what a stage reads has a lower number
        own = (word for word in labels[number].split(SEPARATOR) if word.startswith(SCAN))
        scans.append(frozenset(own).union(*(scans[parent] for parent in reads[number])))
        below = sorted(digest[parent] for parent in reads[number])
        digest[number] = hashlib.sha256(b"\0".join([labels[number].encode(), *below])).digest()
    return StageGraph(labels, reads, scans, digest)


def number_alike(tables: Tables, stages: QueryStages, graph: StageGraph) -> list[int]:
    """Number the stages of one label in a query by the tables they read, then by what and how much.

    Adaptive execution submits stages as others end, so their ids differ between equal runs.
    """
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    has = np.flatnonzero(stage >= 0)
    read = [
        sum_by(stage[has], known_or_zero(tasks[name].to_numpy(np.float64)[has]), len(tables.stages))
        for name in ("input_records", "shuffle_read_records")
    ]
    records = (read[0] + read[1])[stages.row].tolist()
    alike: dict[tuple[int, str], list[int]] = {}
    for number, key in enumerate(zip(stages.query.tolist(), graph.labels, strict=True)):
        alike.setdefault(key, []).append(number)
    ordinals = [0] * len(stages.row)
    for numbers in alike.values():
        numbers.sort(key=lambda n: (sorted(graph.scans[n]), graph.digest[n], -records[n], n))
        for ordinal, number in enumerate(numbers):
            ordinals[number] = ordinal
    return ordinals


def graph_keys(stages: QueryStages, graph: StageGraph) -> dict[int, str]:
    """Return the text of the stage graph of each query that has stages, by its row."""
    is_read = {parent for parents in graph.reads for parent in parents}
    roots: dict[int, list[int]] = {}
    for number, query in enumerate(stages.query.tolist()):
        if number not in is_read:
            roots.setdefault(query, []).append(number)
    return {
        query: "\n".join(_lines(sorted(roots_of, key=graph.digest.__getitem__), graph))
        for query, roots_of in roots.items()
    }


def _lines(roots: list[int], graph: StageGraph) -> list[str]:
    lines: list[str] = []
    written: set[int] = set()
    stack = [(0, root) for root in reversed(roots)]
    while stack:
        depth, number = stack.pop()
        label = graph.labels[number].replace("\n", " ")
        if number in written:
            lines.append(f"{depth} {AGAIN}{label}")
            continue
        written.add(number)
        lines.append(f"{depth} {label}")
        below = sorted(graph.reads[number], key=graph.digest.__getitem__, reverse=True)
        stack += [(depth + 1, parent) for parent in below]
    return lines


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


SUMS = tuple(name for name, *_ in MEASURES)


def measure_side(tables: Tables, run_by: RunBy, kept: Flags | None = None) -> Side:
    """Measure every recurring query, stage and run of one side.

    ``kept``, (n_queries,): the queries of this side; all by default. Those that failed or did not
    end are left out, and a doubt says so.
    """
    queries = tables.queries
    here = np.ones(len(queries), bool) if kept is None else kept
    failed, ended = queries["failed"].to_numpy(bool), queries["ended"].to_numpy(bool)
    usable = here & ended & ~failed & (queries["duration_ms"].to_numpy(np.float64) > 0)
    doubts = tuple(
        f"{count} of {here.sum()} runs of queries {what}: left out"
        for count, what in (
            ((here & failed).sum(), "failed"),
            ((here & ~failed & ~ended).sum(), "had not ended when the log was read"),
        )
        if count
    )
    run = np.where(usable, runs_of_queries(tables, run_by), -1)
    _, run = np.unique(run, return_inverse=True)
    run = run - (not usable.all())  # numbers without gaps; −1 for queries left out
    turn = _turns(tables)
    recurring = np.where(usable, recurring_queries(tables), -1)
    stages = query_stages(tables, recurring, turn)
    graph = stage_graph(tables, stages)
    execution = execution_rows(tables)
    query_node, first = _query_nodes(recurring, turn)
    nodes, stage_node = _nodes(
        tables, query_node, first, stages=stages, graph=graph, execution=execution
    )
    waits = measure_waits(tables)
    rows = np.flatnonzero(usable)
    graphs = graph_keys(stages, graph)
    node_of_stage = stages.of_node(stage_node)
    return Side(
        facts=side_facts(tables, here, int(run.max(initial=-1)) + 1),
        nodes=nodes,
        node_runs=_node_runs(
            tables,
            _stage_sums(tables, waits, stages, usable),
            stages,
            run=run,
            query_node=query_node,
            stage_node=stage_node,
        ),
        graphs=QUERY_GRAPHS.frame(
            {
                "node": query_node[rows],
                "run": run[rows],
                "graph": [graphs.get(row, "") for row in rows.tolist()],
            }
        ),
        evidence=node_evidence(tables, waits, node_of_stage, nodes["query"].to_numpy(np.int64)),
        settings=query_settings(tables, query_node, execution),
        doubts=doubts,
        tables=tables,
        rows=SideRows(query_node, run, node_of_stage),
        waits=waits,
    )


def _turns(tables: Tables) -> Ints:
    """Return each query's place in the order of starts, whatever the order of the logs was."""
    start = tables.queries["start_ms"].to_numpy(np.float64)
    ids = np.array(texts(tables.queries, "query_id"), str)
    return np.argsort(np.lexsort((ids, start)))


def _query_nodes(recurring: Ints, turn: Ints) -> tuple[Ints, list[int]]:
    """Number recurring queries by their first start, −1 where left out; and find the first runs."""
    rows = np.flatnonzero(recurring >= 0)
    rows = rows[np.argsort(turn[rows])]
    _, first, place = np.unique(recurring[rows], return_index=True, return_inverse=True)
    node = np.full(len(recurring), -1)
    node[rows] = np.argsort(np.argsort(first))[place]
    return node, rows[np.sort(first)].tolist()


def _nodes(
    tables: Tables,
    query_node: Ints,
    first: list[int],
    stages: QueryStages,
    graph: StageGraph,
    execution: list[int],
) -> tuple[pd.DataFrame, Ints]:
    """Make the nodes: queries, their drivers, their stages; also the node of each stage."""
    n = len(first)
    keys: dict[tuple[int, str, int], int] = {}
    ordinals = number_alike(tables, stages, graph)
    named = zip(query_node[stages.query].tolist(), graph.labels, ordinals, strict=True)
    stage_node = np.array([keys.setdefault(key, 2 * n + len(keys)) for key in named], np.int64)
    size = 2 * n + len(keys)
    _, begin, query = np.unique(stages.query, return_index=True, return_inverse=True)
    place = (np.arange(len(query)) - begin[query]).astype(np.float64)  # a query's follow each other
    count = np.bincount(stage_node, minlength=size).astype(np.float64)
    row = stages.row[np.unique(stage_node, return_index=True)[1]].tolist()
    ran = [execution[query] for query in first]
    blank, no_stage = [""] * n, [""] * len(keys)
    queries, sql = tables.queries, tables.sql_executions
    nodes = NODES.frame(
        {
            "kind": ["query"] * n + ["driver"] * n + ["stage"] * len(keys),
            "query": [*range(n), *range(n), *(query for query, _, _ in keys)],
            "name": [*_at(queries, "name", first), *blank, *_at(tables.stages, "name", row)],
            "fingerprint": [*_at(queries, "fingerprint", first), *blank, *no_stage],
            "family": [*_at(queries, "family", first), *blank, *no_stage],
            "scans": [*_at(sql, "tables", ran), *blank, *no_stage],
            "operators": [
                *_at(sql, "operators", ran), *blank, *_at(tables.stages, "operators", row)
            ],
            "label": [*blank, *blank, *(label for _, label, _ in keys)],
            "ordinal": [0] * (2 * n) + [ordinal for _, _, ordinal in keys],
            "order": share_of(sum_by(stage_node, place, size), count),
        }
    )  # fmt: skip
    return nodes, stage_node


def _at(frame: pd.DataFrame, name: str, rows: list[int]) -> list[str]:
    """Texts of some rows; empty for row −1."""
    values = [*texts(frame, name), ""]
    return [values[row] for row in rows]


def _node_runs(
    tables: Tables,
    sums: _StageSums,
    stages: QueryStages,
    run: Ints,
    query_node: Ints,
    stage_node: Ints,
) -> pd.DataFrame:
    """Average the measures of each node over the runs of its query inside a run."""
    rows = np.flatnonzero(query_node >= 0)
    runs, n = max(int(run.max(initial=-1)) + 1, 1), int(query_node.max(initial=-1)) + 1
    instances = np.bincount(query_node[rows] * runs + run[rows], minlength=n * runs)
    of_query = np.column_stack([sum_by(stages.query, one, len(run)) for one in sums.values.T])
    time, rest = SUMS.index("time_ms"), SUMS.index("rest_ms")
    of_query[:, time] = tables.queries["duration_ms"].to_numpy(np.float64)
    of_query[:, rest] += sums.driver_ms
    of_driver = np.zeros_like(of_query)
    of_driver[:, time] = of_driver[:, rest] = sums.driver_ms

    node = np.concatenate([query_node[rows], query_node[rows] + n, stage_node])
    owner = np.concatenate([rows, rows, stages.query])
    values = np.concatenate([of_query[rows], of_driver[rows], sums.values])
    skew = np.concatenate([np.full(2 * len(rows), np.nan), sums.skew])
    present, first, place = np.unique(
        node * runs + run[owner], return_index=True, return_inverse=True
    )
    weight = instances[query_node[owner[first]] * runs + present % runs]
    means = {
        name: sum_by(place, column, len(present)) / weight
        for name, column in zip(SUMS, values.T, strict=True)
    }
    return NODE_RUNS.frame(
        {
            "node": present // runs,
            "run": present % runs,
            "instances": weight,
            **means,
            "bytes_max_over_mean": mean_known(place, skew, np.ones(len(skew)), len(present)),
        }
    )


class _StageSums(NamedTuple):
    values: Floats  # (n_numbers, len(SUMS))
    driver_ms: Floats  # (n_queries,)
    skew: Floats  # (n_numbers,): most data of a task over the mean


def _stage_sums(
    tables: Tables, waits: pd.DataFrame, stages: QueryStages, usable: Flags
) -> _StageSums:
    """Sum tasks and time on the path by stage."""
    n = len(tables.stages)
    paths = query_paths(tables, usable)
    parts = stage_parts(tables, waits)
    parts *= share_of(paths.stage_ms, parts.sum(axis=1))[:, None]
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    has = np.flatnonzero(stage >= 0)
    stage_of = stage[has]

    def column(name: str) -> Floats:
        return known_or_zero(tasks[name].to_numpy(np.float64)[has])

    read = column("input_bytes") + column("remote_bytes") + column("local_bytes")
    count = np.bincount(stage_of, minlength=n).astype(np.float64)
    planned = tables.stages["declared_tasks"].to_numpy(np.float64)
    hosts = np.unique(
        stage_of * (len(tables.hosts) + 1) + tasks["host"].to_numpy(np.int64)[has] + 1
    )
    by_row = {
        "time_ms": paths.stage_ms,
        "cpu_ms": sum_by(stage_of, column("cpu_ms") + column("deserialize_cpu_ms"), n),
        "python_cpu_ms": python_cpu(tables),
        "bytes": sum_by(stage_of, read, n),
        "records": sum_by(stage_of, column("input_records") + column("shuffle_read_records"), n),
        "tasks": count,
        "spill_bytes": sum_by(stage_of, column("disk_spilled_bytes"), n),
        **{name: parts[:, place] for place, name in enumerate(PART_NAMES)},
    }
    number = stages.number
    kept = np.flatnonzero(number >= 0)
    m = len(stages.row)
    totals = {name: sum_by(number[kept], values[kept], m) for name, values in by_row.items()}
    # Attempts after the first run only what is missing.
    totals["partitions"] = np.where(planned < 0, count, planned)[stages.row]
    host_count = np.bincount(hosts // (len(tables.hosts) + 1), minlength=n).astype(np.float64)
    totals["hosts"] = host_count[stages.row]
    most = np.zeros(n)
    np.maximum.at(most, stage_of, read)
    mean = share_of(by_row["bytes"], count)
    skew = np.where(mean > 0, share_of(most, mean), np.nan)[stages.row]
    values = np.column_stack([totals[name] for name in SUMS]) if m else np.zeros((0, len(SUMS)))
    return _StageSums(values, paths.driver_ms, skew)
