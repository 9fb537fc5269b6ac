"""Asks a store who lost to whom, and ranks queries, nodes, resources and causes of stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from iqcar.base.units import duration, printable, short
from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.history.store_views import LABEL, StoreView, start_of, view_of
from iqcar.history.stored_files import Store
from iqcar.model.queries.owners import ELSE, property_of

_NEAR = 8
"""Names that are suggested for a query that is not there."""


def trend(store: Store | str | StoreView, query: str) -> pd.DataFrame:
    """List the runs of one recurring query, the first first.

    Raises UsageError if no query has that name, or several have.

    Parameters
    ----------
    query : its fingerprint, or a name that one recurring query has.

    Returns cluster, application_id, query_id, path (of the log), name, fingerprint, start_ms,
    duration_ms, ended, failed, task_ms, cpu_ms, read_bytes, lost_ms, lost_to_others_ms, a wait per
    resource, and source and source_lost_ms: who cost it most.
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
               q.fingerprint, q.start_ms, q.duration_ms, q.ended, q.failed, q.task_ms,
               q.cpu_ms, q.read_bytes, q.lost_ms, q.lost_to_others_ms, {waits}
        FROM queries q JOIN applications a USING (app)
        WHERE q.fingerprint IN (SELECT unnest($1::VARCHAR[]))
        ORDER BY q.start_ms, q.application_id, q.query_id""",
        [*fingerprints],
    )


def told_duration(run: Any) -> str:
    """Tell how long a run took, and whether it failed or its log ends before it."""
    return duration(run.duration_ms) + (" failed" if run.failed else "" if run.ended else " so far")


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

    Attributes
    ----------
    queries : period, cluster, fingerprint, name, runs, victims, lost_ms (that others lost to it).
    hosts : period, cluster, host, applications, tasks, slowdown (time of its tasks over the medians
        of their stages, beside the same of the cluster's other hosts), excess_ms (what its tasks
        took longer by that), stragglers, delay_ms. Only hosts that are slower than chance makes
        them: :data:`SLOW`, :data:`SLOW_ERRORS`.
    resources : period, cluster, resource, host, lost_ms (to other queries), victims.
    causes : period, cluster, cause (of stragglers; empty where nothing explains them), stragglers,
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

    Parameters
    ----------
    period : one of :data:`PERIODS`.
    most : rows of each ranking and period.
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

    Parameters
    ----------
    by : one of :data:`OWNERS`, a short name or ``tag:NAME`` of Databricks
        (:func:`iqcar.model.queries.owners.owners`), or a Spark property, such as spark.yarn.queue.

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
