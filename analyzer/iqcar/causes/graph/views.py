"""Computes rankings from the graph: aggressive queries, hot resources, slow nodes, source × target.

Frames have both the paper's measure (DOR, or Σ IF) and elapsed lost time in ms, because DOR sums to
1 per target even where little time was lost. Rankings are sorted by lost time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.demand_weights import (
    BLAME_KINDS,
    FOLDED,
    KNOWN,
    OWN,
    QUERY,
    RESOURCES,
    REST,
    UNATTRIBUTED,
)
from iqcar.causes.graph.contents import (
    ByTarget,
    Contents,
    rows_or_none,
    sum_pairs,
    vertex_frame,
    vertex_labels,
)
from iqcar.enums import REQUESTS, BlameKind, Request, Resource
from iqcar.tables import NONE
from iqcar.tables.arrays import Floats, Ints, sum_by

_THROTTLED = REQUESTS.index(Request.THROTTLED)
_HOST_BOUND = np.array([not r.before_launch for r in REQUESTS], bool)


def who_hurts_whom(contents: Contents, resource: Resource | None = None) -> pd.DataFrame:
    """Return one row per source query (or cause) and target that a path connects.

    Where some sources are not named (`iqcar.diagnose(all_sources=...)`), each target has one row of
    the kind ``rest`` that sums them.

    source_query, source_query_id, source_name, kind, target_query, target_query_id, target_name,
    dor, lost_ms, share_of_duration; largest lost time first.

    resource: count only time lost to this resource.
    """
    known = contents.hurts
    if resource not in known:
        known[resource] = _hurts(contents, resource)
    return known[resource].copy()


def _hurts(contents: Contents, resource: Resource | None) -> pd.DataFrame:
    s = contents.structure
    pairs = contents.by_query
    if resource is not None:
        of_demand = contents.resource_of_demand == RESOURCES.index(resource)
        at = np.flatnonzero(of_demand[s.towards[4]])
        pairs = _sum_queries(contents, at)
    frame = _name_sources(contents, pairs.source, pairs.target)
    frame["dor"], frame["lost_ms"] = pairs.dor, pairs.lost_ms
    frame["share_of_duration"] = contents.share_of_duration(pairs.lost_ms, pairs.target)
    return _ordered(frame, ["lost_ms", "dor"], ["source_query", "target_query"])


def matrix(
    contents: Contents, value: str = "lost_ms", resource: Resource | None = None
) -> pd.DataFrame:
    """Return :func:`who_hurts_whom` as a matrix of source ids (or causes) × target ids.

    Pairs without a path are 0. Raises ValueError if ``value`` is not dor, lost_ms or
    share_of_duration.
    """
    if value not in ("dor", "lost_ms", "share_of_duration"):
        raise ValueError(f"no measure is called {value!r}: dor, lost_ms or share_of_duration")
    frame = who_hurts_whom(contents, resource)
    cause = frame["source_query_id"].where(frame["source_query"] >= 0, frame["kind"])
    return (
        frame.assign(source=cause)
        .pivot_table(index="source", columns="target_query_id", values=value, aggfunc="sum")
        .fillna(0.0)
    )


def lost(contents: Contents) -> Floats:
    """Return the elapsed time lost: ndarray of shape (n_queries,), ms; 0 if no target."""
    targets = contents.structure.targets
    return sum_by(targets, contents.lost.amount[0], len(contents.names.queries))


def lost_to_others(contents: Contents) -> Floats:
    """Return the elapsed time lost to other queries, named or in the rest.

    Shape (n_queries,), ms. 0 if the query is no target.
    """
    s, pairs = contents.structure, contents.by_query
    target = s.targets[pairs.target]
    source = s.source_query[pairs.source]
    others = (source >= 0) & (source != target)
    if BlameKind.REST.value in s.shared and len(s.source_query):
        others |= pairs.source == len(s.source_query) - len(s.shared)
    size = len(contents.names.queries)
    return sum_by(target[others], pairs.lost_ms[others], size)


def aggressive_queries(contents: Contents, k: int | None = None) -> pd.DataFrame:
    """Return source queries with the highest impact on others, REST rows included (iQCAR §6.2.2).

    query (row), query_id, name, fingerprint, dor (sum over the other queries), lost_ms (elapsed
    time other queries lost to it), victims (other queries that lost time to it), worst_victim (row
    of the one that lost most), resource (with the largest lost time).
    """
    s, names = contents.structure, contents.names
    pairs, folded = contents.by_query, contents.folded
    size = len(names.queries)
    source, target = s.source_query[pairs.source], s.targets[pairs.target]
    to_others = (source >= 0) & (source != target) & ((pairs.lost_ms > 0) | (pairs.dor > 0))
    source, target = source[to_others], target[to_others]
    dor, lost = pairs.dor[to_others], pairs.lost_ms[to_others]
    by_loss = np.lexsort((dor, lost))
    worst, worst_lost = np.full(size, NONE, np.int64), np.zeros(size)
    worst[source[by_loss]], worst_lost[source[by_loss]] = target[by_loss], lost[by_loss]
    victims, by_resource = np.bincount(source, minlength=size), _lost_by_resource(contents)
    dor, lost = sum_by(source, dor, size), sum_by(source, lost, size)
    if len(folded):
        hidden = {name: folded[name].to_numpy() for name in FOLDED.column_names()}
        worse = (hidden["worst_victim"] >= 0) & (
            (worst < 0) | (hidden["worst_lost_ms"] > worst_lost)
        )
        worst = np.where(worse, hidden["worst_victim"], worst)
        dor, lost = dor + hidden["dor"], lost + hidden["lost_ms"]
        victims = victims + hidden["victims"]
        by_resource += np.stack([hidden[f"{r}_lost_ms"] for r in RESOURCES], axis=1)
    rows = np.flatnonzero(victims)
    main = [RESOURCES[code].value for code in by_resource[rows].argmax(axis=1)]
    frame = pd.DataFrame(
        {
            "query": rows,
            "query_id": pd.Series([names.query_ids[r] for r in rows], dtype=object),
            "name": pd.Series([names.query_names[r] for r in rows], dtype=object),
            "fingerprint": names.queries["fingerprint"].iloc[rows].astype(object).to_numpy(),
            "dor": dor[rows],
            "lost_ms": lost[rows],
            "victims": victims[rows],
            "worst_victim": worst[rows],
            "resource": pd.Series(main, dtype=object),
        }
    )
    ordered = _ordered(frame, ["lost_ms", "dor"], ["query"])
    return ordered if k is None else ordered.iloc[: max(k, 0)]


def hot_resources(contents: Contents) -> pd.DataFrame:
    """Return the total outgoing impact of each resource on all targets (iQCAR §6.2.3).

    resource, impact (Σ IF of its level-2 vertices), dor (sum over targets), lost_ms, share (of all
    targets' lost time), targets (targets that lost time to it).
    """
    s = contents.structure
    size = len(RESOURCES)
    code = s.resource
    lost = contents.lost.amount[2]
    hit = sum_pairs(
        code, s.target[2], size, targets=len(s.targets), dor=contents.dor.amount[2], lost_ms=lost
    )
    lost_ms = sum_by(code, lost, size)
    frame = pd.DataFrame(
        {
            "resource": pd.Series([r.value for r in RESOURCES], dtype=object),
            "impact": sum_by(code, contents.dor.impact_factor[2], size),
            "dor": sum_by(code, contents.dor.amount[2], size),
            "lost_ms": lost_ms,
            "share": _shares(lost_ms),
            "targets": np.bincount(hit.source[hit.lost_ms > 0], minlength=size),
        }
    )
    frame = frame[np.bincount(code, minlength=size) > 0]
    return _ordered(frame, ["lost_ms"], ["resource"])


def slow_nodes(contents: Contents) -> pd.DataFrame:
    """Return the total outgoing impact of each host on all targets (iQCAR §6.2.3).

    As in the paper, a wait for a slot belongs to the host on which the task finally ran, although a
    slot on any host of the application could have ended it; the same holds for executors.
    ``slots_lost_ms`` is the sum of these waits' losses; hosts are sorted by the other losses.
    host, impact (Σ IF of its level-3 vertices), dor, lost_ms, share (of all targets' lost time),
    slots_lost_ms (the part of lost_ms lost to waits for slots and executors), resource (with the
    largest lost time there).
    """
    s = contents.structure
    hosts = len(contents.names.hosts)
    slot = np.where(s.host >= 0, s.host, hosts)
    size = hosts + 1
    lost = contents.lost.amount[3]
    slots_lost = sum_by(slot, np.where(_HOST_BOUND[s.request], 0.0, lost), size)
    lost_ms = sum_by(slot, lost, size)
    cells = slot * len(RESOURCES) + contents.resource_of_demand
    by_resource = sum_by(cells, lost, size * len(RESOURCES))
    main = by_resource.reshape(size, len(RESOURCES)).argmax(axis=1)
    at = np.flatnonzero(np.bincount(slot, minlength=size))
    host_rows = [int(row) if row < hosts else NONE for row in at]
    frame = pd.DataFrame(
        {
            "host": pd.Series([contents.names.host(row) for row in host_rows], dtype=object),
            "impact": sum_by(slot, contents.dor.impact_factor[3], size)[at],
            "dor": sum_by(slot, contents.dor.amount[3], size)[at],
            "lost_ms": lost_ms[at],
            "share": _shares(lost_ms)[at],
            "slots_lost_ms": np.minimum(slots_lost, lost_ms)[at],
            "resource": pd.Series([RESOURCES[c].value for c in main[at]], dtype=object),
        }
    )
    frame["bound"] = frame["lost_ms"] - frame["slots_lost_ms"]
    return _ordered(frame, ["bound", "lost_ms"], ["host"]).drop(columns="bound")


def dor_by_target(contents: Contents, level: int = 6) -> pd.DataFrame:
    """Return DOR and lost time of each source at level 5 or 6 for each target it reaches.

    source (position at the level), source_id, source_stage and source_query (rows), kind (own where
    the source belongs to that target), target_query (row), dor, lost_ms. Raises ValueError if
    ``level`` is not 5 or 6: below, a vertex belongs to one target.
    """
    if level not in (5, 6):
        raise ValueError(f"only levels 5 and 6 keep DOR by target, not level {level}")
    pairs = contents.by_stage if level == 5 else contents.by_query
    vertices = vertex_frame(contents, level)
    target = contents.structure.targets[pairs.target]
    source_query = vertices["source_query"].to_numpy()[pairs.source]
    kind = vertices["kind"].to_numpy(object)[pairs.source]
    kind = np.where(np.isin(kind, contents.structure.shared), kind, BlameKind.QUERY.value)
    own = (source_query >= 0) & (source_query == target)
    return pd.DataFrame(
        {
            "source": pairs.source,
            "source_id": vertices["id"].to_numpy(object)[pairs.source],
            "source_stage": vertices["source_stage"].to_numpy()[pairs.source],
            "source_query": source_query,
            "kind": pd.Series(np.where(own, BlameKind.OWN.value, kind), dtype=object),
            "target_query": target,
            "dor": pairs.dor,
            "lost_ms": pairs.lost_ms,
        }
    )


def _sum_queries(contents: Contents, explanations: Ints) -> ByTarget:
    """Sum blame explanations per source query and target."""
    s = contents.structure
    return sum_pairs(
        contents.query_of_explanation[explanations], s.target[4][explanations], len(s.source_query),
        targets=len(s.targets), dor=contents.dor.amount[4][explanations],
        lost_ms=contents.lost.amount[4][explanations],
    )  # fmt: skip


def _name_sources(contents: Contents, source: Ints, target: Ints) -> pd.DataFrame:
    s, names = contents.structure, contents.names
    rows = rows_or_none(s.source_query, source)
    target_rows = s.targets[target]
    every = np.arange(len(s.source_query), dtype=np.int64)
    labels = np.array(vertex_labels(contents, 6, every), object)
    kinds = np.full(len(every), BlameKind.QUERY.value, object)
    if len(every):
        kinds[-len(s.shared) :] = s.shared
    kind = np.where(rows == target_rows, BlameKind.OWN.value, kinds[source])
    ids = np.array([names.query_ids[r] if r >= 0 else "" for r in s.source_query], object)
    target_ids = np.array([names.query_ids[r] for r in s.targets], object)
    target_names = np.array([names.query_names[r] for r in s.targets], object)
    return pd.DataFrame(
        {
            "source_query": rows,
            "source_query_id": pd.Series(ids[source], dtype=object),
            "source_name": pd.Series(labels[source], dtype=object),
            "kind": pd.Series(kind, dtype=object),
            "target_query": target_rows,
            "target_query_id": pd.Series(target_ids[target], dtype=object),
            "target_name": pd.Series(target_names[target], dtype=object),
        }
    )


def _lost_by_resource(contents: Contents) -> Floats:
    """Return the time others lost to each source: ndarray of shape (n_queries, n_resources)."""
    s, size = contents.structure, len(contents.names.queries)
    source = s.source_query[contents.query_of_explanation]
    others = (source >= 0) & (s.kind != OWN)
    code = contents.resource_of_demand[s.towards[4][others]]
    cells = source[others] * len(RESOURCES) + code
    lost = contents.lost.amount[4][others]
    return sum_by(cells, lost, size * len(RESOURCES)).reshape(size, len(RESOURCES))


def _shares(lost_ms: Floats) -> Floats:
    total = lost_ms.sum()
    return lost_ms / total if total > 0 else np.zeros(len(lost_ms))


def _ordered(frame: pd.DataFrame, largest: list[str], then: list[str]) -> pd.DataFrame:
    ascending = [False] * len(largest) + [True] * len(then)
    return frame.sort_values(largest + then, ascending=ascending, ignore_index=True)


COLUMNS = (
    "source_query_id", "source_name", "kind", "share", "dor", "lost_ms", "share_of_duration",
    "by_resource", "by_host", "idle_ms", "limited_ms",
)  # fmt: skip
"""Columns of :func:`blame_of`, named as in the result's JSON."""

_CAUSE_NAMES = {OWN: "itself", KNOWN: "known causes", UNATTRIBUTED: "unattributed"}


def blame_of(contents: Contents, target: int) -> pd.DataFrame:
    """:func:`blame_rows` as a frame; parameters, columns and errors are the same."""
    rows = blame_rows(contents, target)
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["source_query_id"] = pd.Series([r["source_query_id"] for r in rows], dtype=object)
    return frame


def blame_rows(contents: Contents, target: int) -> list[dict[str, Any]]:
    """Divide one target's lost time among its sources (eq. 4, summed over its tasks).

    One row per blamed query, and one each for ``own``, ``known``, ``unattributed`` and, where some
    queries are not named, ``rest``; largest share first. Keys: source_query_id (None for the last
    three kinds), source_name, kind, share (of the target's lost time; they sum to 1), dor, lost_ms
    (elapsed), share_of_duration, by_resource and by_host (dicts of lost_ms, largest first), idle_ms
    (the part of lost_ms in which executors of the source had no tasks), limited_ms (in which a CPU
    limit stopped the target). A target that lost nothing has one ``unattributed`` row of share 1
    and 0 ms. Raises ValueError if the graph was not built for that target.

    target: row of the target query.
    """
    place, (order, begin) = contents.position_of(target), contents.explanations_of_target
    at = order[begin[place] : begin[place + 1]]
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
    limited_sum = sum_by(member, lost * (s.request[demand] == _THROTTLED), size)
    dor_sum = sum_by(member, dor, size)
    lost_sum = sum_by(member, lost, size)
    total = lost_sum.sum()
    resources = _split(member, contents.resource_of_demand[demand], lost, size)
    hosts = _split(member, s.host[demand], lost, size)
    causes = {**_CAUSE_NAMES, REST: contents.rest_name(target)}
    of_duration = contents.share_of_duration(lost_sum, np.full(size, place))
    rows: list[dict[str, Any]] = []
    for position, code in enumerate(every.tolist()):
        kind = QUERY if code >= 0 else -1 - code
        if kind == QUERY and lost_sum[position] == 0 and dor_sum[position] == 0:
            continue
        row = int(s.source_query[code]) if kind == QUERY else target
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
                "limited_ms": limited_sum[position],
            }
        )
    rows.sort(key=lambda r: (-r["lost_ms"], -r["dor"], r["kind"], r["source_query_id"] or ""))
    return rows


def _nothing_lost() -> dict[str, Any]:
    return {
        "source_query_id": None, "source_name": _CAUSE_NAMES[UNATTRIBUTED], "share": 1.0,
        "kind": BlameKind.UNATTRIBUTED.value, "dor": 1.0, "lost_ms": 0.0, "share_of_duration": 0.0,
        "by_resource": {}, "by_host": {}, "idle_ms": 0.0, "limited_ms": 0.0,
    }  # fmt: skip


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
