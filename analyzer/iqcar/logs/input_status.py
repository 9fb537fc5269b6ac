"""What became of one log: its status, and in words what was lost or doubtful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iqcar.enums import InputStatus
from iqcar.logs.events.lines import LineTally
from iqcar.logs.find.locate import EventLog

if TYPE_CHECKING:
    from iqcar.logs.collect import Collector

_COMPACT = ".compact"


@dataclass(frozen=True)
class Verdict:
    """Status and message of an input."""

    status: InputStatus
    message: str


def judge(
    log: EventLog, tally: LineTally, read: Collector, *, last_line: bytes, bad_times: int
) -> Verdict:
    """Tell what became of a log that was read.

    The first of these that holds is the status: *failed* if there was no event; *truncated* if
    something that Spark wrote is missing (a damaged file, a lost rolling part, a line in the middle
    that is no event, a last line cut off in a log that is not marked as in progress); *complete* if
    the application's end is there; else *in progress*. A last line cut off in a log that is marked
    as in progress is no loss: Spark was writing it.
    """
    if read.events == 0:
        return Verdict(InputStatus.FAILED, nothing_read(tally, read))
    last_is_cut = bool(read.malformed) and not read.is_event(last_line)
    in_middle = read.malformed - last_is_cut
    lost = [log.problem, tally.damage]
    if tally.too_long:
        lost.append(f"{_count(tally.too_long, 'line')} too long to be an event left out")
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
        said.append("no end of the application: it was still running, or was killed")
    if any(part.path.endswith(_COMPACT) for part in log.parts):
        said.append("compacted: Spark dropped the events of jobs that had finished")
    bad = read.bad.count + read.tasks.bad_numbers
    if bad:
        said.append(f"{_count(bad, 'number')} that made no sense and counted as unknown")
    if bad_times:
        said.append(f"{_count(bad_times, 'task')} with an impossible start or end")
    return Verdict(status, "; ".join(said))


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
