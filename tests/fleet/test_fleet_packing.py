"""Sharing work out: every log once, evenly, and with those that share a host; without a Spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.jobs import Jobs, Tally
from iqcar.fleet import send_code, transport
from iqcar.fleet.packing import (
    ENOUGH_BYTES,
    bundles,
    bundles_of_groups,
    even_shares,
    in_rounds,
    pack_by_size,
    together,
)
from iqcar.fleet.session import failure
from iqcar.fleet.transport import FaultsError
from tests.support.fleet_logs import fleet_log

HOSTS = st.dictionaries(
    st.integers(0, 30), st.lists(st.sampled_from("abcdefgh"), max_size=4), max_size=12
)


@given(HOSTS)
def test_logs_are_together_exactly_if_hosts_connect_them(hosts: dict[int, list[str]]) -> None:
    graph = nx.Graph()
    for log, names in hosts.items():
        graph.add_node(log)
        graph.add_edges_from((log, name) for name in names)
    expected = {
        frozenset(one for one in part if isinstance(one, int))
        for part in nx.connected_components(graph)
    }
    groups = together(hosts)
    found: dict[int, set[int]] = {}
    for log, group in groups.items():
        found.setdefault(group, set()).add(log)
    assert {frozenset(part) for part in found.values()} == expected
    assert sorted(found) == list(range(len(found)))
    assert [min(found[group]) for group in sorted(found)] == sorted(map(min, found.values()))


@given(st.lists(st.integers(0, 3 * ENOUGH_BYTES), min_size=1, max_size=40), st.integers(1, 8))
def test_every_log_is_read_once_and_small_ones_share_a_task(sizes: list[int], cores: int) -> None:
    tasks = pack_by_size(sizes, cores)
    assert sorted(row for task in tasks for row in task) == list(range(len(sizes)))
    for task in tasks:
        assert len(task) == 1 or max(sizes[row] for row in task) < ENOUGH_BYTES
    small = [size for size in sizes if size < ENOUGH_BYTES]
    with_small = [task for task in tasks if sizes[task[0]] < ENOUGH_BYTES]
    assert len(with_small) <= max(cores, sum(small) / ENOUGH_BYTES + cores)
    assert len(with_small) >= min(len(small), sum(small) / ENOUGH_BYTES)
    assert len(with_small) in (len(small), cores) or len(with_small) % cores == 0
    assert len(tasks) >= min(cores, len(sizes))
    largest = [max(sizes[row] for row in task) for task in tasks if task not in with_small]
    assert largest == sorted(largest, reverse=True)


@given(st.integers(0, 100), st.integers(1, 8))
def test_all_cores_have_work_to_the_end(count: int, cores: int) -> None:
    tasks = in_rounds(count, cores)
    assert tasks % cores == 0
    assert max(count, cores) <= tasks < max(count, cores) + cores


def test_equal_logs_are_shared_out_in_whole_rounds() -> None:
    tasks = pack_by_size([ENOUGH_BYTES // 5] * 24, 2)
    assert [len(task) for task in tasks] == [4] * 6


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=30), st.integers(1, 6))
def test_shares_are_even(weights: list[float], count: int) -> None:
    shares = even_shares(weights, count, range(len(weights)))
    assert sorted(one for share in shares for one in share) == list(range(len(weights)))
    loads = [sum(weights[one] for one in share) for share in shares]
    # Whoever is given the heaviest to whoever has least is at most one thing above the others.
    if len(shares) == count:
        assert max(loads) - min(loads) <= max(weights) + 1e-9


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 20))
def test_bundles_hold_every_job_once_and_whole(sizes: list[int], most: int) -> None:
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(starts[-1])
    numbers = np.arange(len(sizes))
    jobs = Jobs(
        ("a", "b"), rng.random((n, 2)), np.sort(rng.random(n)) + 1, rng.random(len(sizes)), starts,
        numbers + 5, numbers, numbers, Tally(len(sizes), 0, 0), 1.5,
    )  # fmt: skip
    cut = list(bundles(jobs, most))
    again = [job for bundle in cut for job in bundle]
    assert [job.stage for job in again] == [job.stage for job in jobs]
    for one, other in zip(again, jobs, strict=True):
        np.testing.assert_array_equal(one.metrics, other.metrics)
        np.testing.assert_array_equal(one.latency_ms, other.latency_ms)
        assert one.median_ms == other.median_ms
    assert all(len(bundle) == 1 or bundle.starts[-1] <= most for bundle in cut)


@given(st.binary(max_size=3000), st.integers(1, 100), st.randoms())
def test_an_object_comes_back_whole_from_its_pieces(content: bytes, size: int, random: Any) -> None:
    kept, transport.PIECE_BYTES = transport.PIECE_BYTES, size
    try:
        rows = pd.concat([*transport.rows_of(3, "a", content), *transport.rows_of(1, "a", "other")])
        whole = transport.pack_row(0, "a", content)["content"][0]
    finally:
        transport.PIECE_BYTES = kept
    held = [len(transport.lz4.decompress_block(one)) for one in rows["content"]]
    assert max(held) <= size
    assert sum(held) == len(pickle.dumps(content, 5)) + len(pickle.dumps("other", 5))
    assert transport.unpack_row(whole) == content
    listed = list(rows.itertuples(index=False, name=None))
    random.shuffle(listed)
    assert transport.unpacked(listed) == [(1, "other"), (3, content)]


def test_bugs_that_steps_met_are_raised_together_on_the_driver() -> None:
    faults = transport.FAULTS
    rows = pd.concat(
        [
            *transport.rows_of(3, "a", "sound"),
            *transport.rows_of(3, faults, {5: "this", 6: "that"}),
            *transport.rows_of(4, faults, {9: "the other"}),
        ]
    )
    with pytest.raises(FaultsError, match="a step failed on an executor: this") as caught:
        transport.unpacked(rows.itertuples(index=False, name=None))
    assert caught.value.reasons == {5: "this", 6: "that", 9: "the other"}


def test_what_is_shipped_is_the_package_with_its_data_and_nothing_else() -> None:
    names = {place for _, place in send_code.shipped_files()}
    package = send_code.PACKAGE
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert modules <= names
    assert {name.rpartition(".")[2] for name in names} <= {"py", "json", "so", "pyd"}


def test_what_went_wrong_on_an_executor_is_one_line() -> None:
    trace = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "  File \"worker.py\", line 1, in main\nModuleNotFoundError: No module named 'pyarrow'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"
    )
    assert "lacks something: No module named 'pyarrow'" in str(failure(Exception(trace)))
    other = trace.replace("ModuleNotFoundError: No module named 'pyarrow'", "MemoryError: ")
    assert "a step failed on an executor: MemoryError" in str(failure(Exception(other)))
    plain = "Job aborted: Stage cancelled because SparkContext was shut down.\n\nDriver stack…"
    assert str(failure(Exception(plain))) == (
        "--on-spark: Spark failed: Job aborted: Stage cancelled because SparkContext was shut down"
    )


LOOKED = """
import sys
from iqcar.fleet import steps
from iqcar.fleet.packing import bundles
from iqcar.pipeline import read
from iqcar.causes.stragglers.features import build_features
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.model.waits.measure import measure_waits

def versions():
    kernels = [m for n, m in sys.modules.items() if n.startswith("iqcar.causes.topics.kernels.")]
    found = [one for module in kernels for one in vars(module).values()]
    return sum(len(one.signatures) for one in found if hasattr(one, "signatures"))

settings = TopicSettings(least_tasks=10)
tables = read(sys.argv[1])
features = build_features(tables, measure_waits(tables), StragglerSettings().edge_ms)
jobs = Jobs.from_tasks(features, settings)
steps.compile_looks(settings)
before = versions()
sent = [steps.pack_row(0, steps.JOBS, bundle) for bundle in bundles(jobs)]
print(len(jobs), len(list(steps.look_step(settings, 1.0, iter(sent)))), before, versions())
"""


@pytest.mark.slow
def test_executors_compile_nothing_that_the_driver_has_not_compiled(tmp_path: Path) -> None:
    log = fleet_log("app-1", 1, ("h1", "h2")).write(tmp_path / "app-1")
    done = subprocess.run([sys.executable, "-c", LOOKED, str(log)], check=True, capture_output=True)
    jobs, looks, before, after = map(int, done.stdout.split())
    assert jobs and looks
    assert after == before > 0


def test_small_groups_are_bundled_large_ones_are_alone_and_every_core_gets_one() -> None:
    groups = {0: 0, 1: 1, 2: 0, 3: 2, 4: 3}
    tasks = {0: 5, 1: 5, 2: 5, 3: 100, 4: 5}
    assert bundles_of_groups(groups, tasks, 20, 1) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 2}
    assert bundles_of_groups(groups, tasks, 1000, 1) == dict.fromkeys(groups, 0)
    assert bundles_of_groups(groups, tasks, 0, 1) == groups
    nine = {log: log for log in range(9)}
    assert set(bundles_of_groups(nine, dict.fromkeys(nine, 1), 9, 3).values()) == {0, 1, 2}
