"""What is asked of the model of a run, checked: a change, a capacity plan, blame by removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iqcar.errors import UsageError
from iqcar.replay.whatif.plan_capacity import parse_plan, parse_price
from iqcar.replay.whatif.question import Question, ask


@dataclass(frozen=True)
class WhatIfRequest:
    """What is asked; several parts are answered apart from each other.

    Attributes
    ----------
    question : Question
        What is changed; false where nothing is.
    plan : dict
        What :meth:`iqcar.diagnosis.Diagnosis.plan` takes; empty where no plan is asked.
    blame : str
        The query whose waits are blamed by replays without the others; empty: none.
    """

    question: Question
    plan: dict[str, Any]
    blame: str


def parse_request(
    *, plan: str | None = None, price: str | None = None, blame: str | None = None, **changes: Any
) -> WhatIfRequest:
    """Check what a user wrote.

    Parameters
    ----------
    plan, price, blame : str, optional
        As the options of ``iqcar whatif``.
    **changes
        What :func:`iqcar.replay.whatif.question.ask` takes.

    Raises
    ------
    UsageError
        If nothing is asked, a value is absurd, or parts do not go together.
    """
    question = ask(**changes)
    each = parse_price(price or None)
    if each is not None and not plan:
        raise UsageError("is the price in a plan", "--price", "give --plan executors=4..64")
    planned = {}
    if plan:
        of_what, values = parse_plan(plan)
        planned = {of_what: values, "price": each}
    if not question and not planned and not blame:
        raise UsageError(
            "nothing to change", "iqcar whatif", "give --remove QUERY, --slots +8 or another option"
        )
    if question and planned:
        raise UsageError("a plan is asked alone", "--plan", "leave the other changes out")
    return WhatIfRequest(question, planned, blame or "")
