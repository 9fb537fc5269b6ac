"""Findings name what costs time in simulated clusters, and save what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.savings.slow_hosts import slow_hosts
from iqcar.causes.savings.start_up import start_up_time
from iqcar.pipeline import diagnose
from iqcar.say.findings import find_findings, findings_headline
from iqcar_lab.clusters.changes import Job
from iqcar_lab.clusters.findings import FIRST, KINDS, TARGET, check, check_quiet, plant, recorded
from iqcar_lab.clusters.quiet import QUIET

SEED = 1001
"""A seed that no range was chosen on."""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_planted_is_among_the_first_and_its_range_holds_mostly(kind: str) -> None:
    found = [check(kind, seed)[0] for seed in range(SEED, SEED + 5)]
    assert sum(0 < one.rank <= FIRST for one in found) >= 4
    assert sum(one.within for one in found) >= 3


@pytest.mark.long
@pytest.mark.parametrize("family", QUIET)
def test_where_nothing_is_short_nothing_false_is_found(family: str) -> None:
    assert not [one for one in check_quiet(family, SEED) if one.false]


@pytest.mark.parametrize("kind", ["contention, slots", "contention, disk"])
def test_without_a_replay_the_range_holds_what_taking_the_other_away_saves(kind: str) -> None:
    assert check(kind, SEED, replay=False)[0].within


def test_tasks_of_a_slow_host_are_no_skew() -> None:
    tables = recorded(plant("slow host", SEED).was, SEED)
    (host,) = set(slow_hosts(tables)["host"])
    first = find_findings(diagnose(tables))[0]
    assert (first.kind, first.where) == ("slow-host", tables.hosts["host"].iloc[host])
    assert first.where in findings_headline([first])


def test_executors_that_come_later_are_missing_until_then() -> None:
    planted = plant("start-up", SEED)
    saves, missed, slots = start_up_time(recorded(planted.was, SEED))
    names = [job.name for job in planted.was.work.jobs]
    at = names.index(TARGET)
    assert 0 < saves[at] <= missed[at]
    assert 0 < slots[at] <= planted.was.work.cluster.hosts * planted.was.work.cluster.slots
    assert not np.any(start_up_time(recorded(planted.mended, SEED))[0])


def test_a_replay_narrows_the_range_around_what_was_estimated() -> None:
    seed = SEED + 1  # in the first one a second could not be saved
    diagnosis = diagnose(recorded(plant("skew", seed).was, seed))
    (replayed, *_), (estimated, *_) = (
        find_findings(diagnosis, replay=replay) for replay in (True, False)
    )
    assert replayed.kind == estimated.kind
    assert (replayed.evidence, estimated.evidence) == ("replayed", "estimated")
    assert estimated.low_ms < replayed.saves_ms < 1.2 * estimated.high_ms


def test_too_few_tasks_that_read_nothing_are_found_though_no_replay_divides_them() -> None:
    was = plant("partitions, few", SEED).was

    def alone(job: Job) -> Job:
        plan = replace(job.steps[1].plan, parents=(), fetch=0.0)
        return replace(job, steps=(replace(job.steps[1], plan=plan),))

    work = was.work.changed(TARGET, alone)
    first = find_findings(diagnose(recorded(replace(was, work=work), SEED)))[0]
    assert first.kind == "partitions"
    assert first.question is None
