"""Computes what a run would take and cost with other numbers of executors or slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.units import MOST_COUNT
from iqcar.errors import UsageError
from iqcar.replay.whatif.edit_cluster import executor_size, slots_at_most
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import WhatIf, answer, self_check
from iqcar.tables.arrays import Floats

OF_WHAT = ("executors", "slots")
COLUMNS = (
    "value", "total_ms", "low_ms", "high_ms", "p80_ms", "makespan_ms", "slot_use", "slots", "cost",
    "refused",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What each number of executors or slots would have taken.

    of_what: "executors" or "slots"
    values: One row per value, ascending: ``value``, ``total_ms`` (sum of the durations of all
        queries) with its range ``low_ms``, ``high_ms``, ``p80_ms`` (80 % of the queries take at
        most this long), ``makespan_ms``, ``slot_use``, ``slots``, ``cost`` (value × hours × price;
        NaN without a price) and ``refused``, queries that are not predicted.
    knee: Value from which more gains little: the largest distance from the line between the ends
        (Satopää et al., Finding a Kneedle in a Haystack, 2011); None where more gains nothing.
    recorded: The value of the recorded run, at its most.
    price: Of one executor (or slot) for an hour.
    """

    of_what: str
    values: pd.DataFrame
    knee: int | None
    recorded: int
    price: float | None
    self_check: dict[str, Any]
    assumptions: tuple[str, ...]
    refused: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON (``iqcar schema whatif``)."""
        return {
            "of_what": self.of_what,
            "values": self.values.to_dict("records"),
            "knee": self.knee,
            "recorded": self.recorded,
            "price": self.price,
            "self_check": self.self_check,
            "assumptions": list(self.assumptions),
            "refused": list(self.refused),
        }


def plan_capacity(
    model: Model,
    of_what: str,
    values: Iterable[int],
    price: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Predict the run with each of some numbers of executors or slots.

    Raises UsageError if a value is absurd.

    of_what: "executors" or "slots"
    price: Of one executor or slot for an hour.
    progress: Called with the values done and the values in all, after each.
    """
    asked = sorted(set(values))
    if of_what not in OF_WHAT or not asked or asked[0] < 1 or asked[-1] > MOST_COUNT:
        raise UsageError("is no list of numbers above 0", "--plan", "give executors=4..64")
    size = executor_size(model.scenario.slots) if of_what == "executors" else 1
    answers = {}
    for number, value in enumerate(asked):
        question = (
            Question(executors=value) if of_what == "executors" else Question(slots_in_all=value)
        )
        answers[value] = answer(model, question, lambda _name, _option: ())
        if progress is not None:
            progress(number + 1, len(asked))
    return plan_of_answers(model, of_what, answers, size, price)


def plan_of_answers(
    model: Model,
    of_what: str,
    answers: Mapping[int, WhatIf],
    size: int = 1,
    price: float | None = None,
) -> Plan:
    """Put answers to questions about several numbers together.

    of_what: "executors" or "slots"
    answers: By number; at least one.
    size: Slots of one.
    price: Of one for an hour.
    """
    rows = []
    for value, said in sorted(answers.items()):
        predicted = said.queries["predicted_ms"].to_numpy(np.float64)
        known = predicted[np.isfinite(predicted)]
        lasted = said.total["makespan_after_ms"]
        hours = (lasted or 0.0) / 3600e3
        rows.append(
            {
                "value": value,
                "total_ms": said.total["predicted_ms"],
                "low_ms": said.total["low_ms"],
                "high_ms": said.total["high_ms"],
                "p80_ms": float(np.quantile(known, 0.8)) if len(known) else None,
                "makespan_ms": lasted,
                "slot_use": said.total["slot_use_after"],
                "slots": value * size,
                "cost": None if price is None else value * hours * price,
                "refused": int((said.queries["refused"] != "").sum()),
            }
        )
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    last = answers[max(answers)]
    return Plan(
        of_what=of_what, values=frame,
        knee=find_knee(*(frame[name].to_numpy(np.float64) for name in ("value", "total_ms"))),
        recorded=slots_at_most(model.scenario.slots) // size, price=price,
        self_check=self_check(model), assumptions=last.assumptions, refused=last.refused,
    )  # fmt: skip


def find_knee(values: Floats, total: Floats) -> int | None:
    """Return the value where the falling curve is farthest below the line between its ends."""
    if len(values) < 3 or not np.isfinite(total).all() or not total[-1] < total[0]:
        return None
    x = (values - values[0]) / (values[-1] - values[0])
    y = (total - total.min()) / (total.max() - total.min())
    return int(values[np.argmax((y[0] + (y[-1] - y[0]) * x) - y)])
