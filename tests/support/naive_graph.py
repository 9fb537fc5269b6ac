"""iQC-Graph by lost time: networkx objects and algorithms 1 to 3, written naively.

Vertices are keyed by what they stand for, e.g. ``(3, stage, request, host)``; nothing here is
shared with the real implementation.
"""

from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx

from iqcar.enums import REQUESTS, BlameKind
from iqcar.tables import Tables

KINDS = tuple(BlameKind)


def build(tables: Tables, blame, targets, critical_path: bool) -> nx.DiGraph:
    """All vertices with their VC, and edges from level l + 1 to level l without IF."""
    graph = nx.DiGraph()
    stages = tables.stages.to_dict("records")
    losses = blame.stages.to_dict("records")
    demands = list(enumerate(blame.demands.to_dict("records")))
    for target in targets:
        graph.add_node((0, target), level=0, vc=1.0)
        rows = [
            row
            for row, stage in enumerate(stages)
            if stage["query"] == target
            and (stage["critical"] or not critical_path)
            and any(demand["stage"] == row for _, demand in demands)
        ]
        if sum(losses[row]["lost_ms"] for row in rows) == 0:
            continue
        for row in rows:
            vc = losses[row]["lost_ms"]
            graph.add_node((1, row), level=1, vc=vc)
            graph.add_edge((1, row), (0, target))
            for number, demand in demands:
                if demand["stage"] == row:
                    _add_demand(graph, number, demand, blame, stages)
    return graph


def _add_demand(graph, number, demand, blame, stages) -> None:
    stage = demand["stage"]
    request = REQUESTS[demand["request"]]
    vc = demand["lost_ms"]
    resource = (2, stage, request.resource.value)
    if resource not in graph:
        graph.add_node(resource, level=2, vc=0.0)
        graph.add_edge(resource, (1, stage))
    graph.nodes[resource]["vc"] += vc
    deep = (3, stage, request.value, demand["host"])
    graph.add_node(deep, level=3, vc=vc)
    graph.add_edge(deep, resource)
    for source in blame.sources.to_dict("records"):
        if source["demand"] != number:
            continue
        kind = KINDS[source["kind"]].value
        at = source["source_stage"]
        explanation = (4, stage, request.value, demand["host"], kind, at)
        graph.add_node(explanation, level=4, vc=source["lost_ms"], kind=kind)
        graph.add_edge(explanation, deep)
        query = stages[at]["query"] if at >= 0 else kind
        graph.add_node((5, at if at >= 0 else kind), level=5, vc=1.0)
        graph.add_edge((5, at if at >= 0 else kind), explanation)
        graph.add_node((6, query), level=6, vc=1.0)
        graph.add_edge((6, query), (5, at if at >= 0 else kind))


def update_impact_factors(graph: nx.DiGraph) -> None:
    """Algorithm 1 (definition 13), with the rule for vertices nobody contributes to."""
    for vertex in graph:
        inward = list(graph.predecessors(vertex))
        cumulative = sum(graph.nodes[u]["vc"] for u in inward)
        for u in inward:
            if cumulative > 0:
                factor = graph.nodes[u]["vc"] / cumulative
            elif graph.nodes[u]["level"] == 4:
                factor = float(graph.nodes[u]["kind"] == BlameKind.UNATTRIBUTED.value)
            else:
                factor = 1 / len(inward)
            graph.edges[u, vertex]["impact_factor"] = factor


def update_dor(graph: nx.DiGraph) -> None:
    """Algorithm 2's update of DOR (definition 14): a mapping target → DOR on every vertex."""
    by_level: dict[int, list] = {}
    for vertex, level in graph.nodes(data="level"):
        by_level.setdefault(level, []).append(vertex)
    for level in sorted(by_level):
        for vertex in by_level[level]:
            if level == 0:
                graph.nodes[vertex]["dor"] = {vertex[1]: 1.0}
                continue
            dor: dict = {}
            for below in graph.successors(vertex):
                factor = graph.edges[vertex, below]["impact_factor"]
                for target, amount in graph.nodes[below]["dor"].items():
                    dor[target] = dor.get(target, 0.0) + factor * amount
            graph.nodes[vertex]["dor"] = dor


def all_paths(graph: nx.DiGraph) -> list[tuple[float, tuple]]:
    """Algorithm 3 without its sort: (Π IF, vertices from level 0 to level 6) of every path."""
    found = []
    sources = [v for v, level in graph.nodes(data="level") if level == 6]
    targets = [v for v, level in graph.nodes(data="level") if level == 0]
    for source in sources:
        for target in targets:
            for path in nx.all_simple_paths(graph, source, target):
                downward = list(reversed(path))
                weight = math.prod(
                    graph.edges[u, v]["impact_factor"] for v, u in pairwise(downward)
                )
                found.append((weight, tuple(downward)))
    return found
