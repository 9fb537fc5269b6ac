"""Reads logs for a command, with a progress bar on a terminal, and computes the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from iqcar.enums import InputStatus, QueryBy
from iqcar.errors import ExitCode, IqcarError

if TYPE_CHECKING:
    from iqcar.diagnosis import Diagnosis
    from iqcar.logs import ReadProgress
    from iqcar.model.demand.estimate import Recalled
    from iqcar.replay.whatif.curves import MeasuredCurves
    from iqcar.tables import Tables

FIRST = "(the first run on a machine compiles for some seconds)"


def logs_of(given: list[str] | None) -> list[str]:
    """Return the paths that were given, else where Spark writes here, and say which was taken.

    Raises IqcarError if there is nothing there.
    """
    if given:
        return given
    from iqcar.base.units import printable
    from iqcar.logs.attach.spark_conf import DEFAULT_LOG_DIR, configured_log_dir
    from iqcar.logs.find.locate import local_path
    from iqcar.logs.find.storage import is_url
    from iqcar.logs.text import redact_text

    place, file = configured_log_dir() or (DEFAULT_LOG_DIR, "")
    why = f"spark.eventLog.dir of {file}" if file else "where Spark writes by default"
    if not is_url(place) and not local_path(place).is_dir():
        what = f"no PATH given, and {redact_text(place)} is no folder here ({why})"
        raise IqcarError(what, "", "name event logs", ExitCode.USAGE)
    typer.echo(printable(f"iqcar: reading {redact_text(place)} ({why})"), err=True)
    return [place]


def read_for(paths: list[str], query_by: QueryBy, samples: list[str] | None = None) -> Tables:
    """Read the logs at some paths; raises IqcarError if nothing in them can be analysed."""
    from iqcar.pipeline import read

    with _bar("reading {task.fields[doing]}", "bytes") as bar:

        def show(now: ReadProgress) -> None:
            if bar is not None:
                bar(now.path.rstrip("/").rsplit("/", 1)[-1], now.read_bytes, now.total_bytes)

        tables = read(
            paths, query_by=query_by, samples=samples or (), progress=show if bar else None
        )
    if len(tables.applications) == 0:
        raise IqcarError(*_why_nothing(tables))
    return tables


def diagnosed(
    paths: list[str],
    samples: list[str] | None = None,
    recall: str = "",
    curves: str = "",
    yarn: str = "",
    **settings: Any,
) -> Diagnosis:
    """Read the logs at some paths and diagnose them: :func:`iqcar.pipeline.diagnose`.

    ``topics`` may also be a function of what was read.
    """
    from iqcar.pipeline import diagnose

    measured, told = curves_from(curves), None
    if yarn:  # before the logs are read: a wrong address is told at once
        from iqcar.logs.find.resource_manager import ask_resource_manager

        with working("asking YARN"):
            told = ask_resource_manager(yarn)
    tables = read_for(paths, settings["query_by"], samples)
    recalled = recall_from(recall, tables)
    if callable(topics := settings.get("topics")):
        settings["topics"] = topics(tables)
    with working("analysing"):
        return diagnose(tables, **settings, recalled=recalled, curves=measured, yarn=told)


def recall_from(store: str, tables: Tables) -> Recalled | None:
    """Return what a store holds of these queries and hosts; None where no store is named."""
    if not store:
        return None
    from iqcar.history import known_demand

    return known_demand(store, tables)


def curves_from(path: str) -> MeasuredCurves | None:
    """Read a file that `iqcar-lab experiment` wrote; None where none is named."""
    if not path:
        return None
    from iqcar.replay.whatif.curves import read_curves

    return read_curves(path)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show the current step on standard error, if it is a terminal."""
    with status(f"{what} {FIRST}"):
        yield


@contextmanager
def status(what: str) -> Iterator[Any]:
    """Show a line on standard error, if it is a terminal; yields it, else None."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status(what) as line:
        yield line


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on a terminal; called with the number done and the total."""
    with _bar(what) as bar:
        yield None if bar is None else lambda done, total: bar("", done, total)


@contextmanager
def _bar(what: str, of: str = "") -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar on standard error, if it is a terminal.

    Yields a function of the current step, the number done, and the total; None without terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich import progress as rich

    done: Any = rich.DownloadColumn() if of == "bytes" else rich.MofNCompleteColumn()
    words = rich.TextColumn("" if of == "bytes" else of)
    columns = (rich.TextColumn(what), rich.BarColumn(), done, words, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, doing="")
        yield lambda doing, done, total: bar.update(task, completed=done, total=total, doing=doing)


def exit_code(tables: Tables) -> ExitCode:
    """Return ``PARTIAL`` if some input failed or was truncated, else ``OK``."""
    from iqcar.tables import texts

    bad = {str(InputStatus.FAILED), str(InputStatus.TRUNCATED)}
    return ExitCode.PARTIAL if bad & set(texts(tables.inputs, "status")) else ExitCode.OK


def _why_nothing(tables: Tables) -> tuple[str, str, str]:
    from iqcar.tables import texts

    inputs = tables.inputs
    advice = "give the file or folder that Spark writes event logs to (spark.eventLog.dir)"
    if len(inputs) == 0:
        return "no event log found", "", advice
    path, message = texts(inputs, "path")[0], texts(inputs, "message")[0]
    if len(inputs) == 1:
        return message.rstrip("."), path, ""
    return f"none of {len(inputs)} inputs could be read; the first: {message}", path, advice
