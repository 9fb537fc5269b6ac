"""When applications of a cluster asked for executors, and how long those took to start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.replay.queues.cluster_replay import tenants_of
from tests.support.examples import examples
from tests.support.shared_cluster_logs import YARN, Executor, Query, application, read


@examples(25)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_first_waits_for_its_executors_alone_and_who_comes_later_for_those_of_others(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    asks, starts, again = (float(value) for value in rng.integers(2, 20, 3))
    until = asks + starts + float(rng.integers(40, 60))
    holder = application(
        1, "holder", [Executor(0, 1, asks + starts)],
        [Query("long", asks, [(0, asks + starts, until)])],
        end=until, master=YARN, spark_executor_instances="1",
    )  # fmt: skip
    came = asks + starts + 1.0
    own = float(rng.integers(2, 20))
    waiter = application(
        2, "waiter", [Executor(0, 1, until + again)],
        [Query("short", came + own, [(0, until + again, until + again + 1)])],
        start=came, end=until + again + 1, master=YARN, spark_executor_instances="1",
    )  # fmt: skip
    tables = read([holder, waiter], tmp_path_factory.mktemp("starts"))
    first, second = tenants_of(tables, [0, 1])
    # An executor of the first one cannot have started before it was asked for.
    assert first.start_up_ms == pytest.approx(1000 * max(starts, min(again, asks + starts)))
    assert second.start_up_ms == pytest.approx(1000 * min(again, asks + starts))
    # Who waits with a stage has asked by then.
    assert first.asks_after_ms <= 1000 * asks
    assert second.asks_after_ms <= 1000 * own
    assert first.asks_after_ms + first.start_up_ms <= 1000 * (asks + max(starts, again))


def test_stages_that_came_after_the_executors_tell_nothing_of_when_they_were_asked_for(
    tmp_path: Path,
) -> None:
    logs = [
        application(
            number, f"app-{number}", [Executor(0, 1, begin + 8.0)],
            [Query("late", begin + 20.0, [(0, begin + 20.0, begin + 25.0)])],
            start=begin, end=begin + 25.0, master=YARN, spark_executor_instances="1",
        )
        for number, begin in ((1, 0.0), (2, 30.0))
    ]  # fmt: skip
    for one in tenants_of(read(logs, tmp_path), [0, 1]):
        assert (one.asks_after_ms, one.start_up_ms) == (0.0, 8000.0)
