"""Samples of hosts become a table, whatever is in the lines; files of samples are joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.errors import IqcarError
from iqcar.logs import join_samples
from iqcar.logs.plugin.plugin_events import (
    CPU_MODES,
    SAMPLES_EVENT,
    decode_samples,
    samples_frame,
)
from iqcar.tables import SAMPLES
from tests.support.command import iqcar as command
from tests.support.contended_log import contended_log
from tests.support.tiny_tables import tiny_tables

FULL: dict[str, Any] = {
    "v": 1,
    "t": 5000,
    "dt_ms": 1000,
    "cpu": {"user": 60.0, "system": 10.0, "idle": 30.0, "cores": [95.0, 45.0]},
    "load": [2.5, 2.0, 1.0],
    "mem": {"total": 1000, "used": 400, "available": 600},
    "disks": {"sda": [10, 20, 1, 2, 3, 4, 250], "sdb": [1, 2, 1, 1, 1, 1, 500]},
    "nets": {"eth0": [100, 200, 3, 4], "eth1": [1, 2, 1, 1]},
    "psi": {"cpu": [12.5, 300.0], "io": [1.0, 20.0], "memory": [0.0, 0.0]},
    "cgroup": {
        "cpus": 1.5,
        "mem_limit": 900,
        "mem_used": 300,
        "throttled_ms": 40,
        "stalled_io_ms": 70.5,
        "stalled_memory_ms": 3.0,
        "io": [8, 9],
    },
    "procs": [
        [7, "1", "jvm", 800, 500, 1, 2, 3, 4],
        [8, "1", "python", 100, 50, 1, 2, 3, 4],
        [9, "1", "python", 20, 60, 1, 2, 3, 4],
    ],
    "own_cpu_ms": 1.5,
}


SUMS: dict[str, Any] = {
    **FULL,
    "cpu": {"user": 60.0, "system": 10.0, "idle": 30.0, "count": 2, "busiest": 95.0},
    "disks": [11, 22, 500],
    "nets": [101, 202],
    "procs": {"jvm": [800, 500], "python": [120, 110]},
}
"""The same as the plugin writes it now: sums, where nobody reads the parts."""


def event(*samples: object, **more: object) -> bytes:
    fields = {"version": 1, "host": "h0", "executor": "1", "dropped": 0, **more}
    return json.dumps({"Event": SAMPLES_EVENT, **fields, "samples": samples}).encode()


def frame(*lines: bytes) -> Any:
    return samples_frame(decode_samples(lines), 0, {"h0": 0}, {"1": 3})


def test_the_modes_of_the_processors_sum_to_all_their_time() -> None:
    modes = {"user": 1.0, "nice": 60.0, "system": 2.0, "irq": 3.0, "softirq": 4.0, "idle": 30.0}
    row = frame(event({**FULL, "cpu": {**modes, "cores": [70.0]}})).iloc[0]
    assert row["cpu_user"] == 61
    assert row["cpu_system"] == 9
    assert sum(row[name] for name in CPU_MODES) == sum(modes.values())


@pytest.mark.parametrize("sample", [FULL, SUMS], ids=["listed", "summed"])
def test_each_part_of_a_sample_is_in_its_columns(sample: dict[str, Any]) -> None:
    row = frame(event(sample)).iloc[0].to_dict()
    assert row == {
        "app": 0,
        "host": 0,
        "executor": 3,
        "time_ms": 5000,
        "duration_ms": 1000,
        "cores": 2,
        "busiest_core": 95,
        "cpu_user": 60,
        "cpu_system": 10,
        "cpu_iowait": 0,
        "cpu_steal": 0,
        "cpu_idle": 30,
        "load1": 2.5,
        "mem_total_bytes": 1000,
        "mem_used_bytes": 400,
        "mem_available_bytes": 600,
        "disk_read_bytes": 11,
        "disk_write_bytes": 22,
        "disk_busy": 0.5,
        "net_in_bytes": 101,
        "net_out_bytes": 202,
        "psi_cpu": 12.5,
        "psi_io": 1,
        "psi_memory": 0,
        "stalled_cpu_ms": 300,
        "stalled_io_ms": 20,
        "stalled_memory_ms": 0,
        "cgroup_cpus": 1.5,
        "cgroup_mem_limit_bytes": 900,
        "cgroup_mem_used_bytes": 300,
        "cgroup_throttled_ms": 40,
        "cgroup_stalled_io_ms": 70.5,
        "cgroup_stalled_memory_ms": 3,
        "cgroup_read_bytes": 8,
        "cgroup_write_bytes": 9,
        "jvm_cpu_ms": 800,
        "jvm_rss_bytes": 500,
        "python_cpu_ms": 120,
        "python_rss_bytes": 110,
        "own_cpu_ms": 1.5,
        "dropped": 0,
    }


def test_a_missing_part_is_unknown_and_an_idle_one_is_zero() -> None:
    times = {"v": 1, "t": 1, "dt_ms": 1000}
    idle = {**times, "disks": [0, 0, 0], "nets": [0, 0]}
    table = frame(event(times, {**times, "disks": {}, "nets": {}}, idle))
    names = ["disk_read_bytes", "disk_busy", "net_out_bytes"]
    assert table.loc[0, names].isna().all()
    assert (table.loc[1:, names] == 0).all(axis=None)
    assert table[["cpu_idle", "psi_cpu", "jvm_cpu_ms", "cgroup_cpus"]].isna().all(axis=None)


def test_samples_of_unequal_periods_have_shares_of_their_own_time() -> None:
    longer = {**SUMS, "t": 15_000, "dt_ms": 10_000}
    table = frame(event(SUMS, longer))
    assert table["duration_ms"].tolist() == [1000, 10_000]
    assert table["disk_busy"].tolist() == [0.5, 0.05]
    assert table["disk_read_bytes"].tolist() == [11, 11]


def test_dropped_samples_are_counted_once_per_batch() -> None:
    assert frame(event(FULL, FULL, dropped=4))["dropped"].tolist() == [4, 0]


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = {**FULL, "v": 9, "gpu": [1]}
    assert frame(event(newer, version=9)).equals(frame(event(FULL)))


def test_other_events_and_lines_that_are_none_are_passed_over() -> None:
    other = json.dumps({"Event": "org.iqcar.spark.IqcarEventScheduler", "samples": [FULL]})
    assert len(frame(other.encode(), b"", b"[]", b"{", b"\xff", event())) == 0


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*FULL, "more"]), ANY, max_size=4), ANY)
def test_damaged_fields_are_unknown_and_never_an_error(
    damage: dict[str, object], other: object
) -> None:
    table = frame(event({**FULL, **damage}, other, FULL))
    assert list(table.columns) == SAMPLES.column_names()
    assert table.iloc[-1].equals(frame(event(FULL)).iloc[0])
    numbers = table.select_dtypes("number").to_numpy(np.float64)
    assert not np.isinf(numbers).any()
    assert (table["disk_busy"].dropna() <= 1).all()


@given(st.binary(max_size=30), st.integers(0, 2000), st.integers(0, 30))
def test_damaged_bytes_cost_only_their_own_line(junk: bytes, at: int, cut: int) -> None:
    line = event(FULL)
    damaged = line[:at] + junk + line[at + cut :]
    table = frame(damaged, event({**FULL, "t": 6000}))
    assert len(table) in (1, 2)
    assert table["time_ms"].iloc[-1] == 6000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What `iqcar sample` writes on three hosts, with a damaged line."""
    rows = [
        {**FULL, "host": "H0.example.org", "t": 5000},
        {**FULL, "host": "storage", "t": 6000},
        {**FULL, "host": "elsewhere", "t": 99_000_000},
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"v":1,"t":')
    return path


def test_samples_from_outside_are_joined_by_host_and_time(outside: Path) -> None:
    tables = join_samples(tiny_tables(hosts=[{"host": "h1"}, {"host": "h0"}]), [outside])
    assert tables.hosts["host"].tolist() == ["h1", "h0", "storage"]
    assert tables.samples["host"].tolist() == [1, 2]
    assert tables.samples["app"].tolist() == [-1, -1]
    assert tables.samples["executor"].tolist() == [-1, -1]


def test_addresses_are_not_cut_at_their_first_dot(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({**FULL, "host": "10.0.0.2"}))
    tables = join_samples(tiny_tables(hosts=[{"host": "10.0.0.1"}]), [path])
    assert tables.hosts["host"].tolist() == ["10.0.0.1", "10.0.0.2"]


def test_read_takes_files_of_samples(outside: Path, tmp_path: Path) -> None:
    log = contended_log().write(tmp_path / "app-1")
    plain = iqcar.read(log)
    row = {**FULL, "host": "host-a", "t": float(plain.applications["start_ms"].iloc[0]) + 1}
    outside.write_text(json.dumps(row))
    tables = iqcar.read(log, samples=outside)
    assert len(tables.samples) == 1
    assert tables.hosts.equals(plain.hosts)


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, "", "no samples\n", '{"host":"h"}\n'])
def test_a_file_without_samples_is_refused_in_one_line(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(IqcarError, match=r"samples\.jsonl"):
        join_samples(tiny_tables(), [path])
    log = contended_log().write(tmp_path / "app-1")
    done = command("analyze", log, "--samples", path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
