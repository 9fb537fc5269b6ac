"""Estimated delays against the truth that a simulated scheduler knows."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.causes.wasted.wasted_work import find_wasted_work
from tests.causes.wasted.test_wasted_work import QUERY, stage, tables_of
from tests.support.simulated_stage import attempts_of, random_stage

STAGES = 120
MOST_ERROR = {False: 0.02, True: 0.03}
"""Mean absolute error as a share of what the stage took; published in docs/wasted-work.md."""


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_estimated_delays_are_near_the_true_ones(dies: bool) -> None:
    rng = np.random.default_rng(7)
    true, said, took = np.zeros((3, STAGES))
    for number in range(STAGES):
        made = random_stage(rng, dies)
        ran, took[number] = made.run()
        true[number] = took[number] - made.unhurt()
        tables = tables_of(
            attempts_of(ran),
            [stage(0, took[number])],
            executors=[{"executor_id": str(n)} for n in range(made.executors + 1)],
            queries=[{**QUERY, "end_ms": took[number], "duration_ms": took[number]}],
        )
        said[number] = find_wasted_work(tables).by_query["elapsed_ms"].sum()
    slope = float((true * said).sum() / (true**2).sum())
    error = float(np.mean(np.abs(said - true) / took))
    assert 0.9 <= slope <= 1.1
    assert error <= MOST_ERROR[dies]
