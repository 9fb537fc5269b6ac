"""Tells how large the sides of joins were that could have been broadcast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import nan

from iqcar.logs.events.sql_collect import SqlCollector


def sides_of_joins(
    sql: SqlCollector,
    fed: Sequence[Iterable[float]],
    readers: Sequence[int],
    writers: Sequence[int],
) -> list[float]:
    """Return, for each edge of the DAG, the bytes that a join there could have had broadcast.

    Only joins count that are all that their stage reads: else nobody can tell whose sides are
    whose.

    Parameters
    ----------
    fed : the accumulators that each stage fed.
    readers, writers : the stages of each edge.

    Returns bytes in memory; NaN where there is no such join.
    """
    joins = [join for execution in sql.executions.values() for join in execution.joins]
    sides = [nan] * len(readers)
    if not joins:
        return sides
    asked = {side for join in joins for side in (join.left, join.right)}
    wrote = {one: stage for stage, keys in enumerate(fed) for one in keys if one in asked}
    edges = {pair: edge for edge, pair in enumerate(zip(readers, writers, strict=True))}
    read_by: dict[int, list[int]] = {}
    for reader, writer in edges:
        read_by.setdefault(writer, []).append(reader)
    parents = Counter(readers)
    sizes = sql.metrics.totals()
    for join in joins:
        left, right = wrote.get(join.left), wrote.get(join.right)
        if left is None or right is None:
            continue
        for reader in read_by.get(left, ()):
            if parents[reader] == 2 and (reader, right) in edges:
                for stage, side, builds in (
                    (left, join.left, join.builds_left), (right, join.right, join.builds_right)
                ):  # fmt: skip
                    if builds and int(side) in sql.metrics.rows:
                        sides[edges[reader, stage]] = float(sizes[sql.metrics.rows[int(side)]])
    return sides
