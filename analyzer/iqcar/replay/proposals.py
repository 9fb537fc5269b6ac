"""Proposes rules and advice from what was found, and predicts their effect by replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import Topics
from iqcar.replay.loop.device_sharing import DEVICE
from iqcar.replay.loop.joint_workload import joint_shares
from iqcar.replay.loop.run import Recording, Replayed
from iqcar.replay.loop.task_demands import COMPUTE, FETCH, READ, WAIT, WRITE, Way
from iqcar.replay.rule_effect.effect import Prediction, predict
from iqcar.replay.rule_effect.expected import Expected
from iqcar.replay.rule_effect.previous_rules import (
    PreviousRules,
    add_to,
    review_previous,
    rules_doubt,
)
from iqcar.replay.whatif.edit import keep_starts
from iqcar.replay.whatif.edit_cluster import slots_at_most
from iqcar.replay.whatif.model import FEW_TASKS, REFUSED, Model, build_model
from iqcar.replay.whatif.outcome import Member, run_scenario
from iqcar.replay.whatif.scenario import Scenario, never_short
from iqcar.rules.advice_rules import advise, advise_on_executors
from iqcar.rules.compile_pools import RulesFile
from iqcar.rules.propose_rules import left_out, propose
from iqcar.rules.recorded_setup import recorded_priorities
from iqcar.rules.rule import PoolPlan, RejectedRule, Rule
from iqcar.rules.topic_shapes import shapes_of, straggler_names, with_topics
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats

MOST_TASKS = 100_000
"""Tasks up to which rules are predicted so: then an analysis takes 1.3 times as long as with
slots alone."""

ONCE = Member(Way(rounds=1))
"""Tasks go through their phases once: four rounds take three times as long, and tell hardly more.
"""


class DeviceReplay:
    """Replays with the devices of a model; as ``plan_evaluator.Replays`` asks for.

    model, assumptions, most_error: As they stand in JSON, and the error from which a prediction
        counts for nothing.
    recording: The same run with slots alone.
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


@dataclass(frozen=True)
class WantedRules:
    """What rules are asked for.

    expected: whether to replay the run under the rules
    advice: file with kinds of advice; ours if empty.
    all_rules: whether rules that are predicted to harm are kept among the rules
    previous: the rules that the run was recorded with
    """

    expected: bool = True
    advice: str = ""
    all_rules: bool = False
    previous: RulesFile | None = None


@dataclass(frozen=True)
class Proposals:
    """Rules and advice; the fields of the same names of :class:`iqcar.diagnosis.Diagnosis`."""

    rules: tuple[Rule, ...] = ()
    rules_together: Expected | None = None
    rejected_rules: tuple[RejectedRule, ...] = ()
    earlier: PreviousRules = field(default_factory=PreviousRules)
    doubts: tuple[str, ...] = ()
    fitted: Model | None = None


def propose_and_predict(
    wanted: WantedRules,
    tables: Tables,
    waits: pd.DataFrame,
    blame: Blame,
    graph: IQCGraph,
    stragglers: Stragglers,
    topics: Topics | None,
    *,
    top: int,
) -> Proposals:
    """Propose rules and advice for the `top` worst-hit queries, with what is expected of them."""
    # Weights of a run under rules are those of the rules, and no priorities that people gave.
    priorities = recorded_priorities(tables) if wanted.previous is None else {}
    earlier = (
        PreviousRules() if wanted.previous is None else review_previous(wanted.previous, tables)
    )
    kinds, shapes = wanted.advice, shapes_of(topics, tables, stragglers, wanted.advice)
    proposed = propose(tables, graph, top=top, priorities=priorities, shapes=shapes)
    rules, earlier = add_to(earlier, proposed)
    names = straggler_names(topics) if topics is not None else None
    instead = left_out(tables, graph, shapes)
    advised = advise(tables, stragglers, top=top, topics=names, kinds=kinds, instead=instead)
    if topics is not None:
        rules = with_topics(rules, tables, graph, topics)
        advised = with_topics(advised, tables, graph, topics, kinds)
    advised += advise_on_executors(tables, graph, top=top, after=len(advised), kinds=kinds)
    prediction, model, coarse = Prediction(rules, None, ()), None, False
    if wanted.expected:
        coarse = len(tables.tasks) > FEW_TASKS
        model = _device_model(tables, waits, blame, rules, coarse=coarse)
        replays = DeviceReplay(model) if model is not None else None
        prediction = predict(
            tables,
            graph,
            rules,
            recording=replays.recording if replays is not None else None,
            devices=replays,
            beside=earlier.kept,
            all_rules=wanted.all_rules,
        )
    rules, earlier = add_to(earlier, prediction.rules)
    doubts = prediction.doubts if wanted.previous else (*prediction.doubts, *rules_doubt(tables))
    return Proposals(
        rules=(*earlier.kept, *rules, *advised),
        rules_together=prediction.together,
        rejected_rules=prediction.rejected,
        earlier=earlier,
        doubts=doubts,
        fitted=None if coarse else model,
    )


def _device_model(
    tables: Tables, waits: pd.DataFrame, blame: Blame, rules: Sequence[Rule], *, coarse: bool
) -> Model | None:
    """Fit the model that predicts rules; None where there is nothing to predict, or too much."""
    if not rules or len(tables.tasks) > MOST_TASKS:
        return None
    return build_model(tables, waits, blame.demand, coarse=coarse, idle_too=False)
