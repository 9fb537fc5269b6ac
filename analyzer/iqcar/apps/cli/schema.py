"""``iqcar schema``: print the JSON Schema of results, rules files and checks of rules."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from iqcar.apps.cli.command import command
from iqcar.errors import UsageError

SCHEMAS = {
    "result": "show.json.analyze",
    "rules": "rules.vocabulary",
    "check": "show.json.analyze",
    "compare": "show.json.compare",
    "whatif": "show.json.whatif",
    "live": "show.json.live",
    "history": "show.json.history",
    "queues": "show.json.queues",
}
"""The module with the function ``…_schema`` of each file."""


@command("JSON Schema of results, rules and checks.", writes=())
def schema(
    of: Annotated[
        str, typer.Argument(metavar=f"[{'|'.join(SCHEMAS)}]", help="Which file to describe.")
    ] = "result",
) -> None:
    """Print the JSON Schema of the result, a rules file, or what another command writes.

    Example: iqcar schema > result.schema.json
    """
    if of not in SCHEMAS:
        raise UsageError(
            f"there is no schema of {of!r}", "iqcar schema", f"use {', '.join(SCHEMAS)}"
        )
    name = "rule_schema" if of == "rules" else f"{of}_schema"
    typer.echo(getattr(import_module(f"iqcar.{SCHEMAS[of]}"), name)())
