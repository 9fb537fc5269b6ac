"""``iqcar blame``: explain one query level by level."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from iqcar.apps.cli import options
from iqcar.apps.cli.command import Result, command
from iqcar.enums import BlameMethod


@command("One query, level by level.")
def blame(
    logs: list[str] | None = None,
    *,
    target: str,
    how: options.Diagnosing,
    topics: bool | None = None,
    all_sources: bool = False,
    method: BlameMethod = BlameMethod.DEMAND,
) -> Result:
    """Explain one query level by level: its stages, resources, hosts, and source queries.

    Example: iqcar blame spark-events/ --target q39b

    Parameters
    ----------
    target : QUERY
        The query: its id, name or fingerprint.
    method
        How blame is divided.
    """
    from iqcar.apps.cli.reading import diagnosed, logs_of
    from iqcar.papers.printed_blame import printed_blame
    from iqcar.show.json.analyze import json_chunks
    from iqcar.show.terminal.analyze import print_levels, print_printed_levels

    found = diagnosed(
        logs_of(logs), targets=[target], topics=topics, all_sources=all_sources, **asdict(how)
    )
    show, printed = partial(print_levels, found), None
    if method is BlameMethod.PRINTED:
        printed = printed_blame(
            found.tables, found.waits, found.targets, how.top, critical_path=how.critical_path
        )
        show = partial(print_printed_levels, found, printed)
    return Result(show, partial(json_chunks, found, printed), tables=[found.tables])
