"""Chooses the questions that a report answers beforehand, within a bound on replayed tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from iqcar.replay.loop.scheduling import is_fair
from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR
from iqcar.replay.whatif.edit_cluster import slots_at_most, unshared, used_hosts
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.scenario import Scenario

MOST_REMOVED = 8
"""Queries that are taken away one at a time: those that others lost most to."""
MOST_TASKS = 40_000
"""Tasks up to which questions are answered beforehand; fitting more takes over 4 s."""
MOST_REPLAYED = 600_000
"""Tasks replayed for all answers together: some 5 s at 8 µs each."""
SLOT_STEPS = (0.5, 1.5, 2.0, 3.0)
DEVICE_STEPS = (0.5, 2.0, 4.0)
LEAST_GC = 0.01
"""Share of the tasks' time alone from which garbage collection is worth a question."""
_DEVICES = ((DISK, "disk"), (NETWORK, "network"), (PROCESSOR, "cpu"))


class Usual(NamedTuple):
    """A question with its place: kind of change, place among its kind, and how it is called."""

    kind: str
    step: float
    label: str
    question: Question


def usual_questions(model: Model, blamed: Sequence[str]) -> tuple[list[Usual], int]:
    """Choose questions, the most asked ones first where there is not room for all.

    Returns: The chosen ones by kind, in the order in which a reader goes through them, and the
    number of questions for which there was no room.

    blamed: Names of queries that others lost time to, the most blamed first.
    """
    scenario = model.scenario
    ranked = sorted(
        [
            *_removals(scenario, blamed),
            *_slots(scenario),
            *_devices(scenario),
            *_others(scenario),
        ],
        key=lambda pair: pair[0],
    )
    each = max(len(scenario.work.step), 1) * len(model.members)
    room = max(MOST_REPLAYED // each - 1, 0)  # one for the run as it was
    chosen = [usual for _, usual in ranked[:room]]
    kinds = list(dict.fromkeys(usual.kind for _, usual in ranked))
    order = {kind: at for at, kind in enumerate(kinds)}
    return (
        sorted(chosen, key=lambda one: (order[one.kind], one.step)),
        len(ranked) - len(chosen),
    )


Ranked = tuple[int, Usual]
"""A question, and its rank among all: 0 is asked first."""


def _removals(scenario: Scenario, blamed: Sequence[str]) -> list[Ranked]:
    ran = scenario.tables.queries["tasks"].to_numpy(np.int64) > 0
    if ran.sum() < 2:
        return []
    return [
        (min(at, 3), Usual("remove", at, name, Question(remove=(name,))))
        for at, name in enumerate(blamed[:MOST_REMOVED])
    ]


def _slots(scenario: Scenario) -> list[Ranked]:
    now, apps = slots_at_most(scenario.slots), len(scenario.slots.handover)
    found = []
    for factor in SLOT_STEPS:
        total = round(factor * now)
        if total >= apps and total != now:
            usual = Usual(
                "slots", factor, f"{total} slot{'s' * (total != 1)}", Question(slots_in_all=total)
            )
            found.append((0 if factor == 2 else 4, usual))
    return found


def _devices(scenario: Scenario) -> list[Ranked]:
    found = []
    for device, name in _DEVICES:
        known = np.isfinite(scenario.capacity[used_hosts(scenario.slots), device]).any()
        if known and not unshared(scenario, device):
            for factor in DEVICE_STEPS:
                change: dict[str, Any] = {name: factor}
                question = Question(**change)
                usual = Usual(name, factor, f"{factor:g} ×", question)
                found.append((1 if factor == 2 else 5, usual))
    return found


def _others(scenario: Scenario) -> list[Ranked]:
    found: list[Ranked] = []
    fair = {is_fair(scenario.tables, workload.app) for workload in scenario.workloads}
    if _overlap(scenario):
        for mode, has in (("FAIR", False), ("FIFO", True)):
            if has in fair:
                usual = Usual("other", len(found), f"scheduler mode {mode}", Question(mode=mode))
                found.append((2, usual))
    if scenario.gc.sum() >= LEAST_GC * scenario.alone.sum():
        usual = Usual("other", len(found), "no garbage collection", Question(no_gc=True))
        found.append((2, usual))
    return found


def _overlap(scenario: Scenario) -> bool:
    """Whether two queries of an application ran at a time, so that their order matters."""
    queries = scenario.tables.queries
    ran = queries[queries["tasks"].to_numpy(np.int64) > 0].sort_values("start_ms")
    for _, of_app in ran.groupby("app"):
        start, end = of_app["start_ms"].to_numpy(), of_app["end_ms"].to_numpy()
        before = np.maximum.accumulate(np.where(np.isnan(end), -np.inf, end))
        if (start[1:] < before[:-1]).any():
            return True
    return False
