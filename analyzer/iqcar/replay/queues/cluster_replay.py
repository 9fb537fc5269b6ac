"""Replays the applications of one cluster with queues that hand out its executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from iqcar.replay.loop.cluster_state import Cluster
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.joint_workload import JointWorkload, joint_shares, joint_workload
from iqcar.replay.loop.loop_input import Shares, Slots, Steps
from iqcar.replay.loop.run import Recording, Replayed, replay_errors
from iqcar.replay.queues.cluster_setup import UNLIMITED, Tenant, most_cores_held, tenants_of
from iqcar.replay.whatif.query_chains import chain_steps, queries_in_turn
from iqcar.rules.queues.queue_setup import QueueSetup
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats

MOST_PLACES = 4096
"""Executors at once of one application that a replay keeps apart."""


class QueuePlan(msgspec.Struct, frozen=True):
    """Queues, and who is in which.

    setup: the queues.
    moves: queue, by its path, of applications by row that go into another.
    """

    setup: QueueSetup
    moves: tuple[tuple[int, str], ...] = ()


@dataclass
class ClusterReplays:
    """Replays of one recorded cluster under plans; as ``plan_evaluator.Replays`` asks for.

    setup: the queues as they were, or as they are assumed to have been.
    tenants: its applications, by their starts.
    cores: of the cluster.
    """

    tables: Tables
    recording: Recording
    setup: QueueSetup
    tenants: list[Tenant]
    cores: int
    model: str = "cluster"
    most_error: float = 0.15
    assumptions: str = (
        "Tasks last as long as they did, applications start when they did, and queries that "
        "followed each other still do; executors of one application are alike, and fit "
        "wherever there is room in all."
    )
    _joint: JointWorkload | None = field(default=None, repr=False)

    @property
    def joint(self) -> JointWorkload:
        """All applications on one clock."""
        if self._joint is None:
            self._joint = joint_workload([self.recording.workloads[t.app] for t in self.tenants])
        return self._joint

    @property
    def slot_count(self) -> int:
        """Size of the cluster; plans of pools have slots."""
        return self.cores

    def reach(self, plan: QueuePlan) -> set[int]:
        """Applications whose queries a plan can move: all of the cluster."""
        return {one.app for one in self.tenants}

    def replay(self, plan: QueuePlan | None = None) -> Replayed:
        """Replay with the queues as they were, or under a plan."""
        plan = plan or QueuePlan(self.setup)
        joint, n = self.joint, len(self.tables.queries)
        cluster = self._cluster(plan)
        shares = self.recording.shares()
        places = int(min(max(self.cores // max(cluster.size.min(initial=1), 1), 1), MOST_PLACES))
        slots = Slots(
            when=np.zeros(0), change=np.zeros(0, np.int64), when_idle=np.zeros(0, bool),
            app=np.zeros(0, np.int64), host=np.zeros(0, np.int64), handover=joint.slots.handover,
            hosts=max(places, 2),
        )  # fmt: skip
        work = joint.work._replace(host=np.full(len(joint.work.host), NONE, np.int64))
        ordered: Shares = joint_shares([shares[one.app] for one in self.tenants])
        done = run(self._steps(), work, slots, ordered, cluster=cluster).done
        start, end = np.full(n, np.nan), np.full(n, np.nan)
        start[joint.query] = done[joint.query_start] + joint.origin
        end[joint.query] = done[joint.query_end] + joint.origin
        return Replayed(start, end)

    def errors(self) -> Floats:
        """How far a replay of the run as it was is off, as a share of each query's duration."""
        return replay_errors(self.tables, self.replay())

    def _steps(self) -> Steps:
        """Steps in which a query that followed another one follows it still."""
        joint, queries = self.joint, self.tables.queries
        before = queries_in_turn(self.tables)
        position = np.full(len(queries) + 1, NONE, np.int64)
        position[joint.query] = np.arange(len(joint.query))
        chained = np.flatnonzero(position[before[joint.query]] >= 0)
        chained = chained[before[joint.query[chained]] >= 0]
        if not len(chained):
            return joint.steps
        rows = joint.query[chained]
        begin, end = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
        gap = np.maximum(begin[rows] - end[before[rows]], 0.0)
        earlier = joint.query_end[position[before[rows]]]
        return chain_steps(joint.steps, earlier, joint.query_start[chained], gap)

    def _cluster(self, plan: QueuePlan) -> Cluster:
        moves, setup, apps = dict(plan.moves), plan.setup, self.tables.applications
        queue = [setup.find(moves.get(one.app, one.queue)) for one in self.tenants]
        if None in queue:
            raise ValueError("an application is in no queue")
        users = {user: at for at, user in enumerate(sorted({one.user for one in self.tenants}))}
        rows = np.array([one.app for one in self.tenants])
        start, end = (apps[n].to_numpy(np.float64)[rows] for n in ("start_ms", "end_ms"))
        last = np.array([self._last_step(one) for one in self.tenants])
        leaves = setup.queues
        ints, whole = np.int64, 1 if setup.fair else self.cores
        return Cluster(
            queue=np.array(queue, ints), user=np.array([users[t.user] for t in self.tenants], ints),
            starts=start - self.joint.origin,
            asks=start - self.joint.origin + np.array([t.asks_after_ms for t in self.tenants]),
            tail=np.maximum(end - last, 0.0),
            master=np.array([t.master_size for t in self.tenants], ints),
            size=np.array([t.size for t in self.tenants], ints),
            slots=np.array([t.slots for t in self.tenants], ints),
            least=np.array([t.least for t in self.tenants], ints),
            most=np.array([min(t.most, UNLIMITED) for t in self.tenants], ints),
            idle=np.array([t.idle_ms for t in self.tenants]),
            start_up=np.array([t.start_up_ms for t in self.tenants]),
            guaranteed=np.array([q.guaranteed for q in leaves]) * whole,
            maximum=np.array([q.maximum for q in leaves]) * self.cores,
            user_factor=np.array([q.user_factor for q in leaves]),
            user_least=np.array([q.user_least for q in leaves]),
            priority=np.array([q.priority for q in leaves], ints),
            evenly=np.array([q.evenly for q in leaves], bool),
            gives_back=np.array([q.gives_back for q in leaves], bool),
            capacity=self.cores, fair=setup.fair, preempts_after=setup.preempts_after_ms,
        )  # fmt: skip

    def _last_step(self, tenant: Tenant) -> float:
        """When the last step of an application was done in the recorded run, ms since the epoch."""
        workload = self.recording.workloads[tenant.app]
        return float(workload.order.end.max(initial=workload.origin))


def cluster_replays(
    tables: Tables,
    recording: Recording,
    apps: Sequence[int],
    setup: QueueSetup,
    cores: int | None = None,
) -> ClusterReplays:
    """Lay the applications of one cluster out for replays.

    recording: of these tables.
    apps: rows; those that cannot be replayed are left out.
    setup: the queues as they were.
    cores: of the cluster; by default as many as its applications held at once at most.
    """
    tenants = tenants_of(tables, [app for app in apps if app in recording.workloads])
    return ClusterReplays(
        tables, recording, setup, tenants, cores or most_cores_held(tables, tenants)
    )
