"""Plans the queues of a shared cluster: who waited for whom, what could change, what it brings.

Of drafts, the mildest that helps nearly as much as the best is chosen. Victims in the queue of a
holder move into a new queue beside it, and are guaranteed a part of it; who has a queue of their
own get more of what the holder's has. Queues of others keep what they had.
"""

from __future__ import annotations

import difflib
import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.errors import IqcarError
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.replay.loop.run import Recording, Replayed, record
from iqcar.replay.queues.cluster_replay import ClusterReplays, QueuePlan, Tenant, cluster_replays
from iqcar.replay.rule_effect.effect import AS_GOOD
from iqcar.replay.rule_effect.expected import OF_ALL, Expected
from iqcar.replay.rule_effect.plan_evaluator import PlanEvaluator
from iqcar.rules.advice_rules import LEAST_DELAY_MS, LEAST_SHARE, ExecutorWait, executor_waits
from iqcar.rules.queue_files import (
    CapacityFile,
    FairFile,
    PlanTarget,
    QueueSetup,
    assumed_capacity_file,
    assumed_fair_file,
    percent_text,
    read_capacity_file,
    read_fair_file,
)
from iqcar.rules.rule import Outlook, pool_name
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints
from iqcar.version import __version__

Key = tuple[str, str, str]
"""What is one application from run to run: its queue, user and name."""


class Sides(NamedTuple):
    """Who waited for whom.

    victims, holders: applications that recur, the one that lost, or cost, most first.
    targets: rows of the queries that lost enough to matter.
    lost_ms: elapsed, of all targets.
    """

    victims: tuple[Key, ...]
    holders: tuple[Key, ...]
    targets: Ints
    lost_ms: float


def key_of(tenant: Tenant) -> Key:
    """Return what an application is known by from run to run."""
    return tenant.queue, tenant.user, tenant.name


def sides_of(tables: Tables, graph: IQCGraph, tenants: list[Tenant]) -> Sides:
    """Divide applications of one cluster by what each lost to others, and cost them.

    One that lost more than it cost is a victim. Queries that lost less than
    :data:`iqcar.rules.advice_rules.LEAST_DELAY_MS` or
    :data:`iqcar.rules.advice_rules.LEAST_SHARE` of their duration do not count.
    """
    of_app = {one.app: key_of(one) for one in tenants}
    app = tables.queries["app"].to_numpy(np.int64)
    ran = tables.queries["duration_ms"].to_numpy(np.float64)
    by_target: dict[int, list[ExecutorWait]] = defaultdict(list)
    for wait in executor_waits(tables, graph):
        if wait.holder in of_app and int(app[wait.target]) in of_app:
            by_target[wait.target].append(wait)
    lost: dict[Key, float] = defaultdict(float)
    cost: dict[Key, float] = defaultdict(float)
    targets, total = [], 0.0
    for target, waits in by_target.items():
        of_target = sum(wait.lost_ms for wait in waits)
        if of_target < LEAST_DELAY_MS or not of_target >= LEAST_SHARE * ran[target]:
            continue
        targets.append(target)
        total += of_target
        lost[of_app[int(app[target])]] += of_target
        for wait in waits:
            cost[of_app[wait.holder]] += wait.lost_ms
    victims = [key for key in lost if lost[key] > cost.get(key, 0.0)]
    holders = [key for key in cost if key not in victims]
    of_victims = [t for t in sorted(targets) if of_app[int(app[t])] in victims]
    return Sides(
        victims=tuple(sorted(victims, key=lambda key: (-lost[key], key))),
        holders=tuple(sorted(holders, key=lambda key: (-cost[key], key))),
        targets=np.array(of_victims, np.int64),
        lost_ms=total,
    )


SHARES = (0.25, 0.5, 0.75)
"""Parts of a holder's queue that victims are guaranteed, the mildest first."""
WEIGHTS = (1.0, 2.0, 4.0)
"""Weights of victims' queues, as multiples of the holder's."""


class Draft(NamedTuple):
    """A plan, and the content of the scheduler's file for it."""

    plan: QueuePlan
    content: bytes


def queue_of(setup: QueueSetup, tenant: Tenant, where: str) -> str:
    """Return the path of an application's queue; raises IqcarError if the file does not have it."""
    at = setup.find(tenant.queue)
    if at is None:
        raise IqcarError(
            f"has no queue {tenant.queue!r}, in which {tenant.name or tenant.application_id} ran",
            where,
            "give the file that was in force, or the logs of another run",
        )
    return setup.queues[at].path


class _Places(NamedTuple):
    """Queues of victims and holders, by path."""

    victims: dict[Key, str]
    holders: tuple[str, ...]
    movers: tuple[tuple[int, str], ...]
    users: dict[str, int]
    """Users of the victims in each queue."""


def _places(setup: QueueSetup, tenants: Sequence[Tenant], sides: Sides, where: str) -> _Places:
    path = {key_of(one): queue_of(setup, one, where) for one in tenants}
    holders = tuple(dict.fromkeys(path[key] for key in sides.holders))
    movers = tuple((one.app, path[key_of(one)]) for one in tenants if key_of(one) in sides.victims)
    users: dict[str, set[str]] = {}
    for key in sides.victims:
        users.setdefault(path[key], set()).add(key[1])
    return _Places(
        {key: path[key] for key in sides.victims},
        holders,
        tuple((app, queue) for app, queue in movers if queue in holders),
        {queue: len(names) for queue, names in users.items()},
    )


def _new_queue(places: _Places, queue: str, taken: Sequence[str]) -> str:
    """Name a queue for victims beside that of a holder, after the one that lost most."""
    worst = next(key for key, path in places.victims.items() if path == queue)
    parent = queue.rpartition(".")[0]
    beside = {path.rpartition(".")[2] for path in taken}
    return f"{parent}.{pool_name(worst[2], beside)}"


def capacity_drafts(
    file: CapacityFile, tenants: Sequence[Tenant], sides: Sides, preempts_after_ms: float
) -> Iterator[Draft]:
    """Draft plans for the CapacityScheduler.

    Of each share, first with the holder's queue free to use what nobody else wants, then held to
    what the others leave. Where the ResourceManager preempts, the first gives it back.

    Raises IqcarError if the file lacks a queue that an application ran in.
    """
    places = _places(file.setup(), tenants, sides, file.where)
    for held in (False, True):
        for share in SHARES:
            values: dict[str, str] = {}
            moves: list[tuple[int, str]] = []
            for holder in places.holders:
                beside = _victims_beside(places, holder, tuple(file.leaves))
                if not beside:
                    continue
                target, moved = beside
                moves += moved
                values |= _shifted(file, holder, target, share, held)
                users = places.users.get(holder if moved else target, 1)
                if users > 1 and moved:
                    values[f"{target}.minimum-user-limit-percent"] = str(max(100 // users, 1))
                if math.isfinite(preempts_after_ms):
                    values[f"{holder}.disable_preemption"] = "false"
            if values:
                edited = file.edited(values)
                yield Draft(
                    QueuePlan(edited.setup(preempts_after_ms), tuple(moves)), edited.content
                )


def _victims_beside(
    places: _Places, holder: str, leaves: Sequence[str]
) -> tuple[str, list[tuple[int, str]]] | None:
    """Queue beside a holder's that gets a part of it, and who moves there.

    A new one for victims in the holder's own, else that of the victims that lost most.
    """
    inside = [app for app, queue in places.movers if queue == holder]
    if inside:
        name = _new_queue(places, holder, leaves)
        return name, [(app, name) for app in inside]
    parent = holder.rpartition(".")[0]
    others = (queue for queue in places.victims.values() if queue.rpartition(".")[0] == parent)
    found = next((queue for queue in others if queue != holder), None)
    return None if found is None else (found, [])


def _shifted(
    file: CapacityFile, holder: str, target: str, share: float, held: bool
) -> dict[str, str]:
    """Properties that move a part of a queue's capacity to another one, which may be new.

    Applications of the holder's users may have as much as before, unless it is held.
    """
    parent, _, name = target.rpartition(".")
    had = file.capacity(holder)
    given = round(had * share, 2)
    left = round(had - given, 4)
    known = target in file.leaves
    own = (file.capacity(target) if known else 0.0) + given
    most = file.maximum(holder)
    factor = file.number(holder, "user-limit-factor", 1.0)
    values = {}
    if not known:
        values[f"{parent}.queues"] = ",".join([*file.children[parent], name])
    values[f"{holder}.capacity"] = percent_text(left)
    values[f"{target}.capacity"] = percent_text(own)
    roof = max(file.maximum(target), own) if known else max(most, own)
    if not known or roof != file.maximum(target):
        values[f"{target}.maximum-capacity"] = percent_text(roof)
    values[f"{target}.user-limit-factor"] = _up(roof / own)
    if factor >= 0 and left > 0:
        values[f"{holder}.user-limit-factor"] = _up(factor * had / left)
    if held:
        values[f"{holder}.maximum-capacity"] = percent_text(max(most - given, left))
    return values


def _up(factor: float) -> str:
    """Write a factor, rounded up: a user limit a hair below a whole executor is one less."""
    return percent_text(math.ceil(factor * 100 - 1e-6) / 100)


def fair_drafts(
    file: FairFile,
    tenants: Sequence[Tenant],
    sides: Sides,
    cores: int,
    preempts_after_ms: float,
) -> Iterator[Draft]:
    """Draft plans for the FairScheduler: weights, then maxima of the holders' queues too."""
    setup = file.setup(cores, preempts_after_ms)
    places = _places(setup, tenants, sides, file.where)
    seconds = f"{preempts_after_ms / 1000:g}"
    for held in (False, True):
        for weight in WEIGHTS:
            values: dict[str, dict[str, str]] = {}
            moves: list[tuple[int, str]] = []
            for holder in places.holders:
                beside = _victims_beside(places, holder, tuple(file.elements))
                if not beside:
                    continue
                target, moved = beside
                moves += moved
                values[target] = {"weight": f"{file.weight(holder) * weight:g}"}
                if math.isfinite(preempts_after_ms):
                    values[target]["fairSharePreemptionTimeout"] = seconds
                if held:
                    left = file.maximum(holder, cores) / (1 + weight)
                    values[holder] = {"maxResources": f"{100 * left:.1f}%"}
            if values:
                edited = file.edited(values)
                after = edited.setup(cores, preempts_after_ms)
                yield Draft(QueuePlan(after, tuple(moves)), edited.content)


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
    """

    asked: QueueQuestion
    tables: Tables
    replays: ClusterReplays
    sides: Sides
    before_content: bytes
    before: Replayed
    errors: Floats
    chosen: Judged | None

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
    tenants, cores, after = replays.tenants, replays.cores, asked.preempts_after_ms
    if isinstance(file, FairFile):
        replays.setup = file.setup(cores, after)
        drafts = fair_drafts(file, tenants, sides, cores, after)
    else:
        replays.setup = file.setup(after)
        drafts = capacity_drafts(file, tenants, sides, after)
    for tenant in tenants:
        queue_of(replays.setup, tenant, file.where)
    drafts = drafts if len(sides.targets) else iter(())
    evaluator = PlanEvaluator[QueuePlan](replays)
    judged = [one for draft in drafts if (one := _judge(evaluator, draft, sides)) is not None]
    return QueueProposal(
        asked=asked, tables=tables, replays=replays, sides=sides,
        before_content=file.content, before=evaluator.before, errors=evaluator.errors,
        chosen=choose(judged),
    )  # fmt: skip


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


FILES = {
    PlanTarget.YARN_CAPACITY: "capacity-scheduler.xml",
    PlanTarget.YARN_FAIR: "fair-scheduler.xml",
}
"""What is written for each target."""


class QueuedApplication(msgspec.Struct, frozen=True):
    """An application of the cluster."""

    application_id: str
    name: str
    user: str
    role: Annotated[str, Meta(description="victim, holder or other")]
    queue_before: Annotated[str, Meta(description="Path of the queue that it ran in.")]
    queue_after: Annotated[str, Meta(description="Path of the queue that it is to run in.")]
    recorded_ms: Annotated[
        float | None, Meta(description="From its start to its last query's end.")
    ]
    before_ms: Annotated[float | None, Meta(description="The same in the replay of the record.")]
    after_ms: Annotated[float | None, Meta(description="The same in the replay under the plan.")]


class SelfCheck(msgspec.Struct, frozen=True):
    """How far the replay of the recorded run is off."""

    queries: Annotated[int, Meta(description="Queries that it replayed.")]
    median_error_percent: Annotated[float | None, Meta(description="The median query.")]
    worst_error_percent: Annotated[float | None, Meta(description="The worst one.")]


class QueueResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `iqcar rules compile --for` a cluster manager writes."""

    schema_version: Annotated[str, Meta(description="Changes when readers would have to.")]
    iqcar_version: Annotated[str, Meta(description="The version of iqcar that wrote it.")]
    target: Annotated[str, Meta(description="What it is for, as in --for.")]
    cores: Annotated[int, Meta(description="Of the cluster that was replayed.")]
    cores_given: Annotated[bool, Meta(description="Whether --cores said so.")]
    queues_given: Annotated[bool, Meta(description="Whether --current said how queues were.")]
    lost_ms: Annotated[float, Meta(description="Elapsed time that queries lost to executors.")]
    outlook: Annotated[
        str | None,
        Meta(description="helps, unsure, no-gain or harms; null where nothing has to change."),
    ]
    written: Annotated[bool, Meta(description="Whether the plan is written: not if it harms.")]
    expected: Annotated[
        dict[str, Any] | None, Meta(description="The predicted effect, as that of a rule.")
    ]
    self_check: SelfCheck
    applications: list[QueuedApplication]
    diff: Annotated[str, Meta(description="Unified diff of the scheduler's file.")]
    how_to: Annotated[list[str], Meta(description="What to do, a step a line.")]
    assumptions: Annotated[list[str], Meta(description="What the prediction rests on.")]


def queue_result(found: QueueProposal, *, all_rules: bool = False) -> QueueResult:
    """Lay a proposal out.

    all_rules: Whether a plan that is predicted to harm is written, too.
    """
    chosen = found.chosen
    written = chosen is not None and (all_rules or not found.rejected)
    off = np.abs(found.errors[np.isfinite(found.errors)])
    return QueueResult(
        schema_version="2", iqcar_version=__version__, target=found.asked.target.value,
        cores=found.replays.cores, cores_given=found.asked.cores is not None,
        queues_given=found.asked.current is not None, lost_ms=round(found.sides.lost_ms, 3),
        outlook=None if chosen is None else chosen.expected.outlook, written=written,
        expected=None if chosen is None else chosen.expected.to_dict(),
        self_check=SelfCheck(
            len(off),
            round(100 * float(np.median(off)), 3) if len(off) else None,
            round(100 * float(off.max()), 3) if len(off) else None,
        ),
        applications=_applications(found),
        diff=_diff(found) if written else "", how_to=_how_to(found) if written else [],
        assumptions=_assumptions(found),
    )  # fmt: skip


def content_of(found: QueueProposal) -> bytes:
    """Return the scheduler's file of a plan; empty without one."""
    return found.chosen.draft.content if found.chosen else b""


def _applications(found: QueueProposal) -> list[QueuedApplication]:
    made = []
    for one in found.replays.tenants:
        key = key_of(one)
        role = "victim" if key in found.sides.victims else "other"
        role = "holder" if key in found.sides.holders else role
        end = found.tables.queries["end_ms"].to_numpy(np.float64)
        after = found.chosen.after.end_ms if found.chosen else np.full(len(end), np.nan)
        start = float(found.tables.applications["start_ms"].iloc[one.app])
        mine = np.flatnonzero((found.tables.queries["app"] == one.app).to_numpy())
        recorded, before, then = (
            _number(float(each[mine].max(initial=-np.inf)) - start)
            for each in (end, found.before.end_ms, after)
        )
        made.append(
            QueuedApplication(
                application_id=one.application_id, name=one.name, user=one.user, role=role,
                queue_before=found.queue_before(one), queue_after=found.queue_after(one),
                recorded_ms=recorded, before_ms=before, after_ms=then,
            )
        )  # fmt: skip
    return made


def _number(value: float) -> float | None:
    return round(float(value), 3) if math.isfinite(value) else None


def _diff(found: QueueProposal) -> str:
    if found.chosen is None:
        return ""
    name = FILES[found.asked.target]
    before, after = (
        content.decode("utf-8", "replace").splitlines(keepends=True)
        for content in (found.before_content, found.chosen.draft.content)
    )
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _submit_lines(found: QueueProposal) -> list[str]:
    """A comment and an option of ``spark-submit`` for each application that moves."""
    # YARN's clients name a queue by its path.
    moved = {
        f"# {_plain(one.name or one.application_id)} of {_plain(one.user)}\n"
        f"--conf {shlex.quote(f'spark.yarn.queue={found.queue_after(one)}')}": None
        for one in found.replays.tenants
        if found.queue_after(one) != found.queue_before(one)
    }
    return [line for both in moved for line in both.split("\n")]


def _plain(text: str) -> str:
    """One line: names in logs are not ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _how_to(found: QueueProposal) -> list[str]:
    name = FILES[found.asked.target]
    if found.asked.target is PlanTarget.YARN_CAPACITY:
        steps = [f"Put {name} where the ResourceManager reads it ($HADOOP_CONF_DIR)."]
    else:
        steps = [
            f"Put {name} where yarn.scheduler.fair.allocation.file says; the ResourceManager reads "
            "it again within 10 s, or at once:",
        ]
    steps.append("yarn rmadmin -refreshQueues")
    lines = _submit_lines(found)
    if lines:
        steps += ["From the next start on, submit with these options of spark-submit:", *lines]
    return steps


def _assumptions(found: QueueProposal) -> list[str]:
    said = [found.replays.assumptions]
    if found.asked.cores is None:
        said.append(
            f"The cluster has {found.replays.cores} cores: as many as its applications held at "
            "once at most (--cores)."
        )
    if found.asked.current is None:
        said.append(
            "All queues that applications named were guaranteed as much, with the scheduler's "
            "defaults (--current)."
        )
    if math.isinf(found.asked.preempts_after_ms):
        said.append("No executor is taken back from who has it (--preemption).")
    return said
