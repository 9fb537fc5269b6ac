"""Run Spectroscope as it is printed on the two sides: a baseline beside the tests of runs.

Every run of a query is a request, its stages are its edges, and their elapsed times the latencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.comparison.sides.stage_parts import stage_times
from iqcar.errors import UsageError
from iqcar.papers.spectroscope.spectroscope import Edges, Requests, compare_as_printed
from iqcar.tables import TableSpec, texts
from iqcar.tables.arrays import Floats, Ints
from iqcar.tables.declarations import declare

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison

LEAST_REQUESTS = 1
"""Runs of a query more or fewer that make a mutation; nothing in Spark reaches the text's 50."""

PRINTED_FINDINGS = TableSpec(
    "printed_findings",
    "One row per mutation that Spectroscope as printed finds.",
    declare(
        ("category", "int32", "row", "The query."),
        ("kind", "str", "", "response-time or structural."),
        ("graph", "str", "", "The stage graph, a line per stage."),
        ("before_ms", "float64", "ms", "Mean before, of its precursors where structural."),
        ("after_ms", "float64", "ms", "Mean after."),
        ("runs_before", "int64", "count", "Runs of the query before with this graph."),
        ("runs_after", "int64", "count", "Runs of the query after with this graph."),
        ("contribution_ms", "float64", "ms", "Expected contribution to all requests' time."),
        ("p", "float64", "", "Of the Kolmogorov–Smirnov test, not adjusted; NaN if structural."),
        ("stages", "str", "", "Categories of the stages with other latencies, by `, `."),
    ),
)


def printed_findings(comparison: Comparison) -> pd.DataFrame:
    """Find and rank mutations as the text does (:mod:`iqcar.papers.spectroscope.spectroscope`).

    Returns ``PRINTED_FINDINGS``: by falling contribution. Raises UsageError if a side is a
    baseline, which does not keep single runs of queries.
    """
    names: list[str] = []
    requests: list[tuple[Ints, Ints, Floats]] = []
    edges: list[tuple[Ints, Ints, Floats]] = []
    at = 0
    for side, of in zip(comparison.sides, comparison.category_of, strict=True):
        if side.tables is None or side.rows is None:
            raise UsageError("needs the logs of both sides", "--method", "give no baseline")
        rows = np.flatnonzero(side.rows.query_run >= 0)
        place = np.full(len(side.rows.query_run) + 1, -1)
        place[rows] = at + np.arange(len(rows))
        time = side.tables.queries["duration_ms"].to_numpy(np.float64)[rows]
        requests.append((of[side.rows.query_node[rows]], np.full(len(rows), len(edges)), time))
        names += texts(side.graphs, "graph")
        began, ended = stage_times(side.tables)
        stages = np.flatnonzero((side.rows.stage_node >= 0) & np.isfinite(ended - began))
        query = side.tables.stages["query"].to_numpy(np.int64)[stages]
        edges.append((place[query], of[side.rows.stage_node[stages]], (ended - began)[stages]))
        at += len(rows)
    graph, graphs = pd.factorize(np.array(names, object), sort=True)
    root, number, time = (np.concatenate(columns) for columns in zip(*requests, strict=True))
    found = compare_as_printed(
        Requests(root, graph, number, time),
        Edges(*(np.concatenate(columns) for columns in zip(*edges, strict=True))),
        graphs.tolist(),
        alpha=comparison.alpha,
        threshold=LEAST_REQUESTS,
    )
    return PRINTED_FINDINGS.frame(
        {
            "category": [one.root for one in found],
            "kind": [one.kind for one in found],
            "graph": [graphs[one.graph] for one in found],
            "before_ms": [one.before_ms for one in found],
            "after_ms": [one.after_ms for one in found],
            "runs_before": [one.requests[0] for one in found],
            "runs_after": [one.requests[1] for one in found],
            "contribution_ms": [one.contribution_ms for one in found],
            "p": [one.p for one in found],
            "stages": [", ".join(map(str, one.edges)) for one in found],
        }
    )
