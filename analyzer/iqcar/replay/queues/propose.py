"""Chooses a plan for a shared cluster: the mildest that helps nearly as much as the best."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.errors import IqcarError
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.replay.loop.run import Recording, Replayed, record
from iqcar.replay.queues.candidates import (
    Draft,
    capacity_drafts,
    fair_drafts,
    queue_of,
)
from iqcar.replay.queues.cluster_replay import ClusterReplays, QueuePlan, cluster_replays
from iqcar.replay.queues.cluster_setup import Tenant
from iqcar.replay.queues.sides import Sides, sides_of
from iqcar.replay.rule_effect.effect import AS_GOOD
from iqcar.replay.rule_effect.expected import OF_ALL, Expected
from iqcar.replay.rule_effect.plan_evaluator import PlanEvaluator
from iqcar.rules.queues.capacity_file import (
    CapacityFile,
    assumed_capacity_file,
    read_capacity_file,
)
from iqcar.rules.queues.fair_file import FairFile, assumed_fair_file, read_fair_file
from iqcar.rules.queues.queue_setup import PlanTarget, QueueSetup
from iqcar.rules.rule import Outlook
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats

ASSUMED = "queues as assumed"
"""What errors call a file that nobody gave."""


class QueueQuestion(msgspec.Struct, frozen=True):
    """What is to be planned for.

    target: what the plan is written for.
    current: the scheduler's file that was in force, and its name; None: assumed.
    cores: of the cluster; None: as many as its applications held at once.
    preempts_after_ms: after which executors are taken back; infinite: never.
    """

    target: PlanTarget
    current: tuple[bytes, str] | None = None
    cores: int | None = None
    preempts_after_ms: float = math.inf


@dataclass(frozen=True)
class Judged:
    """A draft, and what its replay says."""

    draft: Draft
    expected: Expected
    after: Replayed


@dataclass(frozen=True)
class QueueProposal:
    """A plan for a shared cluster, and what it rests on.

    before_content: of the scheduler's file as it was.
    before: the replay of the run as it was.
    chosen: None where nothing has to change, or nothing can.
    tried: how many plans were replayed.
    """

    asked: QueueQuestion
    tables: Tables
    replays: ClusterReplays
    sides: Sides
    before_content: bytes
    before: Replayed
    errors: Floats
    chosen: Judged | None
    tried: int

    @property
    def rejected(self) -> bool:
        """Whether the plan is predicted to harm."""
        return self.chosen is not None and self.chosen.expected.harms

    def queue_before(self, tenant: Tenant) -> str:
        """Path of the queue that an application ran in."""
        return queue_of(self.replays.setup, tenant, "")

    def queue_after(self, tenant: Tenant) -> str:
        """Path of the queue that it is to run in."""
        moves = dict(self.chosen.draft.plan.moves) if self.chosen else {}
        return moves.get(tenant.app) or self.queue_before(tenant)


def propose_queues(tables: Tables, graph: IQCGraph, asked: QueueQuestion) -> QueueProposal:
    """Plan for the cluster whose applications lost most to executors that others held.

    Raises IqcarError if no two applications that can be replayed share a cluster, or the file does
    not fit them.

    graph: of these tables.
    """
    recording = record(tables)
    cluster, found = clusters_of(tables), []
    for number in range(int(cluster.max(initial=-1)) + 1):
        here = np.flatnonzero(cluster == number).tolist()
        apps = [app for app in here if app in recording.workloads]
        if len(apps) < 2:
            continue
        found.append(_of_cluster(tables, graph, recording, apps, asked))
    if not found:
        raise IqcarError(
            "no two of the applications share a cluster", "", "give the logs of all its tenants"
        )
    return max(found, key=lambda one: one.sides.lost_ms)


def _of_cluster(
    tables: Tables, graph: IQCGraph, recording: Recording, apps: list[int], asked: QueueQuestion
) -> QueueProposal:
    replays = cluster_replays(tables, recording, apps, QueueSetup(()), asked.cores)
    sides = sides_of(tables, graph, replays.tenants)
    file = _file(asked, replays.tenants)
    if isinstance(file, FairFile):
        replays.setup = file.setup(replays.cores, asked.preempts_after_ms)
    else:
        replays.setup = _preempting(file.setup(), asked)
    for tenant in replays.tenants:
        queue_of(replays.setup, tenant, file.where)
    drafts = list(_drafts(asked, file, replays, sides)) if len(sides.targets) else []
    evaluator = PlanEvaluator[QueuePlan](replays)
    judged = [one for draft in drafts if (one := _judge(evaluator, draft, sides)) is not None]
    return QueueProposal(
        asked=asked, tables=tables, replays=replays, sides=sides,
        before_content=file.content, before=evaluator.before, errors=evaluator.errors,
        chosen=choose(judged), tried=len(judged),
    )  # fmt: skip


def _preempting(setup: QueueSetup, asked: QueueQuestion) -> QueueSetup:
    return msgspec.structs.replace(setup, preempts_after_ms=asked.preempts_after_ms)


def _file(asked: QueueQuestion, tenants: list[Tenant]) -> CapacityFile | FairFile:
    """Read the file that was in force; without one all queues are assumed to be equal."""
    fair = asked.target is PlanTarget.YARN_FAIR
    if asked.current is not None:
        content, where = asked.current
        return read_fair_file(content, where) if fair else read_capacity_file(content, where)
    names = sorted({one.queue.rpartition(".")[2] for one in tenants})
    if fair:
        return assumed_fair_file(dict.fromkeys(names, 1.0), ASSUMED)
    shares = {name: round(100 / len(names), 2) for name in names}
    shares[names[-1]] = round(100 - sum(shares[name] for name in names[:-1]), 2)
    return assumed_capacity_file(shares, ASSUMED)


def _drafts(
    asked: QueueQuestion, file: CapacityFile | FairFile, replays: ClusterReplays, sides: Sides
) -> Iterable[Draft]:
    tenants, after = replays.tenants, asked.preempts_after_ms
    if isinstance(file, FairFile):
        return fair_drafts(file, tenants, sides, replays.cores, after)
    drafts = capacity_drafts(file, tenants, sides, math.isfinite(after))
    return [
        one._replace(
            plan=msgspec.structs.replace(one.plan, setup=_preempting(one.plan.setup, asked))
        )
        for one in drafts
    ]


def _judge(evaluator: PlanEvaluator[QueuePlan], draft: Draft, sides: Sides) -> Judged | None:
    """Replay a draft; None where its victims cannot be replayed."""
    after = evaluator.after(draft.plan)
    expected = evaluator.expected(draft.plan, sides.targets, OF_ALL)
    if expected is None:
        return None
    never = np.isfinite(evaluator.before.end_ms) & ~np.isfinite(after.end_ms)
    if never.any():
        what = f"{int(never.sum())} queries would never get an executor; {expected.sentence}"
        expected = replace(expected, outlook=Outlook.HARMS.value, sentence=what)
    elif expected.outlook == Outlook.HELPS.value and not evaluator.reproduces(
        draft.plan, sides.targets
    ):
        what = f"the replay does not reproduce the recorded run well, {expected.sentence}"
        expected = replace(expected, outlook=Outlook.UNSURE.value, sentence=what)
    return Judged(draft, expected, after)


def choose(judged: list[Judged]) -> Judged | None:
    """Return the first that helps nearly as much as the best; else what harms least."""
    helping = [one for one in judged if one.expected.outlook == Outlook.HELPS.value]
    if helping:
        best = min(one.expected.victims_change_percent for one in helping)
        return next(o for o in helping if o.expected.victims_change_percent <= AS_GOOD * best)
    harmless = [one for one in judged if not one.expected.harms]
    return min(
        harmless or judged, key=lambda one: one.expected.victims_change_percent, default=None
    )
