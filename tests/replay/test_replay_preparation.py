"""What passes before a stage's first launch is its own time, or a wait for slots."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.replay.loop.loop_input import Slots
from iqcar.replay.loop.recorded_workload import RecordedTasks, preparations_of


def preparation(tasks: list[tuple[float, float]], submitted: float, launched: float) -> float:
    """Of a stage on one executor with two slots that is there from the start."""
    launch, finish = (np.array(side, np.float64) for side in zip(*tasks, strict=True))
    zeros = np.zeros(len(tasks), np.int64)
    ran = RecordedTasks(zeros, zeros, launch, finish, np.ones(len(tasks), bool))
    zero = np.zeros(1, np.int64)
    slots = Slots(np.zeros(1), np.array([2]), np.zeros(1, bool), zero, zero, np.zeros(1))
    return float(preparations_of(ran, slots, np.array([submitted]), np.array([launched]))[0])


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        # A slot was free all the time: the stage took as long to come ready.
        ([(10, 2000)], 500),
        # Both were taken until a moment before the launch: it waited for a slot.
        ([(10, 1499), (10, 2000)], 1),
        # Both were taken for a part of the time.
        ([(10, 1200), (10, 2000)], 300),
        # … and taken over in the same millisecond.
        ([(10, 1200), (1200, 1450), (10, 2000)], 50),
        # Freed in the same millisecond: nothing tells.
        ([(10, 1500), (10, 2000)], 0),
    ],
)
def test_only_time_since_all_slots_were_taken_is_the_stages_own(
    tasks: list[tuple[float, float]], expected: float
) -> None:
    stage = (1500.0, 1600.0)
    assert preparation([*tasks, stage], 1000.0, 1500.0) == expected
