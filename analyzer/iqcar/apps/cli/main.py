"""The entry point of ``iqcar``: registers the commands and turns errors into one line."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from iqcar.apps.cli.analyze import analyze
from iqcar.apps.cli.blame import blame
from iqcar.apps.cli.compare import compare
from iqcar.apps.cli.conf import conf
from iqcar.apps.cli.demo import demo
from iqcar.apps.cli.experiment import experiment
from iqcar.apps.cli.history import app as history
from iqcar.apps.cli.inject import app as inject
from iqcar.apps.cli.live import live
from iqcar.apps.cli.mcp import mcp
from iqcar.apps.cli.queries import queries
from iqcar.apps.cli.report import report
from iqcar.apps.cli.rules import app as rules
from iqcar.apps.cli.sample import sample
from iqcar.apps.cli.schema import schema
from iqcar.apps.cli.serve import serve
from iqcar.apps.cli.stragglers import stragglers
from iqcar.apps.cli.topics import topics
from iqcar.apps.cli.whatif import whatif
from iqcar.errors import DEBUG, ExitCode, IqcarError, explain_bug
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
app.command(short_help="Who made your queries wait, and what to change.")(analyze)
app.command(short_help="The same as one HTML file to explore.")(report)
app.command(short_help="Which queries ran, and what they lost.")(queries)
app.command(short_help="One query, level by level.")(blame)
app.command(short_help="What changed between two sets of runs.")(compare)
app.command(short_help="What if something had been different.")(whatif)
app.command(short_help="Who waits for whom now, while it runs.")(live)
app.command(short_help="Why each slow task was slow.")(stragglers)
app.command(short_help="What keeps making tasks slow.")(topics)
app.command(short_help="JSON Schema of results, rules and checks.")(schema)
app.command(short_help="Applications and reports in a browser.")(serve)
app.command(short_help="Answers for agents (Model Context Protocol).")(mcp)
app.command(short_help="What to tell Spark to attach the plugin.")(conf)
app.command(short_help="Sample this host once a second.")(sample)
app.command(short_help="Run queries under load, and fit how much it slows them.")(experiment)
app.command(short_help="Try it all on an embedded Spark.")(demo)
app.add_typer(history, name="history", short_help="Who hurt whom over months.")
app.add_typer(rules, name="rules", short_help="Compile rules to pools; check what they did.")
app.add_typer(inject, name="inject", short_help="Load this host on purpose, and log it.")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"iqcar {__version__}")
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
    try:
        app()
    except IqcarError as error:
        from iqcar.base.formatting import printable

        typer.echo(f"iqcar: {printable(str(error))}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("iqcar: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output (head, less) has closed the pipe, which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except Exception as error:
        from iqcar.base.formatting import printable

        # Caught here for all commands: tracebacks are printed only on request.
        typer.echo(f"iqcar: the analysis {printable(explain_bug(error))}", err=True)
        sys.exit(ExitCode.NOTHING)


if __name__ == "__main__":
    main()
