"""Find settings that queries' sessions changed, and how they differ between two sides.

A query runs with what its session had set (``spark.conf.set``), else with its application's value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.comparison.match import Matched
from iqcar.comparison.settings_difference import SettingDifference, setting_differences
from iqcar.comparison.side_facts import OF_ONE_APPLICATION
from iqcar.tables import NONE, Tables, TableSpec, texts
from iqcar.tables.arrays import Ints
from iqcar.tables.declarations import declare

if TYPE_CHECKING:
    from iqcar.comparison.measured_side import Side

QUERY_SETTINGS = TableSpec(
    "query_settings",
    "One row per query, setting that a session of it changed, and value in its runs.",
    declare(
        ("node", "int32", "row", "The query's node."),
        ("key", "str", "", "Name of the setting."),
        ("value", "str", "", "A value in some of its runs; of others, their application's."),
    ),
)


def execution_rows(tables: Tables) -> list[int]:
    """Return the row of each query's SQL execution; −1 for a query that is none."""
    sql, queries = tables.sql_executions, tables.queries
    keys = zip(sql["app"].tolist(), sql["execution_id"].tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    found = []
    for app, query_id in zip(queries["app"].tolist(), texts(queries, "query_id"), strict=True):
        kind, _, number = query_id.rpartition("/")[2].partition("-")
        found.append(row_of.get((app, int(number)), NONE) if kind == "sql" else NONE)
    return found


def query_settings(tables: Tables, query_node: Ints, execution: Sequence[int]) -> pd.DataFrame:
    """Return :data:`QUERY_SETTINGS` of the queries that are nodes.

    Parameters
    ----------
    tables : Tables
    query_node : ndarray of shape (n_queries,)
        Node of each query; −1 where it was left out.
    execution : sequence of int
        From :func:`execution_rows`.
    """
    conf = tables.conf
    of_app: dict[tuple[int, str], str] = {}
    of_execution: dict[int, dict[str, str]] = {}
    for app, row, key, value in zip(
        conf["app"].tolist(), conf["sql_execution"].tolist(), texts(conf, "key"),
        texts(conf, "value"), strict=True,
    ):  # fmt: skip
        if row < 0:
            of_app[app, key] = value
        elif not key.startswith(OF_ONE_APPLICATION):
            of_execution.setdefault(row, {})[key] = value
    apps = tables.queries["app"].tolist()
    rows = np.flatnonzero(query_node >= 0).tolist() if of_execution else []
    changed: dict[int, set[str]] = {}
    for query in rows:
        changed.setdefault(int(query_node[query]), set()).update(
            of_execution.get(execution[query], ())
        )
    found: dict[tuple[int, str, str], None] = {}
    for query in rows:
        node, own = int(query_node[query]), of_execution.get(execution[query], {})
        for key in changed[node]:
            told = own.get(key, of_app.get((apps[query], key)))
            if told is not None:
                found[node, key, told] = None
    columns = zip(*sorted(found), strict=True) if found else ([], [], [])
    return QUERY_SETTINGS.frame(dict(zip(QUERY_SETTINGS.column_names(), columns, strict=True)))


def own_differences(
    sides: tuple[Side, Side],
    matched: Matched,
    shared: Iterable[SettingDifference],
) -> dict[int, tuple[SettingDifference, ...]]:
    """Return what differs for each query of which a session changed a setting on either side.

    Parameters
    ----------
    sides : Side of before and after
    matched : Matched
    shared : iterable of SettingDifference
        What differs between the applications.

    Returns
    -------
    dict of int to tuple of SettingDifference
        By category of the query; those of the applications stand where no session changed them.
    """
    values: tuple[dict[int, dict[str, set[str]]], ...] = ({}, {})
    for side, of, found in zip(sides, matched.category_of, values, strict=True):
        frame = side.settings
        columns = frame["node"].tolist(), texts(frame, "key"), texts(frame, "value")
        for node, key, value in zip(*columns, strict=True):
            found.setdefault(int(of[node]), {}).setdefault(key, set()).add(value)
    differs = {}
    for category in sorted({*values[0], *values[1]}):
        keys = sorted({*values[0].get(category, ()), *values[1].get(category, ())})
        before, after = (
            {
                key: sorted(found.get(category, {}).get(key, side.facts.settings.get(key, ())))
                for key in keys
            }
            for side, found in zip(sides, values, strict=True)
        )
        others = (one for one in shared if one.key not in before)
        differs[category] = (*setting_differences(before, after), *others)
    return differs
