"""From features to topics: jobs → looks at jobs → topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.topics.conclude import topics_from
from iqcar.topics.evidence import share_kept
from iqcar.topics.jobs import Jobs
from iqcar.topics.look import look_at_job
from iqcar.topics.settings import TopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from iqcar.stragglers import TaskFeatures
    from iqcar.topics.look import JobLook
    from iqcar.topics.result import Topics

DEFAULT = TopicSettings()


def find_topics(
    features: TaskFeatures,
    settings: TopicSettings = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow.

    Parameters
    ----------
    features : TaskFeatures
        Of event logs (:func:`iqcar.stragglers.build_features`), of one or many applications, or
        of a trace (:func:`iqcar.stragglers.traces.read_trace`).
    settings : TopicSettings
    progress : callable, optional
        Called with the jobs done and the jobs in all, after each.

    Returns
    -------
    Topics
        With a reason where there are none.
    """
    jobs = Jobs.of(features, settings)
    kept = share_kept(len(jobs))
    looks: list[JobLook] = []
    for job in jobs:
        looks.append(look_at_job(job, settings, kept))
        if progress is not None:
            progress(len(looks), len(jobs))
    return topics_from(looks, jobs.names, settings, jobs.tally, features.labels, features.doubts)
