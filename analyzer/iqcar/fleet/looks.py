"""Jobs by the bundle, and what base learners say of each: what travels from executors to driver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics.find import profiles_of_job
from iqcar.topics.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from iqcar.kinds import BaseModel
    from iqcar.topics import TopicSettings

    Floats = NDArray[np.float64]

BUNDLE_TASKS = 20_000
"""Tasks of one bundle of jobs: base learners take some tenths of a second for them."""


@dataclass(frozen=True)
class Looks:
    """Jobs that were looked at."""

    jobs: Jobs
    profiles: dict[BaseModel, Floats]


def bundles(jobs: Jobs) -> Iterator[Jobs]:
    """Cut jobs into bundles of about :data:`BUNDLE_TASKS` tasks; a job is never cut."""
    first = 0
    for job in range(len(jobs)):
        if job + 1 == len(jobs) or jobs.starts[job + 2] - jobs.starts[first] > BUNDLE_TASKS:
            part = slice(int(jobs.starts[first]), int(jobs.starts[job + 1]))
            yield replace(
                jobs,
                metrics=jobs.metrics[part],
                latency_ms=jobs.latency_ms[part],
                median_ms=jobs.median_ms[first : job + 1],
                starts=jobs.starts[first : job + 2] - jobs.starts[first],
                rows=jobs.rows[part],
                stage=jobs.stage[first : job + 1],
            )
            first = job + 1


def look_at(jobs: Jobs, settings: TopicSettings) -> Looks:
    """Let the base learners look at each job of a bundle."""
    found = [profiles_of_job(*jobs.known(job), settings) for job in range(len(jobs))]
    return Looks(jobs, {kind: np.stack([one[kind] for one in found]) for kind in found[0]})
