"""Questions about one of several applications, and about pools that there are.

What the simulator does when that one thing is changed is the truth. Tasks sleep: slots decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iqcar.errors import UsageError
from iqcar.replay.whatif.edit_cluster import set_executors_of, set_slots_of
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.outcome import scenario_shares
from iqcar.replay.whatif.question import Question, ask
from iqcar.replay.whatif.what_if import answer
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import find, model_of
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

NAP = StagePlan(12, sleep=1000.0, spread=0.05)
TWO = Cluster(hosts=2, slots=2, apps=2)
POOLS = (("etl", 1.0, False), ("dash", 1.0, True))
ONE = Cluster(hosts=2, slots=3, pools=POOLS)


def plans_of_two() -> list[QueryPlan]:
    """Two queries in each of two applications, one of each a moment later."""
    return [
        QueryPlan(f"query-{k}", (replace(NAP, tasks=8 + 4 * k),), k % 2, 300.0 * k)
        for k in range(4)
    ]


def plans_in_pools() -> list[QueryPlan]:
    return [QueryPlan(f"query-{k}", (NAP,), 0, 200.0 * k, pool=POOLS[k % 2][0]) for k in range(4)]


@pytest.fixture(scope="module")
def two() -> Model:
    return model_of(Simulation(TWO, plans_of_two(), 1))


@pytest.fixture(scope="module")
def pooled() -> Model:
    return model_of(Simulation(ONE, plans_in_pools(), 1))


def agrees(model: Model, question: Question, cluster: Cluster, plans: list[QueryPlan]) -> None:
    """The prediction is what the simulator does, and that is not what was recorded."""
    true = Simulation(cluster, plans, 1).lasted()
    said = answer(model, question, find).queries
    assert np.abs(true / said["recorded_ms"].to_numpy() - 1).max() > 0.1
    np.testing.assert_allclose(said["predicted_ms"], true, rtol=0.05)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"slots": {"app-1": "2"}}, (1, 1)),
        ({"slots": ["app-1=+4"]}, (4, 4)),
        ({"executors": "app-1=1"}, (2, 0)),
    ],
    ids=str,
)
def test_slots_of_one_application_are_what_the_simulator_gives_it(
    two: Model, changes: dict[str, Any], places: tuple[int, int]
) -> None:
    agrees(two, ask(**changes), replace(TWO, places=((2, 2), places)), plans_of_two())


def test_other_applications_keep_their_slots(two: Model) -> None:
    before = two.scenario.slots
    for after in (
        set_slots_of(two.scenario, 1, 7).slots,
        set_executors_of(two.scenario, 1, 5).slots,
    ):
        others = [
            (slots.when[slots.app == 0], slots.change[slots.app == 0], slots.host[slots.app == 0])
            for slots in (before, after)
        ]
        for was, now in zip(*others, strict=True):
            np.testing.assert_array_equal(was, now)
    assert before.change[before.app == 1].sum() == 4


def test_executors_without_room_run_on_further_hosts_of_that_application_alone(two: Model) -> None:
    after = set_executors_of(two.scenario, 1, 5)
    slots = after.slots
    assert slots.hosts == 5
    assert set(slots.host[slots.app == 1].tolist()) == {0, 1, 2, 3, 4}
    assert set(slots.host[slots.app == 0].tolist()) == {0, 1}
    np.testing.assert_array_equal(slots.change[slots.app == 1], 2)
    assert len(after.hosts) == len(after.capacity) == 5


def test_the_mode_of_one_application_is_what_the_simulator_does(two: Model) -> None:
    cluster = replace(TWO, fair_apps=(True, False))
    agrees(two, ask(mode=["app-1=FIFO"]), cluster, plans_of_two())
    changed = intervene(two.scenario, ask(mode={"app-1": "fifo"}), find).scenario
    assert scenario_shares(changed).fair.tolist() == [True, False]
    both = intervene(two.scenario, ask(mode=["FIFO", "app-0=FAIR"]), find).scenario
    assert scenario_shares(both).fair.tolist() == [True, False]


def test_a_plain_value_is_of_all_applications(two: Model) -> None:
    assert ask(slots="+8") == Question(slots=8)
    assert ask(slots=["24"]) == Question(slots_in_all=24)
    assert ask(executors=3) == Question(executors=3)
    scenario = intervene(two.scenario, ask(slots="+4"), find).scenario
    slots = scenario.slots
    assert [int(slots.change[slots.app == app].sum()) for app in (0, 1)] == [6, 6]


def test_a_weight_is_what_the_simulator_does(pooled: Model) -> None:
    heavier = replace(ONE, pools=(("etl", 5.0, False), POOLS[1]))
    agrees(pooled, ask(pool_weight="etl=5"), heavier, plans_in_pools())


def test_a_min_share_is_what_the_simulator_does(pooled: Model) -> None:
    least = replace(ONE, min_shares=(("dash", 5),))
    agrees(pooled, ask(pool_min_share={"dash": 5}), least, plans_in_pools())


def test_all_kinds_are_one_joint_change(pooled: Model) -> None:
    cluster = replace(
        ONE, pools=(("etl", 1.0, False), ("dash", 3.0, True)), min_shares=(("dash", 2),),
        places=((2, 2),),
    )  # fmt: skip
    question = ask(pool_weight="dash=3", pool_min_share="dash=2", slots="app-0=-2")
    assert question.to_dict() == {
        "slots_of": {"app-0": -2}, "pool_weight": {"dash": 3}, "pool_min_share": {"dash": 2},
    }  # fmt: skip
    assert question.sentence() == (
        "2 slots fewer of app-0, pool dash of weight 3, pool dash with a minShare of 2"
    )
    agrees(pooled, question, cluster, plans_in_pools())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slots": "app-7=+8"}, "--slots: no application is called 'app-7'; did you mean app-"),
        ({"executors": "app=3"}, "--executors: 'app' is 2 applications; give the id: app-0, app-1"),
        ({"mode": "app-1=LIFO"}, "--mode app-1: is no scheduler mode: 'LIFO'"),
        ({"slots": "app-1=-9"}, "--slots: leaves 0 slots of 4 for app-1"),
        ({"slots": ["app-1=+8", "app-1=+9"]}, "--slots: 'app-1' is given twice"),
        ({"slots": ["app-1=+8", "APP-1=+9"]}, "--slots: 'APP-1' is given twice, by another name"),
        ({"slots": ["+8", "+9"]}, "--slots: is given twice: +8 and +9"),
        ({"slots": ["+8", "app-1=+9"]}, "--slots: both set the number of slots"),
        ({"slots": "=8"}, "--slots: names no application and value: '=8'; give APP=+8"),
        (
            {"slots": "app-1=+8", "executors": "app-1=3"},
            "--slots and --executors: both set the number of slots of 'app-1'",
        ),
        (
            {"slots": "app-1=+8", "executors": "-1=3"},
            "--slots: the slots of app-1 are set twice; give one of them",
        ),
        ({"hosts": "+1", "slots": "app-1=4"}, "--hosts and --slots: both say where slots are"),
        ({"pool_weight": "pool-00=3"}, "--pool-weight: no pool is called 'pool-00'; did you mean"),
        ({"pool_weight": "pool-000=0"}, "--pool-weight pool-000: is no number from 1"),
        ({"pool_min_share": "pool-000"}, "--pool-min-share: names no pool and value: 'pool-000'"),
        ({"pool_weight": "pool-000=3", "mode": "FIFO"}, "--mode and --pool-weight: FIFO has no"),
        (
            {"pool_weight": "pool-000=3", "mode": "app-0=FIFO"},
            "--pool-weight: 'pool-000' is of FIFO, which has no pools; add --mode FAIR",
        ),
        ({"pool": {"0": 3}, "mode": "app-0=FIFO"}, "--mode and --pool: FIFO has no pools"),
    ],
    ids=str,
)
def test_bad_questions_are_one_clear_line(two: Model, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        answer(two, ask(**changes), find)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)
