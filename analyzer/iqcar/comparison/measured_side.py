"""Measure one side of a comparison: its recurring queries, their stages, and every run of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.comparison_tables import MEASURES, PART_NAMES
from iqcar.comparison.query_path import query_paths
from iqcar.comparison.query_settings import execution_rows, query_settings
from iqcar.comparison.recorded_parts import node_evidence
from iqcar.comparison.runs import runs_of_queries
from iqcar.comparison.side_facts import SideFacts, side_facts
from iqcar.comparison.stage_graph_key import StageGraph, graph_keys, number_alike, stage_graph
from iqcar.comparison.stage_parts import python_cpu, stage_parts
from iqcar.enums import RunBy
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables, TableSpec, recurring_queries, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, share_of, sum_by
from iqcar.tables.declarations import declare

NODES = TableSpec(
    "nodes",
    "One row per recurring query of a side, per driver of one, and per stage of one.",
    declare(
        ("kind", "str", "", "query, driver or stage."),
        ("query", "int32", "row", "Its query's node."),
        ("name", "str", "", "Of the query's first run; of a stage, its call site."),
        ("fingerprint", "str", "", "Of the query."),
        ("family", "str", "", "The query's name without dates and counters."),
        ("scans", "str", "", "Tables that the query's plan scans, joined by `; `."),
        ("operators", "str", "", "Plan operators, joined by `; `."),
        ("label", "str", "", "The stage's label."),
        ("ordinal", "int32", "", "Its number among the query's stages of one label."),
        ("order", "float64", "", "Mean place among the query's stages."),
    ),
)

NODE_RUNS = TableSpec(
    "node_runs",
    "One row per node and run: means over the runs of the query inside it.",
    declare(
        ("node", "int32", "row", "The node."),
        ("run", "int32", "", "The run."),
        ("instances", "int64", "count", "How often its query ran in the run."),
        *MEASURES,
        ("bytes_max_over_mean", "float64", "", "Most data of a task over the mean; NaN if none."),
    ),
)

QUERY_GRAPHS = TableSpec(
    "query_graphs",
    "One row per run of a query: the graph of its stages.",
    declare(
        ("node", "int32", "row", "The query's node."),
        ("run", "int32", "", "The run."),
        ("graph", "str", "", "Labels of the stages, readers before what they read, by newlines."),
    ),
)

SUMS = tuple(name for name, *_ in MEASURES)


class SideRows(NamedTuple):
    """Where the rows of the tables went.

    Attributes
    ----------
    query_node, query_run : ndarray of shape (n_queries,)
        Node and run of each query; −1 where it was left out.
    stage_node : ndarray of shape (n_stages,)
        Node of each stage; −1 where its query was left out.
    """

    query_node: Ints
    query_run: Ints
    stage_node: Ints


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
    (:func:`~iqcar.comparison.recorded_parts.node_evidence`)."""
    settings: pd.DataFrame
    """Settings that sessions of its queries changed
    (:data:`~iqcar.comparison.query_settings.QUERY_SETTINGS`)."""
    doubts: tuple[str, ...] = ()
    """What was left out, and why."""
    tables: Tables | None = None
    """What it was measured from; None for a baseline."""
    rows: SideRows | None = None
    """Nodes of the rows of its tables; None for a baseline."""
    waits: pd.DataFrame | None = None
    """Waits of its tasks (``WAITS``); None for a baseline."""


def measure_side(tables: Tables, run_by: RunBy, kept: Flags | None = None) -> Side:
    """Measure every recurring query, stage and run of one side.

    Parameters
    ----------
    tables : Tables
        From :func:`iqcar.read`.
    run_by : RunBy
        What one run is.
    kept : ndarray of shape (n_queries,), bool, optional
        The queries of this side; all by default.

    Returns
    -------
    Side
        Queries that failed or did not end are left out, and a doubt says so.
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
    stages = _query_stages(tables, recurring, turn)
    graph = stage_graph(tables, stages)
    execution = execution_rows(tables)
    nodes, query_node, stage_node = _nodes(tables, recurring, stages, graph, execution, turn)
    waits = measure_waits(tables)
    sums, skews = _stage_sums(tables, waits, stages, usable)
    node_runs = _node_runs(
        tables, usable, run, query_node, stage_node, stages, sums, skews, len(nodes)
    )
    graphs = graph_keys(stages, graph)
    rows = np.flatnonzero(usable)
    node_of_stage = stages.of_node(stage_node)
    return Side(
        facts=side_facts(tables, here, int(run.max(initial=-1)) + 1),
        nodes=nodes,
        node_runs=node_runs,
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


class QueryStages(NamedTuple):
    """Stages of the queries of a side, attempts of one stage taken together.

    Attributes
    ----------
    number : ndarray of shape (n_stages,)
        Number of each row's stage; −1 where its query was left out.
    query : ndarray of shape (n_numbers,)
        Its query's row.
    row : ndarray of shape (n_numbers,)
        Row of its first attempt.
    """

    number: Ints
    query: Ints
    row: Ints

    def of_node(self, node: Ints) -> Ints:
        """Return the node of each row of the table of stages."""
        return np.where(self.number >= 0, np.append(node, -1)[self.number], -1)


def _turns(tables: Tables) -> Ints:
    """Return each query's place in the order of starts, whatever the order of the logs was."""
    start = tables.queries["start_ms"].to_numpy(np.float64)
    ids = np.array(texts(tables.queries, "query_id"), str)
    return np.argsort(np.lexsort((ids, start)))


def _query_stages(tables: Tables, recurring: Ints, turn: Ints) -> QueryStages:
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


def _nodes(
    tables: Tables,
    recurring: Ints,
    stages: QueryStages,
    graph: StageGraph,
    execution: list[int],
    turn: Ints,
) -> tuple[pd.DataFrame, Ints, Ints]:
    """Make the nodes, by first start; returns them with the node of each query and each stage."""
    rows = np.flatnonzero(recurring >= 0)
    rows = rows[np.argsort(turn[rows])]
    _, first, place = np.unique(recurring[rows], return_index=True, return_inverse=True)
    query_node = np.full(len(recurring), -1)
    query_node[rows] = np.argsort(np.argsort(first))[place]
    first = rows[np.sort(first)]
    n = len(first)
    scans, operators = (
        [*texts(tables.sql_executions, name), ""] for name in ("tables", "operators")
    )
    names, fingerprints = texts(tables.queries, "name"), texts(tables.queries, "fingerprint")
    families = texts(tables.queries, "family")
    of_query = {
        "name": [names[row] for row in first],
        "fingerprint": [fingerprints[row] for row in first],
        "family": [families[row] for row in first],
        "scans": [scans[execution[row]] for row in first],
        "operators": [operators[execution[row]] for row in first],
    }
    calls = texts(tables.stages, "name")
    keys: dict[tuple[int, str, int], int] = {}
    stage_node = np.empty(len(stages.row), np.int64)
    place_in_query = np.empty(len(stages.row))
    seen: dict[tuple[int, str], int] = {}
    ordinals = number_alike(tables, stages, graph)
    for number, (query, label) in enumerate(zip(stages.query.tolist(), graph.labels, strict=True)):
        key = (int(query_node[query]), label, ordinals[number])
        stage_node[number] = keys.setdefault(key, 2 * n + len(keys))
        place_in_query[number] = seen[query, ""] = seen.get((query, ""), -1) + 1
    first_number: dict[int, int] = {}
    for number, node in enumerate(stage_node.tolist()):
        first_number.setdefault(node, number)
    of_stage = [int(stages.row[number]) for number in first_number.values()]
    did = texts(tables.stages, "operators")
    blank = [""] * n
    of = [query for query, _, _ in keys]
    count = np.bincount(stage_node, minlength=2 * n + len(keys)).astype(np.float64)
    order = share_of(sum_by(stage_node, place_in_query, 2 * n + len(keys)), count)
    nodes = NODES.frame(
        {
            "kind": ["query"] * n + ["driver"] * n + ["stage"] * len(keys),
            "query": [*range(n), *range(n), *of],
            "name": [*of_query["name"], *blank, *(calls[row] for row in of_stage)],
            **{
                key: [*of_query[key], *blank, *([""] * len(keys))]
                for key in ("fingerprint", "family", "scans")
            },
            "operators": [*of_query["operators"], *blank, *(did[row] for row in of_stage)],
            "label": [*blank, *blank, *(label for _, label, _ in keys)],
            "ordinal": [0] * (2 * n) + [ordinal for _, _, ordinal in keys],
            "order": order,
        }
    )
    return nodes, query_node, stage_node


def _node_runs(
    tables: Tables,
    usable: Flags,
    run: Ints,
    query_node: Ints,
    stage_node: Ints,
    stages: QueryStages,
    sums: _StageSums,
    extreme: Floats,
    n_nodes: int,
) -> pd.DataFrame:
    """Average the measures of each node over the runs of its query inside a run."""
    durations = tables.queries["duration_ms"].to_numpy(np.float64)
    paths_driver = sums.driver_ms
    rows = np.flatnonzero(usable)
    n_queries = int(query_node.max(initial=-1)) + 1
    cell_of_query = np.full(len(usable), -1)
    runs = int(run.max(initial=-1)) + 1
    cell_of_query[rows] = query_node[rows] * max(runs, 1) + run[rows]
    instances = np.bincount(cell_of_query[rows], minlength=n_queries * max(runs, 1))

    at = len(SUMS)
    of_query = np.zeros((len(usable), at))
    for column in range(at):
        of_query[:, column] = np.bincount(
            stages.query, sums.values[:, column], minlength=len(usable)
        )[: len(usable)]
    of_query[:, SUMS.index("time_ms")] = durations
    of_query[:, SUMS.index("rest_ms")] += paths_driver
    of_driver = np.zeros_like(of_query)
    of_driver[:, SUMS.index("time_ms")] = of_driver[:, SUMS.index("rest_ms")] = paths_driver

    node = np.concatenate([query_node[rows], query_node[rows] + n_queries, stage_node])
    owner = np.concatenate([rows, rows, stages.query])
    values = np.concatenate([of_query[rows], of_driver[rows], sums.values])
    skew = np.concatenate([np.full(2 * len(rows), np.nan), extreme])
    cell = node * max(runs, 1) + run[owner]
    present, place = np.unique(cell, return_inverse=True)
    of_node = present // max(runs, 1)
    of_run = present % max(runs, 1)
    root = np.zeros(n_nodes, np.int64)
    root[node] = query_node[owner]
    weight = instances[root[of_node] * max(runs, 1) + of_run]
    known_skew = np.isfinite(skew)
    skews = np.bincount(place, known_or_zero(skew), minlength=len(present))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_skew = skews / np.bincount(place, known_skew, minlength=len(present))
    return NODE_RUNS.frame(
        {
            "node": of_node,
            "run": of_run,
            "instances": weight,
            **{
                name: np.bincount(place, values[:, column], minlength=len(present)) / weight
                for column, name in enumerate(SUMS)
            },
            "bytes_max_over_mean": mean_skew,
        }
    )


class _StageSums(NamedTuple):
    values: Floats  # (n_numbers, len(SUMS))
    driver_ms: Floats  # (n_queries,)


def _stage_sums(
    tables: Tables, waits: pd.DataFrame, stages: QueryStages, usable: Flags
) -> tuple[_StageSums, Floats]:
    """Sum tasks and time on the path by stage; also the most data of a task over the mean."""
    n = len(tables.stages)
    paths = query_paths(tables, usable)
    parts = stage_parts(tables, waits)
    parts *= share_of(paths.stage_ms, parts.sum(axis=1))[:, None]
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    has = np.flatnonzero(stage >= 0)
    of = stage[has]

    def column(name: str) -> Floats:
        return known_or_zero(tasks[name].to_numpy(np.float64)[has])

    read = column("input_bytes") + column("remote_bytes") + column("local_bytes")
    count = np.bincount(of, minlength=n).astype(np.float64)
    planned = tables.stages["declared_tasks"].to_numpy(np.float64)
    hosts = np.unique(of * (len(tables.hosts) + 1) + tasks["host"].to_numpy(np.int64)[has] + 1)
    by_row = {
        "time_ms": paths.stage_ms,
        "cpu_ms": sum_by(of, column("cpu_ms") + column("deserialize_cpu_ms"), n),
        "python_cpu_ms": python_cpu(tables),
        "bytes": sum_by(of, read, n),
        "records": sum_by(of, column("input_records") + column("shuffle_read_records"), n),
        "tasks": count,
        "spill_bytes": sum_by(of, column("disk_spilled_bytes"), n),
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
    np.maximum.at(most, of, read)
    mean = share_of(by_row["bytes"], count)
    skew = np.where(mean > 0, share_of(most, mean), np.nan)[stages.row]
    values = np.column_stack([totals[name] for name in SUMS]) if m else np.zeros((0, len(SUMS)))
    return _StageSums(values, paths.driver_ms), skew
