"""Computes blame by removal: the Shapley value of each query in another's duration, by replay.

The value of a set of sources is the target's duration when only these are there. A source's Shapley
value is what it adds on average over all orders in which sources may come; the values sum to what
contention cost (Shapley 1953). Leaving one out at a time adds up to more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.errors import UsageError
from iqcar.replay.whatif.edit import remove
from iqcar.replay.whatif.model import REFUSED, Model
from iqcar.replay.whatif.outcome import replay_scenario
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, Ints

EXACT = 6
"""Sources up to which all sets are replayed."""
ORDERS = 24
"""Orders that are drawn of more sources, each with its reverse."""
MOST_SOURCES = 24
"""Sources that are told apart: those that cost most by attribution, then those that ran longest
beside the target. The others stay where they are."""
MOST_STEPS = 200_000_000
"""Replays × tasks above which fewer orders are drawn."""
DISAGREE = 0.05
"""Difference of the two blames, as a share of the duration, from which they disagree."""
SEED = 7


@dataclass(frozen=True)
class RemovalBlame:
    """Who made a query wait, by replay.

    target: Name of the query.
    duration_ms: Replayed duration with everybody there; of several runs their sum.
    alone_ms: The same without any of the sources.
    sources: ``query_id``, ``name``, ``shapley_ms``, ``without_ms`` (gain of removing it alone),
        ``attributed_ms`` (fast attribution), ``disagrees``; the largest Shapley value first.
        ``shapley_ms`` sums to ``duration_ms − alone_ms``.
    exact: Whether all sets were replayed.
    """

    target: str
    duration_ms: float
    alone_ms: float
    sources: pd.DataFrame
    exact: bool
    doubts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON (``iqcar schema whatif``)."""
        return {
            "target": self.target,
            "duration_ms": self.duration_ms,
            "alone_ms": self.alone_ms,
            "sources": self.sources.to_dict("records"),
            "exact": self.exact,
            "doubts": list(self.doubts),
        }


def blame_by_removal(
    model: Model,
    target: Sequence[int],
    attributed_ms: Mapping[int, float],
    progress: Callable[[int, int], None] | None = None,
) -> RemovalBlame:
    """Compute the Shapley value of every source in the duration of a query.

    Raises UsageError if the query did not end, or the replay does not reproduce it.

    target: Rows of the query's runs.
    attributed_ms: Time that the fast attribution says it lost to each other query.
    progress: Called with the replays done and the replays in all, after each.
    """
    queries = model.scenario.tables.queries
    rows = np.array(target, np.int64)
    name = texts(queries, "name")[rows[0]] if len(rows) else ""
    rows = rows[np.isfinite(model.recorded_ms[rows])]
    if len(rows) == 0:
        raise UsageError(f"{name!r} did not end", "--blame", "choose a query that did")
    off = np.abs(model.error[rows])
    if np.isnan(off).all():
        raise UsageError(f"{name!r} ran no tasks", "--blame", "choose a query that did")
    if not (off <= REFUSED).any():
        raise UsageError(
            f"the replay of {name!r} as it was is off by {percent(float(np.nanmin(off)))}",
            "--blame", "use `iqcar blame`, which replays nothing",
        )  # fmt: skip
    rows = rows[off <= REFUSED]
    sources, left = _sources(model, rows, attributed_ms)
    game = _Game(model, rows, sources)
    n = len(sources)
    exact = n <= EXACT
    if exact:
        values = _exact(game, n, progress)
    else:
        tasks = len(model.scenario.work.step)
        orders = int(np.clip(MOST_STEPS // (max(tasks, 1) * n), 2, ORDERS))
        values = _sampled(game, n, orders + orders % 2, progress)
    everybody = frozenset(range(n))
    whole = game.value(everybody)
    without = np.array([whole - game.value(everybody - {k}) for k in range(n)])
    fast = np.array([attributed_ms.get(int(row), 0.0) for row in sources])
    frame = pd.DataFrame(
        {
            "query_id": [texts(queries, "query_id")[row] for row in sources],
            "name": [texts(queries, "name")[row] for row in sources],
            "shapley_ms": values,
            "without_ms": without,
            "attributed_ms": fast,
            "disagrees": np.abs(values - fast) > DISAGREE * whole,
        }
    ).sort_values("shapley_ms", ascending=False, kind="stable", ignore_index=True)
    doubts = []
    if left:
        doubts.append(
            f"{left} more queries ran beside it; those that cost least stay where they are"
        )
    if not exact:
        doubts.append("orders of sources are sampled: small values are within the error of that")
    return RemovalBlame(
        target=name, duration_ms=whole, alone_ms=game.value(frozenset()), sources=frame,
        exact=exact, doubts=tuple(doubts),
    )  # fmt: skip


def _sources(model: Model, rows: Ints, attributed_ms: Mapping[int, float]) -> tuple[Ints, int]:
    """Queries that ran beside the target, those that cost most first; and how many are left out."""
    base = model.base(model.members[0])
    start, end = base.start_ms, base.end_ms
    n = len(start)
    beside = np.zeros(n)
    for row in rows:
        beside += np.maximum(np.minimum(end, end[row]) - np.maximum(start, start[row]), 0.0)
    beside = np.nan_to_num(beside)
    beside[rows] = 0.0
    fast = np.array([attributed_ms.get(row, 0.0) for row in range(n)])
    found = np.flatnonzero(beside > 0)
    order = found[np.lexsort((-beside[found], -fast[found]))]
    return order[:MOST_SOURCES], max(len(order) - MOST_SOURCES, 0)


class _Game:
    """Durations of the target with sets of sources, each replayed once."""

    def __init__(self, model: Model, rows: Ints, sources: Ints) -> None:
        self.model, self.rows, self.sources = model, rows, sources
        self.known: dict[frozenset[int], float] = {}

    def value(self, present: frozenset[int]) -> float:
        """Duration of the target's runs when only these sources are there."""
        if present not in self.known:
            gone = [int(row) for k, row in enumerate(self.sources) if k not in present]
            if gone:
                member = self.model.members[0]
                done = replay_scenario(remove(self.model.scenario, gone), member)
            else:
                done = self.model.base(self.model.members[0])
            self.known[present] = float(done.duration_ms[self.rows].sum())
        return self.known[present]


def _exact(game: _Game, n: int, progress: Callable[[int, int], None] | None) -> Floats:
    values = np.zeros(n)
    done, total = 0, 2**n
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            present = frozenset(chosen)
            value = game.value(present)
            for k in range(n):
                if k in present:
                    values[k] += value / (n * comb(n - 1, size - 1))
                else:
                    values[k] -= value / (n * comb(n - 1, size))
            done += 1
            if progress is not None:
                progress(done, total)
    return values


def _sampled(
    game: _Game, n: int, orders: int, progress: Callable[[int, int], None] | None
) -> Floats:
    """Average over drawn orders and their reverses: what comes early in one comes late in it."""
    rng = np.random.default_rng(SEED)
    values = np.zeros(n)
    done = 0
    for _ in range(orders // 2):
        drawn = rng.permutation(n)
        for order in (drawn, drawn[::-1]):
            present: frozenset[int] = frozenset()
            before = game.value(present)
            for k in order.tolist():
                present |= {k}
                after = game.value(present)
                values[k] += (after - before) / orders
                before = after
            done += 1
            if progress is not None:
                progress(done, orders)
    return values
