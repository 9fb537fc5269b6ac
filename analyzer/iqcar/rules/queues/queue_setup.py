"""Declares the queues of a cluster as a scheduler sees them: shares, limits, who goes first."""

from __future__ import annotations

import math

import msgspec

from iqcar.enums import Kind


class PlanTarget(Kind):
    """What rules or plans are compiled for."""

    FAIR_POOLS = "fair-pools", "FAIR pools inside one application, from a rules file."
    YARN_CAPACITY = "yarn-capacity", "Queues of YARN's CapacityScheduler (capacity-scheduler.xml)."
    YARN_FAIR = "yarn-fair", "Queues of YARN's FairScheduler (its allocation file)."


DEFAULT_QUEUE = "default"
"""Where an application runs that sets no spark.yarn.queue."""


class LeafQueue(msgspec.Struct, frozen=True):
    """A queue that runs applications; shares are of the whole cluster.

    path: with the names of its parents, from ``root``.
    guaranteed: share that it gets before others get more than theirs; of the FairScheduler its
        part of the weights.
    maximum: share that it gets at most.
    user_factor: share that one user's applications get at most, as a multiple of ``guaranteed``.
    user_least: part of the queue that each of several users gets before others, 0 to 1.
    priority: queues of higher priority go first.
    gives_back: whether executors beyond its guaranteed share can be taken from it.
    evenly: whether its applications share it, instead of one after the other.
    """

    path: str
    guaranteed: float
    maximum: float = 1.0
    user_factor: float = math.inf
    user_least: float = 1.0
    priority: int = 0
    gives_back: bool = True
    evenly: bool = False


class QueueSetup(msgspec.Struct, frozen=True):
    """The queues of a cluster.

    queues: those that run applications.
    fair: whether queues are ordered by weights, which ``guaranteed`` then holds (FairScheduler).
    preempts_after_ms: how long a queue lacks what it is guaranteed before that is taken from
        others; infinite where executors are never taken back.
    """

    queues: tuple[LeafQueue, ...]
    fair: bool = False
    preempts_after_ms: float = math.inf

    def find(self, name: str) -> int | None:
        """Return the position of a queue by its path, or by its last name where only one has it."""
        for at, queue in enumerate(self.queues):
            if name in (queue.path, queue.path.removeprefix("root.")):
                return at
        named = [at for at, queue in enumerate(self.queues) if queue.path.split(".")[-1] == name]
        return named[0] if len(named) == 1 else None
