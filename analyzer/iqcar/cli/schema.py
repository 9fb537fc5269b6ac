"""``iqcar schema``: the JSON Schema of what ``--json`` and ``--rules`` write."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    of: Annotated[
        str, typer.Argument(metavar="[result|rules]", help="Which file to describe.")
    ] = "result",
) -> None:
    """Print the JSON Schema of the result (or of the rules file).

    Example: iqcar schema > result.schema.json
    """
    from iqcar.errors import UsageError
    from iqcar.report.json_result import result_schema
    from iqcar.rules.data import rule_schema

    if of not in ("result", "rules"):
        raise UsageError(f"there is no schema of {of!r}", "iqcar schema", "use result or rules")
    typer.echo(result_schema() if of == "result" else rule_schema())
