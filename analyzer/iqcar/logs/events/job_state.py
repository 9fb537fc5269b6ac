"""What is collected of jobs, stages and executors while a log is read."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import nan


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


class JobsOfStages:
    """Which jobs list a stage, and which of them runs it."""

    def __init__(self) -> None:
        self.active: dict[int, Job] = {}
        """Jobs that have not ended, by number."""
        self._listed: dict[int, Listed] = {}

    def start(self, number: int, job: Job) -> None:
        """Take in a job, which is active until it ends."""
        self.active[number] = job
        for stage_id in job.stage_ids:
            listed = self._listed.get(stage_id)
            if listed is None:
                listed = self._listed[stage_id] = Listed()
            listed.add(number)

    def end(self, number: int) -> Job | None:
        """Return the job that ended; None if none of this number was active."""
        return self.active.pop(number, None)

    def running(self, stage_id: int) -> int:
        """Return the job that runs a stage now: the first active one that lists it, else −1."""
        listed = self._listed.get(stage_id)
        return listed.first_of(self.active) if listed else -1

    def first(self, stage_id: int) -> int:
        """Return the first job that lists a stage, for one whose submission was lost; else −1."""
        listed = self._listed.get(stage_id)
        return listed.lowest if listed else -1

    def forget_all_but(self, stage_ids: Container[int]) -> None:
        """Drop what is known of other stages."""
        self._listed = {one: jobs for one, jobs in self._listed.items() if one in stage_ids}


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
