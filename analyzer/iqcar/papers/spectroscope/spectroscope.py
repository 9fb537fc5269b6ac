"""Compare two periods of requests as Spectroscope is printed: a baseline for the method beside it.

Sambasivan et al., *Diagnosing performance changes by comparing system behaviours*, CMU-PDL-10-107
(2010), sections 4.1 and 5.1 to 5.3. A request is a run of a query, its root the recurring query,
its category the root with its stage graph, and its edges are the stages that held it up.
docs/compare.md lists where this text leads astray on few runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from iqcar.comparison.match.structures import distance
from iqcar.papers.spectroscope.kolmogorov_smirnov import ks_test
from iqcar.tables.arrays import Floats, Ints, sum_by

ALPHA = 0.05
"""Level of the tests, "almost always 5 %" (section 5.1); nothing corrects for their number."""
SM_THRESHOLD = 50
"""Requests more or less by which a category counts as mutation or precursor (section 5.2). Spark's
recurring queries run 1 to 30 times: give a threshold that fits."""


class PrintedFinding(NamedTuple):
    """A category with a mutation; one with both kinds is found twice."""

    root: int
    """The query."""
    graph: int
    """Number of the stage graph."""
    kind: str
    """``response-time`` or ``structural``."""
    contribution_ms: float
    """Expected contribution to the change of all requests' time; negative for a speed-up."""
    requests: tuple[int, int]
    """(int, int): requests before and after."""
    before_ms: float
    after_ms: float
    """Mean response time before (of the precursors, where structural) and after."""
    p: float
    """Of the test; NaN where structural."""
    precursors: tuple[int, ...]
    """Graphs from which the requests may have come, the most similar first."""
    edges: tuple[int, ...]
    """Edges whose latencies have another distribution after: where the change is."""


class Requests(NamedTuple):
    """Requests of both periods; arrays of shape (n_requests,)."""

    root: Ints
    """The recurring query."""
    graph: Ints
    """Number of the stage graph, a position in the list of graphs."""
    side: Ints
    """0 before (non-problem period), 1 after (problem period)."""
    time_ms: Floats
    """Response time."""


class Edges(NamedTuple):
    """Latencies of edges; arrays of shape (n_latencies,)."""

    request: Ints
    """Row in the requests."""
    edge: Ints
    """Which edge, such as the category of the stage."""
    time_ms: Floats
    """Its latency in this request, or of one of its tasks: then a request has several rows."""


class _Categories(NamedTuple):
    """Categories sorted by root and graph."""

    root: Ints  # (n_categories,)
    graph: Ints
    requests: Ints  # number, (n_categories, 2), before and after
    mean: Floats  # (n_categories, 2), ms; NaN where there is no request
    of_request: Ints  # (n_requests,)


def compare_as_printed(
    requests: Requests,
    edges: Edges,
    graphs: Sequence[str],
    *,
    alpha: float = ALPHA,
    threshold: int = SM_THRESHOLD,
    one_to_n: bool = True,
) -> tuple[PrintedFinding, ...]:
    """Find and rank mutations.

    ``graphs``: the stage graphs, a line per stage in depth-first order. ``alpha``: level of the
    tests. ``threshold``: requests more after than before for a structural mutation, and fewer for a
    precursor; ≥ 1. ``one_to_n``: whether a precursor must have lost as many requests as the
    mutation gained (the "1:N assumption", which section 5.2 lets the developer bypass). Returns
    tuple of PrintedFinding: by falling contribution (section 5.3), so that speed-ups come last.
    """
    categories = _categorize(requests)
    red = _changed_edges(requests, edges, categories, alpha)
    found = [
        *_response_time_mutations(requests, categories, red, alpha),
        *_structural_mutations(categories, red, graphs, max(threshold, 1), one_to_n),
    ]
    return tuple(sorted(found, key=lambda f: (-f.contribution_ms, f.root, f.graph, f.kind)))


def _categorize(requests: Requests) -> _Categories:
    """Group requests of one root and structure (section 4.1)."""
    pairs = np.column_stack([requests.root, requests.graph])
    found, of_request = np.unique(pairs, axis=0, return_inverse=True)
    of_request = of_request.ravel()
    cell = of_request * 2 + requests.side
    order = np.lexsort((requests.time_ms, cell))  # sums do not depend on the order of rows
    count = np.bincount(cell, minlength=2 * len(found)).reshape(-1, 2)
    total = sum_by(cell[order], requests.time_ms[order], 2 * len(found)).reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        mean = total / count
    return _Categories(found[:, 0], found[:, 1], count, mean, of_request)


def _changed_edges(
    requests: Requests, edges: Edges, categories: _Categories, alpha: float
) -> dict[int, tuple[int, ...]]:
    """Edges of each category that the test marks red (section 5.1)."""
    category = categories.of_request[edges.request]
    cells, cell = np.unique(np.column_stack([category, edges.edge]), axis=0, return_inverse=True)
    p = ks_test(cell.ravel(), requests.side[edges.request], edges.time_ms, len(cells)).p
    red: dict[int, tuple[int, ...]] = {}
    for number, edge in cells[p <= alpha].tolist():
        red[number] = (*red.get(number, ()), edge)
    return red


def _response_time_mutations(
    requests: Requests, categories: _Categories, red: dict[int, tuple[int, ...]], alpha: float
) -> Iterator[PrintedFinding]:
    """Categories of other response times; contribution by the count before (section 5.3)."""
    p = ks_test(categories.of_request, requests.side, requests.time_ms, len(categories.root)).p
    for number in np.flatnonzero(p <= alpha).tolist():
        before, after = categories.mean[number].tolist()
        yield _finding(
            categories,
            number,
            "response-time",
            contribution_ms=int(categories.requests[number, 0]) * (after - before),
            before_ms=before,
            p=float(p[number]),
            edges=red.get(number, ()),
        )


def _structural_mutations(
    categories: _Categories,
    red: dict[int, tuple[int, ...]],
    graphs: Sequence[str],
    threshold: int,
    one_to_n: bool,
) -> Iterator[PrintedFinding]:
    """Categories with more requests after, and those that lost as many (sections 5.2, 5.3)."""
    more = categories.requests[:, 1] - categories.requests[:, 0]
    lost_by_root: dict[int, list[int]] = {}
    for number in np.flatnonzero(more <= -threshold).tolist():
        lost_by_root.setdefault(int(categories.root[number]), []).append(number)
    lines: dict[int, list[str]] = {}
    for number in np.flatnonzero(more >= threshold).tolist():
        candidates = []
        for other in lost_by_root.get(int(categories.root[number]), []):
            if one_to_n and -more[other] < more[number]:
                continue
            for graph in (int(categories.graph[number]), int(categories.graph[other])):
                lines[graph] = lines.get(graph) or graphs[graph].split("\n")
            apart = distance(*(lines[int(categories.graph[of])] for of in (number, other)))
            candidates.append((apart, int(categories.graph[other]), other))
        candidates.sort()
        before = _mean_of_precursors(categories, candidates)
        after = float(categories.mean[number, 1])
        yield _finding(
            categories,
            number,
            "structural",
            contribution_ms=int(more[number]) * (after - before),
            before_ms=before,
            precursors=tuple(graph for _, graph, _ in candidates),
            edges=red.get(number, ()),
        )


def _mean_of_precursors(categories: _Categories, candidates: list[tuple[float, int, int]]) -> float:
    """Mean response time of the precursors after, weighted by similarity; 0 where there is none.

    The text takes the problem period. A precursor without requests there has no such mean: its
    mean before is taken. Weights are 1 less the distance, and equal where all are 0.
    """
    if not candidates:
        return 0.0
    rows = [number for *_, number in candidates]
    before, after = categories.mean[rows].T
    weights = 1 - np.array([apart for apart, *_ in candidates])
    means = np.where(np.isnan(after), before, after)
    return float(np.average(means, weights=weights if weights.any() else None))


def _finding(
    categories: _Categories,
    number: int,
    kind: str,
    *,
    contribution_ms: float,
    before_ms: float,
    edges: tuple[int, ...],
    p: float = np.nan,
    precursors: tuple[int, ...] = (),
) -> PrintedFinding:
    before, after = categories.requests[number].tolist()
    return PrintedFinding(
        int(categories.root[number]),
        int(categories.graph[number]),
        kind,
        contribution_ms,
        (before, after),
        before_ms,
        float(categories.mean[number, 1]),
        p,
        precursors,
        edges,
    )
