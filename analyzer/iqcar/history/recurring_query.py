"""Finds a recurring query of a store by its name, and lists its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from iqcar.base.formatting import duration, short
from iqcar.enums import BlameKind, Resource
from iqcar.errors import UsageError
from iqcar.history.store_views import LABEL, Asked, asked
from iqcar.history.stored_files import Store

_NEAR = 8
"""Names that are suggested for a query that is not there."""


def trend(store: Store | str | Asked, query: str) -> pd.DataFrame:
    """List the runs of one recurring query, the first first.

    Parameters
    ----------
    store : Store, str or Asked
    query : str
        Its fingerprint, or a name that one recurring query has.

    Returns
    -------
    DataFrame
        cluster, application_id, query_id, path (of the log), name, fingerprint, start_ms,
        duration_ms, ended, failed, task_ms, cpu_ms, read_bytes, lost_ms, lost_to_others_ms, a wait
        per resource, and source and source_lost_ms: who cost it most.

    Raises
    ------
    UsageError
        If no query has that name, or several have.
    """
    about = asked(store)
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


def runs_of(about: Asked, fingerprints: Sequence[str]) -> pd.DataFrame:
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


def find_fingerprint(about: Asked, query: str) -> str:
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
