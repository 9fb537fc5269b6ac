"""Devices of a simulated host that tasks of different own rates share max–min fairly."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

SECOND_THREAD = 0.3
"""What the second thread of a core adds."""


@dataclass
class OneRate:
    """Tasks of one own rate, by virtual time: each waits until the clock has moved by its work."""

    clock: float = 0.0
    rate: float = 0.0
    queue: list[tuple[float, int, Any]] = field(default_factory=list)


@dataclass
class Shared:
    """Max–min fair sharing of a capacity among tasks of different own rates.

    In a rough world shares are proportional to own rates, a disk loses ``slowing`` of its capacity
    with each further stream, and of ``siblings`` (two threads per core) the second adds little.
    """

    capacity: float
    most_each: float
    classes: dict[float, OneRate] = field(default_factory=dict)
    rising: list[tuple[float, OneRate]] = field(default_factory=list)
    """The classes from the slowest rate to the fastest."""
    proportional: bool = False
    slowing: float = 0.0
    siblings: bool = False

    def enter(self, work: float, own_rate: float, number: int, task: Any) -> None:
        rate = min(own_rate, self.most_each)
        if rate not in self.classes:
            self.classes[rate] = OneRate()
            self.rising = sorted(self.classes.items(), key=itemgetter(0))
        own = self.classes[rate]
        heapq.heappush(own.queue, (own.clock + work, number, task))
        self.share_out()

    def share_out(self) -> None:
        """Give the slow ones their own rate, and the others equal parts of what is left."""
        waiting = [(rate, own, len(own.queue)) for rate, own in self.rising if own.queue]
        left, tasks = self.capacity, sum([many for _, _, many in waiting])
        if self.slowing:
            left /= 1.0 + self.slowing * max(tasks - 1, 0)
        if self.siblings:
            left = min(tasks, left / 2) + SECOND_THREAD * max(0.0, min(tasks, left) - left / 2)
        if self.proportional:
            asked = sum([min(rate, left) * many for rate, _, many in waiting])
            for rate, own, _ in waiting:
                own.rate = min(rate, left) * min(1.0, left / asked)
            return
        for rate, own, many in waiting:
            own.rate = min(rate, left / tasks)
            left -= own.rate * many
            tasks -= many
