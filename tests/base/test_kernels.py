"""Compiled kernels and plain ones give the same numbers, bit by bit; none is used that is old."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from build_kernels import ENTRIES, library_in
from iqcar.base import kernels
from iqcar.causes.blame import sweep, usage_sweep
from iqcar.history import change_points
from iqcar.logs.decode import lzf
from iqcar.logs.plugin.record_columns import RecordColumns
from iqcar.logs.tasks import record_scanner
from iqcar.model.waits import execution_memory
from iqcar.model.waits.measure import measure_waits
from iqcar.replay.alone import blame_run
from iqcar.replay.loop import event_loop
from iqcar.replay.loop.run import record
from iqcar.replay.loop.scheduling import recorded_shares, stage_order
from tests.causes.blame.test_sweep import Intervals, random_intervals
from tests.logs.test_record_scanner import carried, compact, records
from tests.model.waits.test_execution_memory import random_tasks
from tests.replay.queues.test_cluster_replay import check as check_cluster
from tests.replay.test_bad_records import record as short_of_disk
from tests.replay.test_replay import problems
from tests.support.block_codecs import lzf_compress
from tests.support.examples import examples
from tests.support.naive_replay import Problem, simulate, tables_of
from tests.support.random_tables import RandomInput, tables_and_waits

pytestmark = pytest.mark.skipif(
    kernels.library()[0] is None, reason=f"kernels are plain: {kernels.plain_because()}"
)

CALLERS = (
    sweep, usage_sweep, change_points, lzf, record_scanner, execution_memory, event_loop,
)  # fmt: skip


MANY = 150
"""Calls of a kernel after which only each tenth is made in both forms: plain ones take long."""


class Checked(np.ndarray):
    """An array that takes no index from its end: a compiled kernel would read what lies before."""

    def __getitem__(self, at: Any) -> Any:
        refuse_negative(at)
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        refuse_negative(at)
        super().__setitem__(at, value)


def refuse_negative(at: Any) -> None:
    for one in at if isinstance(at, tuple) else (at,):
        if one < 0:
            raise IndexError(f"{one} is no place in an array")


def checked(given: Any, copies: dict[int, Checked]) -> Any:
    """A copy whose arrays, also those in NamedTuples, tell every index that is out of bounds."""
    if isinstance(given, tuple):
        copied = [checked(one, copies) for one in given]
        return type(given)._make(copied) if hasattr(given, "_make") else tuple(copied)
    if not isinstance(given, np.ndarray):
        return given
    return copies.setdefault(id(given), given.copy().view(Checked))


def arrays(given: Any) -> Iterator[Any]:
    if isinstance(given, tuple):
        for one in given:
            yield from arrays(one)
    elif isinstance(given, np.ndarray):
        yield given.view(np.ndarray)


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, int]]:
    """Every call of a kernel is made in both forms; how often each was called."""
    called: dict[str, int] = {}

    def in_both(plain: Callable[..., Any]) -> Callable[..., Any]:
        fast = kernels.compiled(plain)
        assert fast is not plain

        def call(*given: Any) -> Any:
            count = called[plain.__name__] = called.get(plain.__name__, 0) + 1
            if count > MANY and count % 10:
                return fast(*given)
            again = checked(given, {})
            found, expected = fast(*given), plain(*again)
            assert found == expected and type(found) is type(expected)
            for one, other in zip(arrays(given), arrays(again), strict=True):
                np.testing.assert_array_equal(one, other)
            return found

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module in CALLERS:
            patch.setattr(module, "compiled", in_both)
        yield called


@examples(30)
@given(random_intervals)
def test_sums_over_overlaps(both: dict[str, int], tasks: Intervals) -> None:
    groups = int(max(tasks.group.max(initial=0), tasks.source.max(initial=0))) + 1
    events, life = tasks.events(), np.ones(len(tasks.rate))
    device = tasks.weight, tasks.rate, life, life, np.array([0.1, 1.0]), tasks.group
    usage_sweep.usage_during(events, tasks.rate, tasks.weight > 0)
    usage_sweep.mean_of_others(events, *device)
    sweep.pair_integrals(
        events, *tasks.in_order(events), n_sources=groups, n_groups=groups, one_domain=False
    )


@examples(15)
@given(problems())
def test_replays(both: dict[str, int], problem: Problem) -> None:
    tables = tables_of(problem, simulate(problem))
    for workload in record(tables).workloads.values():
        shares = recorded_shares(tables, workload, stage_order(tables, workload))
        event_loop.run(workload.steps, workload.work, workload.slots, shares)


@examples(8)
@given(tables_and_waits(12))
def test_replays_in_shared_devices(both: dict[str, int], random: RandomInput) -> None:
    blame_run(random.tables, random.waits)


@pytest.mark.long
def test_replays_of_queries_that_are_short_of_a_disk(both: dict[str, int]) -> None:
    blame_run(*short_of_disk())


@examples(40)
@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=40))
def test_change_points(both: dict[str, int], values: list[float]) -> None:
    change_points.best_division(np.array(values))


@examples(60)
@given(st.lists(st.sampled_from([b"ab", b"abc", b"\0\0\0\0", b"x" * 300])), st.data())
def test_blocks_of_lzf(both: dict[str, int], parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    packed = lzf_compress(text)
    assert lzf.decode_lzf(packed, len(text)) == text
    cut = data.draw(st.integers(0, len(packed)))
    damaged = packed[:cut] + data.draw(st.binary(max_size=4)) + packed[cut + 1 :]
    lzf.decode_lzf(damaged, len(text))


@examples(15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records(), max_size=2))
def test_records(both: dict[str, int], found: list[dict[str, Any]]) -> None:
    lines = [carried(compact(one)) + b"\n" for one in found]
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64) - 1
    starts = ends - np.array([len(line) - 1 for line in lines], np.int64)
    text = b"".join(lines) or b"\n" * 8
    record_scanner.RecordScanner().scan(text, starts, ends, RecordColumns().texts)


@pytest.mark.parametrize("seed", range(4))
def test_replays_of_a_cluster_manager(both: dict[str, int], seed: int) -> None:
    check_cluster(seed, preempts=True)


@pytest.mark.parametrize("seed", range(4))
def test_lines_for_execution_memory(both: dict[str, int], seed: int) -> None:
    measure_waits(random_tasks(seed))


def test_every_kernel_was_called(both: dict[str, int]) -> None:
    assert {name for names in ENTRIES.values() for name in names} == both.keys()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package as an installation has it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(kernels.PACKAGE, tmp_path / "iqcar", ignore=ignored)
    return tmp_path


def plain_because(folder: Path) -> str:
    program = "from iqcar.base.kernels import plain_because as why; print(why())"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def test_kernels_of_an_older_source_are_not_used(installed: Path) -> None:
    assert plain_because(installed) == ""
    source = installed / "iqcar" / "causes" / "blame" / "sweep.py"
    source.write_text(source.read_text("utf-8") + "\n", "utf-8")
    assert plain_because(installed) == "causes/blame/sweep.py has changed since they were compiled"


def test_kernels_that_cannot_be_loaded_are_plain(installed: Path) -> None:
    library_in(installed / "iqcar").write_bytes(b"of another processor")
    assert plain_because(installed).startswith("the compiled ones cannot be loaded: ")
    library_in(installed / "iqcar").unlink()
    assert plain_because(installed) == "none were compiled for this Python"
