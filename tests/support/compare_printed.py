"""What Spectroscope says as it is printed of a simulated pair: the baseline beside ours.

Requests are runs of queries, their root is the query's name as it is, edges are stages. The
low-level explanation is the root of the tree of parameters (section 5.5).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from iqcar.comparison.comparison import Comparison
from iqcar.comparison.sides.comparison_tables import MEASURES
from iqcar.comparison.sides.side import Side
from iqcar.comparison.stats.decision_tree import explain_change
from iqcar.papers.spectroscope import Edges, Requests, compare_as_printed
from iqcar.tables import texts
from tests.support.compare_scores import Found

CAUSE_OF_PARAMETER = {
    "bytes": "data:bytes",
    "partitions": "partitions",
    "tasks": "partitions",
    "spill_bytes": "metric:spill_bytes",
    "bytes_max_over_mean": "skew:bytes",
    "hosts": "environment:hosts",
}
"""What a parameter at the tree's root says; any other is a metric."""


def found_as_printed(comparison: Comparison) -> list[Found]:
    """Categories of one query are one finding; the largest contribution decides its kind."""
    names: dict[str, int] = {}
    graphs: dict[str, int] = {}
    edge_of: dict[tuple[int, str], int] = {}
    requests: list[tuple[int, int, int, float]] = []
    edges: list[tuple[int, int, float]] = []
    for side, of in enumerate(comparison.sides):
        _collect(of, side, names, graphs, edge_of, requests, edges)
    columns = [np.array(column) for column in zip(*requests, strict=True)]
    latencies = [np.array(column) for column in zip(*edges, strict=True)]
    least = min(comparison.before.runs, comparison.after.runs)
    found = compare_as_printed(
        Requests(columns[0], columns[1], columns[2], columns[3].astype(float)),
        Edges(latencies[0], latencies[1], latencies[2].astype(float)),
        list(graphs),
        threshold=max(1, least // 2),
        one_to_n=False,
    )
    by_query = defaultdict(list)
    for finding in found:
        by_query[finding.root].append(finding)
    name_of = list(names)
    said = []
    for root, of_root in by_query.items():
        main = max(of_root, key=lambda finding: abs(finding.contribution_ms))
        total = sum(finding.contribution_ms for finding in of_root)
        kind = "structure" if main.kind == "structural" else "rate"
        said.append(Found(name_of[root], total, kind, _explanation(comparison, name_of[root])))
    return sorted(said, key=lambda one: -abs(one.contribution_ms))


def _collect(
    of: Side,
    side: int,
    names: dict[str, int],
    graphs: dict[str, int],
    edge_of: dict[tuple[int, str], int],
    requests: list[tuple[int, int, int, float]],
    edges: list[tuple[int, int, float]],
) -> None:
    """Add the requests of one side, and the time of each stage of one."""
    assert of.tables is not None and of.rows is not None
    queries, stages = of.tables.queries, of.tables.stages
    rows = np.flatnonzero(of.rows.query_node >= 0)
    name, label = texts(queries, "name"), texts(stages, "label")
    request_of = {}
    for row, graph in zip(rows.tolist(), of.graphs["graph"].tolist(), strict=True):
        root = names.setdefault(name[row], len(names))
        request_of[row] = len(requests)
        time = float(queries["duration_ms"].iloc[row])
        requests.append((root, graphs.setdefault(graph, len(graphs)), side, time))
    took = (stages["completion_ms"] - stages["submission_ms"]).to_numpy(np.float64)
    for stage, query in enumerate(stages["query"].tolist()):
        if query in request_of:
            key = (names[name[query]], label[stage])
            edges.append((request_of[query], edge_of.setdefault(key, len(edge_of)), took[stage]))


def _explanation(comparison: Comparison, name: str) -> tuple[str, ...]:
    """The parameter at the root of the tree that tells the runs before from those after."""
    categories = comparison.categories
    both = texts(categories, "name_before"), texts(categories, "name_after")
    rows = [row for row in comparison.common.tolist() if name in (both[0][row], both[1][row])]
    if not rows:
        return ()
    runs = comparison.category_runs
    runs = runs[runs["category"] == rows[0]]
    measures = [measure for measure, *_ in MEASURES if measure != "time_ms"]
    parameters = runs[[*measures, "bytes_max_over_mean"]].reset_index(drop=True)
    node = explain_change(parameters, runs["side"].to_numpy(np.int64))
    if not node.parameter:
        return ()
    return (CAUSE_OF_PARAMETER.get(node.parameter, f"metric:{node.parameter}"),)
