"""Jobs by the bundle: large enough to be worth a row, small enough to be shared out evenly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iqcar.topics import look_at_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iqcar.topics import JobLook, Jobs, TopicSettings

BUNDLE_TASKS = 20_000
"""Tasks of one bundle of jobs: base learners take some tenths of a second for them."""


def bundles(jobs: Jobs, most: int = BUNDLE_TASKS) -> Iterator[Jobs]:
    """Cut jobs into bundles of at most so many tasks; a job that is larger is one by itself."""
    first = 0
    for job in range(len(jobs)):
        if job + 1 == len(jobs) or jobs.starts[job + 2] - jobs.starts[first] > most:
            part = slice(int(jobs.starts[first]), int(jobs.starts[job + 1]))
            mine = slice(first, job + 1)
            yield replace(
                jobs,
                metrics=jobs.metrics[part],
                latency_ms=jobs.latency_ms[part],
                median_ms=jobs.median_ms[mine],
                starts=jobs.starts[first : job + 2] - jobs.starts[first],
                stage=jobs.stage[mine],
                app=jobs.app[mine],
                query=jobs.query[mine],
            )
            first = job + 1


def look_at_all(jobs: Jobs, settings: TopicSettings, kept: float) -> list[JobLook]:
    """Look at each job of a bundle; see :func:`iqcar.topics.analyse_job.look_at_job`."""
    return [look_at_job(job, settings, kept) for job in jobs]
