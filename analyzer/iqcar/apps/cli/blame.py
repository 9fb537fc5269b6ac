"""``iqcar blame``: explain one query level by level."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command


@command("One query, level by level.")
def blame(
    paths: options.Paths,
    target: Annotated[
        str,
        typer.Option(metavar="QUERY", help="The query: its id, name or fingerprint."),
    ],
    how: options.Diagnosing,
    topics: options.Recurring = False,
    all_sources: options.AllSources = False,
) -> Result:
    """Explain one query level by level: its stages, resources, hosts, and source queries.

    Example: iqcar blame spark-events/ --target q39b
    """
    from iqcar.apps.cli.reading import diagnosed
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.blame import print_levels

    found = diagnosed(
        paths, targets=[target], topics=topics, all_sources=all_sources, **asdict(how)
    )
    return Result(partial(print_levels, found), partial(json_chunks, found), tables=[found.tables])
