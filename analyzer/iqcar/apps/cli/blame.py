"""``iqcar blame``: explain one query level by level."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.enums import QueryBy


def blame(
    paths: options.Paths,
    target: Annotated[
        str,
        typer.Option(metavar="QUERY", help="The query: its id, name or fingerprint."),
    ],
    json: options.JsonFile = None,
    top: options.Top = 5,
    query_by: options.Queries = QueryBy.SQL,
    critical_path: options.CriticalPath = False,
    topics: options.Recurring = False,
    all_sources: options.AllSources = False,
    force: options.Force = False,
) -> None:
    """Explain one query level by level: its stages, resources, hosts, and source queries.

    Example: iqcar blame spark-events/ --target q39b
    """
    from iqcar.apps.cli.reading import exit_code, read_for, working
    from iqcar.apps.cli.writing import check_writable, write_result
    from iqcar.pipeline import diagnose
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.blame import print_levels

    check_writable(json, force)
    tables = read_for(paths, query_by)
    with working("analysing"):
        diagnosis = diagnose(
            tables,
            targets=[target],
            critical_path=critical_path,
            top=top,
            query_by=query_by,
            topics=topics,
            all_sources=all_sources,
        )
    if json != "-":
        print_levels(diagnosis)
    if json is not None:
        write_result(json, json_chunks(diagnosis))
    raise typer.Exit(exit_code(diagnosis.tables))
