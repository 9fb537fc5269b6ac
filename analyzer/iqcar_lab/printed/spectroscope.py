"""Compares two periods of requests exactly as Spectroscope is printed: a baseline beside ours.

R. R. Sambasivan et al.: *Diagnosing performance changes by comparing system behaviours*,
CMU-PDL-10-107 (2010; NSDI 2011), sections 4.1 and 5.1 to 5.3. Our own method, and why it leaves the
text: docs/compare.md.

A request is a run of a query, its root node the recurring query, its structure the stage graph, and
its edges are stages, with their elapsed times as latencies. "Similar workloads" are as many runs.

Where the print leaves a choice:

- The critical path of a request (§5.1): the chain of stages that take longest in all.
- "All possible string representations" (§4.1): parallel parts are sorted, which makes one of them.
- "Normalized string-edit distance" (§5.2): edits over the lines of the larger graph; "structural
  similarity", the weight of a precursor (§5.3), is 1 less that, and equal where all are 0.
- "The change in average response time in the problem period" (§5.3) takes precursors' mean after; a
  precursor without requests there has its mean before. Without precursors the change is from 0.
- "Too few requests to run the test" (§5.1): p is exact, and is never 5 % below four a side.
- `SM_THRESHOLD` is 50 requests; recurring queries run 1 to 30 times, so `LEAST_REQUESTS` is taken
  ("the exact choice of the threshold values is not important", §5.2).
- "Increased in cost" (§1) is tested two-sided (§5.1): speed-ups are found, and rank last.

Paper: Spectroscope | §4.1: categories | exact; one string of a graph |
  tests/lab/printed/test_spectroscope.py
Paper: Spectroscope | §5.1: mutations, red edges | exact | tests/lab/printed/test_spectroscope.py
Paper: Spectroscope | §5.2: precursors, 1:N | exact; one run for 50 requests |
  tests/lab/printed/test_spectroscope.py
Paper: Spectroscope | §5.3: ranking | exact | tests/lab/printed/test_spectroscope.py
Paper: Spectroscope | §5.1: the test | exact | tests/lab/printed/test_spectroscope.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.comparison import Comparison
from iqcar.comparison.match import distance
from iqcar.errors import UsageError
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.waits.stage_parts import stage_times
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, Ints, sum_by

ALPHA = 0.05
"""Level of the tests, "almost always 5 %" (section 5.1); nothing corrects for their number."""
SM_THRESHOLD = 50
"""Requests more or less by which a category counts as mutation or precursor (section 5.2)."""
LEAST_REQUESTS = 1
"""The same for runs of queries."""
MOST_EXACT = 10_000
"""Product of the numbers of values up to which p is exact; beyond, its limit is near."""


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
    """Before and after."""
    before_ms: float
    after_ms: float
    """Mean response time before (of the precursors, where structural) and after."""
    p: float
    """Of the test; NaN where structural."""
    precursors: tuple[int, ...]
    """Graphs from which the requests may have come, the most similar first; where structural."""
    edges: tuple[int, ...]
    """Edges whose latencies have another distribution after; none where structural."""


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
    """Which one, such as the category of the stage."""
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
) -> tuple[PrintedFinding, ...]:
    """Find and rank mutations.

    ``graphs``: the stage graphs, a line per stage in depth-first order. ``alpha``: level of the
    tests. ``threshold``: requests more after than before for a structural mutation, and fewer for a
    precursor; ≥ 1. A precursor must have lost as many requests as the mutation gained (the "1:N
    assumption"). Sorted by falling contribution (section 5.3), so that speed-ups come last.
    """
    categories = _categorize(requests)
    red = _changed_edges(requests, edges, categories, alpha)
    found = [
        *_response_time_mutations(requests, categories, red, alpha),
        *_structural_mutations(categories, graphs, max(threshold, 1)),
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
    p = ks_test(cell.ravel(), requests.side[edges.request], edges.time_ms, len(cells))
    red: dict[int, tuple[int, ...]] = {}
    for number, edge in cells[p <= alpha].tolist():
        red[number] = (*red.get(number, ()), edge)
    return red


def _response_time_mutations(
    requests: Requests, categories: _Categories, red: dict[int, tuple[int, ...]], alpha: float
) -> Iterator[PrintedFinding]:
    """Categories of other response times; contribution by the count before (section 5.3)."""
    p = ks_test(categories.of_request, requests.side, requests.time_ms, len(categories.root))
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
    categories: _Categories, graphs: Sequence[str], threshold: int
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
            if -more[other] < more[number]:
                continue
            for graph in (int(categories.graph[number]), int(categories.graph[other])):
                lines[graph] = lines.get(graph) or graphs[graph].split("\n")
            apart = distance(*(lines[int(categories.graph[side])] for side in (number, other)))
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
        )


def _mean_of_precursors(categories: _Categories, candidates: list[tuple[float, int, int]]) -> float:
    """Mean response time of the precursors after, weighted by similarity; 0 where there is none."""
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
    p: float = np.nan,
    precursors: tuple[int, ...] = (),
    edges: tuple[int, ...] = (),
) -> PrintedFinding:
    before, after = categories.requests[number].tolist()
    return PrintedFinding(
        root=int(categories.root[number]), graph=int(categories.graph[number]), kind=kind,
        contribution_ms=contribution_ms, requests=(before, after), before_ms=before_ms,
        after_ms=float(categories.mean[number, 1]), p=p, precursors=precursors, edges=edges,
    )  # fmt: skip


def printed_findings(comparison: Comparison) -> list[dict[str, Any]]:
    """Find and rank mutations as the text does.

    A row per mutation, by falling contribution: the query and its stages as categories, graphs as
    texts of a line per stage. Raises UsageError if a side is a baseline, which does not keep single
    runs of queries.
    """
    names: list[str] = []
    requests: list[tuple[Ints, Ints, Floats]] = []
    edges: list[tuple[Ints, Ints, Floats]] = []
    at = 0
    for side, category in zip(comparison.sides, comparison.category_of, strict=True):
        if side.tables is None or side.rows is None:
            raise UsageError("needs the logs of both sides", "--method", "give no baseline")
        rows = np.flatnonzero(side.rows.query_run >= 0)
        place = np.full(len(side.rows.query_run) + 1, -1)
        place[rows] = at + np.arange(len(rows))
        time = side.tables.queries["duration_ms"].to_numpy(np.float64)[rows]
        requests.append(
            (category[side.rows.query_node[rows]], np.full(len(rows), len(edges)), time)
        )
        names += texts(side.graphs, "graph")
        began, ended = stage_times(side.tables)
        critical = add_critical_path(side.tables).stages["critical"].to_numpy(bool)
        known = (side.rows.stage_node >= 0) & np.isfinite(ended - began)
        stages = np.flatnonzero(known & critical)
        query = side.tables.stages["query"].to_numpy(np.int64)[stages]
        edges.append(
            (place[query], category[side.rows.stage_node[stages]], (ended - began)[stages])
        )
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
    return [
        {
            "category": one.root,
            "kind": one.kind,
            "graph": graphs[one.graph],
            "before_ms": one.before_ms,
            "after_ms": one.after_ms,
            "runs": list(one.requests),
            "contribution_ms": one.contribution_ms,
            "p": one.p,
            "stages": list(one.edges),
            "precursors": [graphs[precursor] for precursor in one.precursors],
        }
        for one in found
    ]


def ks_test(category: Ints, side: Ints, value: Floats, n: int) -> Floats:
    """Return p of the test of Kolmogorov and Smirnov in each of n categories (§5.1).

    NaN where a side, 0 or 1, has no value; a value that is NaN is left out.
    """
    from scipy.stats import ks_2samp

    p = np.full(n, np.nan)
    known = ~np.isnan(value)
    for number in np.unique(category[known]):
        mine = known & (category == number)
        before, after = value[mine & (side == 0)], value[mine & (side == 1)]
        if len(before) and len(after):
            exact = len(before) * len(after) <= MOST_EXACT
            with warnings.catch_warnings():  # SciPy takes the limit where it cannot count
                warnings.simplefilter("ignore", RuntimeWarning)
                p[number] = ks_2samp(before, after, method="exact" if exact else "asymp").pvalue
    return p
