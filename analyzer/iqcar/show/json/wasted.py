"""Wasted work as JSON: in all, by cause, and by query and cause."""

from __future__ import annotations

from typing import Any

from iqcar.diagnosis import Diagnosis
from iqcar.enums import Evidence
from iqcar.say.wasted_lines import wasted_lines

_SUMMED = ("attempts", "again", "task_ms", "elapsed_ms")


def wasted_to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out wasted work; elapsed times are estimates."""
    wasted = diagnosis.wasted
    frame = wasted.by_query.assign(cause=wasted.by_query["cause"].astype(str))
    by_cause = frame.groupby("cause")[list(_SUMMED)].sum().sort_values("task_ms", ascending=False)
    return {
        **{name: frame[name].sum().item() for name in _SUMMED},
        "share": min(wasted.share, 1.0),
        "evidence": str(Evidence.ESTIMATED),
        "by_cause": by_cause.reset_index().to_dict("records"),
        "by_query": [
            {
                "query_id": line.query_id,
                "cause": str(line.cause),
                "cause_name": line.cause_name,
                "attempts": line.attempts,
                "again": line.again,
                "task_ms": line.task_ms,
                "elapsed_ms": line.elapsed_ms,
                "share_of_duration": line.share_of_run,
                "executors": line.executors,
                "executor_id": line.executor_id,
                "message": line.message,
                "taken": line.taken,
                "taken_by": line.taken_by,
                "taken_by_pool": line.taken_by_pool,
                "sentence": line.sentence,
                "advice": line.advice,
            }
            for line in wasted_lines(diagnosis)
        ],
    }
