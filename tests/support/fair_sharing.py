"""Devices of a simulated host that tasks of different own rates share max–min fairly."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any


@dataclass
class OneRate:
    """Tasks of one own rate, by virtual time: each waits until the clock has moved by its work."""

    clock: float = 0.0
    rate: float = 0.0
    queue: list[tuple[float, int, Any]] = field(default_factory=list)


@dataclass
class Shared:
    """Max–min fair sharing of a capacity among tasks of different own rates."""

    capacity: float
    most_each: float
    classes: dict[float, OneRate] = field(default_factory=dict)

    def enter(self, work: float, own_rate: float, number: int, task: Any) -> None:
        own = self.classes.setdefault(min(own_rate, self.most_each), OneRate())
        heapq.heappush(own.queue, (own.clock + work, number, task))
        self.share_out()

    def share_out(self) -> None:
        """Give the slow ones their own rate, and the others equal parts of what is left."""
        left, tasks = self.capacity, sum(len(own.queue) for own in self.classes.values())
        for rate in sorted(self.classes):
            own = self.classes[rate]
            if own.queue:
                own.rate = min(rate, left / tasks)
                left -= own.rate * len(own.queue)
                tasks -= len(own.queue)

    def busy(self) -> list[OneRate]:
        return [own for own in self.classes.values() if own.queue]
