"""Puts wasted work in words: what it cost each query, why, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iqcar.base.units import duration, percent, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import WasteCause
from iqcar.logs.text import redact_text
from iqcar.model.queries.owners import owners
from iqcar.rules.vocabulary.data_files import waste_cause
from iqcar.say.finding import LEAST_LOST_MS, SLIGHT_SHARE
from iqcar.say.query_names import QueryNames
from iqcar.tables import texts

NOT_KNOWN = "(no pool)"
"""The pool of queries of which the log names none."""
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
    taken : int
        Attempts whose slot a task of a known query got, where the scheduler took it.
    taken_by, taken_by_pool : str
        Id of the query that got most of them, and its scheduler pool; empty if not known.
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
    taken: int
    taken_by: str
    taken_by_pool: str
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
    has_takers = bool((frame["taker"] >= 0).any())
    pools = owners(diagnosis.tables, "pool") if has_takers else []
    return tuple(
        _line(
            row, names, ran[row["query"]].item(), executors[row["executor"]],
            pools[row["taker"]] if row["taker"] >= 0 else NOT_KNOWN,
        )
        for row in rows
    )  # fmt: skip


def _line(
    row: dict[Any, Any], names: QueryNames, ran_ms: float, executor: str, pool: str
) -> WastedLine:
    pool = "" if pool == NOT_KNOWN else short(pool)
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
        taken=int(row["taken"]),
        taken_by=names.ids[row["taker"]] if row["taker"] >= 0 else "",
        taken_by_pool=pool,
        sentence=_sentence(row, name, known.name, ran_ms, message) + _taken(row, names, pool),
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


def _taken(row: dict[Any, Any], names: QueryNames, pool: str) -> str:
    """`` 3 of 4 slots went to other queries, most to q3 (pool etl).``."""
    if row["cause"] != WasteCause.SLOT_TAKEN:
        return ""
    taken, attempts, taker = int(row["taken"]), int(row["attempts"]), int(row["taker"])
    if taker < 0:
        return " Who got the slots cannot be told from the log."
    whom = "other stages of its own" if taker == row["query"] else names.called(taker)
    in_pool = f" (pool {pool})" if pool else ""
    return f" {taken:,} of {attempts:,} slots are seen to go to others, most to {whom}{in_pool}."


def _s(n: int) -> str:
    return "" if n == 1 else "s"
