"""Computes how lost time changed between two sides, and finds one cause for nearly all stages.

Both sides go through waits and blame (:func:`iqcar.causes.blame.attribute.attribute`); lost time is
that of iQC-Graph, so the rows of a query sum to the change of its lost time, `unattributed`
included. A slow host, or an environment in which all is slower, is seen in task time per byte:
nobody's data changed, and the same work takes longer on one host, or everywhere in the same part of
the tasks' time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.comparison.match import ComparedRows
from iqcar.enums import BlameKind, Resource
from iqcar.model.waits.columns import IN_TASK_REQUESTS, wait_column
from iqcar.tables import NONE, Tables, TableSpec, texts
from iqcar.tables.arrays import (
    Floats,
    Ints,
    known_or_zero,
    positive_or_zero,
    share_of,
    sum_by,
)
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
KEYS = ["category", "resource", "kind", "source"]
"""What a row of them is about."""


def blame_change(before: ComparedRows, after: ComparedRows) -> pd.DataFrame:
    """Return the change of lost time by query, resource and source.

    Returns ``BLAME_CHANGES``, the largest change of a query first. Per run of the query: its
    instances in one run are averaged, then its runs. A query that ran on one side only has rows,
    too.
    """
    lost = [_lost_by_source(side) for side in (before, after)]
    both = lost[0].merge(lost[1], on=KEYS, how="outer", suffixes=("_before", "_after"))
    was, now = (both[f"lost_ms_{when}"].fillna(0.0).to_numpy() for when in ("before", "after"))
    target, source = (both[name].to_numpy(np.int64) for name in ("category", "source"))
    resource = both["resource"].to_numpy(object)
    change = now - was
    is_query = both["kind"].to_numpy(object) == BlameKind.QUERY.value
    moved = (change != 0) & (source >= 0) & is_query
    sources = _Sources(before), _Sources(after)
    work, presence = np.full((2, len(both)), np.nan)
    for row in np.flatnonzero(moved).tolist():
        place = resource[row], int(source[row])
        work[row] = _ratio(*(side.work(*place) for side in sources))
        presence[row] = _ratio(*(side.presence(*place, int(target[row])) for side in sources))
    with np.errstate(divide="ignore"):
        grown = np.sign(change) * np.log([work, presence])
    named = moved & (np.fmax(*grown) >= np.log(LEAST_GROWTH))
    frame = BLAME_CHANGES.frame(
        {
            "category": target,
            "resource": resource,
            "kind": both["kind"].to_numpy(object),
            "source": source,
            "before_ms": was,
            "after_ms": now,
            "change_ms": change,
            "work_growth": work,
            "presence_growth": presence,
            "named": named,
        }
    )
    return frame.iloc[np.lexsort((source, -np.abs(change), target))].reset_index(drop=True)


def _lost_by_source(side: ComparedRows) -> pd.DataFrame:
    """Mean lost time of each category by resource, kind of blame and category of the source."""
    blame = attribute(side.tables, side.waits)
    graph = build_graph(side.tables, blame)
    weight, parts = side.weights(), []
    for resource in Resource:
        pairs = graph.who_hurts_whom(resource)
        target, source = (
            pairs[name].to_numpy(np.int64) for name in ("target_query", "source_query")
        )
        own = (source == target) & (source >= 0)
        part = {
            "category": side.category[target],
            "resource": resource.value,
            "kind": np.where(own, BlameKind.OWN.value, pairs["kind"].to_numpy(object)),
            "source": np.where((source >= 0) & ~own, side.category[source], NONE),
            "lost_ms": pairs["lost_ms"].to_numpy(np.float64) * weight[target],
        }
        parts.append(pd.DataFrame(part))
    every = pd.concat(parts, ignore_index=True)
    every = every[every["category"] >= 0]
    summed: pd.DataFrame = every.groupby(KEYS, as_index=False)["lost_ms"].sum()
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


SAME_WAY = 0.75
"""Share of the stages that must have changed in the same direction."""
LEAST_RATIO = 1.1
"""Least change of a part of task time per byte."""
LEAST_STAGES = 4
"""Stages below which "nearly all" means nothing."""
LEAST_PART = 0.05
"""Share of a stage's task time below which a part of it is not looked at."""
HOST_RATIO = 1.5
"""Least growth of a slow host's task time per byte over that of the others, while no other host's
grew by a third of it (of the logarithm)."""
EXPLAINED = 0.1
"""Share of the growth of lost time, knock-on effects included, from which queries that do more are
the cause, not the environment: where all disks are slower nobody does more."""

PART_RESOURCES: tuple[tuple[str, Resource | None], ...] = (
    ("compute_ms", None),
    ("gc_ms", None),
    *((wait_column(request), request.resource) for request in IN_TASK_REQUESTS),
)


class SharedCause(NamedTuple):
    """A cause of most changes."""

    cause: str
    """``host:NAME`` or ``environment:hosts``."""
    part: str
    """The part of task time that changed most, such as ``compute_ms``."""
    ratio: float
    """Median over stages: the part per byte, after over before."""


class PerByte(NamedTuple):
    """Task time per byte of stages on hosts, one row per stage category and host with tasks."""

    category: Ints
    host: Ints
    """Of shape (n,)."""
    names: list[str]
    """Names of the hosts."""
    parts: Floats
    """Of shape (n, n_parts), ms."""
    work: Floats
    """Of shape (n,), bytes."""


def per_byte(side: ComparedRows) -> PerByte:
    """Sum task time and bytes of each stage category on each host."""
    tasks, waits = side.tables.tasks, side.waits
    stage, host = (tasks[name].to_numpy(np.int64) for name in ("stage", "host"))
    category = np.append(side.stage_category, -1)[stage]
    here = np.flatnonzero((category >= 0) & (host >= 0))
    width = len(side.tables.hosts)
    keys, cell = np.unique(category[here] * width + host[here], return_inverse=True)
    read = sum(
        known_or_zero(tasks[name].to_numpy(np.float64)[here])
        for name in ("input_bytes", "remote_bytes", "local_bytes")
    )
    parts = [positive_or_zero(waits[name].to_numpy(np.float64)[here]) for name, _ in PART_RESOURCES]
    return PerByte(
        keys // max(width, 1),
        keys % max(width, 1),
        texts(side.tables.hosts, "host"),
        np.column_stack([sum_by(cell, part, len(keys)) for part in parts]),
        sum_by(cell, np.asarray(read, np.float64), len(keys)),
    )


def shared_cause(
    before: PerByte,
    after: PerByte,
    usable: Ints,
    blame: pd.DataFrame | None,
) -> SharedCause | None:
    """Return the one cause of nearly all changes, or None.

    ``usable``: stage categories on both sides with the same partitions. ``blame``:
    ``BLAME_CHANGES`` or None: where queries that do more explain the growth of a wait, the
    environment does not.
    """
    n = int(max(before.category.max(initial=-1), after.category.max(initial=-1))) + 1
    totals = [_by_category(side, n) for side in (before, after)]
    grown, of_time = _log_growth(totals, usable)
    if len(grown) < LEAST_STAGES:
        return None

    def explained(resource: Resource | None) -> bool:
        return resource is not None and _explained(blame, resource) >= EXPLAINED

    host = _slow_host(before, after, usable)
    best: SharedCause | None = None
    weight = 0.0
    for place, (part, resource) in enumerate(PART_RESOURCES):
        seen = grown[:, place]
        seen = seen[np.isfinite(seen)]
        if len(seen) < LEAST_STAGES:
            continue
        least = np.log(LEAST_RATIO)
        same = max((seen > least).mean(), (seen < -least).mean())
        time = float(np.abs(of_time[:, place]).sum())
        if same >= SAME_WAY and time > weight and not explained(resource):
            ratio = float(np.exp(np.median(seen)))
            best, weight = SharedCause("environment:hosts", part, ratio), time
    if host is not None:
        name, place, ratio = host
        part, resource = PART_RESOURCES[place]
        if not explained(resource):
            return SharedCause(f"host:{name}", part, ratio)
    return best


def _by_category(side: PerByte, n: int) -> tuple[Floats, Floats]:
    parts = np.column_stack(
        [sum_by(side.category, side.parts[:, p], n) for p in range(side.parts.shape[1])]
    )
    return parts, sum_by(side.category, side.work, n)


def _log_growth(totals: list[tuple[Floats, Floats]], usable: Ints) -> tuple[Floats, Floats]:
    """Log growth of parts per byte by usable category, NaN where small; and ms it stands for."""
    (parts0, work0), (parts1, work1) = totals
    usable = usable[usable < len(work0)]
    usable = usable[(work0[usable] > 0) & (work1[usable] > 0)]
    rate0 = parts0[usable] / work0[usable, None]
    rate1 = parts1[usable] / work1[usable, None]
    share = np.maximum(
        parts0[usable] / np.maximum(parts0[usable].sum(axis=1, keepdims=True), 1e-9),
        parts1[usable] / np.maximum(parts1[usable].sum(axis=1, keepdims=True), 1e-9),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.log(rate1 / rate0)
    grown = np.where((share >= LEAST_PART) & (rate0 > 0) & (rate1 > 0), grown, np.nan)
    return grown, (rate1 - rate0) * work1[usable, None]


def _slow_host(before: PerByte, after: PerByte, usable: Ints) -> tuple[str, int, float] | None:
    """Return the host that became slow beside the others, the part that did, and the ratio.

    Each host is compared with the others of its side, so no host need be on both. One that is on
    both is as slow as it became; one that is new is as slow as none was before.
    """
    was, now = (_beside_others(side, usable) for side in (before, after))
    if len(now) < 2:
        return None
    usual = max((slower for slower, _ in was.values()), default=0.0)
    grown = {name: slower - was.get(name, (usual, 0))[0] for name, (slower, _) in now.items()}
    worst = max(grown, key=lambda name: grown[name])
    others = max(value for name, value in grown.items() if name != worst)
    if grown[worst] < np.log(HOST_RATIO) or others >= grown[worst] / 3:
        return None
    return worst, now[worst][1], float(np.exp(grown[worst]))


def _beside_others(side: PerByte, usable: Ints) -> dict[str, tuple[float, int]]:
    """Compare task time per byte of stages on each host with that on the other hosts.

    Returns for each host with enough stages the logarithm of its time over the others', median over
    stages, and the part of the time in which it is largest.
    """
    here = np.flatnonzero((side.work > 0) & (side.parts.sum(axis=1) > 0))
    here = here[np.isin(side.category[here], usable)]
    category, host = side.category[here], side.host[here]
    parts, work = side.parts[here], side.work[here]
    n = int(category.max(initial=-1)) + 1
    of_all = np.column_stack([sum_by(category, part, n) for part in parts.T])
    of_others = of_all[category] - parts
    other_work = sum_by(category, work, n)[category] - work
    found: dict[str, tuple[float, int]] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = of_others * (work / other_work)[:, None]
        slower = np.log(parts.sum(axis=1) / expected.sum(axis=1))
    for number in np.unique(host).tolist():
        mine = np.flatnonzero((host == number) & np.isfinite(slower))
        if len(mine) >= LEAST_STAGES:
            more = (parts[mine] - expected[mine]).sum(axis=0)
            found[side.names[number]] = float(np.median(slower[mine])), int(np.argmax(more))
    return found


def _explained(blame: pd.DataFrame | None, resource: Resource) -> float:
    """Share of the change of lost time that queries explain whose work changed like it."""
    if blame is None or not len(blame):
        return 0.0
    rows = blame[(blame["resource"] == resource.value).to_numpy()]
    change = rows["change_ms"].to_numpy(np.float64)
    grown = float(change.sum())
    sign = 1.0 if grown >= 0 else -1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        more = sign * np.log(rows["work_growth"].to_numpy(np.float64)) >= np.log(LEAST_GROWTH)
    more &= rows["named"].to_numpy(bool) & (sign * change > 0)
    named = float(change[more].sum())
    return named / grown if grown else 0.0
