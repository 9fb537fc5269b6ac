"""Diagnoses the last minutes of a running application.

A window holds what happened between two times: tables of the same kind as those of whole logs, made
by the same steps, and the ordinary diagnosis of them. Tasks that run are part of it, and so are
those that wait to be launched; both count until the end of the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from iqcar.diagnosis import Diagnosis, Settings
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window_tables import MOST_WAITING, cut_before, until_now, waiting_by_stage
from iqcar.logs.events.lines import LineTally
from iqcar.logs.find.log_parts import EventLog
from iqcar.logs.forget import Forgotten
from iqcar.logs.ingest import tables_of
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.pipeline import diagnose
from iqcar.tables import Tables
from iqcar.tables.arrays import Ints


@dataclass(frozen=True)
class Window:
    """What a running application did between two times.

    Attributes
    ----------
    start_ms, end_ms : since the epoch, by the clocks that wrote the log.
    newest_ms : time of the newest event; before ``end_ms`` where the log has been quiet.
    ended : whether the application has ended.
    diagnosis : of the window alone.
    tables : what is known at the end, times and amounts not cut at the start: tasks that ended in
        the window, run or wait, and the stages, jobs and queries that these belong to.
    waiting : ndarray of shape (n_stages,), int64
        Tasks of each stage of ``tables`` that wait to be launched.
    events : events of the log so far.
    forgotten : what was over before the window.
    notes : what is doubtful about the window, in sentences.
    """

    start_ms: float
    end_ms: float
    newest_ms: float
    ended: bool
    diagnosis: Diagnosis
    tables: Tables
    waiting: Ints
    events: int
    forgotten: Forgotten
    notes: tuple[str, ...] = ()


def window_of(
    growing: GrowingLog,
    log: EventLog,
    tally: LineTally,
    settings: Settings,
    *,
    quiet_ms: float = 0.0,
    expected: bool = False,
    notes: tuple[str, ...] = (),
) -> Window | None:
    """Diagnose the last minutes of a log; what is over before them is dropped from it.

    Parameters
    ----------
    growing : as long as its ``keep_ms`` is the window.
    log : where it is stored.
    tally : what was met while its lines were read.
    settings : as of ``iqcar analyze``.
    quiet_ms : how long the log has been quiet, by the clock of who follows it: the window ends so
        much after the newest event.
    expected : whether to predict what proposed rules would do.
    notes : sentences to pass on.

    Returns
    -------
    Window
        None as long as the log has no event with a time.
    """
    collected = growing.log
    if not isfinite(growing.newest_ms) or collected.events == 0:
        return None
    now = growing.newest_ms + (0.0 if collected.ended else quiet_ms)
    growing.forget(now)
    whole = tables_of(log, tally, growing.copy_until(now), growing.last_line)
    waiting = np.zeros(len(whole.stages), np.int64)
    if not collected.ended:
        waiting = waiting_by_stage(whole, growing.succeeded)
        whole = until_now(whole, waiting, now)
    grouped = add_critical_path(identify(whole, settings.query_by))
    began = grouped.applications["start_ms"].to_numpy(np.float64)[0]
    start = min(np.fmax(now - growing.keep_ms, began), now)
    tables = cut_before(grouped, start)
    total = int(waiting.sum())
    if total > MOST_WAITING:
        notes = (
            *notes,
            f"{total:,} tasks wait to be launched, of which {MOST_WAITING:,} are counted",
        )
    diagnosis = diagnose(
        tables,
        critical_path=settings.critical_path,
        top=settings.top,
        expected=expected,
    )
    return Window(
        start_ms=float(start),
        end_ms=now,
        newest_ms=growing.newest_ms,
        ended=collected.ended,
        diagnosis=diagnosis,
        tables=grouped,
        waiting=waiting,
        events=collected.events,
        forgotten=Forgotten(**vars(growing.forgotten)),
        notes=notes,
    )
