"""Finds when recurring queries became slower or faster for good, and what else changed then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.comparison.compare_sets import compare
from iqcar.enums import Resource
from iqcar.errors import IqcarError
from iqcar.formatting import duration, printable, resource_name, short
from iqcar.history.ask_store import Asked, asked, find_fingerprint, trend
from iqcar.history.change_points import ALPHA, LEAST, change_points
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from iqcar.history.stored_files import Store

    Progress = Callable[[int, int], None]

MARGIN = 0.1
"""Relative change of the median that is none."""
AROUND = 5
"""Runs before and after a change whose logs are compared."""
MOST_SETTINGS = 5
"""Settings named that changed with a query."""
_OF_THE_RUN = r"(?i)[.]app[.](id|name|submitTime|startTime)$|[.]port$|[.]id$|jars$"
"""Settings that differ in every run."""
_PART = 0.25
"""What explains less of a change is not named."""


@dataclass(frozen=True)
class QueryChange:
    """A change of a recurring query's duration that lasted.

    Attributes
    ----------
    fingerprint, name, cluster : str
    at_ms : float
        Start of the first run after it.
    before_ms, after_ms : float
        Medians of the runs from the change before to this one, and from it to the next one.
    runs_before, runs_after : int
    p : float
        Share of permutations of the runs that can be divided as well.
    cost_ms : float
        Change of the median times the runs after it.
    why : tuple of str
        What else changed then, in sentences; by what the store holds.
    compared : tuple of str
        What ``compare`` says of the logs around it; empty where it was not asked, or cannot tell.
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
    changes : tuple of QueryChange
        Those that cost most first.
    series : int
        Recurring queries with enough runs, by cluster.
    alpha : float
        Share of series without a change in which one is found nevertheless.
    """

    changes: tuple[QueryChange, ...]
    series: int
    alpha: float


def changes(
    store: Store | str | Asked,
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
    store : Store, str or Asked
    query : str
        Name or fingerprint of one query; all by default.
    explain : bool
        Also run :func:`iqcar.compare` on the logs of the runs around each change, where they are
        still there.
    margin : float
        Relative change of the median that is none.
    alpha : float
        Level of the tests.
    progress : callable, optional
        Called with the series done and all series.
    """
    about = asked(store)
    only = find_fingerprint(about, query) if query else ""
    sound = "q.ended AND NOT q.failed AND q.duration_ms > 0"
    recurring = about.ask(
        f"SELECT q.fingerprint, q.cluster FROM queries q WHERE {sound} AND "
        "($1 = '' OR q.fingerprint = $1) GROUP BY 1, 2 HAVING count(*) >= $2 ORDER BY 1, 2",
        only,
        2 * LEAST,
    )
    found: list[QueryChange] = []
    for number, (fingerprint, cluster) in enumerate(recurring.itertuples(index=False)):
        of_one = Asked(about.store, about.since, about.until, str(cluster))
        of_one.__dict__["tables"] = about.tables
        runs = trend(of_one, str(fingerprint))
        fit = (runs["cluster"] == cluster) & ~runs["failed"] & (runs["duration_ms"] > 0)
        found += _of_series(about, runs[fit].reset_index(drop=True), margin, alpha, explain=explain)
        if progress is not None:
            progress(number + 1, len(recurring))
    found.sort(key=lambda one: (-abs(one.cost_ms), one.fingerprint, one.at_ms))
    return Changes(tuple(found), len(recurring), alpha)


def _of_series(
    about: Asked, runs: pd.DataFrame, margin: float, alpha: float, *, explain: bool
) -> list[QueryChange]:
    times = runs["duration_ms"].to_numpy(np.float64)
    points = change_points(np.log(times), alpha)
    borders = [0, *(point.at for point in points), len(times)]
    found = []
    for number, point in enumerate(points):
        before, after = runs[borders[number] : point.at], runs[point.at : borders[number + 2]]
        was, now = (float(part["duration_ms"].median()) for part in (before, after))
        if abs(now / was - 1.0) < margin:
            continue
        found.append(
            QueryChange(
                fingerprint=str(runs["fingerprint"].iloc[0]),
                name=str(after["name"].iloc[0]),
                cluster=str(runs["cluster"].iloc[0]),
                at_ms=float(after["start_ms"].iloc[0]),
                before_ms=was,
                after_ms=now,
                runs_before=len(before),
                runs_after=len(after),
                p=point.p,
                cost_ms=(now - was) * len(after),
                why=(*_why(before, after), *_settings(about, before, after)),
                compared=_compared(before, after) if explain else (),
            )
        )
    return found


def _why(before: pd.DataFrame, after: pd.DataFrame) -> list[str]:
    """Say what else of the runs changed with their duration, the largest part first."""

    def change(name: str) -> float:
        return float(after[name].mean() - before[name].mean())

    total = change("duration_ms")
    why: list[tuple[float, str]] = []
    lost = change("lost_to_others_ms")
    if abs(lost) >= _PART * abs(total) and lost * total > 0:
        worse = after if lost > 0 else before
        per = worse[worse["source"] != ""].groupby("source")["source_lost_ms"].sum()
        name = f", most to {short(printable(str(per.idxmax())), 60)}" if len(per) else ""
        sums = {r: change(f"{r.value}_wait_ms") for r in Resource}
        known = {r: ms for r, ms in sums.items() if np.isfinite(ms) and ms * lost > 0}
        resource = max(known, key=lambda r: abs(known[r])) if known else None
        waits = f", waiting for {resource_name(resource.value)}" if resource else ""
        loses = f"it loses {duration(abs(lost))} {_more(lost)} to other queries"
        why.append((abs(lost), f"{loses}{name}{waits}"))
    own = change("lost_ms") - lost
    if abs(own) >= _PART * abs(total) and own * total > 0:
        why.append((abs(own), f"it loses {duration(abs(own))} {_more(own)} to waits of its own"))
    rest = total - lost - own
    ratios = {"reads {} as much data": "read_bytes", "needs {} the CPU time": "cpu_ms"}
    if abs(rest) >= _PART * abs(total) and rest * total > 0:
        for sentence, name in ratios.items():
            was, now = before[name].median(), after[name].median()
            if was > 0 and now > 0 and abs(now / was - 1.0) >= MARGIN:
                why.append((abs(rest), f"it {sentence.format(f'{now / was:.2g} ×')}"))
    return [sentence for _, sentence in sorted(why, key=lambda one: -one[0])]


def _more(ms: float) -> str:
    return "more" if ms > 0 else "less"


def _settings(about: Asked, before: pd.DataFrame, after: pd.DataFrame) -> list[str]:
    """Name the settings that were the same in all runs before, and another in all runs after."""
    key = ["cluster", "application_id", "attempt_id"]
    sides = [side[key].drop_duplicates().assign(side=n) for n, side in enumerate((before, after))]
    about.tables.register("run_sides", pd.concat(sides))
    found = about.ask(
        """
        SELECT p.name,
               max(p.value) FILTER (WHERE r.side = 0) AS was,
               max(p.value) FILTER (WHERE r.side = 1) AS now
        FROM properties p JOIN run_sides r USING (cluster, application_id, attempt_id)
        WHERE p.query_id = '' AND NOT regexp_matches(p.name, $3)
        GROUP BY p.name
        HAVING count(DISTINCT p.value) FILTER (WHERE r.side = 0) = 1
           AND count(DISTINCT p.value) FILTER (WHERE r.side = 1) = 1
           AND count(*) FILTER (WHERE r.side = 0) = $1 AND count(*) FILTER (WHERE r.side = 1) = $2
           AND was <> now
        ORDER BY p.name""",
        len(sides[0]),
        len(sides[1]),
        _OF_THE_RUN,
    )
    said = [
        f"{one.name} was {short(printable(one.was), 60)} and is {short(printable(one.now), 60)}"
        for one in found.head(MOST_SETTINGS).itertuples()
    ]
    more = len(found) - MOST_SETTINGS
    return [*said, *([f"{more} more settings changed"] if more > 0 else [])]


def _compared(before: pd.DataFrame, after: pd.DataFrame) -> tuple[str, ...]:
    """Compare the logs of the runs around a change; say why where that cannot be done."""
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
