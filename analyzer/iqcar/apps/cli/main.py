"""The entry point of ``iqcar``: registers the commands and turns errors into one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from threading import current_thread, main_thread
from types import FrameType
from typing import Annotated, Any

import typer

import iqcar.apps.cli
from iqcar.apps.cli.command import explain_line
from iqcar.apps.cli.grouped_help import Grouped
from iqcar.base.kernels import plain_because
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

FIRST = (
    *("analyze", "report", "queries", "blame", "compare", "whatif", "live", "stragglers", "topics"),
    *("schema", "serve", "mcp", "conf", "sample", "experiment", "demo", "history", "rules"),
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


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as an error does, so that it leaves no half file; then exit 143."""
    told: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the tidying up
        told.append(128 + number)
        sys.exit(told[0])

    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_default or current_thread() is not main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Exception:
        if told:  # a library made another error of it
            sys.exit(told[0])
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def main() -> None:
    """Run the command line; ends the process with an :class:`iqcar.errors.ExitCode`."""
    try:
        with _ended_by_sigterm():
            app()
    except IqcarError as error:
        for line in getattr(error, "lines", ()):
            explain_line(line)
        explain_line(f"iqcar: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("iqcar: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output (head, less) has closed the pipe, which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except Exception as error:
        # Caught here for all commands: tracebacks are printed only on request.
        explain_line(f"iqcar: the analysis {explain_bug(error)}")
        sys.exit(ExitCode.NOTHING)


if __name__ == "__main__":
    main()
