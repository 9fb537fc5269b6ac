"""The entry point of ``iqcar``: registers the commands."""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

import iqcar.apps.cli
from iqcar.apps.cli.command import run_commands
from iqcar.apps.cli.options import Grouped
from iqcar.base.kernels import plain_because
from iqcar.errors import DEBUG
from iqcar.version import __version__

app = typer.Typer(
    name="iqcar",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # formatting help with Rich takes twice as long as all imports
    help=(
        "Find out which Spark queries made yours wait, for which resource, on which host, "
        "by how much, and what to change.\n\n"
        "Give it the event logs that Spark already writes (spark.eventLog.enabled=true; they lie "
        "in spark.eventLog.dir):\n\n"
        "    iqcar analyze /var/log/spark-events\n\n"
        "It reads them all, splits every task's life into work and waits (slots, CPU, memory, "
        "network, IO), and blames each wait on the queries that held the resource meanwhile. "
        "Nothing is sent anywhere and the logs are not changed."
    ),
    epilog=(
        "Exit codes: 0 analysed; 3 analysed, but some input failed or was truncated; "
        "1 nothing could be analysed; 2 wrong usage; 4 `compare`: slower than --fail-on allows."
    ),
)

FIRST = (
    *("analyze", "report", "queries", "blame", "compare", "whatif", "live", "stragglers", "topics"),
    *("schema", "serve", "mcp", "conf", "sample", "demo", "history", "rules"),
)
"""What the list of commands begins with; the others follow by name."""


def _register() -> None:
    """Add each command or group of commands, named as the module in this room that it is in."""
    names = {each.name for each in iter_modules(iqcar.apps.cli.__path__)} - {"main"}
    for name in (*FIRST, *sorted(names - set(FIRST))):
        found: Any = getattr(import_module(f"iqcar.apps.cli.{name}"), name, None)
        if isinstance(found, typer.Typer):
            app.add_typer(found)
        elif hasattr(found, "short_help"):
            app.command(name, cls=Grouped, short_help=found.short_help)(found)


_register()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"iqcar {__version__}")
        if plain_because():
            typer.echo(f"slower than it can be: kernels are plain Python: {plain_because()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help=f"Print the traceback where iqcar has a bug; {DEBUG}=1 in the environment does "
            "the same.",
        ),
    ] = False,
) -> None:
    """Handle the options before a command."""
    if debug:
        os.environ[DEBUG] = "1"  # the processes that read logs and serve inherit it


def main() -> None:
    """Run the command line; ends the process with an :class:`iqcar.errors.ExitCode`."""
    run_commands(app)


if __name__ == "__main__":
    main()
