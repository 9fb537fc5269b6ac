"""What is collected of jobs, stages and executors while a log is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


@dataclass(slots=True)
class Job:
    """One Spark job."""

    submission: float
    stage_ids: tuple[int, ...]
    execution: float = nan
    root: float = nan
    connect: str = ""
    tags: str = ""
    group: str = ""
    description: str = ""
    pool: str = ""
    user: str = ""
    session: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What it sets unlike its application."""
    completion: float = nan
    succeeded: bool = False


@dataclass(slots=True)
class Listed:
    """The jobs that list one stage: a shared stage has thousands, each asked for many times."""

    lowest: int = -1
    highest: int = -1
    waiting: list[int] = field(default_factory=list)
    """A heap of those that were active when last looked at."""

    def add(self, job: int) -> None:
        """Take in a job, which is active."""
        self.lowest = job if self.lowest < 0 else min(job, self.lowest)
        self.highest = max(job, self.highest)
        heappush(self.waiting, job)

    def first_of(self, active: Container[int]) -> int:
        """Return the first active job, else the last of all; a job that ended starts no more."""
        while self.waiting and self.waiting[0] not in active:
            heappop(self.waiting)
        return self.waiting[0] if self.waiting else self.highest


@dataclass(slots=True)
class Stage:
    """One stage attempt that was submitted or ran a task."""

    name: str = ""
    tasks: float = nan
    job: int = -1
    pool: str = ""
    submission: float = nan
    completion: float = nan
    completed: bool = False
    failure: str = ""
    python: bool = False
    parents: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()
    """Operations that made its RDDs."""
    fed: tuple[float, ...] = ()
    """Accumulators that its tasks fed."""


@dataclass(slots=True)
class Executor:
    """One executor."""

    host: str = ""
    cores: float = nan
    added: float = nan
    removed: float = nan
    reason: str = ""
