"""Read logs for a command, with a progress bar on a terminal, and compute the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iqcar.enums import InputStatus, QueryBy
from iqcar.errors import ExitCode, IqcarError
from iqcar.tables import Tables, texts

if TYPE_CHECKING:
    from iqcar.logs import ReadProgress


def read_for(paths: list[str], query_by: QueryBy, samples: list[str] | None = None) -> Tables:
    """Read the logs at some paths; raises IqcarError if nothing in them can be analysed."""
    from iqcar.pipeline import read

    with _progress() as progress:
        tables = read(paths, query_by=query_by, samples=samples or (), progress=progress)
    check_any(tables)
    return tables


def check_any(tables: Tables) -> None:
    """Raise IqcarError if nothing in the logs can be analysed."""
    if len(tables.applications) == 0:
        raise IqcarError(*_why_nothing(tables))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show the current step on standard error, if it is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} (the first run on a machine compiles for some seconds)"):
        yield


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on standard error, if it is a terminal; called with done and all."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def on_executors() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show Spark's current step and the number of tasks done, on a terminal."""
    with steps_done("Spark: {task.fields[doing]}", "tasks") as bar:
        yield bar


@contextmanager
def steps_done(what: str, of: str = "") -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar on standard error, if it is a terminal.

    Yields a function of the current step, the number done, and the total; None without terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(of))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, doing="starting")
        yield lambda doing, done, whole: bar.update(task, completed=done, total=whole, doing=doing)


def exit_code(tables: Tables) -> ExitCode:
    """Return ``PARTIAL`` if some input failed or was truncated, else ``OK``."""
    bad = {str(InputStatus.FAILED), str(InputStatus.TRUNCATED)}
    return ExitCode.PARTIAL if bad & set(texts(tables.inputs, "status")) else ExitCode.OK


def _why_nothing(tables: Tables) -> tuple[str, str, str]:
    inputs = tables.inputs
    advice = "give the file or folder that Spark writes event logs to (spark.eventLog.dir)"
    if len(inputs) == 0:
        return "no event log found", "", advice
    path, message = texts(inputs, "path")[0], texts(inputs, "message")[0]
    if len(inputs) == 1:
        return message.rstrip("."), path, ""
    return f"none of {len(inputs)} inputs could be read; the first: {message}", path, advice


@contextmanager
def _progress() -> Iterator[Callable[[ReadProgress], None] | None]:
    """Show a progress bar on standard error while reading, if it is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("reading {task.fields[log]}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("read", total=None, log="")

        def show(progress: ReadProgress) -> None:
            name = progress.path.rstrip("/").rsplit("/", 1)[-1]
            bar.update(task, total=progress.total_bytes, completed=progress.read_bytes, log=name)

        yield show
