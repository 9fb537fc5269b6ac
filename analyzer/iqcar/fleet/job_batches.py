"""Cut jobs into bundles of about equal size, each a row of a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iqcar.causes.topics.jobs import Jobs

BUNDLE_TASKS = 20_000
"""Tasks of one bundle of jobs: base learners take some tenths of a second for them."""


def bundles(jobs: Jobs, most: int = BUNDLE_TASKS) -> Iterator[Jobs]:
    """Cut jobs into bundles of at most so many tasks; a job that is larger is one by itself."""
    first = 0
    for job in range(len(jobs)):
        if job + 1 == len(jobs) or jobs.starts[job + 2] - jobs.starts[first] > most:
            part = slice(int(jobs.starts[first]), int(jobs.starts[job + 1]))
            jobs_of_it = slice(first, job + 1)
            yield replace(
                jobs,
                metrics=jobs.metrics[part],
                latency_ms=jobs.latency_ms[part],
                median_ms=jobs.median_ms[jobs_of_it],
                starts=jobs.starts[first : job + 2] - jobs.starts[first],
                stage=jobs.stage[jobs_of_it],
                app=jobs.app[jobs_of_it],
                query=jobs.query[jobs_of_it],
            )
            first = job + 1
