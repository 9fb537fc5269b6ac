"""Divides waits for storage memory among the queries whose cached blocks filled it meanwhile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_sources import BlameShares, SweepInput
from iqcar.causes.blame.blame_tables import QUERY
from iqcar.causes.blame.ratp import Loss
from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.causes.blame.task_intervals import Pieces
from iqcar.enums import REQUESTS, Request
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats, Ints, distinct, most_at_once, schedule, share_of

LEAST_HELD = 1e-3
"""Part of the most bytes held in an executor at one time: with less, something else fills it."""


def cached_shares(pieces: Pieces, loss: Loss, group: Ints, n_groups: int) -> BlameShares:
    """Share out waits for storage memory.

    All blocks in an executor's memory share in a wait there, at each moment in proportion to their
    bytes, those of the waiting query too. A wait at a time for which the log tells of no block, or
    of less than :data:`LEAST_HELD`, and the part of blocks whose query is not known, are left
    unattributed (eq. 4).

    The clock of an executor advances by ``dt / H(t)``, H being the bytes held in it, and stands
    still where none are told of: the integral of a source's bytes over it is its share of time.

    loss: to storage memory.
    group: (n_tasks,) group that each task belongs to as a target; n_groups of them.
    """
    cached = pieces.columns.tables.cached
    executor, stage = (cached[name].to_numpy(np.int64) for name in ("executor", "stage"))
    since, until, size = (
        np.array(cached[name], np.float64) for name in ("since_ms", "until_ms", "bytes")
    )
    domain, begin, end = pieces.executor, np.array(pieces.launch), np.array(pieces.finish)
    waits = pieces.of_task((loss.lost > 0) & (pieces.columns.stage >= 0)) & (pieces.span > 0)
    kept, share = np.zeros(len(size), bool), np.zeros(len(size))
    for one in np.intersect1d(domain[waits], executor).tolist():
        held, there = np.flatnonzero(executor == one), np.flatnonzero(waits & (domain == one))
        edges, clock, most = _clock(since[held], until[held], size[held])
        since[held], until[held] = (np.interp(t[held], edges, clock) for t in (since, until))
        begin[there], end[there] = (np.interp(t[there], edges, clock) for t in (begin, end))
        kept[held], share[held] = True, size[held] / most
        waits[there] = end[there] > begin[there]
    target, source = np.flatnonzero(waits & np.isin(domain, executor)), np.flatnonzero(kept)
    none = np.zeros(len(source))
    weights = tuple(
        np.append((pieces.of_task(each) * pieces.emphasis(loss.request))[target], none)
        for each in (share_of(loss.slowdown, loss.span), share_of(loss.lost, loss.span))
    )
    sweep = SweepInput.from_tasks(
        schedule(
            np.append(domain[target], executor[source]),
            (np.append(begin[target], since[source]), TARGET_STARTS | SOURCE_STARTS),
            (np.append(end[target], until[source]), TARGET_ENDS | SOURCE_ENDS),
        ),
        (
            np.append(np.zeros(len(target)), share[source]),
            np.append(np.full(len(target), NONE), stage[source]),
            (weights[0], weights[1]),
            np.append(pieces.of_task(group)[target], np.zeros(len(source), np.int64)),
        ),
        one_domain=False,
    )
    nobody = np.zeros(n_groups)
    return BlameShares(sweep, nobody, nobody, raw=np.zeros(len(loss.lost)), room=loss.slowdown)


def _clock(since: Floats, until: Floats, size: Floats) -> tuple[Floats, Floats, float]:
    """Return times, the clock at each, and the most bytes held at one time, which it is scaled by.

    The clock runs at 1 where the most is held, faster where less is, and not at all where nothing.
    """
    edges = np.unique(np.concatenate([since, until]))
    change, count = np.zeros(len(edges)), np.zeros(len(edges), np.int64)
    for times, sign in ((since, 1), (until, -1)):
        place = np.searchsorted(edges, times)
        np.add.at(change, place, sign * size)
        np.add.at(count, place, sign)
    held = np.where(np.cumsum(count) > 0, np.cumsum(change), 0.0)[:-1]
    most = float(held.max())
    held = np.where(held > 0, np.maximum(held, LEAST_HELD * most), 0.0)
    passed = np.cumsum(np.diff(edges) * share_of(np.full(len(held), most), held))
    return edges, np.append(0.0, passed), most


Pair = tuple[int, int]
"""Rows of a target query and of a source query."""


class CachedData(NamedTuple):
    """Cached data of a query: its name, and the most bytes at one time in all executors."""

    name: str
    bytes: float


def cached_by_query(tables: Tables) -> dict[int, list[CachedData]]:
    """Return what each query had cached, the largest first, by the row of the query."""
    query = tables.stages["query"].to_numpy(np.int64)
    cached = tables.cached[(tables.cached["stage"] >= 0).to_numpy()]
    owner = query[cached["stage"].to_numpy(np.int64)]
    cached, owner = cached[owner >= 0], owner[owner >= 0]
    if not len(cached):
        return {}
    key = pd.factorize(pd.MultiIndex.from_arrays([owner, cached["app"], cached["rdd"]]))[0]
    codes, group = distinct(key.astype(np.int64))
    first = np.unique(group, return_index=True)[1]
    since, until, size = (
        cached[name].to_numpy(np.float64) for name in ("since_ms", "until_ms", "bytes")
    )
    most = most_at_once(group, since, until, size, len(codes))
    found: dict[int, list[CachedData]] = {}
    for at in np.argsort(-most, kind="stable").tolist():
        name = str(cached["name"].iloc[first[at]])
        found.setdefault(int(owner[first[at]]), []).append(CachedData(name, float(most[at])))
    return found


def held_from(demands: pd.DataFrame, sources: pd.DataFrame, stages: pd.DataFrame) -> set[Pair]:
    """Return who waited for storage memory that whose blocks filled: rows of both queries.

    demands, sources: frames of `DEMANDS` and of `SOURCES`.
    """
    storage = (demands["request"] == REQUESTS.index(Request.STORAGE_MEMORY)).to_numpy()
    demand, stage = (sources[name].to_numpy(np.int64) for name in ("demand", "source_stage"))
    kept = storage[demand] & (sources["kind"] == QUERY).to_numpy() & (stage >= 0)
    victim = demands["query"].to_numpy(np.int64)[demand[kept]]
    source = stages["query"].to_numpy(np.int64)[stage[kept]]
    return set(zip(victim.tolist(), source.tolist(), strict=True))
