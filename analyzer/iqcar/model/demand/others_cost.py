"""Holds what queries lost to others, by a replay of each alone: the amount that blame divides."""

from __future__ import annotations

from dataclasses import dataclass, field

from iqcar.enums import Request
from iqcar.tables.arrays import Floats


@dataclass(frozen=True)
class OthersCost:
    """What others cost each query.

    lost_ms: (n_queries,), ms; elapsed time that the query would not have taken alone; NaN where no
        replay tells.
    low_ms, high_ms: (n_queries,), ms; bounds of the middle 80 % of what is likely.
    to_others: (n_tasks,) by request; part of what each task lost to tasks that it would not have
        lost alone, 0 to 1.
    to_tasks: (n_tasks,) by request; share of its time in a device that each task lost to tasks.
    """

    lost_ms: Floats
    low_ms: Floats
    high_ms: Floats
    to_others: dict[Request, Floats] = field(default_factory=dict)
    to_tasks: dict[Request, Floats] = field(default_factory=dict)
