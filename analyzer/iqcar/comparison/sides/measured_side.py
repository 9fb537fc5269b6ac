"""Measures one side of a comparison: its recurring queries, their stages, and every run of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.sides.comparison_tables import (
    MEASURES,
    NODE_RUNS,
    NODES,
    QUERY_GRAPHS,
)
from iqcar.comparison.sides.side import (
    Side,
    SideRows,
    query_settings,
    runs_of_queries,
    side_facts,
)
from iqcar.comparison.sides.stage_graph_key import (
    QueryStages,
    StageGraph,
    graph_keys,
    number_alike,
    query_stages,
    stage_graph,
)
from iqcar.enums import RunBy
from iqcar.model.queries.identify import execution_rows
from iqcar.model.waits.measure import measure_waits
from iqcar.model.waits.stage_parts import (
    PART_NAMES,
    mean_known,
    node_evidence,
    python_cpu,
    query_paths,
    stage_parts,
)
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, share_of, sum_by

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
