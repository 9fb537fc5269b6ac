"""Runs one analysis in a process of its own: logs are untrusted, and its memory is given back.

The server starts ``main`` and writes one line of JSON to its standard input: a :class:`Task`. Lines
of JSON come back through its standard output: how far it is, and at last that it is done or why
not. The results are files. It ends when its standard input does, so it does not outlive the server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from iqcar.apps.serve.process_limits import bound_memory
from iqcar.base.processes import at_end_of
from iqcar.enums import QueryBy
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.find.log_parts import EventLog, LogPart, ToldByServer

if TYPE_CHECKING:
    from iqcar.logs import ReadProgress
    from iqcar.tables import Tables

ASSETS, HOME = "/static/", "/"
"""Where reports find Plotly's program, and the list that they lead back to."""

TELL_S = 0.2
"""Seconds between two reports of progress (0.2): as often as a page asks for it."""

_NEEDED = ("iqcar.pipeline", "iqcar.show.html", "iqcar.show.json.analyze", "iqcar.apps.serve.cache")
"""What :func:`run` imports, as only this process needs it."""


@dataclass(frozen=True)
class Task:
    """What to analyse, how, and where the files go.

    The first ``before`` logs are compared with the others; with 0 all are analysed together.
    What is ``unasked`` gives way to all other processes.
    """

    keys: tuple[str, ...]
    logs: tuple[EventLog, ...]
    settings: dict[str, Any]
    folder: str
    before: int = 0
    unasked: bool = False

    def to_line(self) -> bytes:
        """Write it as one line; names that are no UTF-8 pass, as Python's JSON escapes them."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Task:
        """Read what :meth:`to_line` wrote."""
        task = json.loads(line)
        logs = tuple(map(_log, task["logs"]))
        return cls(**{**task, "keys": tuple(task["keys"]), "logs": logs})


def preload() -> None:
    """Import what an analysis needs; of Plotly most is imported when it is used."""
    from plotly.graph_objects import Bar, Box, Figure, Heatmap, Sankey, Scatter

    for module in _NEEDED:
        import_module(module)
    Figure([Bar(), Box(), Heatmap(), Sankey(), Scatter()]).to_json()


def main() -> None:
    """Do the task that comes in through standard input, and tell how it went."""
    bound_memory()
    task = Task.from_line(sys.stdin.buffer.readline())
    if task.unasked:
        os.nice(19)
    outgoing, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    at_end_of(0, lambda: os._exit(1))  # the server closed it, whatever is being done

    def tell(**news: Any) -> None:
        _tell(outgoing, news)

    try:
        run(task, tell)
    except IqcarError as error:
        tell(failed=str(error))
    except Exception as error:
        tell(failed=f"the analysis {explain_bug(error)}")
    else:
        tell(done=True)


def run(task: Task, tell: Callable[..., None]) -> None:
    """Read the logs, diagnose or compare, and write the files of a cache entry.

    ``tell`` is called with ``phase`` and ``share``: what is being done, and how far it is (0 to 1).
    Raises IqcarError if nothing in the logs can be analysed.
    """
    from iqcar.apps.serve.cache import write_entry
    from iqcar.apps.serve.result_summary import summarize
    from iqcar.pipeline import diagnose
    from iqcar.show.html import page_policy, render_page
    from iqcar.show.json.analyze import json_chunks

    if task.before:
        return _compare(task, tell)
    tables = read_logs(task, task.logs, tell)
    tell(phase="analysing", share=0.0)
    diagnosis = diagnose(tables, **task.settings)
    tell(phase="writing", share=0.0)
    page = render_page(diagnosis, assets=ASSETS, home=HOME).encode()
    summary = summarize(diagnosis, task.keys, settings_text(task.settings), page_policy(ASSETS))
    write_entry(Path(task.folder), json_chunks(diagnosis), page, summary)


def _compare(task: Task, tell: Callable[..., None]) -> None:
    """Read both sets, compare them, and write the files of a cache entry."""
    from iqcar.apps.serve.cache import write_entry
    from iqcar.apps.serve.result_summary import summarize_comparison
    from iqcar.comparison.compare_sets import compare
    from iqcar.show.html.compare import comparison_policy, render_comparison
    from iqcar.show.json.compare import compare_to_json

    before = read_logs(task, task.logs[: task.before], tell)
    after = read_logs(task, task.logs[task.before :], tell)
    tell(phase="analysing", share=0.0)
    compared = compare(before, after)
    tell(phase="writing", share=0.0)
    page = render_comparison(compared, home=HOME).encode("utf-8", "replace")
    about = comparison_text(task.settings, task.keys, task.before)
    summary = summarize_comparison(compared, about, comparison_policy())
    write_entry(Path(task.folder), [compare_to_json(compared)], page, summary)


def read_logs(task: Task, logs: tuple[EventLog, ...], tell: Callable[..., None]) -> Tables:
    """Read logs, and tell how far it is; raises IqcarError if there is nothing to analyse."""
    from iqcar.pipeline import read
    from iqcar.tables import texts

    told_at = 0.0

    def show(progress: ReadProgress) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > TELL_S:
            told_at = time.monotonic()
            tell(phase="reading", share=progress.read_bytes / max(progress.total_bytes, 1))

    tell(phase="reading", share=0.0)
    query_by = task.settings.get("query_by", QueryBy.SQL)
    tables = read(logs, query_by=query_by, processes=1, progress=show)
    if len(tables.applications) == 0:
        messages = texts(tables.inputs, "message")
        raise IqcarError(messages[0].rstrip(".") if messages else "no event log to analyse")
    return tables


def settings_text(settings: dict[str, Any]) -> str:
    """Write settings as text that is the same for the same settings."""
    return json.dumps({name: str(value) for name, value in settings.items()}, sort_keys=True)


def comparison_text(settings: dict[str, Any], keys: Sequence[str], before: int) -> str:
    """Write the settings of a comparison as text: which of the applications it is about, too."""
    sides = sorted(keys[:before]), sorted(keys[before:])
    return json.dumps([settings_text(settings), *sides])


def _log(fields: dict[str, Any]) -> EventLog:
    told = ToldByServer(*fields["told"]) if fields["told"] else None
    return EventLog(**{**fields, "parts": tuple(map(_part, fields["parts"])), "told": told})


def _part(fields: dict[str, Any]) -> LogPart:
    return LogPart(**{**fields, "within": tuple(fields["within"])})


def _tell(outgoing: TextIO, news: dict[str, Any]) -> None:
    try:
        outgoing.write(json.dumps(news) + "\n")
        outgoing.flush()
    except (OSError, ValueError):
        os._exit(1)  # the server has gone
