"""Puts wasted work in words: what it cost each query, why, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iqcar.base.units import duration, percent, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import WasteCause
from iqcar.logs.text.redact import redact_text
from iqcar.rules.vocabulary.lost_time import waste_cause
from iqcar.say.query_names import QueryNames
from iqcar.say.severity import LEAST_LOST_MS, SLIGHT_SHARE
from iqcar.tables import texts

MESSAGE_WIDTH = 160
"""Characters shown of what Spark said: the reason with the name of one container or host."""


@dataclass(frozen=True)
class WastedLine:
    """What one cause of wasted work cost one query; every text is printable.

    Attributes
    ----------
    query : int
        Row of the query.
    query_id, name : str
    cause : WasteCause
    cause_name, advice : str
    attempts, again, executors : int
        Attempts whose work was wasted, those among them that did again what had been done, and
        executors whose loss or output caused it.
    executor_id : str
        The executor that cost most; empty if none.
    task_ms, elapsed_ms : float
        Task time, and how much later the query ended (estimated).
    share_of_run : float
        ``elapsed_ms`` as a share of the query's duration.
    message : str
        What Spark said; empty if nothing.
    sentence : str
    """

    query: int
    query_id: str
    name: str
    cause: WasteCause
    cause_name: str
    advice: str
    attempts: int
    again: int
    executors: int
    executor_id: str
    task_ms: float
    elapsed_ms: float
    share_of_run: float
    message: str
    sentence: str

    @property
    def delayed(self) -> bool:
        """Whether the query ended so much later that it is worth naming."""
        return self.elapsed_ms >= LEAST_LOST_MS and self.share_of_run >= SLIGHT_SHARE


def wasted_lines(diagnosis: Diagnosis) -> tuple[WastedLine, ...]:
    """Say what wasted work cost each query, what cost most elapsed time first."""
    frame = diagnosis.wasted.by_query
    frame = frame[(frame["query"] >= 0).to_numpy(bool)]
    order = np.lexsort((-frame["task_ms"].to_numpy(), -frame["elapsed_ms"].to_numpy()))
    names = QueryNames(diagnosis.tables.queries)
    ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
    executors = [*texts(diagnosis.tables.executors, "executor_id"), ""]
    rows = frame.iloc[order].to_dict("records")
    return tuple(
        _line(row, names, ran[row["query"]].item(), executors[row["executor"]]) for row in rows
    )


def _line(row: dict[Any, Any], names: QueryNames, ran_ms: float, executor: str) -> WastedLine:
    message = short(redact_text(row["message"]), MESSAGE_WIDTH)
    known = waste_cause(row["cause"], row["message"])
    name = names.called(row["query"])
    elapsed = float(row["elapsed_ms"])
    return WastedLine(
        query=int(row["query"]),
        query_id=names.ids[row["query"]],
        name=name,
        cause=WasteCause(row["cause"]),
        cause_name=known.name,
        advice=known.advice,
        attempts=int(row["attempts"]),
        again=int(row["again"]),
        executors=int(row["executors"]),
        executor_id=short(executor),
        task_ms=float(row["task_ms"]),
        elapsed_ms=elapsed,
        share_of_run=min(elapsed / ran_ms, 1.0) if ran_ms > 0 else 0.0,
        message=message,
        sentence=_sentence(row, name, known.name, ran_ms, message),
    )


def _sentence(row: dict[Any, Any], name: str, cause: str, ran_ms: float, message: str) -> str:
    """``q7 ended about 21.0 s (18 % of its run) later because of a lost executor: ...``."""
    attempts, again, elapsed = int(row["attempts"]), int(row["again"]), float(row["elapsed_ms"])
    did = []
    if attempts > again:
        did.append(f"{attempts - again:,} attempt{_s(attempts - again)} came to nothing")
    if again:
        did.append(f"{again:,} finished task{_s(again)} had to run again")
    share = f" ({percent(min(elapsed / ran_ms, 1.0))} of its run)" if ran_ms > 0 else ""
    cost = f"{name} ended about {duration(elapsed)}{share} later because of {cause}"
    if elapsed < 1.0:
        cost = f"{name} ended hardly later because of {cause}"
    said = f" Spark says: {message.rstrip('.')}." if message else ""
    return f"{cost}: {' and '.join(did)}, {duration(row['task_ms'])} of task time.{said}"


def _s(n: int) -> str:
    return "" if n == 1 else "s"
