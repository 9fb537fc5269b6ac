"""The entry point of ``iqcar-lab``."""

from __future__ import annotations

from typing import Annotated

import typer

from iqcar.apps.cli.command import command, run_commands
from iqcar.apps.cli.options import Grouped
from iqcar.errors import UsageError
from iqcar_lab.commands.experiment import experiment
from iqcar_lab.commands.inject import inject
from iqcar_lab.commands.printed import printed

app = typer.Typer(
    name="iqcar-lab",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="The laboratory of iqcar: load hosts on purpose, measure how much load slows queries, and "
    "answer as the papers print it.",
)


@command("JSON Schema of plans and of curves.", writes=())
def schema(
    of: Annotated[str, typer.Argument(metavar="[experiment|curves]", help="Which.")],
) -> None:
    """Print the JSON Schema of what `experiment` takes, or of the curves that it writes.

    Example: iqcar-lab schema experiment > experiment.schema.json
    """
    from iqcar_lab.experiment.curves_file import curves_schema
    from iqcar_lab.experiment.experiment_plan import experiment_schema

    schemas = {"experiment": experiment_schema, "curves": curves_schema}
    if of not in schemas:
        raise UsageError(
            f"there is no schema of {of!r}", "iqcar-lab schema", f"use {' or '.join(schemas)}"
        )
    typer.echo(schemas[of]())


app.add_typer(inject)
app.command("experiment", cls=Grouped, short_help=experiment.short_help)(experiment)  # type: ignore[attr-defined]
app.add_typer(printed)
app.command("schema", short_help=schema.short_help)(schema)  # type: ignore[attr-defined]


def main() -> None:
    """Run the command line; ends the process with an exit code."""
    run_commands(app)


if __name__ == "__main__":
    main()
