"""Keeps what queries lost to others by replays of each alone: the amount that blame divides."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from iqcar.enums import Request, Resource
from iqcar.tables.arrays import Floats, Ints


@dataclass(frozen=True)
class OthersCost:
    """What others cost each query.

    lost_ms: (n_queries,), ms; elapsed time that the query would not have taken alone; NaN where no
        replay tells.
    low_ms, high_ms: (n_queries,), ms; bounds of the middle 80 % of what is likely.
    decided_by: for each query, the resource whose use would narrow its range most if it were
        recorded; None where all that is used is recorded.
    to_others: (n_tasks,) by request; part of what each task lost to tasks that it would not have
        lost alone, 0 to 1; NaN where no replay tells.
    to_tasks: (n_tasks,) by request; share of its time in a device that each task lost to tasks; NaN
        where no replay tells.
    from_disk: rows of stages that read from disks, if these were short; others read from elsewhere,
        such as the page cache. Empty where they were not.
    """

    lost_ms: Floats
    low_ms: Floats
    high_ms: Floats
    decided_by: tuple[Resource | None, ...] = ()
    to_others: dict[Request, Floats] = field(default_factory=dict)
    to_tasks: dict[Request, Floats] = field(default_factory=dict)
    from_disk: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
