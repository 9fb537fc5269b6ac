"""Choose the columns of a trace that hold job, task, latency, host, times and metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iqcar.causes.stragglers.straggler_settings import named_values
from iqcar.errors import UsageError

MAX_METRICS = 500
"""Metric columns read at most; the traces we know have under a hundred."""
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units that times of a trace may have, in ms."""

_NAMES = {
    "job": ("job", "jobid", "jobname", "stage", "stageid", "collectionid", "application"),
    "task": (
        "task",
        "taskid",
        "taskindex",
        "instance",
        "instanceindex",
        "instancename",
        "taskname",
    ),
    "latency": (
        "latency",
        "latencyms",
        "duration",
        "durationms",
        "runtime",
        "elapsed",
        "elapsedms",
    ),
    "host": ("host", "hostname", "machine", "machineid", "node", "nodeid", "worker"),
    "start": ("start", "starttime", "startms", "launch", "launchms", "launchtime"),
    "end": ("end", "endtime", "endms", "finish", "finishms", "finishtime"),
}
"""Names by which a column is found, without case and punctuation; the first that is there."""
_LISTS = ("job", "metrics", "times")
_KEYS = (*_NAMES, "metrics", "times", "unit")


@dataclass(frozen=True)
class TraceColumns:
    """What the columns of a trace are.

    Attributes
    ----------
    job : tuple of str
        Columns that together name what tasks are compared within.
    task, latency, host, start, end : str
        Columns; empty if there is none. Without a latency it is the end less the start.
    metrics, times : tuple of str
        Amounts, and times spent that are part of the latency; empty means every other number.
    unit : str
        Unit of latency, start, end and times.
    """

    job: tuple[str, ...] = ()
    task: str = ""
    latency: str = ""
    host: str = ""
    start: str = ""
    end: str = ""
    metrics: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    unit: str = "ms"

    @classmethod
    def parse(cls, text: str) -> TraceColumns:
        """Read ``job=job_name+task_name,latency=runtime,unit=s``.

        Raises
        ------
        UsageError
            If a key is unknown or the unit is none of us, ms, s.
        """
        found: dict[str, object] = {}
        for part, key, value in named_values(text):
            if key not in _KEYS or not value:
                raise UsageError(
                    f"{part!r} names no column",
                    "--columns",
                    f"use KEY=COLUMN of {', '.join(_KEYS)}",
                )
            found[key] = tuple(value.split("+")) if key in _LISTS else value
        if found.get("unit", "ms") not in UNITS_MS:
            raise UsageError(
                f"{found['unit']!r} is no unit of time", "--columns", f"use {', '.join(UNITS_MS)}"
            )
        return cls(**found)  # type: ignore[arg-type]

    def within(self, names: Sequence[str], where: str) -> TraceColumns:
        """Fill in by name what was not given, and check what was.

        Raises
        ------
        UsageError
            If a column does not exist, or job or latency cannot be found.
        """
        given = [*self.job, self.task, self.latency, self.host, self.start, self.end]
        for name in (*filter(None, given), *self.metrics, *self.times):
            if name not in names:
                raise UsageError(f"there is no column {name!r}", where, f"it has {_some(names)}")
        plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
        taken = {*filter(None, given), *self.metrics, *self.times}

        def find(role: str) -> str:
            hits = (plain[name] for name in _NAMES[role] if name in plain)
            found = next((name for name in hits if name not in taken), "")
            taken.add(found)
            return found

        job = self.job or tuple(filter(None, [find("job")]))
        task = self.task or find("task")
        latency = self.latency or find("latency")
        start, end = self.start or find("start"), self.end or find("end")
        host = self.host or find("host")
        if not job:
            raise _lacking("job", "what tasks are compared within", names, where)
        if not latency and not (start and end):
            raise _lacking("latency", "how long a task took", names, where)
        rest = tuple(name for name in names if name not in taken)
        metrics = self.metrics or (() if self.times else rest)
        if len(metrics) + len(self.times) > MAX_METRICS:
            raise UsageError(
                f"has {len(metrics)} metric columns, more than {MAX_METRICS}", where,
                "name some by --columns metrics=A+B",
            )  # fmt: skip
        return TraceColumns(job, task, latency, host, start, end, metrics, self.times, self.unit)

    def wanted(self) -> list[str]:
        """All columns to read."""
        single = (self.task, self.latency, self.host, self.start, self.end)
        return list(dict.fromkeys([*self.job, *filter(None, single), *self.metrics, *self.times]))


def _lacking(key: str, what: str, names: Sequence[str], where: str) -> UsageError:
    return UsageError(
        f"no column tells {what}", where, f"name it by --columns {key}=COLUMN of {_some(names)}"
    )


def _some(names: Sequence[str], shown: int = 12) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(str(name)[:40] for name in names[:shown]) + more
