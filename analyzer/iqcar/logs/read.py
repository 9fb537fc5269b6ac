"""Reading all the logs a user names: in this process, or in several where it pays."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iqcar.base.processes import usable_cores
from iqcar.base.workers import Died, in_processes
from iqcar.logs.find.locate import EventLog, Unreadable, locate
from iqcar.logs.find.log_parts import printable
from iqcar.logs.ingest import failed, ingest
from iqcar.logs.merge import merge
from iqcar.logs.text.redact import redact_text
from iqcar.tables import Tables

BYTES_WORTH_A_PROCESS = 8_000_000
"""Stored bytes per process from which several pay: a new process needs half a second to start,
in which one reads about 8 MB of zstd."""
MOST_GIVEN = 72
"""Characters of paths that are repeated in the commands that a text proposes: about a line."""


@dataclass(frozen=True)
class ReadProgress:
    """How far the reading is."""

    path: str
    """The log being read."""
    read_bytes: int
    """Stored bytes read so far, of all logs."""
    total_bytes: int
    """Stored bytes of all logs."""


def read_logs(
    paths: Sequence[str | Path | EventLog],
    *,
    processes: int | None = None,
    progress: Callable[[ReadProgress], None] | None = None,
) -> Tables:
    """Read Spark event logs into tables.

    Parameters
    ----------
    paths : files, directories, globs, rolling directories, zips, or URLs; logs that ``locate``
        found before come first and are read where it found them.
    processes : processes to read with; by default as many as there are cores, files and bytes for.
    progress : called with a :class:`ReadProgress` from time to time, always from the calling
        thread.

    Returns one ``inputs`` row per log found, readable or not. ``queries`` is empty, and so are the
    columns that later steps fill.

    Raises IqcarError if a URL needs a package that is not installed; SeveralError if one is a
    History Server with several applications.
    """
    found: list[EventLog | Unreadable] = [one for one in paths if isinstance(one, EventLog)]
    found += locate([one for one in paths if not isinstance(one, EventLog)], one_hosted=True)
    logs = [one for one in found if isinstance(one, EventLog)]
    sizes = [sum(part.size_bytes for part in log.parts) for log in logs]
    report = _Reporter(sum(sizes), progress)
    count = _processes(processes, [log.work_bytes for log in logs])
    if count > 1:
        read = _read_in_processes(logs, sizes, count, report)
    else:
        read = []
        helpers = (len(usable_cores()) if processes is None else processes) - 1
        for log, size in zip(logs, sizes, strict=True):
            tell = lambda done, path=log.path: report(path, done)  # noqa: E731
            read.append(ingest(log, tell, helpers))
            report.finish(log.path, size)
    tables = iter(read)
    merged = merge(
        [
            next(tables) if isinstance(one, EventLog) else failed(one.path, one.message)
            for one in found
        ]
    )
    given = shlex.join(one.path if isinstance(one, EventLog) else str(one) for one in paths)
    # What holds a secret, or what no terminal shows, could not be typed again.
    can_be_typed = 0 < len(given) <= MOST_GIVEN and redact_text(printable(given)) == given
    return replace(merged, given=given) if can_be_typed else merged


def _read_in_processes(
    logs: list[EventLog], sizes: list[int], processes: int, report: _Reporter
) -> list[Tables]:
    """Read logs in several processes, the largest first; a log whose process died is failed."""
    order = sorted(range(len(logs)), key=lambda number: -sizes[number])
    largest = [logs[number] for number in order]
    read: dict[int, Tables] = {}
    for place, tables in in_processes(
        ingest, largest, processes, lambda place, done: report(largest[place].path, done)
    ):
        path = largest[place].path
        died = isinstance(tables, Died)
        read[order[place]] = (
            failed(path, f"the process reading it {tables.why}") if died else tables
        )
        report.finish(path, sizes[order[place]])
    return [read[number] for number in range(len(logs))]


def _processes(wanted: int | None, sizes: list[int]) -> int:
    """Return how many processes to use; never more than logs."""
    if wanted is not None:
        return max(1, min(wanted, len(sizes)))
    worth = sum(sizes) // BYTES_WORTH_A_PROCESS
    # One huge log among small ones is read no faster by several processes.
    worth = min(worth, sum(sizes) // max(max(sizes, default=1), 1) + 1)
    return max(1, min(len(usable_cores()), len(sizes), worth))


class _Reporter:
    """Adds up the progress of all logs."""

    def __init__(self, total: int, progress: Callable[[ReadProgress], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._reading: dict[str, int] = {}

    def __call__(self, path: str, read: int) -> None:
        self._reading[path] = read
        self._tell(path)

    def finish(self, path: str, size: int) -> None:
        self._reading.pop(path, None)
        self._done += size
        self._tell(path)

    def _tell(self, path: str) -> None:
        if self._progress is not None:
            read = min(self._done + sum(self._reading.values()), self._total)
            self._progress(ReadProgress(path, read, self._total))
