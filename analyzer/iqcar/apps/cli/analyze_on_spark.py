"""Run ``iqcar analyze --on-spark``: diagnose many logs on executors, and print a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iqcar.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from iqcar.diagnosis import Settings

_INSTEAD = {
    "--topics": "use `iqcar topics --on-spark`",
    "--samples": "leave out one of the two",
}
"""What to do in place of options that do not go with --on-spark."""


def refuse(options: Mapping[str, object]) -> None:
    """Raise UsageError if an option is given that a summary of many applications has no place for.

    Parameters
    ----------
    options : mapping of str to object
        Name and value of each.
    """
    for name, value in options.items():
        if value:
            raise UsageError(
                "does not go with --on-spark",
                name,
                _INSTEAD.get(name, "analyse the logs of one group without Spark for it"),
            )


def analyze_on_spark(
    paths: list[str], master: str, json: str | None, settings: Settings, *, all_sources: bool
) -> ExitCode:
    """Diagnose logs on Spark, print and write the summary, and return the exit code."""
    from iqcar.apps.cli.reading import check_any, exit_code, on_executors
    from iqcar.apps.cli.writing import write_result
    from iqcar.fleet.fleet_summary import summary_on_spark
    from iqcar.fleet.session import spark_session
    from iqcar.show.json.fleet import fleet_to_json
    from iqcar.show.terminal.fleet import print_fleet

    with spark_session(master) as spark, on_executors() as progress:
        found = summary_on_spark(spark, paths, settings, all_sources=all_sources, progress=progress)
    check_any(found.tables)
    if json != "-":
        print_fleet(found, settings.top)
    if json is not None:
        write_result(json, fleet_to_json(found, settings))
    return exit_code(found.tables)
