"""Adds to a diagnosis the rules and the advice that follow from it, and predicts their effect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iqcar.replay import Prediction, predict
from iqcar.replay.rule_effect.second_round import EarlierRound, add_to, look_back, rules_doubt
from iqcar.replay.whatif.device_replay import MOST_TASKS, DeviceReplay
from iqcar.replay.whatif.model import FEW_TASKS, build_model
from iqcar.rules import advise, propose, recorded_priorities
from iqcar.rules.executor_advice import advise_on_executors
from iqcar.rules.topic_reasons import straggler_names, with_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from iqcar.causes.blame.attribute import Blame
    from iqcar.diagnosis import Diagnosis
    from iqcar.replay.whatif.model import Model
    from iqcar.rules import Rule, RulesFile
    from iqcar.tables import Tables


def with_rules(
    found: Diagnosis,
    *,
    expected: bool,
    advice: str,
    all_rules: bool,
    previous: RulesFile | None,
) -> Diagnosis:
    """Add rules and advice, with what is expected of them.

    Parameters are those of :func:`iqcar.pipeline.diagnose`.
    """
    tables, graph, top = found.tables, found.graph, found.settings.top
    # Weights of a run under rules are those of the rules, and no priorities that people gave.
    priorities = recorded_priorities(tables) if previous is None else {}
    earlier = EarlierRound() if previous is None else look_back(previous, tables)
    rules, earlier = add_to(earlier, propose(tables, graph, top=top, priorities=priorities))
    names = None
    if found.topics is not None:
        rules = with_topics(rules, tables, graph, found.topics)
        names = straggler_names(found.topics)
    advised = advise(tables, found.stragglers, top=top, topics=names, kinds=advice)
    advised += advise_on_executors(tables, graph, top=top, after=len(advised), kinds=advice)
    prediction, model, coarse = Prediction(rules, None, ()), None, False
    if expected:
        coarse = len(tables.tasks) > FEW_TASKS
        model = _device_model(tables, found.waits, found.blame, rules, coarse=coarse)
        replays = DeviceReplay(model) if model is not None else None
        prediction = predict(
            tables,
            graph,
            rules,
            recording=replays.recording if replays is not None else None,
            devices=replays,
            beside=earlier.kept,
            all_rules=all_rules,
        )
    rules, earlier = add_to(earlier, prediction.rules)
    doubts = (*found.doubts, *prediction.doubts)
    return replace(
        found,
        rules=(*earlier.kept, *rules, *advised),
        rules_together=prediction.together,
        doubts=doubts if previous else (*doubts, *rules_doubt(tables)),
        rejected_rules=prediction.rejected,
        earlier=earlier,
        fitted=None if coarse else model,
    )


def _device_model(
    tables: Tables, waits: pd.DataFrame, blame: Blame, rules: Sequence[Rule], *, coarse: bool
) -> Model | None:
    """Fit the model that predicts rules; None where there is nothing to predict, or too much."""
    if not rules or len(tables.tasks) > MOST_TASKS:
        return None
    return build_model(tables, waits, blame.demand, coarse=coarse, idle_too=False)
