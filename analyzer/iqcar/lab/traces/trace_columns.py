"""Chooses the columns of a trace by name, and converts them to numbers and codes of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_settings import named_values
from iqcar.errors import UsageError
from iqcar.tables.arrays import Floats, Ints

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

    job: columns that together name what tasks are compared within.
    task, latency, host, start, end: columns; empty if there is none. Without a latency it is the
        end less the start.
    metrics, times: amounts, and times spent that are part of the latency; empty means every other
        number.
    unit: unit of latency, start, end and times.
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

        Raises UsageError if a key is unknown or the unit is none of us, ms, s.
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

        Raises UsageError if a column does not exist, or job or latency cannot be found.
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
        return TraceColumns(
            job=job, task=task, latency=latency, host=host, start=start, end=end, metrics=metrics,
            times=self.times, unit=self.unit,
        )  # fmt: skip

    def wanted(self) -> list[str]:
        """All columns to read."""
        single = (self.task, self.latency, self.host, self.start, self.end)
        return list(dict.fromkeys([*self.job, *filter(None, single), *self.metrics, *self.times]))


BY_NAME = TraceColumns()
"""Every column is found by its name."""


def _lacking(key: str, what: str, names: Sequence[str], where: str) -> UsageError:
    return UsageError(
        f"no column tells {what}", where, f"name it by --columns {key}=COLUMN of {_some(names)}"
    )


def _some(names: Sequence[str], shown: int = 12) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(str(name)[:40] for name in names[:shown]) + more


MAX_NAME = 200
"""Characters kept of a name in a trace."""
LARGEST = 1e300
"""A number beyond it is damage."""


def number_of(table: pd.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN for what is none, is infinite or damaged, or is not there."""
    if not name:
        return np.full(len(table), np.nan)
    numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        plausible: Floats = np.where(np.abs(numbers) < LARGEST, numbers, np.nan)
    return plausible


def codes_of(table: pd.DataFrame, names: tuple[str, ...]) -> tuple[Ints, list[str]]:
    """Number the texts of a column, or of several together; −1 for what is missing in any.

    Returns ndarray of shape (n_rows,): position of each row's text in the list. Returns: The texts
    in alphabetical order.
    """
    if not names:
        return np.full(len(table), -1, np.int64), []
    codes, texts = _codes_of_column(table[names[0]])
    for name in names[1:]:
        more, others = _codes_of_column(table[name])
        both = np.where((codes < 0) | (more < 0), -1, codes * max(len(others), 1) + more)
        pairs, codes = np.unique(both, return_inverse=True)
        missing = int((pairs < 0).sum())  # at most one, the first
        codes = codes - missing
        left, right = np.divmod(pairs[missing:], max(len(others), 1))
        texts = [
            f"{texts[a]}/{others[b]}" for a, b in zip(left.tolist(), right.tolist(), strict=True)
        ]
    # Texts can be equal that were not before they were cut.
    of_text, found = pd.factorize(pd.Series(texts, dtype="string"), sort=True)
    numbers = np.append(of_text, -1)[codes]
    return numbers.astype(np.int64), [str(text) for text in found]


def _codes_of_column(column: pd.Series) -> tuple[Ints, list[Any]]:
    codes, found = pd.factorize(column)
    return codes.astype(np.int64), pd.Series(found).astype("string").str.slice(0, MAX_NAME).tolist()
