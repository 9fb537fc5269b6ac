"""Input of the replay's event loop: steps, tasks, slots, and shares.

Columns are ndarrays with one row per step, task, change of slots, or pool; times are in ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags, Floats, Ints


class Steps(NamedTuple):
    """Task sets (stage attempts) and moments (a job's start, a query's end ...) with their order.

    A step is released ``delay`` after the last of those it follows is done; its tasks can be
    launched ``ready`` later, and it is done ``tail`` after the last task that counts has ended.
    """

    missing: Ints
    """How many steps each follows."""
    delay: Floats
    ready: Floats
    tail: Floats
    counted: Ints
    """Tasks that it waits for; others hold slots, but it does not wait for them."""
    first_task: Ints
    """Position of each step's first task, and one more."""
    first_late: Ints
    """Position of its first task that is not there from the beginning: a further attempt."""
    follower_start: Ints
    follower: Ints
    """Who follows each step, as one list."""
    job: Ints
    """Step that starts the job of each task set, or itself: Spark numbers jobs as they start."""
    recorded: Floats
    """When it was released in the recorded run: tells whom to free where a damaged log has steps
    that wait for each other."""


class Work(NamedTuple):
    """Tasks, by step and then in the order in which they are to be launched."""

    step: Ints
    duration: Floats
    counts: Flags
    heir: Ints
    """Next attempt of the same partition; −1 if none."""
    heir_at_launch: Flags
    """Whether the heir comes some time after the launch (a speculative copy), not at the end."""
    heir_wait: Floats


class Slots(NamedTuple):
    """When slots come and go."""

    when: Floats
    change: Ints
    """Slots that come, or go (negative)."""
    when_idle: Flags
    """Whether they only go when nothing waits for a slot."""
    handover: float
    """Time from a task's end to the next launch in its slot. Below 0 where Spark hands the slot
    on before it has booked the end."""


class Shares(NamedTuple):
    """Who goes first: the scheduler's mode, and the pool of each step."""

    fair: bool
    pool: Ints
    by_stage: Ints
    """Rank of each step by stage id and attempt, which orders the task sets of a job."""
    by_name: Ints
    """Rank of each step by the name of its task set, which decides ties in a FAIR pool."""
    pool_fair: Flags
    pool_weight: Floats
    pool_min_share: Floats
    pool_by_name: Ints
