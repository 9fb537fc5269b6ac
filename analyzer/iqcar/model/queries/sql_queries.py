"""Finds the SQL executions of queries."""

from __future__ import annotations

import numpy as np

from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Ints


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


def query_of_executions(tables: Tables) -> Ints:
    """Return the query that each SQL execution is, or is part of: (n_executions,); −1 if none."""
    sql = tables.sql_executions
    app, number, root = (
        sql[name].tolist() for name in ("app", "execution_id", "root_execution_id")
    )
    query_of = {
        (app[row], number[row]): query
        for query, row in enumerate(execution_rows(tables))
        if row >= 0
    }
    return np.array([query_of.get(key, NONE) for key in zip(app, root, strict=True)], np.int64)
