"""Drafts plans for the queues of a cluster, the mildest first.

Victims in the queue of a holder move into a new queue beside it, and are guaranteed a part of it;
who has a queue of their own get more of what the holder's has. Queues of others keep what they had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iqcar.errors import IqcarError
from iqcar.replay.queues.cluster_replay import QueuePlan
from iqcar.replay.queues.cluster_setup import Tenant
from iqcar.replay.queues.sides import Key, Sides, key_of
from iqcar.rules.pool_plan import pool_name
from iqcar.rules.queues.capacity_file import CapacityFile, percent_text
from iqcar.rules.queues.fair_file import FairFile
from iqcar.rules.queues.queue_setup import QueueSetup

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
    file: CapacityFile, tenants: Sequence[Tenant], sides: Sides, preempts: bool
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
                if preempts:
                    values[f"{holder}.disable_preemption"] = "false"
            if values:
                edited = file.edited(values)
                yield Draft(QueuePlan(edited.setup(preempts), tuple(moves)), edited.content)


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
