"""Where tasks sleep, slots alone decide: an answer is what a simulator with Spark's order does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.outcome import replay_scenario
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import SCENARIOS, find, model_of, questions
from iqcar_lab.clusters.work import StagePlan

ALIKE = {"partitions"}
"""Questions whose tasks the simulator draws anew: sizes differ, not their sum."""


def asleep(_: int, stage: StagePlan) -> StagePlan:
    """About as long, on no device."""
    moved = stage.read + stage.fetch + stage.write
    sleeps = StagePlan(stage.tasks, sleep=stage.sleep + stage.cpu + moved / 12e3)
    return replace(sleeps, parents=stage.parents, spread=stage.spread)


@pytest.mark.long
@pytest.mark.parametrize("family", ["slots, fifo", "sessions", "busy day", "two tenants", "mixed"])
def test_every_answer_is_exact_where_nothing_but_slots_is_shared(family: str) -> None:
    cluster, plans = SCENARIOS[family](np.random.default_rng([5, len(family)]))
    cluster = replace(cluster, as_spark=True)
    plans = [plan.with_stages(asleep) for plan in plans]
    model = model_of(Simulation(cluster, plans, 5))
    asked_of: Counter[str] = Counter()
    for asked in questions(cluster, plans, 5):
        true = Simulation(asked.cluster, asked.plans, 5).lasted()
        if asked.gone is not None:
            true = np.insert(true, asked.gone, np.nan)
        said = replay_scenario(intervene(model.scenario, asked.question, find).scenario).duration_ms
        asked_of[asked.kind] += 1
        if asked.kind in ALIKE:
            continue
        known = np.isfinite(true)
        np.testing.assert_allclose(said[known], true[known], rtol=1e-3, err_msg=asked.kind)
    assert {"remove", "cap", "slots", "host loss", "executors", "mode"} <= asked_of.keys()
