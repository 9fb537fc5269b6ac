"""Compute how the time that each query lost to each other query changed between two sides.

Both sides go through waits and blame (:func:`iqcar.causes.blame.attribute.attribute`); lost time is
that of iQC-Graph, so the rows of a query sum to the change of its lost time, `unattributed`
included.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.comparison.compared_rows import ComparedRows
from iqcar.enums import BlameKind, ImpactModel, Resource
from iqcar.tables import NONE, Tables, TableSpec
from iqcar.tables.arrays import Floats, known_or_zero, share_of, sum_by
from iqcar.tables.declarations import declare

LEAST_GROWTH = 1.15
"""Growth of a source's work, or of its presence beside the target, from which it is named: blame
alone also grows where a slower disk makes everybody wait longer."""

BLAME_CHANGES = TableSpec(
    "blame_changes",
    "One row per query on both sides, resource, and source of time that it lost on either side.",
    declare(
        ("category", "int32", "row", "The query that lost time."),
        ("resource", "str", "", "What it waited for."),
        ("kind", "str", "", "Kind of blame: query, own, known, unattributed or rest."),
        ("source", "int32", "row", "The source query's category; −1 for what is no query."),
        ("before_ms", "float64", "ms", "Elapsed time lost to it per run of the query, before."),
        ("after_ms", "float64", "ms", "The same after."),
        ("change_ms", "float64", "ms", "After less before."),
        ("work_growth", "float64", "", "The source's work per run, after over before; inf if new."),
        ("presence_growth", "float64", "", "Its work per time of the target, while both ran."),
        ("named", "bool", "", "Whether blame changed, and work or presence changed like it."),
    ),
)


def blame_change(
    before: ComparedRows,
    after: ComparedRows,
    of: tuple[ComparedRows, ComparedRows] | None = None,
) -> pd.DataFrame:
    """Return the change of lost time by query, resource and source.

    Parameters
    ----------
    before, after : ComparedRows
        What the work of the sources is summed from.
    of : tuple of (ComparedRows, ComparedRows), optional
        Rows with the tasks that blame is computed from; all by default.

    Returns
    -------
    DataFrame of :data:`BLAME_CHANGES`
        Largest change of a query first. Per run of the query: its instances in one run are
        averaged, then its runs. A query that ran on one side only has rows, too.
    """
    lost = [_lost_by_source(side) for side in of or (before, after)]
    keys = ["category", "resource", "kind", "source"]
    both = lost[0].merge(lost[1], on=keys, how="outer", suffixes=("_before", "_after"))
    was, now = (both[f"lost_ms_{when}"].fillna(0.0).to_numpy() for when in ("before", "after"))
    target, source = (both[name].to_numpy(np.int64) for name in ("category", "source"))
    resource = both["resource"].to_numpy(object)
    change = now - was
    is_query = both["kind"].to_numpy(object) == BlameKind.QUERY.value
    moved = (change != 0) & (source >= 0) & is_query
    sources = _Sources(before), _Sources(after)
    work_growth, presence_growth = np.full(len(both), np.nan), np.full(len(both), np.nan)
    for row in np.flatnonzero(moved).tolist():
        place = resource[row], int(source[row])
        work_growth[row] = _ratio(*(side.work(*place) for side in sources))
        presence_growth[row] = _ratio(
            *(side.presence(*place, int(target[row])) for side in sources)
        )
    with np.errstate(divide="ignore"):
        growth = np.sign(change)[:, None] * np.log(np.column_stack([work_growth, presence_growth]))
    named = moved & (np.fmax(growth[:, 0], growth[:, 1]) >= np.log(LEAST_GROWTH))
    frame = BLAME_CHANGES.frame(
        {
            "category": target,
            "resource": resource,
            "kind": both["kind"].to_numpy(object),
            "source": source,
            "before_ms": was,
            "after_ms": now,
            "change_ms": change,
            "work_growth": work_growth,
            "presence_growth": presence_growth,
            "named": named,
        }
    )
    order = np.lexsort((source, -np.abs(change), target))
    ordered: pd.DataFrame = frame.iloc[order].reset_index(drop=True)
    return ordered


def _lost_by_source(side: ComparedRows) -> pd.DataFrame:
    """Mean lost time of each category by resource, kind of blame and category of the source."""
    tables = side.tables
    blame = attribute(tables, side.waits, impact=ImpactModel.TIME_LOST)
    graph = build_graph(tables, blame)
    weight = side.weights()
    parts = []
    for resource in Resource:
        pairs = graph.who_hurts_whom(resource)
        target, source = (
            pairs[name].to_numpy(np.int64) for name in ("target_query", "source_query")
        )
        kind = pairs["kind"].to_numpy(object)
        own = (source == target) & (source >= 0)
        parts.append(
            pd.DataFrame(
                {
                    "category": side.category[target],
                    "resource": resource.value,
                    "kind": np.where(own, BlameKind.OWN.value, kind),
                    "source": np.where(
                        (source >= 0) & ~own, side.category[np.maximum(source, 0)], NONE
                    ),
                    "lost_ms": pairs["lost_ms"].to_numpy(np.float64) * weight[target],
                }
            )
        )
    every = pd.concat(parts, ignore_index=True)
    every = every[every["category"] >= 0]
    keys = ["category", "resource", "kind", "source"]
    summed: pd.DataFrame = every.groupby(keys, as_index=False)["lost_ms"].sum()
    return summed


class _Sources:
    """What queries of each category use, per run of a side and beside a target."""

    def __init__(self, side: ComparedRows) -> None:
        queries = side.tables.queries
        self.start, self.end = (queries[n].to_numpy(np.float64) for n in ("start_ms", "end_ms"))
        self.amounts = _amounts(side.tables, side.waits)
        self.weights = side.weights()
        self.runs = max(len(np.unique(side.run[side.run >= 0])), 1)
        order = np.argsort(side.category, kind="stable")
        categories, first = np.unique(side.category[order], return_index=True)
        self.rows = dict(zip(categories.tolist(), np.split(order, first[1:]), strict=True))

    def work(self, resource: str, source: int) -> float:
        """Work of a source per run of the side."""
        rows = self.rows.get(source, _NO_ROWS)
        return float(self.amounts[resource][rows].sum()) / self.runs

    def presence(self, resource: str, source: int, target: int) -> float:
        """Mean work of a source per ms of a target, as far as the two overlap."""
        ours, theirs = self.rows.get(target, _NO_ROWS), self.rows.get(source, _NO_ROWS)
        start, end = self.start, self.end
        both = np.minimum(end[ours][:, None], end[theirs]) - np.maximum(
            start[ours][:, None], start[theirs]
        )
        rate = share_of(self.amounts[resource][theirs], end[theirs] - start[theirs])
        used = (np.maximum(both, 0.0) * rate).sum(axis=1)
        return float((share_of(used, end[ours] - start[ours]) * self.weights[ours]).sum())


_NO_ROWS = np.zeros(0, np.int64)


def _amounts(tables: Tables, waits: pd.DataFrame) -> dict[str, Floats]:
    """Work of each query by resource: bytes, CPU time, or slot time, which others then lack."""
    tasks = tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    here = query >= 0

    def total(*values: Floats) -> Floats:
        each = sum((known_or_zero(value) for value in values), np.zeros(len(tasks)))
        return sum_by(query[here], each[here], len(tables.queries))

    def column(name: str) -> Floats:
        values: Floats = tasks[name].to_numpy(np.float64)
        return values

    held = total(waits["duration_ms"].to_numpy(np.float64))
    moved = total(
        *(column(name) for name in ("input_bytes", "output_bytes", "shuffle_write_bytes")),
        2.0 * known_or_zero(column("disk_spilled_bytes")),
    )
    return {
        Resource.SLOTS.value: held,
        Resource.EXECUTORS.value: held,
        Resource.CPU.value: total(waits["compute_ms"].to_numpy(np.float64)),
        Resource.MEMORY.value: held,
        Resource.NETWORK.value: total(column("remote_bytes")),
        Resource.IO.value: moved,
    }


def _ratio(before: float, after: float) -> float:
    if before > 0:
        return after / before
    return np.inf if after > 0 else np.nan
