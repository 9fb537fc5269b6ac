"""Samples of hosts: a disk that was full was short, one that was idle was not, others may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from iqcar.model.demand.host_samples import (
    WAS_NOT,
    WAS_SHORT,
    Sampled,
    Use,
    sampled_disk,
    sampled_network,
    sampled_processor,
)
from iqcar.tables import SAMPLES
from iqcar_lab.clusters.frames import EPOCH_MS, frame

SECONDS = 10
RATE = 1e5
"""Bytes per ms that the tasks of a host move together."""


def use_of(hosts: int = 1) -> Use:
    """Two tasks on each host, from the first second to the last, half of the time in the device."""
    n, last = 2 * hosts, 1000.0 * SECONDS
    return Use(
        np.repeat(np.arange(hosts), 2), np.full(n, EPOCH_MS), np.full(n, EPOCH_MS + last),
        np.full(n, RATE * last / 2), np.full(n, last / 2),
    )  # fmt: skip


def samples_of(hosts: int = 1, **columns: Any) -> pd.DataFrame:
    """A sample a second of each host."""
    n = hosts * SECONDS
    return frame(
        SAMPLES, n, host=np.repeat(np.arange(hosts), SECONDS), duration_ms=np.full(n, 1000.0),
        time_ms=EPOCH_MS + 1000.0 * (1 + np.tile(np.arange(SECONDS), hosts)),
        **{name: np.broadcast_to(values, n) for name, values in columns.items()},
    )  # fmt: skip


def disk(busy: Any, moved: Any = 1000.0 * RATE, **columns: Any) -> Sampled:
    return sampled_disk(
        samples_of(disk_busy=busy, disk_read_bytes=moved, disk_write_bytes=0.0, **columns), use_of()
    )


def test_a_disk_that_was_full_was_short_and_tells_its_capacity() -> None:
    assert disk(1.0) == pytest.approx((WAS_SHORT, RATE, RATE))


def test_a_disk_that_was_never_full_was_not_short() -> None:
    found = disk(0.6)
    assert found.contended == WAS_NOT
    assert np.isnan(found.capacity)


def test_a_disk_that_was_full_some_of_the_time_says_nothing() -> None:
    assert np.isnan(disk(np.where(np.arange(SECONDS) < 3, 1.0, 0.4)).contended)


def test_one_that_is_busy_but_moves_much_less_than_it_can_is_not_full() -> None:
    """A solid-state disk is busy with the first reader already."""
    moved = 1000.0 * RATE * np.where(np.arange(SECONDS) == 0, 5.5, 0.5)
    assert disk(1.0, moved).contended != WAS_SHORT


@pytest.mark.parametrize("factor", [1e-3, 0.01, 3.0])
def test_bytes_that_are_not_those_of_tasks_say_nothing(factor: float) -> None:
    """Another unit, remote storage, or another program."""
    assert np.isnan(disk(1.0, factor * 1000.0 * RATE)).all()
    assert np.isnan(disk(0.1, factor * 1000.0 * RATE).contended)


def test_a_full_disk_may_have_done_less_than_tasks_report_but_an_idle_one_must_have_done_it() -> (
    None
):
    """The page cache answers the rest."""
    assert disk(1.0, 200.0 * RATE).contended == WAS_SHORT
    assert np.isnan(disk(0.2, 200.0 * RATE).contended)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, 7.0])
def test_what_is_no_share_is_left_out(wrong: float) -> None:
    found = disk(np.where(np.arange(SECONDS) % 3 == 0, wrong, 1.0))
    assert found == pytest.approx((WAS_SHORT, RATE, RATE))


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, 1e15])
def test_bytes_that_cannot_be_are_left_out(wrong: float) -> None:
    found = disk(1.0, np.where(np.arange(SECONDS) % 4 == 0, wrong, 1000.0 * RATE))
    assert found == pytest.approx((WAS_SHORT, RATE, RATE))


def test_percents_are_no_shares() -> None:
    assert np.isnan(disk(np.linspace(0.5, 40.0, SECONDS)).contended)


def test_pressure_tells_where_nobody_counted_busy_time() -> None:
    assert disk(np.nan, stalled_io_ms=1000.0).contended == WAS_SHORT
    assert disk(np.nan, stalled_io_ms=100.0, psi_io=100.0).contended == WAS_NOT
    assert disk(np.nan, psi_io=99.0).contended == WAS_SHORT


def test_one_host_of_several_and_gaps_tell_as_much() -> None:
    columns = {"disk_busy": 1.0, "disk_read_bytes": 1000.0 * RATE, "disk_write_bytes": 0.0}
    some = samples_of(**columns).iloc[[1, 2, 5, 6]]
    assert sampled_disk(some, use_of(3)).contended == WAS_SHORT
    assert np.isnan(sampled_disk(some, use_of(8))).all()  # a twentieth of the time


def test_a_slow_host_is_full_at_less() -> None:
    moved = 1000.0 * RATE * np.repeat([1.3, 0.5], SECONDS)
    samples = samples_of(2, disk_busy=1.0, disk_read_bytes=moved, disk_write_bytes=0.0)
    assert sampled_disk(samples, use_of(2)).contended == WAS_SHORT


def test_nothing_sampled_or_used_says_nothing() -> None:
    assert np.isnan(sampled_disk(SAMPLES.empty(), use_of())).all()
    nothing = Use(*(column[:0] for column in use_of()))
    assert np.isnan(sampled_disk(samples_of(disk_busy=1.0), nothing)).all()
    for tell in (sampled_network, sampled_processor):
        assert np.isnan(tell(SAMPLES.empty(), use_of())).all()
        assert np.isnan(tell(samples_of(cpu_user=99.0, cores=4.0), nothing)).all()


def test_a_network_may_be_full_or_steady_but_one_that_moves_little_is_not_short() -> None:
    def found(received: Any, sent: Any = 0.0) -> Sampled:
        return sampled_network(samples_of(net_in_bytes=received, net_out_bytes=sent), use_of())

    steady = found(1000.0 * RATE)
    assert np.isnan(steady.contended)
    assert steady.highest == pytest.approx(RATE)
    assert np.isnan(found(1000.0 * RATE, 1000.0 * RATE).contended)
    before = samples_of(net_in_bytes=1000.0 * RATE, net_out_bytes=0.0)
    more = before.iloc[:1].assign(time_ms=EPOCH_MS - 9000.0, net_out_bytes=4000.0 * RATE)
    assert sampled_network(pd.concat([before, more]), use_of()).contended == WAS_NOT


def test_processors_are_short_when_all_compute_whoever_it_is_for() -> None:
    def found(**columns: Any) -> float:
        return sampled_processor(samples_of(cores=4.0, **columns), use_of()).contended

    assert found(cpu_user=70.0, cpu_system=28.0) == WAS_SHORT
    assert found(cpu_user=60.0, cpu_system=10.0) == WAS_NOT
    assert np.isnan(found(cpu_user=np.linspace(80.0, 110.0, SECONDS), cpu_system=0.0))
    assert np.isnan(found(cpu_user=30.0, cpu_system=0.0, cgroup_cpus=1.0))
    assert np.isnan(found(cpu_user=np.nan, cpu_system=0.0))
