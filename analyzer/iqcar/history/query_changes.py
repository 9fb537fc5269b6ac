"""Finds when recurring queries became slower or faster for good, and what else changed then."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.errors import IqcarError
from iqcar.history.ask_store import find_fingerprint, runs_of
from iqcar.history.change_points import ALPHA, LEAST, change_points
from iqcar.history.change_reasons import change_reasons
from iqcar.history.store_views import StoreView, view_of
from iqcar.history.stored_files import Store
from iqcar.tables import texts
from iqcar.tables.arrays import Floats

Progress = Callable[[int, int], None]

MARGIN = 0.1
"""Relative change of the median that is none."""
AROUND = 5
"""Runs before and after a change whose logs are compared."""
_SERIES = ["cluster", "fingerprint"]
_SOUND = "q.ended AND NOT q.failed AND q.duration_ms > 0 AND isfinite(q.duration_ms)"
_IN_ORDER = "ORDER BY q.start_ms, q.application_id, q.query_id"


@dataclass(frozen=True)
class QueryChange:
    """A change of a recurring query's duration that lasted.

    Attributes
    ----------
    at_ms : start of the first run after it.
    before_ms, after_ms : medians of the runs from the change before to this one, and from it to the
        next one.
    p : share of permutations of the runs that can be divided as well.
    cost_ms : change of the median times the runs after it.
    why : what else changed then, in sentences; by what the store holds.
    compared : what ``compare`` says of the logs around it; empty where it was not asked, or cannot
        tell.
    """

    fingerprint: str
    name: str
    cluster: str
    at_ms: float
    before_ms: float
    after_ms: float
    runs_before: int
    runs_after: int
    p: float
    cost_ms: float
    why: tuple[str, ...]
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changes:
    """Changes of recurring queries, and how many were looked at.

    Attributes
    ----------
    changes : those that cost most first.
    series : recurring queries with enough runs, by cluster.
    alpha : share of series without a change in which one is found nevertheless.
    """

    changes: tuple[QueryChange, ...]
    series: int
    alpha: float


def changes(
    store: Store | str | StoreView,
    query: str = "",
    *,
    explain: bool = False,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    progress: Progress | None = None,
) -> Changes:
    """Find changes of duration of recurring queries that last.

    Runs that failed or did not end are left out. Durations are compared by their ratios.

    Parameters
    ----------
    query : name or fingerprint of one query; all by default.
    explain : also run :func:`iqcar.compare` on the logs of the runs around each change, where they
        are still there.
    margin : relative change of the median that is none.
    alpha : level of the tests.
    progress : called with the series done and all series.
    """
    about = view_of(store)
    only = find_fingerprint(about, query) if query else ""
    found = about.ask(
        f"""
        SELECT q.cluster, q.fingerprint, list(q.duration_ms {_IN_ORDER}) AS durations
        FROM queries q WHERE {_SOUND} AND ($1 = '' OR q.fingerprint = $1)
        GROUP BY q.cluster, q.fingerprint HAVING count(*) >= $2
        ORDER BY q.cluster, q.fingerprint""",
        only,
        2 * LEAST,
    )
    series = [((each.cluster, each.fingerprint), each.durations) for each in found.itertuples()]
    changed: dict[tuple[str, str], list[_Step]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:  # what takes long is compiled
        found_in = threads.map(lambda one: _steps(one[1], margin, alpha), series)
        for number, ((key, _), steps) in enumerate(zip(series, found_in, strict=True)):
            if steps:
                changed[key] = steps
            if progress is not None:
                progress(number + 1, len(series))
    found = _explained(about, changed, explain=explain) if changed else []
    found.sort(key=lambda one: (-abs(one.cost_ms), one.fingerprint, one.at_ms))
    return Changes(tuple(found), len(series), alpha)


class _Step(NamedTuple):
    """A change of a series: where it and its neighbours are, medians beside it, and its p."""

    first: int
    at: int
    end: int
    before_ms: float
    after_ms: float
    p: float


def _steps(durations: Floats, margin: float, alpha: float) -> list[_Step]:
    points = change_points(np.log(durations), alpha)
    borders = [0, *(point.at for point in points), len(durations)]
    found = []
    for number, point in enumerate(points):
        first, end = borders[number], borders[number + 2]
        was, now = (
            float(np.median(durations[a:b])) for a, b in ((first, point.at), (point.at, end))
        )
        if abs(now / was - 1.0) >= margin:
            found.append(
                _Step(first=first, at=point.at, end=end, before_ms=was, after_ms=now, p=point.p)
            )
    return found


def _explained(
    about: StoreView, changed: dict[tuple[str, str], list[_Step]], *, explain: bool
) -> list[QueryChange]:
    """Say what else changed with each change."""
    every = runs_of(about, sorted({fingerprint for _, fingerprint in changed}))
    every = every[every["ended"] & ~every["failed"] & (every["duration_ms"] > 0)]
    sides = [
        (step, runs[step.first : step.at], runs[step.at : step.end])
        for key, runs in every.groupby(_SERIES, sort=True)
        for step in changed.get(key, ())
    ]
    reasons = change_reasons(about, [(before, after) for _, before, after in sides])
    return [
        QueryChange(
            fingerprint=str(after["fingerprint"].iloc[0]),
            name=str(after["name"].iloc[0]),
            cluster=str(after["cluster"].iloc[0]),
            at_ms=float(after["start_ms"].iloc[0]),
            before_ms=step.before_ms,
            after_ms=step.after_ms,
            runs_before=len(before),
            runs_after=len(after),
            p=step.p,
            cost_ms=(step.after_ms - step.before_ms) * len(after),
            why=why,
            compared=_compared(before, after) if explain else (),
        )
        for (step, before, after), why in zip(sides, reasons, strict=True)
    ]


def _compared(before: pd.DataFrame, after: pd.DataFrame) -> tuple[str, ...]:
    """Compare the logs of the runs around a change; say why where that cannot be done."""
    from iqcar.comparison.compare_sets import compare

    sides = [
        list(dict.fromkeys(texts(part, "path")))
        for part in (before.tail(AROUND), after.head(AROUND))
    ]
    if set(sides[0]) & set(sides[1]):
        return ("its logs cannot be compared: runs before and after are in one log",)
    fingerprint = str(after["fingerprint"].iloc[0])
    try:
        found = compare(*sides)
        mine = found.find(fingerprint)
    except IqcarError as error:
        return (f"its logs cannot be compared: {error}",)
    of_query = found.changes["category"] == mine
    at = np.flatnonzero(of_query | found.changes["parent"].isin(np.flatnonzero(of_query)))
    said = found.causes[found.causes["change"].isin(at)]
    return tuple(dict.fromkeys(texts(said, "sentence")))
