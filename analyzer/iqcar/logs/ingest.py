"""Reading the logs a user names into tables: each in blocks of lines, several in processes.

A block is text, decompressed and cut at a newline; who takes it finds its lines. Never is more than
one line in memory beyond it.
"""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.base.units import MINUTES, moment
from iqcar.base.workers import Died, in_processes, usable_cores
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.assemble.log_tables import TOO_MANY, Assembled, application_id, assemble
from iqcar.logs.collect import MAX_NAME, Collector, NotAnEventLogError
from iqcar.logs.decode.streams import (
    CHUNK_BYTES,
    BombError,
    DamageError,
    UnfinishedError,
    check_ratio,
    decoded_pieces,
)
from iqcar.logs.find.layouts import LogPart, printable
from iqcar.logs.find.locate import EventLog, Unreadable, gone, is_compacted, locate, unpacked
from iqcar.logs.find.storage import open_part
from iqcar.logs.merge import POINTS_TO, merge
from iqcar.logs.tasks.task_lines import BlockPool
from iqcar.logs.text import redact_text
from iqcar.tables import LAST_PLAUSIBLE_MS, NONE, SPECS, Tables

MAX_LINE_BYTES = 64 << 20
"""Longest line kept (64 MiB). The longest known events hold the plans of huge queries: a few
megabytes; Spark itself fails on strings from some hundred megabytes on."""

MIN_MEAN_LINE_BYTES = 64
"""Shortest mean line of a log with more than :data:`MANY_LINES` lines. The shortest event there is
takes about 50 bytes, a task's end some thousand."""

MANY_LINES = 1_000_000
"""Lines after which their mean length is checked."""

COUNTED_BYTES = 64 << 10
"""Bytes of a block in which lines are counted (64 KiB), as a sample of those of all the block."""

_BOM = b"\xef\xbb\xbf"


@dataclass
class LineTally:
    """What :func:`read_blocks` has met so far.

    too_long: lines over :data:`MAX_LINE_BYTES`, skipped.
    bytes_stored: stored bytes read.
    bytes_decoded: bytes after decompression.
    damage: why something could not be read, in a sentence; empty if all was read.
    last_line_cut: whether the last line has no newline (it may be whole nevertheless).
    """

    too_long: int = 0
    bytes_stored: int = 0
    bytes_decoded: int = 0
    damage: str = ""
    last_line_cut: bool = False


def read_blocks(
    log: EventLog, tally: LineTally, on_progress: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """Read a log's lines.

    log: from :func:`~iqcar.logs.find.locate.locate`.
    tally: filled while reading; complete when the iterator ends.
    on_progress: called after every block with the stored bytes of the log read so far.

    Yields a block: lines of about 1 MiB in the order of the log, none of them longer than
    :data:`MAX_LINE_BYTES`, not all of them blank; the last one ends in a newline, too. Bad content
    never raises: ``tally.damage`` says why a part was left early. A damaged part of a rolling log
    does not keep the later parts from being read. A log that is marked as in progress may end
    within compressed data: that is no damage.

    Raises IqcarError if a URL needs a package that is not installed.
    """
    splitter = LineSplitter(tally)
    damages: list[str] = []
    for part in log.parts:
        damage = yield from _whole_part(part, tally, splitter, on_progress)
        if damage is None:
            continue
        last = part is log.parts[-1]
        if isinstance(damage, UnfinishedError) and log.in_progress_hint and last:
            continue  # what is missing has not been written yet
        damages.append(_of_part(damage, part, log))
        tally.damage = "; ".join(damages)
        if isinstance(damage, BombError):
            return


def _of_part(damage: DamageError, part: LogPart, log: EventLog) -> str:
    if len(log.parts) == 1:
        return str(damage)
    return f"{part.path.replace(os.sep, '/').rpartition('/')[2]}: {damage}"


def _whole_part(
    part: LogPart,
    tally: LineTally,
    splitter: LineSplitter,
    on_progress: Callable[[int], None] | None,
) -> Generator[bytes, None, DamageError | None]:
    """Yield the lines of one part; return what kept it from being read to its end."""
    stored_before = tally.bytes_stored
    damage = None
    splitter.start()
    try:
        with open_part(part) as stream:
            for piece in decoded_pieces(stream):
                tally.bytes_stored = stored_before + stream.stored_bytes
                tally.bytes_decoded += len(piece)
                check_ratio(tally.bytes_decoded, tally.bytes_stored)
                if block := splitter.add(piece):
                    yield block
                    if on_progress is not None:
                        on_progress(tally.bytes_stored)
                splitter.check_mean()
    except DamageError as error:
        damage = error
    if block := splitter.finish():
        yield block
    if on_progress is not None:
        on_progress(tally.bytes_stored)
    return damage


class LineSplitter:
    """Joins the pieces of a part to blocks that end in a newline."""

    def __init__(self, tally: LineTally) -> None:
        self._tally = tally
        self._lines_seen = 0.0
        self.start()

    def start(self) -> None:
        """Begin a part: it starts with a new line, and may start with a byte order mark."""
        self._lines: list[bytes | memoryview] = []
        self._line_bytes = 0
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._skipping = False
        self._first = True

    def add(self, piece: bytes) -> bytes | None:
        """Take in a piece; return the lines that have ended if they are enough for a block."""
        after = piece.rfind(b"\n") + 1
        if after:
            if self._skipping or self._open_bytes + len(piece) > MAX_LINE_BYTES:
                first = piece.find(b"\n")
                if not self._skipping and self._open_bytes + first > MAX_LINE_BYTES:
                    self._drop_open_line()
                if self._skipping:
                    piece, after = piece[first + 1 :], after - first - 1
                    self._skipping = False
            self._lines += (*self._open, memoryview(piece)[:after])
            self._line_bytes += self._open_bytes + after
            self._open, self._open_bytes = [], 0
        if not self._skipping:
            self._open.append(piece[after:])
            self._open_bytes += len(piece) - after
            if self._open_bytes > MAX_LINE_BYTES:
                self._drop_open_line()
        return self._take() if self._line_bytes >= CHUNK_BYTES else None

    @property
    def held_bytes(self) -> int:
        """Bytes of a last line whose end has not come yet."""
        return self._open_bytes

    def take_ended(self) -> bytes | None:
        """Return the lines that have ended, as a block; a last line without a newline stays."""
        return self._take() if self._lines else None

    def finish(self) -> bytes | None:
        """Return what is left, as a block; a last line without a newline gets one."""
        line = b"".join(self._open)
        if self._first and not self._lines:
            line = line.removeprefix(_BOM)
        line = line.rstrip()
        self._tally.last_line_cut = bool(line)
        if line:
            self._lines += (line, b"\n")
        return self._take()

    def check_mean(self) -> None:
        """Stop a file of countless lines that are too short to be events."""
        seen = self._lines_seen
        if seen > MANY_LINES and self._tally.bytes_decoded < MIN_MEAN_LINE_BYTES * seen:
            mean = int(self._tally.bytes_decoded / seen)
            raise BombError(
                f"more than {MANY_LINES:,} lines of about {mean} bytes, not Spark events; "
                "reading stopped"
            )

    def _drop_open_line(self) -> None:
        """Give up the line that has no end yet: it is too long."""
        self._tally.too_long += 1
        self._open, self._open_bytes = [], 0
        self._skipping, self._first = True, self._first and bool(self._lines)

    def _take(self) -> bytes | None:
        """Return the lines that have ended, None if they are blank; start the next block."""
        text = b"".join(self._lines)
        if self._first:
            text = text.removeprefix(_BOM)
        self._lines, self._line_bytes, self._first = [], 0, False
        if not text or text.isspace():
            self._lines_seen += text.count(b"\n")
            return None
        counted = min(len(text), COUNTED_BYTES)
        self._lines_seen += text.count(b"\n", 0, counted) * len(text) / counted
        return text


PROFILES = ("task_records", "intervals")
"""Tables whose times are sums of plausible ones."""


class UnsoundError(Exception):
    """A table breaks what later steps rely on: a bug of the reader."""


def check_tables(tables: Tables) -> None:
    """Check the tables of one log.

    Raises UnsoundError if a column names a row that is not there, a number is infinite, a time is
    none, or a task ends before it starts.
    """
    frames = dict(tables)
    for name, columns in POINTS_TO.items():
        for column, target in columns.items():
            rows = frames[name][column].to_numpy()
            if len(rows) and (rows.min() < NONE or rows.max() >= len(frames[target])):
                raise UnsoundError(f"{name}.{column} names a row that {target} has not")
    for spec in SPECS:
        name, frame = spec.name, frames[spec.name]
        for column in [one.name for one in spec.columns if one.dtype == "float64" and len(frame)]:
            values = frame[column].to_numpy()
            if np.isinf(values).any():
                raise UnsoundError(f"{name}.{column} is infinite")
            is_time = column.endswith("_ms") and name not in PROFILES
            if is_time and _largest(values) > LAST_PLAUSIBLE_MS:
                raise UnsoundError(f"{name}.{column} is no time")
    launch, finish = (tables.tasks[name].to_numpy() for name in ("launch_ms", "finish_ms"))
    if not (finish >= launch).all():
        raise UnsoundError("tasks.finish_ms is before tasks.launch_ms")


def _largest(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.fmax.reduce(np.abs(values)))


LARGE_LOG_BYTES = 64 << 20
"""Decoded size from which other processes help to decode one log (64 MiB): one starts in 60 ms, in
which this process reads some 20 MB, so two cores gain a tenth there and a quarter at 100 MB."""

MOST_NAMED = 5
"""Fields and settings that are named whose numbers made no sense."""

_COUNTS = (
    "events", "skipped_events", "malformed_lines", "tasks", "stages", "jobs", "sql_executions",
    "hosts", "executors",
)  # fmt: skip


def ingest(
    log: EventLog, on_progress: Callable[[int], None] | None = None, helpers: int = 0
) -> tb.Tables:
    """Read one log; whatever is in it, and whatever goes wrong, costs no other log anything.

    log: where its parts are.
    on_progress: called with the number of stored bytes read so far.
    helpers: processes that may be started to decode a large log.

    The result is with one row of ``inputs``, which says what became of the log; if it failed, all
    other tables are empty. ``queries`` is empty.
    """
    try:
        return _read(unpacked(log), on_progress, helpers)
    except DamageError as error:
        return failed(log.path, str(error))
    except IqcarError as error:
        return failed(log.path, f"{error.what}; {error.advice}" if error.advice else error.what)
    except Exception as error:
        return failed(log.path, f"reading it {explain_bug(error)}")


def _read(log: EventLog, on_progress: Callable[[int], None] | None, helpers: int) -> tb.Tables:
    tally, collector = LineTally(), Collector()
    text = b""
    size = sum(part.size_bytes for part in log.parts)

    def is_large(least: int) -> bool:
        """Tell by how well the first blocks are compressed how large the log is."""
        return size * tally.bytes_decoded >= least * tally.bytes_stored

    with _no_garbage_collection(), BlockPool(helpers) as pool:
        try:
            blocks = read_blocks(log, tally, on_progress)
            for text, tasks in pool.decoded(blocks, lambda: is_large(LARGE_LOG_BYTES)):
                collector.add(text, tasks)
        except NotAnEventLogError:
            return failed(log.path, nothing_read(tally, collector), collector.malformed)
        if collector.events == 0:
            return failed(log.path, nothing_read(tally, collector), collector.malformed)
        return tables_of(log, tally, collector, _last_line(text))


def tables_of(log: EventLog, tally: LineTally, collector: Collector, last_line: bytes) -> tb.Tables:
    """Make the tables of a log that was collected; its tasks are used up.

    log: where it is stored.
    tally: what was met while its lines were read.
    collector: what they say; at least one event.
    last_line: the last line read.

    The result is as of :func:`ingest`.
    """
    assembled = assemble(collector, log.path, log.attempt_id)
    frames = assembled.frames
    outcome = judge(log, tally, collector, last_line=last_line, assembled=assembled)
    counts = {
        "events": collector.events,
        "skipped_events": collector.skipped,
        "malformed_lines": collector.malformed,
        "tasks": collector.task_intake.ends,
        "stages": len(frames["stages"]),
        "jobs": len(frames["jobs"]),
        "sql_executions": len(collector.sql.seen),
        "hosts": assembled.hosts_of_tasks,
        "executors": len(frames["executors"]),
    }
    application = frames["applications"]
    if is_compacted(log):
        until = gone(frames).until_ms
        application = frames["applications"] = application.assign(gone_until_ms=until)
    frames["inputs"] = _input(
        log.path,
        outcome,
        counts,
        app=0,
        application_id=application_id(collector, log.path),
        application_name=tb.texts(application, "name")[0],
        spark_version=collector.version,
    )
    frames["queries"] = tb.QUERIES.empty()
    tables = tb.Tables(**frames)
    check_tables(tables)
    return tables


def _last_line(text: bytes) -> bytes:
    return text.rstrip().rpartition(b"\n")[2]


def failed(path: str, message: str, malformed: int = 0) -> tb.Tables:
    """Return tables that hold nothing but a failed input."""
    outcome = ReadOutcome(InputStatus.FAILED, message)
    counts = {**dict.fromkeys(_COUNTS, 0), "malformed_lines": malformed}
    return tb.Tables.empty().with_(inputs=_input(path, outcome, counts))


def _input(
    path: str,
    outcome: ReadOutcome,
    counts: dict[str, int],
    *,
    app: int = tb.NONE,
    application_id: str = "",
    application_name: str = "",
    spark_version: str = "",
) -> pd.DataFrame:
    return tb.INPUTS.frame(
        {
            "path": [redact_text(path)],
            "app": [app],
            "application_id": [application_id],
            "application_name": [redact_text(application_name, MAX_NAME)],
            "spark_version": [spark_version],
            "status": [str(outcome.status)],
            "message": [redact_text(outcome.message)],
            **{name: [counts[name]] for name in _COUNTS},
        }
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Nothing made while reading refers to itself; looking for it costs a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class ReadOutcome:
    """Status and message of an input."""

    status: InputStatus
    message: str


def judge(
    log: EventLog, tally: LineTally, read: Collector, *, last_line: bytes, assembled: Assembled
) -> ReadOutcome:
    """Tell what became of a log that was read.

    The first of these that holds is the status: *failed* if there was no event; *truncated* if
    something that Spark wrote is missing (a damaged file, a lost rolling part, a line in the middle
    that is no event, a last line cut off in a log that is not marked as in progress); *complete* if
    the application's end is there; else *in progress*. A last line cut off in a log that is marked
    as in progress is no loss: Spark was writing it.
    """
    if read.events == 0:
        return ReadOutcome(InputStatus.FAILED, nothing_read(tally, read))
    last_is_cut = read.malformed > read.dense.left_out and not read.is_event(last_line)
    in_middle = read.malformed - read.dense.left_out - last_is_cut
    lost = [log.problem, tally.damage]
    if tally.too_long:
        lost.append(f"{_count(tally.too_long, 'line')} too long to be an event left out")
    if read.dense.left_out:
        what = "of more values than are read of one line or log"
        lost.append(f"{_count(read.dense.left_out, 'line')} {what} left out")
    if in_middle:
        lost.append(f"{_count(in_middle, 'line')} that {_are(in_middle)} no event left out")
    if last_is_cut and (read.ended or not log.in_progress_hint):
        lost.append("the last line is cut off, so the end of the log may be lost")
    said = [one.rstrip(".") for one in lost if one]
    if said:
        status = InputStatus.TRUNCATED
    elif read.ended:
        status = InputStatus.COMPLETE
    else:
        status = InputStatus.IN_PROGRESS
    if not read.ended:
        since = moment(float(assembled.frames["applications"]["end_ms"].iloc[0]), MINUTES)
        since = f" since {since}" if since else ""
        said.append(f"no end of the application{since}: it was still running, or was killed")
    if is_compacted(log):
        said.append(gone(assembled.frames).message)
    bad = read.bad.count + read.tasks.bad_numbers
    if bad:
        of = sorted(read.bad.names | read.tasks.bad_names)
        more = f", {len(of) - MOST_NAMED} more" if len(of) > MOST_NAMED else ""
        named = f" ({', '.join(of[:MOST_NAMED])}{more})" if of else ""
        said.append(f"{_count(bad, 'number')} that made no sense and counted as unknown{named}")
    if read.task_intake.cached.too_many:
        said.append(TOO_MANY)
    if assembled.bad_times:
        said.append(f"{_count(assembled.bad_times, 'task')} with an impossible start or end")
    if assembled.bad_moments:
        said.append(f"{_count(assembled.bad_moments, 'time')} outside the run left out")
    return ReadOutcome(status, "; ".join(said))


def nothing_read(tally: LineTally, read: Collector) -> str:
    """Say why a file without any event is none of Spark's logs."""
    where = "give the file or folder that spark.eventLog.dir names"
    if tally.damage:
        return f"nothing could be read: {tally.damage.rstrip('.')}"
    if tally.too_long and not read.malformed:
        return f"not a Spark event log: its lines are too long to be events; {where}"
    if not read.malformed:
        return "empty: no event was written yet, or the log is not a Spark event log"
    return f"not a Spark event log: its first lines are no events; {where}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


BYTES_WORTH_A_PROCESS = 8_000_000
"""Stored bytes per process from which several pay: a new process needs half a second to start,
in which one reads about 8 MB of zstd."""
MOST_GIVEN = 600
"""Characters of several paths that are repeated in the commands that a text proposes; of one path,
all are."""


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

    paths: files, directories, globs, rolling directories, zips, or URLs; logs that ``locate``
        found before come first and are read where it found them.
    processes: processes to read with; by default as many as there are cores, files and bytes for.
    progress: called with a :class:`ReadProgress` from time to time, always from the calling
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
    fits = len(paths) == 1 or 0 < len(given) <= MOST_GIVEN
    can_be_typed = fits and redact_text(printable(given)) == given
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
