"""Adds applications to a store: finds their logs, diagnoses those that ran at once, writes rows.

An application that the store knows is passed over, unless its log has grown since or it is asked
for again. What is done is written every minute, so that an addition that is stopped goes on where
it was.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.workers import Died, in_processes
from iqcar.enums import InputStatus
from iqcar.errors import IqcarError, explain_bug
from iqcar.history.store_views import known_applications, merge_months
from iqcar.history.stored_files import (
    APPLICATIONS,
    STORED,
    Store,
    bounded_cluster,
    cluster_of,
    new_batch,
    open_store,
    write_batch,
)
from iqcar.history.stored_rows import rows_of
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.find.locate import locate
from iqcar.logs.log_summary import Peek, peek
from iqcar.pipeline import diagnose, read
from iqcar.tables import texts

Rows = dict[str, pd.DataFrame]
Progress = Callable[[int, int], None]

WRITE_EVERY_S = 60.0
"""Rows are written at the latest after so long."""
MOST_APPLICATIONS = 500
"""Rows of so many applications are written at once."""
LOOKING_AT_ONCE = 8
"""Logs whose first lines are read at once: it is mostly waiting where they are remote."""


@dataclass
class Added:
    """What an addition did.

    added, known: applications that were added; logs that the store knew already.
    partial: how many of those added were truncated or still running.
    failed: path and reason of each log that could not be read.
    written_bytes: size of the files written.
    cut: borders between groups of applications across which blame is missing.
    merged: files of earlier additions that were merged, so that questions open fewer.
    set_aside: files of the store that were not read, and why.
    """

    added: int = 0
    known: int = 0
    partial: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    written_bytes: int = 0
    cut: int = 0
    merged: int = 0
    set_aside: list[str] = field(default_factory=list)


def add(
    store: Store | str,
    paths: Sequence[str | Path],
    *,
    cluster: str = "",
    again: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    spark: Any = None,
) -> Added:
    """Add applications to a store; it is made where there is none.

    Raises IqcarError if the store cannot be written.

    paths: event logs, as :func:`iqcar.read` takes them.
    cluster: name of the cluster that they ran on; by default from spark.master of each
        application.
    again: diagnose also what the store knows already.
    processes: how many groups of logs are diagnosed at once; all cores by default.
    progress: called with the logs done and the logs in all; on Spark, with its tasks.
    spark: SparkSession, optional; read and diagnose on its executors, together what met on hosts:
        :func:`iqcar.fleet.grouped_on_spark`.
    """
    kept = open_store(store) if isinstance(store, str) else store
    kept.make()
    found = locate(list(paths))
    unread = [one for one in found if not isinstance(one, EventLog)]
    result = Added(failed=[(one.path, one.message) for one in unread])
    logs = [one for one in found if isinstance(one, EventLog)]
    wanted = list(_wanted(kept, logs, result, again=again))
    sizes = {log.path: log.size_bytes for log, _ in wanted}
    writer = _Writer(kept, cluster, sizes, result)
    if spark is not None:
        _add_on_spark(spark, [log for log, _ in wanted], writer, progress)
    else:
        _add_here(wanted, writer, processes or os.cpu_count() or 1, progress, len(logs))
    result.merged = merge_months(kept)
    result.set_aside = kept.set_aside_lines()
    return result


def _add_here(
    wanted: list[tuple[EventLog, Peek]],
    writer: _Writer,
    processes: int,
    progress: Progress | None,
    total: int,
) -> None:
    """Diagnose on this machine the applications that ran at once together, and write their rows."""
    groups, writer.result.cut = group_logs(wanted)
    done = total - len(wanted)
    if progress is not None:
        progress(done, total)
    try:
        for group, rows in _diagnosed(groups, processes):
            writer.take(group, rows)
            done += len(group)
            if progress is not None:
                progress(done, total)
    finally:
        writer.flush()


def _add_on_spark(
    spark: Any, logs: list[EventLog], writer: _Writer, progress: Progress | None
) -> None:
    """Diagnose on executors the applications that met on hosts together, and write their rows."""
    if not logs:
        return
    from iqcar.fleet import grouped_on_spark

    answers, writer.result.cut = grouped_on_spark(
        spark, logs, "history.add_logs.attempt", progress=progress
    )
    try:
        for group, rows in answers:
            writer.take(group, rows)
    finally:
        writer.flush()


def _wanted(
    store: Store, logs: Sequence[EventLog], result: Added, *, again: bool
) -> Iterator[tuple[EventLog, Peek]]:
    """Choose the logs that the store lacks; those that cannot be read have failed."""
    known = pd.DataFrame() if again else known_applications(store)
    # The same path and size: nothing has to be opened. Else the first lines tell which it is.
    files = set(zip(known["path"], known["log_bytes"], strict=True)) if len(known) else set()
    latest = (
        known.drop_duplicates(["application_id", "attempt_id"], keep="last") if files else known
    )
    whole = {
        (one.application_id, one.attempt_id): (one.log_bytes, one.status)
        for one in latest.itertuples()
    }
    new = [log for log in logs if log.told or (log.path, log.size_bytes) not in files]
    result.known += len(logs) - len(new)
    seen: set[tuple[str, str]] = set()
    with ThreadPoolExecutor(LOOKING_AT_ONCE) as threads:
        for log, summary in zip(new, threads.map(peek, new), strict=True):
            key = (summary.application_id, summary.attempt_id)
            size, status = whole.get(key, (-1, ""))
            if summary.status is InputStatus.FAILED:
                result.failed.append((log.path, summary.message))
            elif key[0] and (
                key in seen
                or (size == log.size_bytes and not log.told)
                or status == InputStatus.COMPLETE.value
            ):
                result.known += 1
            else:
                seen.add(key)
                yield log, summary


def diagnosed_rows(logs: Sequence[EventLog], processes: int | None = None) -> Rows:
    """Diagnose logs together, and return their rows, those of failed inputs under ``failed``.

    The addition is not named yet.
    """
    tables = read(list(logs), processes=processes)
    bad = tables.inputs[tables.inputs["app"] < 0]
    failed = bad[["path", "message"]].reset_index(drop=True)
    if len(tables.applications) == 0:
        return {"failed": failed}
    diagnosis = diagnose(tables, rules=False)
    inputs = diagnosis.tables.inputs
    failed = inputs[inputs["app"] < 0][["path", "message"]].reset_index(drop=True)
    sizes = {log.path: log.size_bytes for log in logs}
    return {**rows_of(diagnosis, sizes, ""), "failed": failed}


def attempt(logs: Sequence[EventLog], processes: int | None = 1) -> Rows:
    """As :func:`diagnosed_rows`; a bug fails these logs only."""
    try:
        return diagnosed_rows(logs, processes)
    except IqcarError as error:
        return _failed(logs, str(error))
    except Exception as error:
        return _failed(logs, f"analysing it {explain_bug(error)}")


def _failed(logs: Sequence[EventLog], message: str) -> Rows:
    return {"failed": pd.DataFrame({"path": [log.path for log in logs], "message": message})}


def _diagnosed(
    groups: list[list[EventLog]], processes: int
) -> Iterator[tuple[list[EventLog], Rows]]:
    """Diagnose groups, several at once, as they end; a process that dies costs its group only."""
    if len(groups) <= 1 or processes == 1:
        for group in groups:
            yield group, attempt(group, None if len(groups) == 1 else 1)
        return
    largest = sorted(groups, key=lambda group: -sum(log.size_bytes for log in group))
    yield from _diagnosed_apart(largest, processes)


def _diagnosed_apart(
    groups: list[list[EventLog]], processes: int
) -> Iterator[tuple[list[EventLog], Rows]]:
    """Diagnose groups in processes; where one died, each log of its group alone, for the cause."""
    for number, rows in in_processes(_attempt_apart, groups, processes):
        group = groups[number]
        if not isinstance(rows, Died):
            yield group, rows
        elif len(group) == 1:
            why = "the process that analysed it died; it may need more memory"
            yield group, _failed(group, why)
        else:
            yield from _diagnosed_apart([[log] for log in group], 1)


def _attempt_apart(logs: list[EventLog], _tell: object) -> Rows:
    return attempt(logs)


class _Writer:
    """Collects rows by cluster, and writes them from time to time."""

    def __init__(self, store: Store, cluster: str, sizes: dict[str, int], result: Added) -> None:
        self.store, self.cluster, self.sizes, self.result = store, cluster, sizes, result
        self.held: dict[str, list[Rows]] = defaultdict(list)
        self.applications = 0
        self.since = time.monotonic()

    def take(self, group: Sequence[object], rows: Rows) -> None:
        """Take in the rows of a group."""
        failed = rows.pop("failed")
        self.result.failed += zip(texts(failed, "path"), texts(failed, "message"), strict=True)
        if rows:
            for cluster, part in _by_cluster(rows, self.cluster):
                self.held[cluster].append(part)
            apps = rows[APPLICATIONS.name]
            self.applications += len(apps)
            self.result.added += len(apps)
            self.result.partial += int((apps["status"] != InputStatus.COMPLETE.value).sum())
        late = time.monotonic() - self.since > WRITE_EVERY_S
        if late or self.applications >= MOST_APPLICATIONS:
            self.flush()

    def flush(self) -> None:
        """Write what was collected as one addition per cluster."""
        while self.held:
            cluster, parts = self.held.popitem()
            known = self.store.list(APPLICATIONS)  # clocks go back: the last addition counts
            batch = new_batch(after=max((one.batch for one in known), default=""))
            rows = {
                table.name: pd.concat([part[table.name] for part in parts]).assign(batch=batch)
                for table in STORED
            }
            try:
                self.result.written_bytes += write_batch(self.store, cluster, batch, rows)
            except IqcarError as error:
                if not self.result.written_bytes:
                    raise  # nothing can be written here
                self._not_kept(rows[APPLICATIONS.name], error)
        self.applications, self.since = 0, time.monotonic()

    def _not_kept(self, apps: pd.DataFrame, error: IqcarError) -> None:
        self.result.added -= len(apps)
        self.result.partial -= int((apps["status"] != InputStatus.COMPLETE.value).sum())
        self.result.failed += [(path, str(error)) for path in texts(apps, "path")]


def _by_cluster(rows: Rows, chosen: str) -> Iterator[tuple[str, Rows]]:
    """Divide rows by the clusters of their applications."""
    apps = rows[APPLICATIONS.name]
    names = np.array(
        [bounded_cluster(chosen or cluster_of(master)) for master in texts(apps, "master")], object
    )
    if len(set(names)) == 1:
        yield str(names[0]), rows
        return
    key = ["application_id", "attempt_id"]
    for name in sorted(set(names)):
        own = apps.loc[names == name, key]
        yield str(name), {table.name: rows[table.name].merge(own, on=key) for table in STORED}


MOST_LOGS = 40
"""Logs that are diagnosed together at most."""
MOST_BYTES = 1 << 30
"""Stored size of logs that are diagnosed together at most (1 GiB); a single log may be larger."""
UNKNOWN_MS = 3_600_000.0
"""How long an application is taken to run where its end is not known (1 h)."""


def group_logs(logs: Sequence[tuple[EventLog, Peek]]) -> tuple[list[list[EventLog]], int]:
    """Group logs whose applications ran at once, by their starts; those of unknown start alone.

    Who made an application wait may be another one. Which ran at once is told by the first and last
    lines of their logs. Also returns how many groups begin while applications of the group before
    still ran: blame across that border is missing.
    """
    alone = [[log] for log, peek in logs if not isfinite(peek.start_ms)]
    timed = sorted(
        ((peek.start_ms, end_of(peek), log) for log, peek in logs if isfinite(peek.start_ms)),
        key=lambda one: (one[0], one[2].path),
    )
    groups: list[list[EventLog]] = []
    cut, until, size = 0, -inf, 0
    for start, end, log in timed:
        full = bool(groups) and (len(groups[-1]) >= MOST_LOGS or size + log.work_bytes > MOST_BYTES)
        if start >= until or full:
            cut += start < until
            groups.append([])
            size = 0
        groups[-1].append(log)
        size += log.work_bytes
        until = max(until, end)
    return [*groups, *alone], cut


def end_of(peek: Peek) -> float:
    """Return the end of an application in ms; a guess where its log does not tell."""
    end = peek.end_ms if isfinite(peek.end_ms) else peek.last_ms
    return end if isfinite(end) else peek.start_ms + UNKNOWN_MS
