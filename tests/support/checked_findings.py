"""Holds findings against the truth: the same simulated run with the action taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from iqcar.diagnosis import Diagnosis
from iqcar.enums import FindingKind
from iqcar.pipeline import diagnose
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from tests.support.planted_changes import Job, Step
from tests.support.planted_findings import (
    KINDS,
    TARGET,
    World,
    plant,
    quiet,
    recorded,
    took,
)
from tests.support.quiet_clusters import QUIET

FIRST = 3
"""Findings among which the planted one should be."""
NOT_AT_ALL = 1.0 / 3.0
"""Part of ``low_ms`` below which what was saved makes the finding a false alarm."""
TOLD_SHARE = 0.05
"""Share of the run from which a finding is counted."""


class Checked(NamedTuple):
    """A finding, and what its action saved."""

    kind: str
    seed: int
    rank: int
    """Place of the finding; 0 where there is none."""
    finding: Finding | None
    saved_ms: float
    ran_ms: float

    @property
    def within(self) -> bool:
        """Whether what was saved lies in the range."""
        one = self.finding
        return one is not None and one.low_ms <= self.saved_ms <= one.high_ms

    @property
    def false(self) -> bool:
        """Whether the action saved nothing of what was said."""
        one = self.finding
        return one is not None and self.saved_ms < NOT_AT_ALL * one.low_ms


def check(kind: str, seed: int, replay: bool = True) -> tuple[Checked, list[Checked]]:
    """Plant a kind, ask for findings, and take the action; then that of every other finding."""
    planted = plant(kind, seed)
    was, mended = took(planted.was, seed), took(planted.mended, seed)
    diagnosis = diagnose(recorded(planted.was, seed))
    findings = find_findings(diagnosis, replay=replay)
    names = diagnosis.tables.queries["name"].astype(str).tolist()
    wanted = KINDS[kind][0]
    place = next(
        (at for at, one in enumerate(findings, 1) if one.kind is wanted
         and (TARGET in {names[row] for row in one.queries} or one.sentence.startswith("hog was"))),
        0,
    )  # fmt: skip
    one = findings[place - 1] if place else None
    about = [names[row] for row in one.queries] if one else [TARGET]
    saved = sum(was[name] - mended[name] for name in about)
    others = [other for other in findings if other is not one]
    checked = Checked(kind, seed, place, one, saved, was[TARGET])
    return checked, list(_checked(planted.was, seed, diagnosis, others))


def check_quiet(family: str, seed: int) -> list[Checked]:
    """Ask for findings where nothing is short, and take the action of each."""
    world = quiet(family, seed)
    diagnosis = diagnose(recorded(world, seed))
    return list(_checked(world, seed, diagnosis, find_findings(diagnosis)))


def check_all(
    seeds: Iterable[int], kinds: Iterable[str] = tuple(KINDS)
) -> list[tuple[Checked, list[Checked]]]:
    """Check each kind with each seed."""
    return [check(kind, seed) for kind in kinds for seed in seeds]


def check_all_quiet(seeds: Iterable[int], families: Iterable[str] = tuple(QUIET)) -> list[Checked]:
    """Check each quiet family with each seed."""
    return [one for family in families for seed in seeds for one in check_quiet(family, seed)]


def _checked(
    world: World, seed: int, diagnosis: Diagnosis, findings: Iterable[Finding]
) -> Iterator[Checked]:
    """Take the action of each finding that counts; the best of them where it leaves a choice."""
    names = diagnosis.tables.queries["name"].astype(str).tolist()
    was = took(world, seed)
    for place, one in enumerate(findings, 1):
        about = {names[row] for row in one.queries}
        if one.kind is FindingKind.UNKNOWN or one.share < TOLD_SHARE:
            continue
        saved = max(
            sum(was[name] - then[name] for name in about)
            for then in (took(mended, seed) for mended in _actions(world, one, about))
        )
        yield Checked(str(one.kind), seed, place, one, saved, sum(was[name] for name in about))


def _actions(world: World, one: Finding, about: set[str]) -> Iterator[World]:
    """The world with the action taken; of contention, one for each query that is taken away."""
    work, cluster = world.work, world.work.cluster
    if one.kind is FindingKind.CONTENTION:
        for job in work.jobs:
            if job.name not in about:
                rest = tuple(other for other in work.jobs if other is not job)
                yield replace(world, work=replace(work, jobs=rest))
    elif one.kind is FindingKind.DRIVER:
        yield replace(world, driver_ms=0.0)
    elif one.kind is FindingKind.EXECUTORS:
        name = "slots" if cluster.hosts % 2 else "hosts"
        more = replace(cluster, **{name: round(1.5 * getattr(cluster, name))})
        yield replace(world, work=replace(work, cluster=more))
    elif one.kind is FindingKind.START_UP:
        yield replace(world, work=replace(work, cluster=replace(cluster, there_from=())))
    elif one.kind is FindingKind.SLOW_HOST:
        yield replace(world, work=replace(work, cluster=replace(cluster, slow_host=1.0)))
    elif one.kind is FindingKind.WASTED:
        yield _rid_of_failures(world)
    else:
        yield _with_other_stages(world, one, about)


def _rid_of_failures(world: World) -> World:
    def mended(job_name: str, step: Step) -> Step:
        scales = np.array(step.plan.scales)
        scales[list(world.failing)] /= 2.0
        return replace(step, plan=replace(step.plan, scales=tuple(scales)))

    (job,) = (job for job in world.work.jobs if job.name == TARGET)
    steps = (mended(job.name, job.steps[0]), *job.steps[1:])
    work = world.work.changed(TARGET, lambda job: replace(job, steps=steps))
    return replace(world, work=work, failing=())


def _with_other_stages(world: World, one: Finding, about: set[str]) -> World:
    """The query has other partitions, no skew, no collection, or no spill."""
    count = re.search(r"Use (\d+) partitions", one.action)

    def mended(job: Job) -> Job:
        into = int(count[1]) if count else 0
        return replace(job, steps=tuple(_other_step(step, one.kind, into) for step in job.steps))

    jobs = tuple(mended(job) if job.name in about else job for job in world.work.jobs)
    return replace(world, work=replace(world.work, jobs=jobs))


def _other_step(step: Step, kind: FindingKind, into: int) -> Step:
    plan = step.plan
    mean = float(np.mean(plan.scales))
    if kind is FindingKind.GC:
        return replace(step, plan=replace(plan, gc=0.0))
    if kind is FindingKind.MEMORY:
        return replace(step, spill=0.0, plan=replace(plan, write=plan.write - 2 * step.spill))
    if kind is FindingKind.SKEW:
        return replace(step, plan=replace(plan, scales=(mean,) * plan.tasks))
    # New tasks differ in size as the old ones do.
    like = np.quantile(plan.scales, np.arange(into) / max(into - 1, 1))
    sizes = np.random.default_rng(into).permutation(like * mean / like.mean())
    split = replace(plan.scaled(plan.tasks / into), tasks=into, scales=tuple(sizes))
    return replace(step, plan=split)
