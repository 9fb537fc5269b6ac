"""Kernels in plain Python and compiled ones give the same numbers, bit by bit."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given

from iqcar.causes.blame import sweep, usage_sweep
from iqcar.replay.loop import (
    cluster_grants,
    device_sharing,
    event_heap,
    event_kernel,
    event_loop,
    slot_offers,
)
from iqcar.replay.loop.run import record
from iqcar.replay.loop.scheduling import recorded_shares, stage_order
from iqcar.tables import compiled
from tests.causes.blame.test_sweep import Intervals, random_intervals
from tests.replay.test_replay import problems
from tests.support.examples import examples
from tests.support.naive_replay import Problem, simulate, tables_of


def plain_copy(module: ModuleType) -> ModuleType:
    """The module once more, with kernels that stay plain.

    Compiled ones must be the module's own: numba's cache remembers where they come from.
    """
    spec = importlib.util.spec_from_file_location(f"{module.__name__}_plain", module.__file__)
    assert spec is not None and spec.loader is not None
    copy = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.count_steps = lambda *_: None
    return copy


PLAIN_SWEEP, PLAIN_USAGE = plain_copy(sweep), plain_copy(usage_sweep)
PLAIN_LOOP, PLAIN_KERNEL = plain_copy(event_loop), plain_copy(event_kernel)
PARTS = event_heap, slot_offers, device_sharing, cluster_grants
PLAIN_PARTS = [plain_copy(module) for module in PARTS]
PLAIN_LOOP.event_kernel = PLAIN_KERNEL
for plain_module in (*PLAIN_PARTS, PLAIN_KERNEL):
    for plain_part in PLAIN_PARTS:
        for name, value in vars(plain_part).items():
            if getattr(value, "__module__", "") == plain_part.__name__ and hasattr(
                plain_module, name
            ):
                setattr(plain_module, name, value)


@pytest.fixture(autouse=True)
def compiled_kernels() -> None:
    for module in (sweep, usage_sweep, event_kernel):
        compiled.count_steps(module.__name__, compiled.PLAIN_STEPS + 1)


def test_the_copies_are_what_they_are_called() -> None:
    for plain, fast, kernel in (
        (PLAIN_SWEEP, sweep, "_pair_integrals"),
        (PLAIN_USAGE, usage_sweep, "_usage_during"),
        (PLAIN_KERNEL, event_kernel, "play"),
    ):
        assert not hasattr(getattr(plain, kernel), "py_func")
        assert hasattr(getattr(fast, kernel), "py_func")


@examples(60)
@given(random_intervals)
def test_sums_over_overlaps_are_the_same(tasks: Intervals) -> None:
    groups = int(max(tasks.group.max(initial=0), tasks.source.max(initial=0))) + 1
    events, life = tasks.events(), np.ones(len(tasks.rate))
    device = tasks.weight, tasks.rate, life, life, np.array([0.1, 1.0]), tasks.group
    usage = [
        module.usage_during(events, tasks.rate, tasks.weight > 0)
        for module in (PLAIN_USAGE, usage_sweep)
    ]
    pairs = [
        module.pair_integrals(
            events,
            *tasks.in_order(events),
            n_sources=groups,
            n_groups=groups,
            one_domain=False,
        )
        for module in (PLAIN_SWEEP, sweep)
    ]
    others = [module.mean_of_others(events, *device) for module in (PLAIN_USAGE, usage_sweep)]
    np.testing.assert_array_equal(*usage)
    for plain, fast in zip(*others, strict=True):
        np.testing.assert_array_equal(plain, fast)
    for plain, fast in zip(*pairs, strict=True):
        np.testing.assert_array_equal(plain, fast)


@examples(30)
@given(problems())
def test_replays_are_the_same(problem: Problem) -> None:
    tables = tables_of(problem, simulate(problem))
    for workload in record(tables).workloads.values():
        shares = recorded_shares(tables, workload, stage_order(tables, workload))
        steps = workload.steps, workload.work, workload.slots, shares
        for plain, fast in zip(PLAIN_LOOP.run(*steps), event_loop.run(*steps), strict=True):
            np.testing.assert_array_equal(plain, fast)


def test_a_file_is_compiled_when_it_has_taken_enough_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_kernels.py").write_text(
        "from iqcar.tables.compiled import kernel\n"
        "@kernel()\ndef one(x):\n    return x + 1\n"
        "@kernel()\ndef two(x):\n    return one(x) + 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("two_kernels")
    compiled.count_steps("two_kernels", compiled.PLAIN_STEPS)
    assert (module.two(1), hasattr(module.two, "py_func")) == (3, False)
    compiled.count_steps("two_kernels", 1)
    assert (module.two(1), hasattr(module.two, "py_func")) == (3, True)
    assert hasattr(module.one, "py_func")


@pytest.mark.slow
def test_a_change_in_a_kernel_of_another_file_or_in_an_option_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of the caller, whose own file is the same, must not hold what was before."""
    callee, options = tmp_path / "called_kernel.py", tmp_path / "kernel_options.py"
    (tmp_path / "calling_kernel.py").write_text(
        "from called_kernel import one\nfrom kernel_options import OPTIONS\n"
        "from iqcar.tables.compiled import kernel\n"
        "@kernel(**OPTIONS)\ndef two(x):\n    return one(x) + 1\n"
    )
    code = (
        "import calling_kernel\nfrom iqcar.tables import compiled\n"
        "compiled.count_steps('calling_kernel', compiled.PLAIN_STEPS + 1)\n"
        "print(calling_kernel.two(1), sum(calling_kernel.two.stats.cache_hits.values()))"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    said = []
    for more, nogil in ((1, False), (1, False), (10, False), (10, True)):
        called = "from iqcar.tables.compiled import kernel\n@kernel()\ndef one(x):\n    return x + "
        texts = {callee: f"{called}{more}\n", options: f"OPTIONS = {{'nogil': {nogil}}}\n"}
        for file, text in texts.items():
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        said.append(done.stdout.strip())
    assert said == ["3 0", "3 1", "12 0", "12 0"]
