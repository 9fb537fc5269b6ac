"""Ranges of predictions: the more the self-check is off the wider, and none beyond a limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.ranges import ANSWERED, BEYOND
from iqcar.replay.whatif.what_if import WhatIf, answer
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import FAMILIES
from iqcar_lab.clusters.what_if import find, model_of


@pytest.fixture(scope="module")
def crowd() -> Model:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    return model_of(Simulation(cluster, plans, 5))


def answer_if_off(model: Model, off: float, *, by_all: bool = False) -> WhatIf:
    """The answer if the check of the first query, or of all, were off by so much."""
    error = np.full(len(model.error), off if by_all else 0.0)
    error[0] = off
    other = replace(model, _bases=model._bases)
    other.__dict__["error"] = error
    return answer(other, Question(remove=("1",)), find)


def test_the_more_the_check_is_off_the_wider_is_the_range(crowd: Model) -> None:
    widths = []
    for off in (0.0, 0.1, BEYOND, 0.2, 0.3, ANSWERED):
        said = answer_if_off(crowd, off).queries.loc[0]
        assert said["refused"] == ""
        assert said["low_ms"] <= said["predicted_ms"] <= said["high_ms"]
        widths.append((said["high_ms"] - said["low_ms"]) / said["recorded_ms"])
    assert (np.diff(widths) > 0).all()
    steps = np.diff(widths) / np.diff([0.0, 0.1, BEYOND, 0.2, 0.3, ANSWERED])
    assert steps[-1] > 2 * steps[0]
    assert widths[-1] > widths[0] + 0.4


def test_who_is_far_off_is_said(crowd: Model) -> None:
    assert not any("to 50 %" in one for one in answer_if_off(crowd, BEYOND).assumptions)
    said = answer_if_off(crowd, 0.3)
    assert "the replay of 1 query as it was is off by 15 to 50 %: its range is wider" in (
        said.assumptions
    )
    assert said.refused == ()


def test_beyond_the_limit_there_is_no_answer(crowd: Model) -> None:
    said = answer_if_off(crowd, ANSWERED + 0.01)
    assert said.queries.loc[0, "refused"] == (
        "the replay of the run as it was is off by more than 50 %"
    )
    assert np.isnan(said.queries.loc[0, "high_ms"])
    assert (said.queries["refused"] == "").sum() == len(said.queries) - 1
    assert said.refused == (
        "1 query is not answered: the replay of the run as it was is off by more than 50 %",
    )


def test_a_run_is_answered_up_to_the_same_limit(crowd: Model) -> None:
    assert answer_if_off(crowd, 0.4, by_all=True).refused == ()
    said = answer_if_off(crowd, ANSWERED + 0.01, by_all=True)
    assert said.refused[0].startswith("no answer: the replay of the run as it was is off by 51 %")
    assert not np.isfinite(said.queries["predicted_ms"]).any()
