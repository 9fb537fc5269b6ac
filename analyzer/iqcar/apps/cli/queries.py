"""``iqcar queries``: list the queries of the logs with duration, waits and lost time."""

from __future__ import annotations

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy


def queries(
    paths: options.Paths,
    json: options.JsonFile = None,
    query_by: options.Queries = QueryBy.SQL,
    force: options.Force = False,
) -> None:
    """List the queries in the logs: when they ran, what they waited for, how much they lost.

    Example: iqcar queries spark-events/
    """
    from iqcar.apps.cli.reading import exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.pipeline import diagnose
    from iqcar.show.json.analyze import queries_to_json
    from iqcar.show.terminal.analyze import print_queries

    check_writable(json, force)
    tables = read_for(paths, query_by)
    with working("analysing"):
        diagnosis = diagnose(tables, query_by=query_by, rules=False)
    if json != "-":
        print_queries(diagnosis)
    if json is not None:
        write_result(json, queries_to_json(diagnosis))
    raise typer.Exit(exit_code(diagnosis.tables))
