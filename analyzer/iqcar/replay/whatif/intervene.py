"""Applies a question to a scenario: which edits it means, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from iqcar.errors import UsageError
from iqcar.replay.loop.task_demands import ASSUMED, DISK, HEADROOM, NETWORK, PROCESSOR
from iqcar.replay.whatif import edit, edit_cluster
from iqcar.replay.whatif.outcome import DEVICE_NAMES
from iqcar.replay.whatif.question import RECORDED, Question
from iqcar.replay.whatif.scenario import Scenario

FindQuery = Callable[[str, str], Sequence[int]]

T = TypeVar("T")


@dataclass(frozen=True)
class Intervened:
    """A scenario after an intervention.

    ends: The same with twice the capacities that are only assumed, where the question needs one.
    """

    scenario: Scenario
    ends: tuple[Scenario, ...]
    assumptions: tuple[str, ...]


def intervene(scenario: Scenario, question: Question, find: FindQuery) -> Intervened:
    """Edit what is given as the question says.

    Raises UsageError if a query or host is not there, or too little would be left.

    find: Rows of the queries that a name means; called with the name and the option.
    """
    needed = [
        device
        for device in _capacities_asked(question)
        if (scenario.evidence[_hosts(scenario), device] == ASSUMED).any()
    ]
    ends = [_edited(_more_capacity(scenario, needed), question, find)] if needed else []
    return Intervened(
        _edited(scenario, question, find),
        tuple(ends),
        tuple(_assumptions(scenario, question, needed)),
    )


def _capacities_asked(question: Question) -> list[int]:
    """Devices whose capacity decides the answer; more slots need processors."""
    asked = {
        DISK: question.disk,
        NETWORK: question.network,
        PROCESSOR: next(
            (
                change
                for change in (question.cpu, question.slots, question.slots_in_all)
                if change is not None
            ),
            None,
        ),
    }
    return [device for device, change in asked.items() if change is not None]


def _hosts(scenario: Scenario) -> Sequence[int]:
    hosts: Sequence[int] = edit_cluster.used_hosts(scenario.slots).tolist()
    return hosts


def _more_capacity(scenario: Scenario, devices: list[int]) -> Scenario:
    capacity = scenario.capacity.copy()
    for device in devices:
        assumed = scenario.evidence[:, device] == ASSUMED
        capacity[assumed, device] *= HEADROOM
    return replace(scenario, capacity=capacity)


def _edited(one: Scenario, question: Question, find: FindQuery) -> Scenario:
    """Apply all edits; those of tasks first, then those of the cluster."""
    if question.starts == RECORDED:
        one = edit.keep_starts(one)
    if question.remove:
        one = edit.remove(one, _rows(question.remove, "--remove", find))
        if len(one.work.step) == 0:
            raise UsageError("nothing would be left to run", "--remove", "keep a query")
    if question.partitions:
        one = edit.repartition(one, _each(question.partitions, "--partitions", find))
    if question.scale:
        one = edit.scale_work(one, _each(question.scale, "--scale", find))
    if question.no_skew:
        one = edit.without_skew(one, _rows(question.no_skew, "--no-skew", find))
    if question.no_gc:
        one = edit.without_gc(one)
    if question.start:
        one = edit.start_later(one, _each(question.start, "--start", find))
    if question.cap:
        one = edit.cap_tasks(one, _each(question.cap, "--cap", find))
    if question.mode is not None:
        one = edit.set_mode(one, question.mode == "FAIR")
    if question.pool:
        one = edit.own_pools(one, _each(question.pool, "--pool", find))
    for host in question.host_loss:
        one = _without_host(one, host)
    if question.hosts is not None:
        if -question.hosts >= len(_hosts(one)):
            raise UsageError(
                f"the run had {len(_hosts(one))} hosts with slots", "--hosts", "keep one of them"
            )
        one = edit_cluster.add_hosts(one, question.hosts)
    for device, factor in (
        (DISK, question.disk),
        (NETWORK, question.network),
        (PROCESSOR, question.cpu),
    ):
        if factor is not None:
            one = edit_cluster.faster_device(one, device, factor)
    if question.host_cores is not None:
        one = edit_cluster.set_cores(one, question.host_cores)
    return _with_slots(one, question)


def _with_slots(one: Scenario, question: Question) -> Scenario:
    apps = len(one.slots.handover)
    if question.executors is not None:
        if _is_local(one):
            raise UsageError(
                "the run was in local mode, without executors", "executors", "change slots instead"
            )
        if question.executors < apps:
            raise UsageError(
                f"leaves {question.executors} for {apps} applications", "--executors",
                "keep one for each",
            )  # fmt: skip
        return edit_cluster.set_executors(one, question.executors)
    total = question.slots_in_all
    if question.slots is not None:
        total = edit_cluster.slots_at_most(one.slots) + question.slots
    if total is None:
        return one
    if total < apps:
        raise UsageError(
            f"leaves {max(total, 0)} slots of {edit_cluster.slots_at_most(one.slots)}", "--slots",
            "keep one for each application",
        )  # fmt: skip
    return edit_cluster.set_slots(one, total)


def _is_local(one: Scenario) -> bool:
    executors = one.tables.executors
    apps = [workload.app for workload in one.workloads]
    mine = executors["app"].isin(apps).to_numpy()
    return bool((executors["executor_id"].astype(str).to_numpy()[mine] == "driver").any())


def _without_host(one: Scenario, name: str) -> Scenario:
    hosts = [one.hosts[host] for host in _hosts(one)]
    if name not in hosts:
        raise UsageError(
            f"no host with slots is called {name!r}", "--host-loss", f"the run had {_list(hosts)}"
        )
    after = edit_cluster.lose_host(one, one.hosts.index(name))
    lost = set(one.slots.app.tolist()) - set(after.slots.app[after.slots.change > 0].tolist())
    if lost:
        raise UsageError(f"{name} held all slots of an application", "--host-loss", "keep one")
    return after


def _list(names: list[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _rows(names: Iterable[str], option: str, find: FindQuery) -> list[int]:
    return [row for name in names for row in find(name, option)]


def _each(values: dict[str, T], option: str, find: FindQuery) -> dict[int, T]:
    return {row: value for name, value in values.items() for row in find(name, option)}


def _assumptions(scenario: Scenario, question: Question, needed: list[int]) -> Iterable[str]:
    in_turn = int((scenario.follows >= 0).sum())
    starts = "queries start when they did"
    if in_turn and question.starts != RECORDED:
        starts = (
            f"{in_turn} quer{'y starts' if in_turn == 1 else 'ies start'} when the one before has "
            "ended, as in the record, the others when they did"
        )
    yield f"{starts}, and the driver takes as long between jobs and stages"
    if question.slots is None and question.slots_in_all is None and question.executors is None:
        yield "executors come and go as they did"
    else:
        yield "slots are there from the first to the last task, spread evenly over the hosts"
    if question.slots is not None or question.slots_in_all is not None:
        yield "hosts keep their processors, disks and networks"
    if question.executors is not None:
        yield "executors that the hosts have no room for run on further hosts like these"
    moved = (question.hosts, question.host_loss, question.slots, question.slots_in_all)
    if any(moved) or question.executors:
        yield "tasks do the same work on another host"
    for device in needed:
        assumed, others = f"{HEADROOM:g} × the most that was seen", "twice that"
        if device == PROCESSOR:
            assumed, others = "as many as tasks that ran at once", "twice as many"
        yield (
            f"nobody was seen waiting for {DEVICE_NAMES[device]}, so the capacity is not known: "
            f"assumed {assumed}; the range covers {others}"
        )
    unseen = [
        name
        for device, name in DEVICE_NAMES.items()
        if device not in needed
        and np.any(scenario.evidence[_hosts(scenario), device] == ASSUMED)
        and np.isfinite(scenario.capacity[_hosts(scenario), device]).any()
    ]
    if unseen:
        yield (
            f"what {' and '.join(unseen)} can do is assumed: nobody was seen waiting for another "
            "there"
        )
    if len(scenario.memory):
        yield "tasks want as much execution memory as they held and spilled, and spill as they did"
    if scenario.own_rates:
        yield scenario.own_rates
    if question.scale:
        yield "data and time alone of every phase grow in proportion to the work"
    if question.partitions:
        yield "the new tasks differ in size as the old ones did, and cost nothing by themselves"
    if question.no_gc:
        yield "what is not collected costs nothing elsewhere"
