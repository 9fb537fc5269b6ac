"""Applies a question to a scenario: which edits it means, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from iqcar.errors import UsageError
from iqcar.replay.loop.task_demands import ASSUMED, DISK, HEADROOM, NETWORK, PROCESSOR
from iqcar.replay.whatif import data_growth, edit, edit_cluster
from iqcar.replay.whatif.find_names import check_pools, list_names, of_applications
from iqcar.replay.whatif.outcome import DEVICE_NAMES
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.question_parts import RECORDED
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
        tuple(_assumptions(scenario, question, needed, find)),
    )


def _capacities_asked(question: Question) -> list[int]:
    """Devices whose capacity decides the answer; more slots need processors."""
    asked = {
        DISK: question.disk,
        NETWORK: question.network,
        PROCESSOR: next(
            (
                change
                for change in (
                    question.cpu, question.slots, question.slots_in_all,
                    question.slots_of, question.slots_in_all_of,
                )
                if change not in (None, {})
            ),
            None,
        ),
    }  # fmt: skip
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
        one = edit.scale_data(one, _each(question.scale, "--scale", find))
    if question.no_skew:
        one = edit.without_skew(one, _rows(question.no_skew, "--no-skew", find))
    if question.no_gc:
        one = edit.without_gc(one)
    if question.start:
        one = edit.start_later(one, _each(question.start, "--start", find))
    if question.cap:
        one = edit.cap_tasks(one, _each(question.cap, "--cap", find))
    one = _with_pools(one, question, find)
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


def _with_pools(one: Scenario, question: Question, find: FindQuery) -> Scenario:
    """Change modes, then pools."""
    if question.mode is not None:
        one = edit.set_mode(one, question.mode == "FAIR")
    fair_of = {
        app: mode == "FAIR"
        for app, mode in of_applications(one, question.mode_of, "--mode").items()
    }
    one = edit.set_mode_of(one, fair_of)
    if question.pool:
        own = _each(question.pool, "--pool", find)
        for app, order in enumerate(one.orders):
            if one.pools.set_fair(app) is False and own.keys() & {*order.query}:
                raise UsageError("FIFO has no pools", "--mode and --pool", "leave one of them out")
        one = edit.own_pools(one, own)
    check_pools(one, question.pool_weight, "--pool-weight")
    check_pools(one, question.pool_min_share, "--pool-min-share")
    return edit.change_pools(one, question.pool_weight, question.pool_min_share)


def _with_slots_of_some(one: Scenario, question: Question) -> Scenario:
    """Change slots or executors of some applications."""
    in_all = of_applications(one, question.slots_in_all_of, "--slots")
    changed = of_applications(one, question.slots_of, "--slots")
    executors = of_applications(one, question.executors_of, "--executors")
    for app in (in_all.keys() & changed.keys()) | ((in_all | changed).keys() & executors.keys()):
        name = _called(one, app)
        raise UsageError(f"the slots of {name} are set twice", "--slots", "give one of them")
    for app, change in changed.items():
        had = edit_cluster.slots_of_app(one.slots, app)
        if had + change < 1:
            raise UsageError(
                f"leaves {max(had + change, 0)} slots of {had} for {_called(one, app)}", "--slots",
                "keep one",
            )  # fmt: skip
        in_all[app] = had + change
    for app, total in in_all.items():
        one = edit_cluster.set_slots_of(one, app, total)
    for app, count in executors.items():
        if _is_local(one, app):
            raise UsageError(
                f"{_called(one, app)} was in local mode, without executors", "--executors",
                "change --slots instead",
            )  # fmt: skip
        one = edit_cluster.set_executors_of(one, app, count)
    return one


def _called(one: Scenario, app: int) -> str:
    """Id of an application, by position among the workloads."""
    return str(one.tables.applications["application_id"].iloc[one.workloads[app].app])


def _with_slots(one: Scenario, question: Question) -> Scenario:
    one = _with_slots_of_some(one, question)
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


def _is_local(one: Scenario, app: int | None = None) -> bool:
    """Whether an application, by position among the workloads, or any was in local mode."""
    executors = one.tables.executors
    apps = [work.app for at, work in enumerate(one.workloads) if app is None or at == app]
    mine = executors["app"].isin(apps).to_numpy()
    return bool((executors["executor_id"].astype(str).to_numpy()[mine] == "driver").any())


def _without_host(one: Scenario, name: str) -> Scenario:
    hosts = [one.hosts[host] for host in _hosts(one)]
    if name not in hosts:
        raise UsageError(
            f"no host with slots is called {name!r}",
            "--host-loss",
            f"the run had {list_names(hosts)}",
        )
    after = edit_cluster.lose_host(one, one.hosts.index(name))
    lost = set(one.slots.app.tolist()) - set(after.slots.app[after.slots.change > 0].tolist())
    if lost:
        raise UsageError(f"{name} held all slots of an application", "--host-loss", "keep one")
    return after


def _rows(names: Iterable[str], option: str, find: FindQuery) -> list[int]:
    return [row for name in names for row in find(name, option)]


def _each(values: dict[str, T], option: str, find: FindQuery) -> dict[int, T]:
    return {row: value for name, value in values.items() for row in find(name, option)}


def _assumed_slots(scenario: Scenario, question: Question) -> Iterable[str]:
    """Say what is assumed of slots."""
    executors = question.executors is not None or bool(question.executors_of)
    of_some = bool(question.slots_of or question.slots_in_all_of or question.executors_of)
    there = "slots are there from the first to the last task, spread evenly over the hosts"
    if not question.moves_slots:
        yield "executors come and go as they did"
    elif of_some:
        yield f"the changed {there}; other applications keep theirs"
    else:
        yield there
    if question.moves_slots and question.executors is None and not question.executors_of:
        yield "hosts keep their processors, disks and networks"
    if executors:
        yield "executors that the hosts have no room for run on further hosts like these"
    if question.moves_slots or question.hosts or question.host_loss:
        yield "tasks do the same work on another host"


def _assumed_pools(scenario: Scenario, question: Question) -> Iterable[str]:
    """Say what is assumed of pools that nobody saw: their other settings."""
    asked = {*question.pool_weight, *question.pool_min_share}
    unknown = [
        any(asked & {*ran} - order.pools.keys())
        for order, ran in zip(scenario.orders, scenario.ran_in, strict=True)
    ]
    if any(unknown):
        yield (
            "pools that the log does not declare have Spark's defaults but for what is changed: "
            "FIFO, weight 1, no minShare"
        )


def _assumed_growth(scenario: Scenario, question: Question, find: FindQuery) -> Iterable[str]:
    """Say which stages get more tasks, and which longer ones."""
    factors = _each(question.scale, "--scale", find)
    by = np.array([factors.get(query, 1.0) for query in scenario.query_of_step.tolist()], float)
    grown = data_growth.tasks_of_data(scenario, by)
    ran = (by != 1) & (np.diff(scenario.steps.first_task) > 0)
    as_data = int((ran & (grown == by)).sum())
    some = int((ran & (grown != by) & (grown != 1)).sum())
    same = int(ran.sum()) - as_data - some
    said = [
        f"{number} stage{'s' * (number != 1)} {what}"
        for number, what in (
            (as_data, "of files or merged partitions: tasks like the recorded ones, in proportion"),
            (some, "whose partitions adaptive execution merges: as many tasks as its rule makes"),
            (same, "of a fixed number of tasks: each does more"),
        )
        if number
    ]
    if said:
        yield f"the data of a scaled query are in {'; '.join(said)}"
        yield "data and time alone of every phase grow in proportion"


def _assumptions(
    scenario: Scenario, question: Question, needed: list[int], find: FindQuery
) -> Iterable[str]:
    in_turn = int((scenario.follows >= 0).sum())
    starts = "queries start when they did"
    if in_turn and question.starts != RECORDED:
        starts = (
            f"{in_turn} quer{'y starts' if in_turn == 1 else 'ies start'} when the one before has "
            "ended, as in the record, the others when they did"
        )
    yield f"{starts}, and the driver takes as long between jobs and stages"
    yield from _assumed_slots(scenario, question)
    if question.pool_weight or question.pool_min_share:
        yield from _assumed_pools(scenario, question)
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
        yield from _assumed_growth(scenario, question, find)
    if question.partitions:
        yield "the new tasks differ in size as the old ones did, and cost nothing by themselves"
    if question.no_gc:
        yield "what is not collected costs nothing elsewhere"
