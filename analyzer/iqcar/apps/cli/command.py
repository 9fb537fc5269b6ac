"""Declares commands: their options, and what all of them do before and after their own work.

A command is a function of its options that returns what it found, a :class:`Result`. Files that it
writes are checked before it runs; then its text is printed, or its JSON written, and it ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import Parameter, Signature
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from iqcar.apps.cli.options import make_option, options_of, split_doc
from iqcar.base.files.derived import is_stream, write_derived
from iqcar.errors import ExitCode, IqcarError, explain_bug

if TYPE_CHECKING:
    from iqcar.tables import Tables

Content = str | bytes | Iterable[str | bytes]


class Extra(NamedTuple):
    """What ``pip install 'iqcar[NAME]'`` adds that commands need: packages as they are imported."""

    name: str
    packages: tuple[str, ...]


DEMO = Extra("demo", ("pyspark", "duckdb", "duckdb_extension_tpcds"))
HISTORY = Extra("history", ("duckdb", "fsspec", "pyarrow"))
SERVE = Extra("serve", ("starlette", "uvicorn", "prometheus_client"))
MCP = Extra("mcp", ("mcp", *SERVE.packages))
SPARK = Extra("spark", ("pyspark",))

UNDECLARED = (
    Parameter("json", Parameter.KEYWORD_ONLY, default=None, annotation=str | None),
    Parameter("force", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
)
"""Options that commands have undeclared: where the JSON goes, and whether over a file."""


@dataclass(frozen=True)
class Result:
    """What a command found.

    Attributes
    ----------
    show : callable, optional
        Prints it as text; not called where something else goes to standard output.
    json : callable, optional
        Makes the content of ``--json``.
    files : mapping of str to callable
        Makes the contents of other files, by the option that names each.
    tables : sequence of Tables
        What was read: the command ends with ``PARTIAL`` if some input failed or was truncated.
    ends : int
        The exit code otherwise.
    last : callable, optional
        Called when all is written.
    """

    show: Callable[[], object] | None = None
    json: Callable[[], Content] | None = None
    files: Mapping[str, Callable[[], Content]] | None = None
    tables: Sequence[Tables] = ()
    ends: int = ExitCode.OK
    last: Callable[[], object] | None = None

    def tell(self, targets: Mapping[str, str | None]) -> NoReturn:
        """Print and write it, and end the command."""
        from iqcar.apps.cli.reading import exit_code

        if self.show is not None and "-" not in targets.values():
            self.show()
        for name, content in {"json": self.json, **(self.files or {})}.items():
            if (target := targets.get(name)) is not None and content is not None:
                write_result(target, content())
        if self.last is not None:
            self.last()
        raise typer.Exit(max([self.ends, *map(exit_code, self.tables)]))


def command(
    short_help: str = "",
    *,
    writes: tuple[str, ...] = ("json",),
    needs: Extra | None = None,
) -> Callable[[Callable[..., Result | None]], Callable[..., None]]:
    """Make a command of a function.

    Its options are :func:`~iqcar.apps.cli.options.options_of` it, its help is its docstring.

    Parameters
    ----------
    short_help : str
        What the list of commands says.
    writes : tuple of str
        Options that name files to write; ``--json`` and ``--force`` need not be declared.
    needs : Extra, optional
        What has to be installed.
    """
    added = {"force", *writes} if writes else set()

    def made(function: Callable[..., Result | None]) -> Callable[..., None]:
        declared = options_of(function)
        own = [one for each in declared.values() for one in each.options]
        names = {one.name for one in own}
        shared = [make_option(one) for one in UNDECLARED if one.name in added - names]

        def run(**given: Any) -> None:
            if needs is not None:
                need(needs)
            if given.get("recall"):
                need(HISTORY)
            targets = {name: given[name] for name in writes}
            for name, target in targets.items():
                check_writable(target, given["force"] or (name == "rules" and _is_rules(target)))
            taken: dict[str, Any] = {}
            for name, each in declared.items():
                taken |= each.take(name, given)
            if (result := function(**taken)) is not None:
                result.tell(targets)

        run.__name__, run.__module__ = function.__name__, function.__module__
        run.__doc__ = split_doc(function.__doc__)[0]
        run.__annotations__ = {}
        run.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        run.short_help = short_help or None  # type: ignore[attr-defined]
        return run

    return made


def need(extra: Extra) -> None:
    """Check that the packages of an extra are installed.

    Raises
    ------
    IqcarError
        If one of them is missing; the advice is how to install it.
    """
    missing = [name for name in extra.packages if find_spec(name) is None]
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise IqcarError(f"needs {names}", "", f"pip install 'iqcar[{extra.name}]'")


def check_writable(target: str | None, force: bool) -> None:
    """Check before the analysis that a result can be written; raises IqcarError."""
    if target is None or target == "-":
        return
    path = Path(target)
    if is_stream(path):
        return
    if path.is_dir():
        raise IqcarError("is a folder", target, "name a file", ExitCode.USAGE)
    if os.path.lexists(path) and not force:
        raise IqcarError("exists already", target, "use --force to overwrite it", ExitCode.USAGE)
    if not path.absolute().parent.is_dir():
        raise IqcarError("its folder does not exist", target, "make it first", ExitCode.USAGE)


def _is_rules(target: str | None) -> bool:
    """Whether a file holds rules, which only iqcar writes: newer ones may take their place."""
    if target is None or Path(target).is_symlink() or not Path(target).is_file():
        return False
    from iqcar.rules.compile_pools import load_rules_file

    try:
        load_rules_file(target)
    except IqcarError:
        return False
    return True


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make a folder to write to, if it is not there; raises IqcarError."""
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise IqcarError(f"cannot be made: {reason}", str(folder)) from error


def write_result(target: str, content: Content) -> None:
    """Write to a file as :func:`~iqcar.base.files.derived.write_derived`; ``-`` is the output."""
    sys.stdout.flush()  # keeps the order where the target is standard output
    if target == "-":
        for chunk in (content,) if isinstance(content, (str, bytes)) else content:
            data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
            sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_derived(target, content)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", target) from error
    typer.echo(f"Wrote {target}", err=True)


def explain_line(text: str, *, err: bool = True) -> None:
    """Print a line that may quote a log, without control characters."""
    from iqcar.base.units import printable

    typer.echo(printable(text), err=err)


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


def run_commands(app: typer.Typer) -> None:
    """Run commands, and turn errors into one line; ends the process with an exit code."""
    name = app.info.name
    try:
        with _ended_by_sigterm():
            app()
    except IqcarError as error:
        for line in getattr(error, "lines", ()):
            explain_line(line)
        explain_line(f"{name}: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo(f"{name}: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output (head, less) has closed the pipe, which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except Exception as error:
        # Caught here for all commands: tracebacks are printed only on request.
        explain_line(f"{name}: the analysis {explain_bug(error)}")
        sys.exit(ExitCode.NOTHING)
