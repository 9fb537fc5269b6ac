"""``iqcar blame``: explain one query level by level."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command


@command("One query, level by level.")
def blame(
    logs: list[str] | None = None,
    *,
    target: str,
    how: options.Diagnosing,
    topics: bool | None = None,
    all_sources: bool = False,
) -> Result:
    """Explain one query level by level: its stages, resources, hosts, and source queries.

    Example: iqcar blame spark-events/ --target q39b

    Parameters
    ----------
    target : QUERY
        The query: its id, name or fingerprint.
    """
    from iqcar.apps.cli.reading import diagnosed, logs_of
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.analyze import print_levels

    found = diagnosed(
        logs_of(logs), targets=[target], topics=topics, all_sources=all_sources, **asdict(how)
    )
    return Result(partial(print_levels, found), partial(json_chunks, found), tables=[found.tables])
