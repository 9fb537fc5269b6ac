"""What is collected of jobs, stages and executors while a log is read."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan


@dataclass
class Job:
    """One Spark job."""

    submission: float
    stage_ids: tuple[int, ...]
    execution: float = nan
    root: float = nan
    connect: str = ""
    group: str = ""
    description: str = ""
    pool: str = ""
    completion: float = nan
    succeeded: bool = False


@dataclass
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
    may_scan: bool = True


@dataclass
class Executor:
    """One executor."""

    host: str = ""
    cores: float = nan
    added: float = nan
    removed: float = nan
    reason: str = ""
