"""Replay a recorded run under plans for its pools, with disks, networks and processors shared."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from iqcar.replay.loop.device_sharing import DEVICE
from iqcar.replay.loop.joint_workload import joint_shares
from iqcar.replay.loop.run import Recording, Replayed
from iqcar.replay.loop.task_demands import COMPUTE, FETCH, READ, WAIT, WRITE
from iqcar.replay.whatif.edit import keep_starts
from iqcar.replay.whatif.edit_cluster import slots_at_most
from iqcar.replay.whatif.model import REFUSED, Model
from iqcar.replay.whatif.outcome import Member, run_scenario
from iqcar.replay.whatif.scenario import Scenario, never_short
from iqcar.rules import PoolPlan
from iqcar.tables.arrays import Floats

MOST_TASKS = 100_000
"""Tasks up to which rules are predicted so: then an analysis takes 1.3 times as long as with
slots alone."""

ONCE = Member(rounds=1)
"""Tasks go through their phases once: four rounds take three times as long, and tell hardly more.
"""


class DeviceReplay:
    """Replays with the devices of a model; see :class:`iqcar.replay.rule_effect.judge.Replays`.

    Attributes
    ----------
    model, assumptions, most_error
        As they stand in JSON, and the error from which a prediction counts for nothing.
    recording : Recording
        The same run with slots alone.
    """

    model: ClassVar[str] = "devices"
    assumptions: ClassVar[str] = (
        "Tasks do the same work and share the disks, networks and processors of their hosts, "
        "queries start when they did, executors come and go as they did; who is offered a free "
        "slot first is new, and who meets whom on a host follows from it."
    )
    most_error: ClassVar[float] = REFUSED

    def __init__(self, fitted: Model) -> None:
        scenario = fitted.scenario
        self.tables = scenario.tables
        self.fitted = fitted
        workloads = {one.app: one for one in scenario.workloads}
        self.recording = Recording(scenario.tables, workloads, scenario.doubts)
        self.scenario = _simpler(scenario)
        self._base: Replayed | None = None
        self._hosts = {app: set(one.slots.host.tolist()) for app, one in workloads.items()}

    @property
    def slot_count(self) -> int:
        """Sum over applications of the most slots that each had at once."""
        return slots_at_most(self.fitted.scenario.slots)

    def reach(self, plan: PoolPlan) -> set[int]:
        """Applications in which a plan acts, and those that share a host with them."""
        acts = self.recording.reach(plan)
        near = set[int]().union(*(self._hosts.get(app, set()) for app in acts))
        return acts | {app for app, hosts in self._hosts.items() if hosts & near}

    def replay(self, plan: PoolPlan | None = None) -> Replayed:
        """Replay under the recorded shares, or under a plan."""
        if plan is None and self._base is not None:
            return self._base
        shares = joint_shares(list(self.recording.shares(plan).values()))
        found = run_scenario(self.scenario, ONCE, shares)
        replayed = Replayed(found.start_ms, found.end_ms, found.idle_slot_ms)
        if plan is None:
            self._base = replayed
        return replayed

    def errors(self) -> Floats:
        """Error of a replay of the run as it was, before tasks were fitted."""
        if self.fitted.unfitted is self.fitted.scenario:
            lasted = self.replay().duration_ms
        else:
            found = run_scenario(_simpler(self.fitted.unfitted), ONCE)
            lasted = found.end_ms - found.start_ms
        ran = self.tables.queries["tasks"].to_numpy(np.int64) > 0
        off: Floats = np.where(ran, lasted / self.fitted.recorded_ms - 1.0, np.nan)
        return off


def _simpler(scenario: Scenario) -> Scenario:
    """Let tasks wait instead of use devices that can never be short: fewer events, same times.

    Queries start when they did.
    """
    plenty = never_short(scenario.slots, scenario.alone, scenario.use, scenario.capacity)
    alone = scenario.alone.copy()
    for phases in ((COMPUTE, FETCH, READ), (WRITE,)):
        for phase in phases:
            # Only what comes right before or after the wait is the same time there.
            if not plenty[DEVICE[phase]]:
                break
            alone[:, WAIT] += alone[:, phase]
            alone[:, phase] = 0.0
    return keep_starts(replace(scenario, alone=alone))
