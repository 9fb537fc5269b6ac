"""Asks a store who lost to whom, what changed, and ranks queries, nodes, resources and causes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration, printable, resource_name, short
from iqcar.enums import BlameKind, Resource
from iqcar.errors import IqcarError, UsageError
from iqcar.history.change_points import ALPHA, LEAST, change_points
from iqcar.history.store_views import LABEL, StoreView, start_of, view_of
from iqcar.history.stored_files import Store
from iqcar.model.queries.identify import ELSE, property_of
from iqcar.rules.vocabulary import query_status
from iqcar.say.sentences import told_run
from iqcar.tables import texts
from iqcar.tables.arrays import Floats

_NEAR = 8
"""Names that are suggested for a query that is not there."""


def trend(store: Store | str | StoreView, query: str) -> pd.DataFrame:
    """List the runs of one recurring query, the first first.

    Raises UsageError if no query has that name, or several have.

    query: its fingerprint, or a name that one recurring query has.

    Returns cluster, application_id, query_id, path (of the log), name, fingerprint, start_ms,
    duration_ms, ended, failed, error, task_ms, cpu_ms, read_bytes, lost_ms, lost_to_others_ms, a
    wait per resource, and source and source_lost_ms: who cost it most.
    """
    about = view_of(store)
    fingerprint = find_fingerprint(about, query)
    sources = about.ask(
        f"""
        WITH chosen AS (
          SELECT rowid AS query, app, query_id FROM query_keys WHERE fingerprint = ?)
        SELECT c.app, c.query_id, s.label AS source, sum(l.lost_ms) AS source_lost_ms
        FROM losses l JOIN chosen c USING (query) LEFT JOIN query_keys s ON s.rowid = l.source
        WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2, 3
        QUALIFY row_number() OVER
          (PARTITION BY c.app, c.query_id ORDER BY sum(l.lost_ms) DESC, s.label) = 1""",
        fingerprint,
    )
    runs = runs_of(about, [fingerprint]).merge(sources, on=["app", "query_id"], how="left")
    return runs.drop(columns="app").fillna({"source": "", "source_lost_ms": 0.0})


def runs_of(about: StoreView, fingerprints: Sequence[str]) -> pd.DataFrame:
    """List the runs of recurring queries: columns as of trend without the source; also app."""
    waits = ", ".join(f"q.{resource.value}_wait_ms" for resource in Resource)
    return about.ask(
        f"""
        SELECT q.app, q.cluster, q.application_id, q.attempt_id, q.query_id, a.path, q.name,
               q.fingerprint, q.start_ms, q.duration_ms, q.ended, q.failed,
               coalesce(q.error, '') AS error, q.task_ms, q.cpu_ms, q.read_bytes,
               q.lost_ms, q.lost_to_others_ms, {waits}
        FROM queries q JOIN applications a USING (app)
        WHERE q.fingerprint IN (SELECT unnest($1::VARCHAR[]))
        ORDER BY q.start_ms, q.application_id, q.query_id""",
        [*fingerprints],
    )


def told_duration(run: Any) -> str:
    """Tell how long a run took, and whether it failed or its log ends before it."""
    return told_run(run.duration_ms, query_status(run.ended, run.failed, run.error))


def find_fingerprint(about: StoreView, query: str) -> str:
    """Return the fingerprint of a recurring query by itself or by name; raises UsageError."""
    found = about.ask(
        f"""
        SELECT q.fingerprint, max({LABEL}) AS name, count(*) AS runs,
               bool_or(q.fingerprint = $1) AS exact
        FROM queries q WHERE q.fingerprint = $1 OR lower(q.name) = lower($1)
          OR lower(q.family) = lower($1)
        GROUP BY q.fingerprint ORDER BY exact DESC, runs DESC, q.fingerprint""",
        query,
    )
    if len(found) == 1 or (len(found) and bool(found["exact"].iloc[0])):
        return str(found["fingerprint"].iloc[0])
    if len(found):
        each = ", ".join(found["fingerprint"].head(_NEAR))
        raise UsageError(
            f"{len(found)} recurring queries have this name", query, f"name one: {each}"
        )
    near = about.ask(
        f"SELECT max({LABEL}) AS name FROM queries q GROUP BY q.fingerprint "
        "ORDER BY count(*) DESC, name LIMIT ?",
        _NEAR,
    )
    known = ", ".join(short(name, 60) for name in near["name"]) or "none"
    raise UsageError("there is no such query in the store", query, f"there are {known}")


PERIODS = ("day", "week", "month", "all")
OWNERS = ("query", "user", "pool", "session", "application", "cluster")
"""What victims and sources can be grouped by, besides any Spark property."""
SLOW = 1.1
"""Slowdown from which a host is a slow node, where it ran many tasks."""
SLOW_ERRORS = 3
"""Standard errors that its slowdown must be above 1: 1/√tasks each, for tasks whose times are
exponentially distributed (their standard deviation is their mean)."""


@dataclass(frozen=True)
class Top:
    """What stands out in a store, the worst first in each period.

    queries: period, cluster, fingerprint, name, runs, victims, lost_ms (that others lost to it).
    hosts: period, cluster, host, applications, tasks, slowdown (time of its tasks over the medians
        of their stages, beside the same of the cluster's other hosts), excess_ms (what its tasks
        took longer by that), stragglers, delay_ms. Only hosts that are slower than chance makes
        them: :data:`SLOW`, :data:`SLOW_ERRORS`.
    resources: period, cluster, resource, host, lost_ms (to other queries), victims.
    causes: period, cluster, cause (of stragglers; empty where nothing explains them), stragglers,
        delay_ms (what they took longer than the medians of their stages), applications, hosts.
    """

    queries: pd.DataFrame
    hosts: pd.DataFrame
    resources: pd.DataFrame
    causes: pd.DataFrame


def top_headline(found: Top, period: str) -> str:
    """Say which recurring query and which host cost most in the last period; empty if none did."""
    queries, hosts = found.queries, found.hosts
    last = max([*queries["period"], *hosts["period"]], default="")
    said = []
    if len(mine := queries[queries["period"] == last]):
        one = mine.loc[mine["lost_ms"].idxmax()]
        victims = f"{one['victims']:,} run{'' if one['victims'] == 1 else 's'} of others"
        said.append(f"{victims} lost {duration(one['lost_ms'])} to {short(one['name'])}")
    if len(mine := hosts[(hosts["period"] == last) & (hosts["excess_ms"] > 0)]):
        one = mine.loc[mine["excess_ms"].idxmax()]
        said.append(
            f"tasks took {duration(one['excess_ms'])} longer on the host {short(one['host'])}"
        )
    when = f"In the {period} from {last}, " if last else ""
    sentence = printable(f"{when}{' and '.join(said)}.")
    return sentence[:1].upper() + sentence[1:] if said else ""


def top(store: Store | str | StoreView, period: str = "week", most: int = 10) -> Top:
    """Rank aggressive queries, slow nodes, hot resources and straggler causes in each period.

    period: one of :data:`PERIODS`.
    most: rows of each ranking and period.
    """
    if period not in PERIODS:
        raise UsageError(f"there is no period {period!r}", "", f"use {', '.join(PERIODS)}")
    about = view_of(store)
    start = "''" if period == "all" else f"coalesce({start_of(period)}, 'unknown')"

    def ranked(rows: str, order: str) -> pd.DataFrame:
        return about.ask(
            f"""
            WITH a AS MATERIALIZED (SELECT a.app, {start} AS period FROM applications a)
            SELECT * FROM ({rows})
            QUALIFY row_number() OVER (PARTITION BY period ORDER BY {order}) <= ?
            ORDER BY period DESC, {order}""",
            most,
        )

    return Top(
        queries=ranked(_AGGRESSIVE_QUERIES, "lost_ms DESC, fingerprint"),
        hosts=ranked(_SLOW_HOSTS, "excess_ms DESC, host"),
        resources=ranked(_HOT_RESOURCES, "lost_ms DESC, resource, host"),
        causes=ranked(_STRAGGLER_CAUSES, "delay_ms DESC, cause"),
    )


_AGGRESSIVE_QUERIES = f"""
    SELECT a.period, l.cluster, q.fingerprint, max(q.label) AS name,
           count(DISTINCT l.source) AS runs, count(DISTINCT l.query) AS victims,
           sum(l.lost_ms) AS lost_ms
    FROM losses l JOIN a USING (app) JOIN query_keys q ON q.rowid = l.source
    WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2, 3"""
_SLOW_HOSTS = f"""
    WITH h AS (
        SELECT a.period, h.cluster, h.host, count(*) AS applications,
               sum(h.tasks)::BIGINT AS tasks, sum(h.compared_ms) AS took,
               sum(h.expected_ms) AS expected, sum(h.stragglers)::BIGINT AS stragglers,
               sum(h.delay_ms) AS delay_ms
        FROM hosts h JOIN a USING (app) GROUP BY 1, 2, 3 HAVING expected > 0
    ),
    others AS (
        SELECT *, (sum(took) OVER peers - took)
                  / nullif(sum(expected) OVER peers - expected, 0) AS usual
        FROM h WINDOW peers AS (PARTITION BY period, cluster)
    )
    SELECT period, cluster, host, applications, tasks, took / (expected * usual) AS slowdown,
           took - expected * usual AS excess_ms, stragglers, delay_ms
    FROM others WHERE usual > 0 AND slowdown >= greatest({SLOW}, 1 + {SLOW_ERRORS} / sqrt(tasks))"""
_HOT_RESOURCES = f"""
    WITH of_app AS (  -- victims counted one application at a time: twice as fast
        SELECT app, cluster, resource, host, sum(lost_ms) AS lost_ms,
               len(list_distinct(list(query_id))) AS victims
        FROM blame WHERE kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
        GROUP BY 1, 2, 3, 4
    )
    SELECT a.period, b.cluster, b.resource, b.host, sum(b.lost_ms) AS lost_ms,
           sum(b.victims)::BIGINT AS victims
    FROM of_app b JOIN a USING (app) GROUP BY 1, 2, 3, 4"""
_STRAGGLER_CAUSES = """
    SELECT a.period, c.cluster, c.cause, sum(c.stragglers)::BIGINT AS stragglers,
           sum(c.delay_ms) AS delay_ms, count(DISTINCT c.app) AS applications,
           count(DISTINCT nullif(c.host, '')) AS hosts
    FROM causes c JOIN a USING (app) GROUP BY 1, 2, 3"""


def who(store: Store | str | StoreView, by: str = "query") -> pd.DataFrame:
    """Sum who lost to whom, and for which resource.

    by: one of :data:`OWNERS`, a short name or ``tag:NAME`` of Databricks
        (:func:`iqcar.model.queries.identify.owners`), or a Spark property, such as
        spark.yarn.queue.

    Returns victim, source, resource, lost_ms (elapsed time), runs (queries of the victim that
    lost), share (of all that victims lost to other queries); the largest first. What was summed
    because it was small has the source ``(others)``; an owner that is not known is ``(no BY)``; of
    a query that lies outside what is asked about, its application is told.
    """
    about = view_of(store)
    _add_owners(about, by)
    return about.ask(
        f"""
        SELECT v.owner AS victim,
               CASE l.kind WHEN '{BlameKind.REST.value}' THEN '(others)'
                    ELSE coalesce(s.owner, '(' || l.source_id || ', not asked about)') END
                 AS source,
               l.resource, sum(l.lost_ms) AS lost_ms, count(DISTINCT l.query) AS runs,
               sum(l.lost_ms) / nullif(sum(sum(l.lost_ms)) OVER (), 0) AS share
        FROM losses l JOIN owners v ON v.query = l.query LEFT JOIN owners s ON s.query = l.source
        WHERE l.kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
        GROUP BY 1, 2, 3 ORDER BY lost_ms DESC, victim, source, resource"""
    )


def _add_owners(about: StoreView, by: str) -> None:
    """Make the table ``owners``: one row per query with whom it belongs to."""
    columns = {
        "query": "q.label",
        "user": "coalesce(q.user, a.user)",
        "session": "q.session",
        "application": "a.name",
        "pool": "q.pool",
        "cluster": "q.cluster",
    }
    name = property_of(by)
    if by not in columns and "." not in name:
        raise UsageError(
            f"nothing can be grouped by {by!r}", "--by", f"use {', '.join(OWNERS)}{ELSE}"
        )
    own = """
        SELECT app, query_id,
               CASE count(DISTINCT value) WHEN 1 THEN max(value)
                    ELSE '(several values of ' || $1 || ')' END AS value
        FROM properties WHERE name = $2 GROUP BY app, query_id"""
    set_for = f"""
        LEFT JOIN ({own}) o USING (app, query_id)
        LEFT JOIN ({own}) p ON p.app = q.app AND p.query_id = ''"""
    about.ask(
        f"""
        CREATE OR REPLACE TEMP TABLE owners AS
        SELECT q.rowid AS query,
               coalesce(nullif({columns.get(by, "coalesce(o.value, p.value)")}, ''),
                        '(no ' || $1 || ')') AS owner
        FROM query_keys q JOIN applications a USING (app) {"" if by in columns else set_for}""",
        *((by,) if by in columns else (by, name)),
    )


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

    at_ms: start of the first run after it.
    before_ms, after_ms: medians of the runs from the change before to this one, and from it to the
        next one.
    p: share of permutations of the runs that can be divided as well.
    cost_ms: change of the median times the runs after it.
    why: what else changed then, in sentences; by what the store holds.
    compared: what ``compare`` says of the logs around it; empty where it was not asked, or cannot
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

    changes: those that cost most first.
    series: recurring queries with enough runs, by cluster.
    alpha: share of series without a change in which one is found nevertheless.
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

    query: name or fingerprint of one query; all by default.
    explain: also run :func:`iqcar.compare` on the logs of the runs around each change, where they
        are still there.
    margin: relative change of the median that is none.
    alpha: level of the tests.
    progress: called with the series done and all series.
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
    from iqcar.comparison.comparison import compare

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


Sides = tuple[pd.DataFrame, pd.DataFrame]

MOST_SETTINGS = 5
"""Settings named that changed with a query."""
LEAST_RATIO = 0.1
"""Relative change of data or CPU time that is none."""
_OF_THE_RUN = r"(?i)[.]app[.](id|name|submitTime|startTime)$|[.]port$|[.]id$|jars$"
"""Settings that differ in every run."""
_PART = 0.25
"""What explains less of a change is not named."""


def change_reasons(about: StoreView, changes: Sequence[Sides]) -> list[tuple[str, ...]]:
    """Say what else changed with each change, in sentences, the largest part first.

    changes: runs before and after each change, as of :func:`iqcar.history.ask_store.runs_of`.
    """
    if not changes:
        return []
    sides = _sides(changes)
    sources = _sources(about, changes, sides)
    stages = _stages(about, changes, sides)
    settings = _settings(about, sides)
    return [
        (
            *_waits_and_work(*both, sources.get(number, "")),
            *stages.get(number, ()),
            *settings.get(number, ()),
        )
        for number, both in enumerate(changes)
    ]


def _sides(changes: Sequence[Sides]) -> pd.DataFrame:
    """List the runs of all changes, each with the number of its change and its side."""
    each = [side for both in changes for side in both]
    number, after = np.divmod(np.repeat(np.arange(len(each)), [len(side) for side in each]), 2)
    runs = pd.concat(each)[["app", "query_id", "duration_ms"]]
    return runs.assign(change=number, after=after == 1)


def _change(before: pd.DataFrame, after: pd.DataFrame, name: str) -> float:
    return float(after[name].mean() - before[name].mean())


def _explains(part: float, total: float) -> bool:
    return abs(part) >= _PART * abs(total) and part * total > 0


def _waits_and_work(before: pd.DataFrame, after: pd.DataFrame, source: str) -> list[str]:
    total = _change(before, after, "duration_ms")
    why: list[tuple[float, str]] = []
    lost = _change(before, after, "lost_to_others_ms")
    if _explains(lost, total):
        name = f", most to {short(printable(source), 60)}" if source else ""
        sums = {r: _change(before, after, f"{r.value}_wait_ms") for r in Resource}
        known = {r: ms for r, ms in sums.items() if np.isfinite(ms) and ms * lost > 0}
        resource = max(known, key=lambda r: abs(known[r])) if known else None
        waits = f", waiting for {resource_name(resource.value)}" if resource else ""
        loses = f"it loses {duration(abs(lost))} {_more(lost)} to other queries"
        why.append((abs(lost), f"{loses}{name}{waits}"))
    own = _change(before, after, "lost_ms") - lost
    if _explains(own, total):
        why.append((abs(own), f"it loses {duration(abs(own))} {_more(own)} to waits of its own"))
    rest = total - lost - own
    ratios = {"reads {} as much data": "read_bytes", "needs {} the CPU time": "cpu_ms"}
    if _explains(rest, total):
        for sentence, name in ratios.items():
            was, now = before[name].median(), after[name].median()
            if was > 0 and now > 0 and abs(now / was - 1.0) >= LEAST_RATIO:
                why.append((abs(rest), f"it {sentence.format(f'{now / was:.2g} ×')}"))
    return [sentence for _, sentence in sorted(why, key=lambda one: -one[0])]


def _more(ms: float) -> str:
    return "more" if ms > 0 else "less"


def _sources(about: StoreView, changes: Sequence[Sides], sides: pd.DataFrame) -> dict[int, str]:
    """Name who cost the worse side of each change most that losses to others explain."""
    worse = {
        number: lost > 0
        for number, both in enumerate(changes)
        if _explains(lost := _change(*both, "lost_to_others_ms"), _change(*both, "duration_ms"))
    }
    sides = sides[sides["after"] == sides["change"].map(worse)]
    if sides.empty:
        return {}
    found = about.ask(
        f"""
        WITH victims AS (
          SELECT r.change, k.rowid AS query
          FROM run_sides r JOIN query_keys k USING (app, query_id)),
        sources AS (
          SELECT v.change, s.label AS source, sum(l.lost_ms) AS lost_ms
          FROM losses l JOIN victims v USING (query) JOIN query_keys s ON s.rowid = l.source
          WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2)
        SELECT change, arg_max(source, (lost_ms, source)) AS source FROM sources GROUP BY 1""",
        run_sides=sides,
    )
    return dict(zip(found["change"].tolist(), found["source"].tolist(), strict=True))


def _stages(
    about: StoreView, changes: Sequence[Sides], sides: pd.DataFrame
) -> dict[int, list[str]]:
    """Name the stages that hold a query up longer or shorter; its driver where none does.

    Runs that an older iqcar added have no stages, and are left out.
    """
    found = about.ask(
        """
        WITH own AS (SELECT r.*, s.stage, s.elapsed_ms
                     FROM run_sides r JOIN stages s USING (app, query_id)),
        runs AS (SELECT change, after, count(*) AS runs, sum(duration_ms) AS ms
                 FROM (SELECT DISTINCT change, after, app, query_id, duration_ms FROM own)
                 GROUP BY 1, 2),
        parts AS (SELECT change, after, stage, sum(elapsed_ms) AS ms FROM own GROUP BY 1, 2, 3),
        driver AS (SELECT change, after, NULL AS stage, any_value(r.ms) - sum(p.ms) AS ms
                   FROM parts p JOIN runs r USING (change, after) GROUP BY 1, 2)
        SELECT change, stage, sum(p.ms / runs) FILTER (NOT after) AS was,
               sum(p.ms / runs) FILTER (after) AS now
        FROM (FROM parts UNION ALL FROM driver) p JOIN runs r USING (change, after)
        GROUP BY 1, 2 HAVING stage IS NULL OR stage <> ''
        ORDER BY change, abs(coalesce(now, 0) - coalesce(was, 0)) DESC, stage""",
        run_sides=sides,
    )
    known = found[found["stage"].isna()].dropna(subset=["was", "now"])["change"]
    said: dict[int, list[str]] = {}
    for one in found[found["change"].isin(known)].itertuples():
        before, after = changes[one.change]
        total = _change(before, after, "duration_ms")
        was, now = np.nan_to_num([one.was, one.now])
        if not _explains(now - was, total):
            continue
        named = isinstance(one.stage, str)
        of = f'stage "{short(printable(one.stage), 80)}"' if named else "driver"
        longer = "longer" if now > was else "less"
        said.setdefault(one.change, []).append(
            f"its {of} takes {duration(abs(now - was))} {longer}"
        )
    return said


def _settings(about: StoreView, sides: pd.DataFrame) -> dict[int, list[str]]:
    """Name the settings that were the same in all runs before, and another in all runs after."""
    found = about.ask(
        """
        WITH side AS (
          SELECT change, after, app, count(*) OVER (PARTITION BY change, after) AS size
          FROM (SELECT DISTINCT change, after, app FROM run_sides)),
        same AS (
          SELECT s.change, s.after, p.name, min(p.value) AS value
          FROM properties p JOIN side s USING (app) WHERE p.query_id = ''
          GROUP BY 1, 2, 3 HAVING min(p.value) = max(p.value) AND count(*) = max(s.size))
        SELECT change, name, was.value AS was, now.value AS now
        FROM same was JOIN same now USING (change, name)
        WHERE NOT was.after AND now.after AND was.value <> now.value
          AND NOT regexp_matches(name, $1)
        ORDER BY change, name""",
        _OF_THE_RUN,
        run_sides=sides,
    )
    said: dict[int, list[str]] = {}
    for number, mine in found.groupby("change"):
        said[int(number)] = [
            f"{one.name} was {short(printable(one.was), 60)} and is {short(printable(one.now), 60)}"
            for one in mine.head(MOST_SETTINGS).itertuples()
        ]
        more = len(mine) - MOST_SETTINGS
        if more > 0:
            said[int(number)].append(f"{more} more settings changed")
    return said
