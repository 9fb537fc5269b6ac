"""Reading one event log, in this process, from file to finished tables.

Damage in a log never breaks it, as far as is known. If it ever does, that log fails when it is
read, where it harms no other.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.base.units import MINUTES, moment
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError, explain_bug
from iqcar.logs.assemble.cached_table import TOO_MANY
from iqcar.logs.assemble.log_tables import Assembled, application_id, assemble
from iqcar.logs.collect import MAX_NAME, Collector, NotAnEventLogError
from iqcar.logs.compacted import gone, is_compacted
from iqcar.logs.decode.streams import DamageError
from iqcar.logs.events.lines import LineTally, read_blocks
from iqcar.logs.find.locate import EventLog, unpacked
from iqcar.logs.merge import POINTS_TO
from iqcar.logs.tasks.block_pool import BlockPool
from iqcar.logs.text.redact import redact_text
from iqcar.tables import LAST_PLAUSIBLE_MS, NONE, SPECS, Tables

if TYPE_CHECKING:
    from iqcar.logs.collect import Collector

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

    Parameters
    ----------
    log : where its parts are.
    on_progress : called with the number of stored bytes read so far.
    helpers : processes that may be started to decode a large log.

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

    Parameters
    ----------
    log : where it is stored.
    tally : what was met while its lines were read.
    collector : what they say; at least one event.
    last_line : the last line read.

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
