"""Sums the time that recurring queries lost to each other.

Runs of one fingerprint are one query here: a rule matches all of them, so what they lost to each
other cannot be mended by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.enums import BlameKind, Resource
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints, sum_by

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph


@dataclass(frozen=True)
class QueryLosses:
    """Time that recurring queries lost to each other.

    fingerprints: (g,) fingerprint of each recurring query; empty for a run that has none.
    group: (queries,) recurring query of each run.
    pairs: source, target (runs, as query rows), source_group, target_group, resource, lost_ms, dor;
        one row per pair of runs of different recurring queries, and resource.
    suffered_ms, inflicted_ms: (g,) elapsed time lost to others, and by others to it; whole, also
        where `pairs` name only the largest sources of each target.
    duration_ms: (g,) total duration of the runs.
    unnamed_ms: by "target" and "source", (g,) the part of `suffered_ms` and of `inflicted_ms` that
        is in no pair.
    """

    fingerprints: list[str]
    group: Ints
    pairs: pd.DataFrame
    suffered_ms: Floats
    inflicted_ms: Floats
    duration_ms: Floats
    unnamed_ms: dict[str, Floats]

    def net_ms(self) -> Floats:
        """What each cost others, less what it lost to others: above 0 it is a source."""
        return self.inflicted_ms - self.suffered_ms


def gather(tables: Tables, graph: IQCGraph) -> QueryLosses:
    """Sum what the graph's targets lost to other queries, by recurring query.

    Waits for executors are left out: no scheduler of one application acts on them.
    """
    group = recurring_queries(tables)
    named = dict(zip(group.tolist(), texts(tables.queries, "fingerprint"), strict=True))
    pairs = _pairs(graph)
    source, target = pairs["source"].to_numpy(np.int64), pairs["target"].to_numpy(np.int64)
    pairs = pairs.assign(source_group=group[source], target_group=group[target])
    pairs = pairs[pairs["source_group"] != pairs["target_group"]].reset_index(drop=True)
    size = len(named)
    lost = pairs["lost_ms"].to_numpy(np.float64)
    duration = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
    unnamed_source, unnamed_target = _unnamed(graph, len(group))
    folded = graph.folded
    among = folded["recurring_ms"].to_numpy() if len(folded) else np.zeros(len(group))
    unnamed = {"source": unnamed_source - among, "target": unnamed_target - among}
    unnamed = {side: np.maximum(sum_by(group, ms, size), 0.0) for side, ms in unnamed.items()}
    return QueryLosses(
        fingerprints=list(named.values()), group=group, pairs=pairs,
        suffered_ms=sum_by(pairs["target_group"], lost, size) + unnamed["target"],
        inflicted_ms=sum_by(pairs["source_group"], lost, size) + unnamed["source"],
        duration_ms=sum_by(group, duration, size), unnamed_ms=unnamed,
    )  # fmt: skip


def _unnamed(graph: IQCGraph, queries: int) -> tuple[Floats, Floats]:
    """What each query took as a source, and lost as a target, in rests: nobody is named there."""
    folded = graph.folded
    if not len(folded):
        return np.zeros(queries), np.zeros(queries)
    hurts = graph.who_hurts_whom()
    rest = hurts[(hurts["kind"] == BlameKind.REST.value).to_numpy(bool)]
    lost = sum_by(rest["target_query"], rest["lost_ms"].to_numpy(np.float64), queries)
    hurts = graph.who_hurts_whom(Resource.EXECUTORS)
    rest = hurts[(hurts["kind"] == BlameKind.REST.value).to_numpy(bool)]
    lost -= sum_by(rest["target_query"], rest["lost_ms"].to_numpy(np.float64), queries)
    taken = folded["lost_ms"] - folded[f"{Resource.EXECUTORS}_lost_ms"]
    return np.maximum(taken.to_numpy(np.float64), 0.0), np.maximum(lost, 0.0)


def _pairs(graph: IQCGraph) -> pd.DataFrame:
    parts = []
    for resource in Resource:
        if resource is Resource.EXECUTORS:
            continue
        hurts = graph.who_hurts_whom(resource)
        hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value) & (hurts["source_query"] >= 0)]
        part = hurts[["source_query", "target_query", "lost_ms", "dor"]]
        parts.append(part.assign(resource=resource.value))
    names = {"source_query": "source", "target_query": "target"}
    pairs: pd.DataFrame = pd.concat(parts, ignore_index=True).rename(columns=names)
    return pairs


def most_at_once(tables: Tables, app: int) -> int:
    """How many queries of an application ran at once at most; at least 1.

    A query that starts the moment another ends does not run at once with it.
    """
    queries = tables.queries[tables.queries["app"] == app]
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    times = np.concatenate([end[known], start[known]])
    steps = np.repeat([-1, 1], known.sum())
    running = np.cumsum(steps[np.argsort(times, kind="stable")])
    return max(1, int(running.max(initial=1)))
