"""Divides one target's lost time among other queries, itself, known causes and unattributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_tables import BLAME_KINDS, KNOWN, OWN, QUERY, REST, UNATTRIBUTED
from iqcar.causes.blame.demand_weights import RESOURCES
from iqcar.enums import BlameKind
from iqcar.tables.arrays import Floats, Ints, sum_by

if TYPE_CHECKING:
    from iqcar.causes.graph.contents import Contents

COLUMNS = (
    "source_query_id",
    "source_name",
    "kind",
    "share",
    "dor",
    "lost_ms",
    "share_of_duration",
    "by_resource",
    "by_host",
    "idle_ms",
)
"""Columns of :func:`blame_of`, named as in the result's JSON."""

_CAUSE_NAMES = {
    OWN: "itself",
    KNOWN: "known causes",
    UNATTRIBUTED: "unattributed",
}


def blame_of(contents: Contents, query: int) -> pd.DataFrame:
    """:func:`blame_rows` as a frame; parameters, columns and errors are the same."""
    rows = blame_rows(contents, query)
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["source_query_id"] = pd.Series([r["source_query_id"] for r in rows], dtype=object)
    return frame


def blame_rows(contents: Contents, query: int) -> list[dict[str, Any]]:
    """Divide one target's lost time among its sources (eq. 4, summed over its tasks).

    One row per blamed query, and one each for ``own``, ``known``, ``unattributed`` and, where some
    queries are not named, ``rest``; largest share first. Keys: source_query_id (None for the last
    three kinds), source_name, kind, share (of the target's lost time; they sum to 1), dor (in the
    chosen impact model), lost_ms (elapsed), share_of_duration, by_resource and by_host (dicts of
    lost_ms, largest first), idle_ms (the part of lost_ms in which executors of the source had no
    tasks). A target that lost nothing has one ``unattributed`` row of share 1 and 0 ms. Raises
    ValueError if the graph was not built for that target.

    query: row of the target query.
    """
    target = contents.position_of(query)
    order, begin = contents.explanations_of_target
    at = order[begin[target] : begin[target + 1]]
    if len(at) == 0:
        return [_nothing_lost()]
    s, names = contents.structure, contents.names
    dor, lost = contents.dor.amount[4][at], contents.lost.amount[4][at]
    demand = s.towards[4][at]
    # One group per blamed query; own, known and unattributed are groups of their own.
    # A source stage without a known query cannot be named: its part is unattributed.
    by_query = contents.query_of_explanation[at]
    nameless = (s.kind[at] == QUERY) & (s.source_query[by_query] < 0)
    kinds = np.where(nameless, UNATTRIBUTED, s.kind[at])
    group = np.where(kinds == QUERY, by_query, -1 - kinds)
    groups, member = np.unique(group, return_inverse=True)
    every = np.concatenate([groups, [g for g in (-1 - OWN,) if g not in groups]]).astype(np.int64)
    size = len(every)
    idle_sum = sum_by(member, lost * contents.idle_share[s.explanation[at]], size)
    dor_sum = sum_by(member, dor, size)
    lost_sum = sum_by(member, lost, size)
    total = lost_sum.sum()
    resources = _split(member, contents.resource_of_demand[demand], lost, size)
    hosts = _split(member, s.host[demand], lost, size)
    causes = {**_CAUSE_NAMES, REST: contents.rest_name(query)}
    of_duration = contents.share_of_duration(lost_sum, np.full(size, target))
    rows: list[dict[str, Any]] = []
    for position, code in enumerate(every.tolist()):
        kind = QUERY if code >= 0 else -1 - code
        if kind == QUERY and lost_sum[position] == 0 and dor_sum[position] == 0:
            continue
        row = int(s.source_query[code]) if kind == QUERY else query
        rows.append(
            {
                "source_query_id": names.query_ids[row] if kind in (QUERY, OWN) else None,
                "source_name": names.query_names[row] if kind == QUERY else causes[kind],
                "kind": BLAME_KINDS[kind].value,
                "share": lost_sum[position] / total,
                "dor": dor_sum[position],
                "lost_ms": lost_sum[position],
                "share_of_duration": of_duration[position],
                "by_resource": {RESOURCES[c].value: ms for c, ms in resources[position]},
                "by_host": {names.host(h): ms for h, ms in hosts[position]},
                "idle_ms": idle_sum[position],
            }
        )
    rows.sort(key=lambda r: (-r["lost_ms"], -r["dor"], r["kind"], r["source_query_id"] or ""))
    return rows


def _nothing_lost() -> dict[str, Any]:
    return {
        "source_query_id": None,
        "source_name": _CAUSE_NAMES[UNATTRIBUTED],
        "kind": BlameKind.UNATTRIBUTED.value,
        "share": 1.0,
        "dor": 1.0,
        "lost_ms": 0.0,
        "share_of_duration": 0.0,
        "by_resource": {},
        "by_host": {},
        "idle_ms": 0.0,
    }


def _split(
    member: Ints, part: Ints, lost_ms: Floats, members: int
) -> list[list[tuple[int, float]]]:
    """Return lost time of each member by part (resource code or host row), largest first."""
    low = int(part.min())
    span = int(part.max()) - low + 1
    # Only pairs that occur: the full table has hosts × sources cells, for each target.
    keys, position = np.unique(member * span + part - low, return_inverse=True)
    sums = sum_by(position, lost_ms, len(keys))
    owner = keys // span
    order = np.lexsort((-sums, owner))
    order = order[sums[order] != 0]
    split: list[list[tuple[int, float]]] = [[] for _ in range(members)]
    parts = keys[order] % span + low
    for one, p, ms in zip(owner[order].tolist(), parts.tolist(), sums[order].tolist(), strict=True):
        split[one].append((p, ms))
    return split
