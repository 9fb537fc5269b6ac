"""``iqcar queries``: list the queries of the logs with duration, waits and lost time."""

from __future__ import annotations

from functools import partial

from iqcar.apps.cli.command import Result, command
from iqcar.enums import QueryBy


@command("Which queries ran, and what they lost.")
def queries(logs: list[str] | None = None, *, query_by: QueryBy = QueryBy.SQL) -> Result:
    """List the queries in the logs: when they ran, what they waited for, how much they lost.

    Example: iqcar queries spark-events/
    """
    from iqcar.apps.cli.reading import diagnosed, logs_of
    from iqcar.show.json.analyze import queries_to_json
    from iqcar.show.terminal.analyze import print_queries

    found = diagnosed(logs_of(logs), query_by=query_by, rules=False)
    return Result(
        partial(print_queries, found), partial(queries_to_json, found), tables=[found.tables]
    )
