"""Damaged logs through the whole of iqcar, always the same ones; `scripts/fuzz` tries others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.contended_log import contended_log
from tests.support.fuzz_case import Case, make_case, run_case
from tests.support.fuzz_script import fuzz
from tests.support.log_sources import made_sources, recorded_log, sample, source

CASES = 40


@pytest.mark.slow
def test_damaged_logs_break_no_promise(tmp_path: Path) -> None:
    fuzz(tmp_path, CASES, 7, "--made")


@pytest.mark.slow
def test_a_case_is_the_same_whenever_it_is_made() -> None:
    for number in range(20):
        assert make_case(number, made_sources()) == make_case(number, made_sources())


def test_a_sample_of_a_log_keeps_its_order_and_every_kind_of_event() -> None:
    whole = source("recorded", recorded_log(contended_log()).lines)
    for seed in range(20):
        rows = [whole.lines.index(line) for line in sample(whole, random.Random(seed))]
        assert rows == sorted(rows)
        assert {whole.kinds[row] for row in rows} == set(whole.kinds)


def test_a_broken_promise_is_a_finding(tmp_path: Path) -> None:
    case = Case({"app-1": b"rubbish\n"}, 1, [], "diagnose")
    assert run_case(case, tmp_path / "one") == []
    harmed = Case({"good": b"rubbish\n"}, 1, [], "diagnose")
    assert [found.kind for found in run_case(harmed, tmp_path / "two")] == ["harm"]
