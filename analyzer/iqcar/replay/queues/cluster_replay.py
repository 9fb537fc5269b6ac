"""Replays the applications of one cluster with queues that hand out its executors.

No log holds the size of a cluster or its queues. The size is what its applications held at once at
most, with a core for the master of each on YARN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np

from iqcar.model.waits.executor_shortage import START_UP_MS
from iqcar.model.waits.shared_cluster import executor_offers
from iqcar.replay.loop.cluster_state import Cluster
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.joint_workload import JointWorkload, joint_shares, joint_workload
from iqcar.replay.loop.loop_input import Shares, Slots, Steps
from iqcar.replay.loop.run import Recording, Replayed, replay_errors
from iqcar.replay.whatif.query_chains import chain_steps, queries_in_turn
from iqcar.rules.queue_files import DEFAULT_QUEUE, QueueSetup
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, most_at_once

UNLIMITED = 2**31 - 1
"""spark.dynamicAllocation.maxExecutors where nobody sets it."""
IDLE_TIMEOUT_MS = 60_000.0
"""spark.dynamicAllocation.executorIdleTimeout where nobody sets it."""
IDLE_SLACK_MS = 2_000.0
"""An executor that stayed idle so much beyond its timeout is one that Spark kept: it holds cached
blocks, or shuffle files that Spark tracks."""
_UNITS = {"ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6, "d": 8.64e7, "": 1e3}


@dataclass(frozen=True)
class Tenant:
    """One application of the cluster, and what it asks for.

    app: row of the application.
    queue: name as it asked for it.
    size: cores of one executor.
    slots: tasks at once of one executor.
    least, most: executors; equal where it asks for a fixed number.
    idle_ms: after which it gives an idle one back; infinite: at its end.
    start_up_ms: from a grant to the first task.
    asks_after_ms: from its start until its master asks.
    master_size: cores of its master.
    """

    app: int
    application_id: str
    name: str
    user: str
    queue: str
    size: int
    slots: int
    least: int
    most: int
    idle_ms: float
    start_up_ms: float
    master_size: int
    asks_after_ms: float = 0.0

    @property
    def is_fixed(self) -> bool:
        """Whether it asks for a fixed number of executors."""
        return self.least == self.most


def tenants_of(tables: Tables, apps: Sequence[int]) -> list[Tenant]:
    """Return applications of one cluster that had executors, in the order of their starts."""
    offers = executor_offers(tables)
    settings = _settings(tables, apps)
    made = [
        _tenant(tables, app, settings[app], offers.cores[offers.app == app])
        for app in apps
        if (offers.app == app).any()
    ]
    found = {one.app: _first_start(tables, one, made) for one in made}
    fixed = [found[one.app] for one in made if one.is_fixed]
    since_start = min((one.first - one.start for one in fixed), default=math.inf)
    at_work = [found[one.app] for one in made if not one.is_fixed]
    since_asked = min(
        (one.first - one.asked for one in at_work if math.isfinite(one.asked)), default=math.inf
    )
    gaps = [one.first - one.freed for one in found.values() if math.isfinite(one.freed)]
    start_up = min(since_start, since_asked, float(np.median(gaps)) if gaps else math.inf)
    start_up = start_up if math.isfinite(start_up) else START_UP_MS
    late = max(since_start - start_up, 0.0) if math.isfinite(since_start) else 0.0
    start = tables.applications["start_ms"].to_numpy(np.float64)
    ordered = sorted(made, key=lambda one: (start[one.app], one.application_id))
    return [
        replace(
            one,
            start_up_ms=max(found[one.app].took, start_up),
            asks_after_ms=min(late, found[one.app].asked_within) if one.is_fixed else 0.0,
        )
        for one in ordered
    ]


def _tenant(tables: Tables, app: int, conf: Mapping[str, str], cores: Floats) -> Tenant:
    row = tables.applications.iloc[app]
    size = int(max(np.median(cores), 1))
    per_task = max(float(row["task_cpus"]), 1.0)
    dynamic = conf.get("spark.dynamicAllocation.enabled", "").lower() == "true"
    asked = _whole(conf.get("spark.executor.instances"), 2)
    least, most, idle = asked, asked, math.inf
    if dynamic:
        least = _whole(conf.get("spark.dynamicAllocation.minExecutors"), 0)
        most = _whole(conf.get("spark.dynamicAllocation.maxExecutors"), UNLIMITED)
        text = conf.get("spark.dynamicAllocation.executorIdleTimeout")
        idle = milliseconds(text, IDLE_TIMEOUT_MS)
        idle = math.inf if _kept_idle(tables, app, idle) else idle
    master = str(row["master"])
    in_cluster = conf.get("spark.submit.deployMode") == "cluster"
    own = "spark.driver.cores" if in_cluster else "spark.yarn.am.cores"
    return Tenant(
        app=app, application_id=str(row["application_id"]), name=str(row["name"]),
        user=str(row["user"]), queue=conf.get("spark.yarn.queue", "") or DEFAULT_QUEUE,
        size=size, slots=max(int(size / per_task), 1), least=min(least, most),
        most=max(most, 1), idle_ms=idle, start_up_ms=0.0,
        master_size=_whole(conf.get(own), 1) if master.startswith("yarn") else 0,
    )  # fmt: skip


def _settings(tables: Tables, apps: Sequence[int]) -> dict[int, dict[str, str]]:
    """Settings of each application, not those of its SQL sessions."""
    rows = tables.conf[(tables.conf["sql_execution"] < 0).to_numpy(bool)]
    found: dict[int, dict[str, str]] = {app: {} for app in apps}
    for app, key, value in zip(
        rows["app"].tolist(), texts(rows, "key"), texts(rows, "value"), strict=True
    ):
        if app in found:
            found[app][key] = value.strip()
    return found


def _whole(text: str | None, default: int) -> int:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        value = math.nan
    return int(min(max(value, 0), UNLIMITED)) if math.isfinite(value) else default


def milliseconds(text: str | None, default: float) -> float:
    """Return a time as Spark's settings write it (``60s``, ``2min``); seconds without a unit."""
    digits = (text or "").strip().lower()
    number = digits.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = digits[len(number) :]
    if not number.strip().isdecimal() or unit not in _UNITS:
        return default
    return float(number) * _UNITS[unit]


def _kept_idle(tables: Tables, app: int, idle_ms: float) -> bool:
    """Whether an executor stayed much longer than its idle timeout after its last task."""
    rows = np.flatnonzero((tables.executors["app"] == app).to_numpy(bool))
    ran = (tables.tasks["app"] == app).to_numpy(bool)
    last = np.full(len(tables.executors), -np.inf)
    where = tables.tasks["executor"].to_numpy(np.int64)[ran]
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)[ran]
    known = (where >= 0) & np.isfinite(finish)
    np.maximum.at(last, where[known], finish[known])
    end = float(tables.applications["end_ms"].iloc[app])
    until = np.fmin(tables.executors["removed_ms"].to_numpy(np.float64)[rows], end)
    stayed = until - last[rows]
    return bool((stayed[np.isfinite(stayed)] > idle_ms + IDLE_SLACK_MS).any())


class _FirstStart(NamedTuple):
    """When an application began, and had its first executor; ms since the epoch.

    asked: when it asked at the latest: its first stage came before its first executor, or it asks
        when it has tasks; infinite where neither is so.
    freed: when others last gave an executor back in between: it waited for that; else −infinite.
    """

    start: float
    asked: float
    first: float
    freed: float

    @property
    def asked_within(self) -> float:
        """The longest that it can have taken from its start until it asked."""
        return self.asked - self.start

    @property
    def took(self) -> float:
        """How long its first executor took to start, if there was room for it; else 0."""
        known = math.isfinite(self.asked) and not math.isfinite(self.freed)
        return self.first - self.asked if known else 0.0


def _first_start(tables: Tables, one: Tenant, tenants: Sequence[Tenant]) -> _FirstStart:
    """Find when an application asked for its first executor, and what it waited for.

    An application with a fixed number asks while it starts, one without when it has tasks.
    """
    offers = executor_offers(tables)
    mine = offers.app == one.app
    start = float(tables.applications["start_ms"].iloc[one.app])
    first = max(float(offers.since[mine].min()), start)
    own = tables.stages["submission_ms"].to_numpy(np.float64)
    own = own[(tables.stages["app"] == one.app).to_numpy(bool) & np.isfinite(own)]
    asked = float(own.min(initial=math.inf))
    if not one.is_fixed and not math.isfinite(asked):
        asked = start
    until = offers.until[~mine & np.isin(offers.app, [t.app for t in tenants])]
    freed = float(until[(until > start) & (until <= first)].max(initial=-math.inf))
    return _FirstStart(start, asked if asked <= first else math.inf, first, freed)


def most_cores_held(tables: Tables, tenants: Sequence[Tenant]) -> int:
    """Cores that applications and their masters held at once at most."""
    offers, apps = executor_offers(tables), np.array([one.app for one in tenants])
    mine = np.isin(offers.app, apps)
    start, end = (tables.applications[n].to_numpy(np.float64)[apps] for n in ("start_ms", "end_ms"))
    since = np.concatenate([offers.since[mine], start])
    until = np.concatenate([offers.until[mine], end])
    masters = [float(one.master_size) for one in tenants]
    size = np.zeros(len(tables.applications))
    size[apps] = [one.size for one in tenants]
    units = np.concatenate([size[offers.app[mine]], masters])
    one_group: Ints = np.zeros(len(since), np.int64)
    return round(float(most_at_once(one_group, since, until, units, 1)[0]))


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
