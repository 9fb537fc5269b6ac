"""Operational laws hold in every answer, by host and device."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.replay.whatif.outcome import operational_laws
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import FAMILIES
from tests.replay.whatif.test_predictions import model_of


@pytest.mark.parametrize("family", ["two culprits", "slots, fair"])
def test_utilisation_is_throughput_times_demand_and_time_is_need_and_wait(family: str) -> None:
    cluster, plans = FAMILIES[family](np.random.default_rng(3))
    run = Simulation(cluster, plans, 3)
    model = model_of(run)
    laws = operational_laws(model.scenario, model.base(model.members[0]))
    product = laws["throughput_per_s"] * laws["demand_ms"] / 1e3
    np.testing.assert_allclose(laws["utilisation"], product, rtol=1e-9)
    np.testing.assert_allclose(laws["time_ms"], laws["alone_ms"] + laws["wait_ms"], rtol=1e-9)
    assert (laws["utilisation"] <= 1.0 + 1e-6).all()
    assert laws["utilisation"].is_monotonic_decreasing
    # What the simulator's disks moved is what the table says of them.
    disks = laws[laws["resource"] == "disk"]
    capacity = model.scenario.capacity[0, 0]
    said = (disks["utilisation"] * capacity).sum() * model.base(model.members[0]).devices.lasted_ms
    moved = sum(
        (stage.read * (not stage.cached) + stage.write) * task.scale
        for task in run.tasks
        for stage in [run.plans[task.query].stages[task.stage]]
    )
    assert said == pytest.approx(moved, rel=0.02)


def test_the_table_of_an_answer_has_both_sides() -> None:
    cluster, plans = FAMILIES["network"](np.random.default_rng(3))
    said = answer(
        model_of(Simulation(cluster, plans, 3)), Question(network=2.0), lambda *_: ()
    ).devices
    network = said[said["resource"] == "network"]
    ratio = network["utilisation_after"] / network["utilisation_before"]
    assert (ratio < 0.75).all()
    assert (network["wait_ms_after"] < network["wait_ms_before"]).all()
