"""``iqcar schema``: print the JSON Schema of results, rules files and checks of rules."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    of: Annotated[
        str,
        typer.Argument(
            metavar="[result|rules|check|compare|whatif|experiment|curves|live|history|fleet]",
            help="Which file to describe.",
        ),
    ] = "result",
) -> None:
    """Print the JSON Schema of the result, a rules file, or what another command writes.

    Example: iqcar schema > result.schema.json
    """
    from iqcar.errors import UsageError
    from iqcar.rules.vocabulary.data_files import rule_schema
    from iqcar.show.json.analyze import check_schema, result_schema
    from iqcar.show.json.compare import compare_schema
    from iqcar.show.json.experiment import curves_schema, experiment_schema
    from iqcar.show.json.fleet import fleet_schema
    from iqcar.show.json.history import history_schema
    from iqcar.show.json.live import live_schema
    from iqcar.show.json.whatif import whatif_schema

    schemas = {
        "result": result_schema,
        "rules": rule_schema,
        "check": check_schema,
        "compare": compare_schema,
        "whatif": whatif_schema,
        "experiment": experiment_schema,
        "curves": curves_schema,
        "live": live_schema,
        "history": history_schema,
        "fleet": fleet_schema,
    }
    if of not in schemas:
        raise UsageError(
            f"there is no schema of {of!r}", "iqcar schema", f"use {', '.join(schemas)}"
        )
    typer.echo(schemas[of]())
