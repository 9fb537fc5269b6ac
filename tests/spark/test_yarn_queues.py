"""A plan for queues, applied to a real YARN: what was predicted, and what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.rules.queue_files import PlanTarget
from tests.support.listener_spark import build_jar, spark_params
from tests.support.yarn_tenants import HOLDER, VICTIMS, apply_plan

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.alone]

TARGETS = [PlanTarget.YARN_CAPACITY, PlanTarget.YARN_FAIR]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("home", spark_params()[:1])
def test_victims_gain_from_a_plan_on_a_real_cluster(
    home: Path, target: PlanTarget, tmp_path: Path
) -> None:
    build_jar()
    done = apply_plan(home, tmp_path, target)
    sides = done.proposal.sides
    assert {key[2] for key in sides.holders} == {HOLDER}
    assert {key[2] for key in sides.victims} <= set(VICTIMS)
    assert done.proposal.chosen is not None
    named = [key[2] for key in sides.victims]
    # Both were predicted, and both came: they wait for less of the holder's time.
    predicted = sum(done.predicted[name] for name in named)
    assert predicted < sum(done.replayed[name] for name in named)
    assert sum(done.after[name] for name in named) < sum(done.before[name] for name in named)
