"""Propose rules and advice from what was found, and predict their effect by replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import Topics
from iqcar.replay import Expected
from iqcar.replay.rule_effect.effect import Prediction, predict
from iqcar.replay.rule_effect.second_round import EarlierRound, add_to, look_back, rules_doubt
from iqcar.replay.whatif.device_replay import MOST_TASKS, DeviceReplay
from iqcar.replay.whatif.model import FEW_TASKS, Model, build_model
from iqcar.rules import RejectedRule, Rule, RulesFile, advise, propose, recorded_priorities
from iqcar.rules.executor_advice import advise_on_executors
from iqcar.rules.topic_reasons import straggler_names, with_topics
from iqcar.tables import Tables


@dataclass(frozen=True)
class WantedRules:
    """What rules are asked for.

    Attributes
    ----------
    expected : whether to replay the run under the rules
    advice : file with kinds of advice; ours if empty
    all_rules : whether rules that are predicted to harm are kept among the rules
    previous : the rules that the run was recorded with
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
    earlier: EarlierRound = field(default_factory=EarlierRound)
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
    earlier = EarlierRound() if wanted.previous is None else look_back(wanted.previous, tables)
    rules, earlier = add_to(earlier, propose(tables, graph, top=top, priorities=priorities))
    names = None
    if topics is not None:
        rules = with_topics(rules, tables, graph, topics)
        names = straggler_names(topics)
    kinds = wanted.advice
    advised = advise(tables, stragglers, top=top, topics=names, kinds=kinds)
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
