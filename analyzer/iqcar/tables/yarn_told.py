"""Declares what a YARN resource manager tells: applications, nodes, queues and their limits."""

from __future__ import annotations

from math import isfinite, nan
from typing import NamedTuple


class YarnApplication(NamedTuple):
    """An application as its resource manager tells of it.

    application_id, name, user, queue, state, kind: kind is such as ``SPARK`` or ``MAPREDUCE``.
    label: node label that its containers ask for; empty for none.
    diagnostics: why it is where it is; empty where nothing is said.
    submitted_ms, launched_ms: since the epoch: when it came, and when the container of its master
        was launched; NaN where that has not been, or is not told.
    until_ms: when it ended; where it has not, when the manager was asked, by its own clock.
    memory_mb_s: Σ over its containers of memory × time so far; NaN where it is not told.
    preempted: containers that were taken from it so far; NaN where it is not told.
    master_host: host of its master's container; empty where it is not told.
    """

    application_id: str
    name: str
    user: str
    queue: str
    state: str
    kind: str
    label: str
    diagnostics: str
    submitted_ms: float
    launched_ms: float
    until_ms: float
    memory_mb_s: float
    preempted: float
    master_host: str = ""

    @property
    def waits(self) -> bool:
        """Whether it waits for the container of its master.

        It stays ACCEPTED while that starts, until its master has registered.
        """
        early = self.state in ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
        return early and not isfinite(self.launched_ms)


class YarnNode(NamedTuple):
    """A node that runs: its host, MB and cores for containers (NaN if not told), node labels."""

    host: str
    memory_mb: float
    cores: float
    labels: tuple[str, ...]


class QueueLimit(NamedTuple):
    """What a queue, or one user in it, may hold on nodes of one label; "" is those without one."""

    label: str
    memory_mb: float
    cores: float


class YarnQueue(NamedTuple):
    """A queue of the capacity scheduler: its path, and shares of the cluster in per cent.

    capacity, most, used: guaranteed, at most, and in use now; NaN where it is not told.
    limits: the same limit in MB and cores, by label; empty where it is not told (Hadoop < 3.1).
    label: node label of containers that ask for none; empty for none.
    user_limits: what one user may hold of it, by label; empty where that is not limited or told. A
        user who holds no more than that gets one more container, however large.
    """

    path: str
    capacity: float
    most: float
    used: float
    limits: tuple[QueueLimit, ...] = ()
    label: str = ""
    user_limits: tuple[QueueLimit, ...] = ()


class YarnTold(NamedTuple):
    """What a resource manager told.

    url: of the manager, without a path of its API.
    queues: empty for other schedulers than the capacity scheduler.
    least_mb: memory of every container is a multiple of it; NaN where it is not told.
    """

    url: str
    applications: tuple[YarnApplication, ...]
    nodes: tuple[YarnNode, ...]
    queues: tuple[YarnQueue, ...]
    least_mb: float = nan
