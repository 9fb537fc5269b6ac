"""Asks a store who lost to whom, and ranks queries, nodes, resources and causes of stragglers."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from iqcar.enums import BlameKind
from iqcar.errors import UsageError
from iqcar.history.store_views import Asked, asked, start_of
from iqcar.history.stored_files import Store

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
    queries : DataFrame
        period, cluster, fingerprint, name, runs, victims, lost_ms (that others lost to it).
    hosts : DataFrame
        period, cluster, host, applications, tasks, slowdown (time of its tasks over the medians of
        their stages, beside the same of the cluster's other hosts), excess_ms (what its tasks took
        longer by that), stragglers, delay_ms. Only hosts that are slower than chance makes them:
        :data:`SLOW`, :data:`SLOW_ERRORS`.
    resources : DataFrame
        period, cluster, resource, host, lost_ms (to other queries), victims.
    causes : DataFrame
        period, cluster, cause (of stragglers; empty where nothing explains them), stragglers,
        delay_ms (what they took longer than the medians of their stages), applications, hosts.
    """

    queries: pd.DataFrame
    hosts: pd.DataFrame
    resources: pd.DataFrame
    causes: pd.DataFrame


def top(store: Store | str | Asked, period: str = "week", most: int = 10) -> Top:
    """Rank aggressive queries, slow nodes, hot resources and straggler causes in each period.

    Parameters
    ----------
    store : Store, str or Asked
    period : str
        One of :data:`PERIODS`.
    most : int
        Rows of each ranking and period.
    """
    if period not in PERIODS:
        raise UsageError(f"there is no period {period!r}", "", f"use {', '.join(PERIODS)}")
    about = asked(store)
    periods = (
        f"WITH a AS MATERIALIZED (SELECT a.app, {_period(period)} AS period FROM applications a)"
    )
    queries = about.ask(
        f"""
        {periods}
        SELECT a.period, l.cluster, q.fingerprint, max(q.label) AS name,
               count(DISTINCT l.source) AS runs, count(DISTINCT l.query) AS victims,
               sum(l.lost_ms) AS lost_ms
        FROM losses l JOIN a USING (app) JOIN query_keys q ON q.rowid = l.source
        WHERE l.kind = '{BlameKind.QUERY.value}' GROUP BY 1, 2, 3
        QUALIFY row_number() OVER
          (PARTITION BY period ORDER BY sum(l.lost_ms) DESC, q.fingerprint) <= ?
        ORDER BY period DESC, lost_ms DESC, q.fingerprint""",
        most,
    )
    hosts = about.ask(
        f"""
        {periods}
        , h AS (
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
        FROM others WHERE usual > 0
          AND slowdown >= greatest({SLOW}, 1 + {SLOW_ERRORS} / sqrt(tasks))
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY excess_ms DESC, host) <= ?
        ORDER BY period DESC, excess_ms DESC, host""",
        most,
    )
    resources = about.ask(
        f"""
        {periods}
        , of_app AS (  -- victims counted one application at a time: twice as fast
            SELECT app, cluster, resource, host, sum(lost_ms) AS lost_ms,
                   len(list_distinct(list(query_id))) AS victims
            FROM blame WHERE kind IN ('{BlameKind.QUERY.value}', '{BlameKind.REST.value}')
            GROUP BY 1, 2, 3, 4
        )
        SELECT a.period, b.cluster, b.resource, b.host, sum(b.lost_ms) AS lost_ms,
               sum(b.victims)::BIGINT AS victims
        FROM of_app b JOIN a USING (app) GROUP BY 1, 2, 3, 4
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY sum(b.lost_ms) DESC, b.resource,
                                   b.host) <= ?
        ORDER BY period DESC, lost_ms DESC, resource, host""",
        most,
    )
    causes = about.ask(
        f"""
        {periods}
        SELECT a.period, c.cluster, c.cause, sum(c.stragglers)::BIGINT AS stragglers,
               sum(c.delay_ms) AS delay_ms, count(DISTINCT c.app) AS applications,
               count(DISTINCT nullif(c.host, '')) AS hosts
        FROM causes c JOIN a USING (app)
        GROUP BY 1, 2, 3
        QUALIFY row_number() OVER (PARTITION BY period ORDER BY sum(c.delay_ms) DESC, c.cause) <= ?
        ORDER BY period DESC, delay_ms DESC, cause""",
        most,
    )
    return Top(queries, hosts, resources, causes)


def _period(period: str) -> str:
    if period == "all":
        return "''"
    return f"coalesce({start_of(period)}, 'unknown')"


def who(store: Store | str | Asked, by: str = "query") -> pd.DataFrame:
    """Sum who lost to whom, and for which resource.

    Parameters
    ----------
    store : Store, str or Asked
    by : str
        One of :data:`OWNERS`, or the name of a Spark property, such as spark.yarn.queue.

    Returns
    -------
    DataFrame
        victim, source, resource, lost_ms (elapsed time), runs (queries of the victim that lost),
        share (of all that victims lost to other queries); the largest first. What was summed
        because it was small has the source ``(others)``; an owner that is not known is
        ``(no BY)``; of a query that lies outside what is asked about, its application is told.
    """
    about = asked(store)
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


def _add_owners(about: Asked, by: str) -> None:
    """Make the table ``owners``: one row per query with whom it belongs to."""
    columns = {
        "query": "q.label",
        "user": "coalesce(q.user, a.user)",
        "session": "q.session",
        "application": "a.name",
        "pool": "q.pool",
        "cluster": "q.cluster",
    }
    if by not in columns and "." not in by:
        raise UsageError(
            f"nothing can be grouped by {by!r}",
            "--by",
            f"use {', '.join(OWNERS)}, or a Spark property such as spark.yarn.queue",
        )
    own = """
        SELECT app, query_id,
               CASE count(DISTINCT value) WHEN 1 THEN max(value)
                    ELSE '(several values of ' || $1 || ')' END AS value
        FROM properties WHERE name = $1 GROUP BY app, query_id"""
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
        by,
    )
