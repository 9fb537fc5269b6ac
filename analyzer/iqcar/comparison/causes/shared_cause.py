"""Finds one cause for nearly all stages: a slow host, or an environment in which all is slower.

Both are seen in task time per byte: nobody's data changed, and the same work takes longer on one
host, or everywhere in the same part of the tasks' time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.causes.blame_change import LEAST_GROWTH
from iqcar.comparison.match.compared_rows import ComparedRows
from iqcar.enums import Resource
from iqcar.model.waits.columns import IN_TASK_REQUESTS, wait_column
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, Ints, known_or_zero, positive_or_zero, sum_by

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
    blame: Callable[[], pd.DataFrame | None],
) -> SharedCause | None:
    """Return the one cause of nearly all changes, or None.

    ``usable``: stage categories on both sides with the same partitions. ``blame``: returns
    ``BLAME_CHANGES`` or None. Where queries that do more explain the growth of a wait, the
    environment does not; asked for only if it matters.
    """
    n = int(max(before.category.max(initial=-1), after.category.max(initial=-1))) + 1
    totals = [_by_category(side, n) for side in (before, after)]
    grown, of_time = _log_growth(totals, usable)
    if len(grown) < LEAST_STAGES:
        return None

    def explained(resource: Resource | None) -> bool:
        return resource is not None and _explained(blame(), resource) >= EXPLAINED

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
