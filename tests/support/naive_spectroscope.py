"""The comparison of two periods as the report prints it, one category and request at a time."""

from __future__ import annotations

import math
import statistics
from itertools import product
from typing import Any

import scipy

from tests.support.naive_structures import edits

Request = tuple[int, int, int, float]
"""Root, graph, side, response time."""
Latency = tuple[int, int, float]
"""Request, edge, time."""


def compare_naively(
    requests: list[Request],
    latencies: list[Latency],
    graphs: list[str],
    *,
    threshold: int,
) -> list[dict[str, Any]]:
    """Findings by falling contribution."""
    times: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
    for root, graph, side, time in requests:
        times.setdefault((root, graph), ([], []))[side].append(time)
    found = []
    for category, (before, after) in times.items():
        edges = red_edges(category, requests, latencies)
        p = p_value(before, after)
        if p <= 0.05:
            change = statistics.fmean(after) - statistics.fmean(before)
            found.append(row(category, "response-time", len(before) * change, (), edges))
        more = len(after) - len(before)
        if more >= threshold:
            precursors = sorted(
                (apart(graphs[category[1]], graphs[graph]), graph)
                for (root, graph), (one, other) in times.items()
                if root == category[0]
                and len(one) - len(other) >= threshold
                and len(one) - len(other) >= more
            )
            weights = [1 - distance for distance, _ in precursors]
            weights = weights if any(weights) else [1.0] * len(precursors)
            means = [
                statistics.fmean(times[category[0], graph][1] or times[category[0], graph][0])
                for _, graph in precursors
            ]
            whole = sum(weights)
            mean = sum(w * m for w, m in zip(weights, means, strict=True)) / whole if whole else 0
            contribution = more * (statistics.fmean(after) - mean)
            names = tuple(graph for _, graph in precursors)
            found.append(row(category, "structural", contribution, names, ()))
    return sorted(found, key=lambda f: (-f["contribution_ms"], f["root"], f["graph"], f["kind"]))


def row(
    category: tuple[int, int],
    kind: str,
    contribution: float,
    precursors: tuple[int, ...],
    edges: tuple[int, ...],
) -> dict[str, Any]:
    """One finding."""
    root, graph = category
    return {
        "root": root,
        "graph": graph,
        "kind": kind,
        "contribution_ms": contribution,
        "precursors": precursors,
        "edges": edges,
    }


def red_edges(
    category: tuple[int, int], requests: list[Request], latencies: list[Latency]
) -> tuple[int, ...]:
    """Edges of a category whose latencies the test tells apart."""
    of: dict[int, tuple[list[float], list[float]]] = {}
    for request, edge, time in latencies:
        root, graph, side, _ = requests[request]
        if (root, graph) == category:
            of.setdefault(edge, ([], []))[side].append(time)
    return tuple(edge for edge in sorted(of) if p_value(*of[edge]) <= 0.05)


def p_value(before: list[float], after: list[float]) -> float:
    """Of SciPy's exact test; 1 where a side has no value."""
    if not before or not after:
        return 1.0
    return float(scipy.stats.ks_2samp(before, after, method="exact").pvalue)


def p_by_counting(before: int, after: int, statistic: float) -> float:
    """Share of all orders of so many values in which the distributions get so far apart."""
    far = total = 0
    for order in product((0, 1), repeat=before + after):
        if sum(order) != after:
            continue
        total += 1
        i = j = 0
        largest = 0.0
        for side in order:
            i, j = i + (side == 0), j + (side == 1)
            largest = max(largest, abs(i / before - j / after))
        far += largest > statistic - 1e-9
    return far / total if total else math.nan


def apart(one: str, other: str) -> float:
    """Edit distance of two graphs over the larger one's labels."""
    lines = one.split("\n"), other.split("\n")
    return edits(*lines) / max(map(len, lines))
