"""Finds queries that started because another one had ended, and lets a replay start them so.

A script, a notebook or one thread of a pool runs its queries one after another: each starts a
moment after the one before it ended, whenever that is. Event logs do not name threads; what tells
is that starts follow ends within a moment, of most queries, and more often than by chance.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from iqcar.replay.loop.loop_input import Steps
from iqcar.rules.recorded_setup import DEFAULT_POOL
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, most_at_once

MOMENT_MS = 1_000.0
"""Longest time from a query's end to the start of the next one of its thread: the driver parses and
plans meanwhile. A person, or a scheduler, takes longer."""
MOST_OF = 0.5
"""Share of the queries of a group that could have waited for another, from which they are taken to
have."""
BY_CHANCE = 0.01
"""Where queries overlapped: probability, if starts had nothing to do with ends, that as many follow
one as closely."""


def queries_in_turn(tables: Tables) -> Ints:
    """Return the query whose end each query waited for.

    Returns ndarray of shape (n_queries,), int64: row of the query; −1 where a query waited for
    none. No query is waited for twice.

    tables: ``queries`` and ``jobs`` are used.
    """
    queries = tables.queries
    begin, end = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    known = np.isfinite(begin + end) & queries["ended"].to_numpy(bool)
    follows = np.full(len(queries), NONE, np.int64)
    settled = np.zeros(len(queries), bool)
    for name_of in (_job_groups(tables), _pools(tables), {}):
        groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in np.flatnonzero(known & ~settled).tolist():
            if not name_of or name_of.get(row):
                groups[int(queries["app"].iloc[row]), name_of.get(row, "")].append(row)
        for members in groups.values():
            rows = np.array(members)
            found = _in_turn(begin[rows], end[rows])
            if (found >= 0).any():
                settled[rows] = True
                follows[rows] = np.where(found >= 0, rows[found], NONE)
    return follows


def _job_groups(tables: Tables) -> dict[int, str]:
    """Job group of each query's jobs: one thread sets it."""
    jobs = tables.jobs
    return dict(zip(jobs["query"].tolist(), texts(jobs, "job_group"), strict=True))


def _pools(tables: Tables) -> dict[int, str]:
    """Pool that each query asked for: it is a property of a thread."""
    pools = enumerate(texts(tables.queries, "pool"))
    return {row: pool for row, pool in pools if pool != DEFAULT_POOL}


def _in_turn(begin: Floats, end: Floats) -> Ints:
    """Position of the only query that ended a moment before each start; −1 if none, or several."""
    n = len(begin)
    follows = np.full(n, NONE, np.int64)
    if n < 2:
        return follows
    streams = max(
        round(float(most_at_once(np.zeros(n, np.int64), begin, end, np.ones(n), 1)[0])), 1
    )
    by_end = np.argsort(end, kind="stable")
    ends = end[by_end]
    followed = np.zeros(n, bool)
    for at in np.argsort(begin, kind="stable").tolist():
        first = int(np.searchsorted(ends, begin[at] - MOMENT_MS))
        last = int(np.searchsorted(ends, begin[at], side="right"))
        ended = by_end[first:last].tolist()
        before = [q for q in ended if not followed[q] and begin[q] < begin[at]]
        if len(before) == 1:
            follows[at] = before[0]
            followed[before[0]] = True
    waited = np.flatnonzero(follows >= 0)
    enough = len(waited) >= MOST_OF * max(n - streams, 1)
    if enough and streams > 1:
        gap = float((begin[waited] - end[follows[waited]]).max())
        at_any_time = 1.0 - math.exp(-n * gap / float(end.max() - begin.min()))
        enough = _at_least(len(waited), n, at_any_time) < BY_CHANCE
    return follows if enough else np.full(n, NONE, np.int64)


def _at_least(times: int, n: int, chance: float) -> float:
    """Probability that what happens with a chance each time happens so often in n times."""
    if not 0.0 < chance < 1.0:
        return float(chance >= 1.0 or times == 0)
    fewer = np.arange(times)
    ways = math.lgamma(n + 1) - np.array(
        [math.lgamma(k + 1) + math.lgamma(n - k + 1) for k in range(times)]
    )
    logs = ways + fewer * math.log(chance) + (n - fewer) * math.log1p(-chance)
    return 1.0 - float(np.exp(logs).sum())


def without_queries(follows: Ints, start_delay: Floats, gone: Iterable[int]) -> tuple[Ints, Floats]:
    """Let queries take the place of those that are gone.

    follows: (n,), int64; which query each one follows.
    start_delay: (n,), ms; when those start that follow none.
    gone: positions of queries
    """
    follows, start_delay, lost = follows.copy(), start_delay.copy(), set(gone)
    for at in range(len(follows)):
        before = int(follows[at])
        while before in lost:
            first, before = before, int(follows[before])
            start_delay[at] = start_delay[first]
        follows[at] = before
    return follows, start_delay


def chain_steps(steps: Steps, earlier: Ints, later: Ints, gap: Floats) -> Steps:
    """Let steps that follow nothing follow others, ``gap`` ms after them.

    earlier, later: (n,), int64.
    gap: (n,), ms.
    """
    order = np.argsort(earlier, kind="stable")
    earlier, later, gap = earlier[order], later[order], gap[order]
    missing, delay = steps.missing.copy(), steps.delay.copy()
    missing[later] += 1
    delay[later] = gap
    start = steps.follower_start.copy()
    follower = np.insert(steps.follower, start[earlier + 1], later)
    start[1:] += np.cumsum(np.bincount(earlier, minlength=len(delay)))
    return steps._replace(missing=missing, delay=delay, follower_start=start, follower=follower)
