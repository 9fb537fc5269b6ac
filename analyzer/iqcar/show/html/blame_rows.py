"""Blame explanations of iQC-Graph as columns: who delayed which stage, where, waiting for what.

One row says that a target's stage lost time to a request on a host because of a source stage.
Every view of the page is a sum over some of these rows, so what views show adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.causes.blame.demand_weights import QUERY, REST, UNATTRIBUTED
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import REQUESTS, Resource
from iqcar.tables import NONE
from iqcar.tables.arrays import Floats, Ints

FOLDED = -2
"""Row number of everything that was folded into one: other stages, hosts, sources."""
RESOURCES: tuple[Resource, ...] = tuple(Resource)
RESOURCE_OF_REQUEST = np.array([RESOURCES.index(r.resource) for r in REQUESTS], np.int64)
"""Position in ``RESOURCES`` of each request's resource."""
KEYS = ("stage", "request", "host", "kind", "source_stage", "source")
"""What tells two rows of one target apart."""


@dataclass(frozen=True)
class BlameRows:
    """Blame explanations of all targets, in the order of the targets.

    Attributes
    ----------
    frame : DataFrame
        target, stage, request (code), host, kind (code), source_stage, source (query): rows and
        codes, −1 for none, −2 for the other queries of a rest; lost_ms (elapsed), dor.
    begin : (queries + 1,) where each query's rows begin, by query row.
    """

    frame: pd.DataFrame
    begin: Ints

    def of(self, query: int) -> pd.DataFrame:
        """Rows of one target."""
        return self.frame.iloc[self.begin[query] : self.begin[query + 1]]


def lay_out_blame(graph: IQCGraph, queries: int) -> BlameRows:
    """Lay the blame explanations of a graph out as columns.

    Parameters
    ----------
    graph : IQCGraph
    queries : int
        How many queries there are.
    """
    s = graph.structure
    demand = s.towards[4]
    of_resource = s.towards[3][demand]
    stage = s.stage[s.towards[2][of_resource]] if len(demand) else demand
    source = s.source_query[graph.query_of_explanation] if len(demand) else demand
    source_stage = s.source_stage[s.source] if len(demand) else demand
    # A source stage of no known query is nobody that could be named (as in blame_of).
    nameless = (s.kind == QUERY) & (source < 0)
    rest = s.kind == REST
    frame = pd.DataFrame(
        {
            "target": s.targets[s.target[4]] if len(demand) else demand,
            "stage": stage,
            "request": s.request[demand],
            "host": s.host[demand],
            "kind": np.where(nameless, UNATTRIBUTED, np.where(rest, QUERY, s.kind)),
            "source_stage": np.where(nameless, NONE, np.where(rest, FOLDED, source_stage)),
            "source": np.where(rest, FOLDED, source),
            "lost_ms": graph.lost.amount[4],
            "dor": graph.dor.amount[4],
        }
    )
    by_target, _ = graph.explanations_of_target
    frame = frame.iloc[by_target[np.argsort(frame["target"].to_numpy()[by_target], kind="stable")]]
    counts = np.bincount(frame["target"].to_numpy(np.int64), minlength=queries)
    return BlameRows(frame.reset_index(drop=True), np.concatenate([[0], np.cumsum(counts)]))


def demands_of(graph: IQCGraph, demands: pd.DataFrame) -> pd.DataFrame:
    """Say what the tasks of each target stage waited, by request and host.

    Returns
    -------
    DataFrame
        target, stage, request, host (rows and codes), tasks, wait_ms (task time), evidence (code),
        ratp, slowdown, over_attribution, and lost_ms (elapsed).
    """
    s = graph.structure
    names = ["tasks", "wait_ms", "evidence", "ratp", "slowdown", "over_attribution"]
    columns = {name: demands[name].to_numpy()[s.demand] for name in names}
    stage = s.stage[s.towards[2][s.towards[3]]] if len(s.demand) else s.demand
    target = s.targets[s.target[3]] if len(s.demand) else s.demand
    return pd.DataFrame(
        {
            "target": target,
            "stage": stage,
            "request": s.request,
            "host": s.host,
            **columns,
            "lost_ms": graph.lost.amount[3],
        }
    )


def sums_by(columns: Sequence[Ints], lost_ms: Floats) -> tuple[list[tuple[int, ...]], Floats, Ints]:
    """Add up lost time by the values of several columns.

    Parameters
    ----------
    columns : (n,) each, of small whole numbers, −2 being the least
    lost_ms : (n,)

    Returns
    -------
    (list of tuple, ndarray, ndarray)
        The combinations that occur, in order; the sum of each; and the position of each row's
        combination.
    """
    key = np.zeros(len(lost_ms), np.int64)
    sizes = [int(column.max(initial=FOLDED)) - FOLDED + 1 for column in columns]
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + (column - FOLDED)
    # One whole number per combination: sorting those is far cheaper than sorting rows.
    distinct, member = np.unique(key, return_inverse=True)
    sums = np.bincount(member, lost_ms, minlength=len(distinct)).astype(np.float64)
    values: list[Ints] = []
    for size in reversed(sizes):
        values.append(distinct % size + FOLDED)
        distinct = distinct // size
    combinations = list(zip(*(one.tolist() for one in reversed(values)), strict=True))
    return combinations, sums, member


def largest(rows: Ints, lost_ms: Floats, most: int) -> Ints:
    """Return the distinct rows (≥ 0) with a line of their own, those that lost most first."""
    known = rows >= 0
    names, member = np.unique(rows[known], return_inverse=True)
    total = np.bincount(member, lost_ms[known], minlength=len(names)).astype(np.float64)
    chosen: Ints = names[limits.fold(total, most)[0]]
    return chosen


def keep(frame: pd.DataFrame, column: str, kept: Ints) -> pd.DataFrame:
    """Replace rows that are not kept by :data:`FOLDED`; what is negative stays."""
    values = frame[column].to_numpy(np.int64)
    beyond = (values >= 0) & ~np.isin(values, kept)
    return frame.assign(**{column: np.where(beyond, FOLDED, values)})


def joined(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum rows that agree in all of :data:`KEYS`; the largest loss first."""
    sums = frame.groupby(list(KEYS), sort=False, as_index=False)[["lost_ms", "dor"]].sum()
    whole: pd.DataFrame = sums.sort_values("lost_ms", ascending=False, kind="stable")
    return whole.reset_index(drop=True)


def bounded(rows: pd.DataFrame, most: int, hosts: Ints) -> tuple[pd.DataFrame, bool]:
    """Fold the rows of one target until there are at most so many; no sum changes.

    First what is beyond a number per axis; then the smallest rows lose what they say in detail:
    their source stage, their host, their stage, at last their source.

    Parameters
    ----------
    rows : DataFrame of one target, as in :class:`BlameRows`
    most : int
        Rows at most, give or take the requests: they are never folded.
    hosts : hosts that are told apart

    Returns
    -------
    (DataFrame, bool)
        The rows by :data:`KEYS`, and whether anything was folded.
    """
    lost = rows["lost_ms"].to_numpy(np.float64)
    axes = {
        "stage": largest(rows["stage"].to_numpy(np.int64), lost, limits.MOST_STAGES),
        "host": hosts,
        "source": largest(rows["source"].to_numpy(np.int64), lost, limits.MOST_SOURCES),
        "source_stage": largest(
            rows["source_stage"].to_numpy(np.int64), lost, limits.MOST_SOURCE_STAGES
        ),
    }
    for column, kept in axes.items():
        rows = keep(rows, column, kept)
    # A stage of a source that was folded says nothing by itself.
    lone = (rows["source"] == FOLDED).to_numpy()
    rows = rows.assign(source_stage=np.where(lone, FOLDED, rows["source_stage"]))
    folded = any((rows[column] == FOLDED).any() for column in axes)
    rows = joined(rows)
    nobody = np.zeros(0, np.int64)
    for column in ("source_stage", "host", "stage", "source"):
        if len(rows) <= most:
            break
        # Half of the room stays for the largest rows as they are.
        large, small = rows.iloc[: most // 2], rows.iloc[most // 2 :]
        rows = joined(pd.concat([large, keep(small, column, nobody)]))
        folded = True
    return rows, folded
