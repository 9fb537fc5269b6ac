"""Finds topics: features → jobs → looks at jobs → topics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iqcar.causes.stragglers import TaskFeatures
from iqcar.causes.topics.analyse_job import JobLook, look_at_job
from iqcar.causes.topics.build_topics import topics_from
from iqcar.causes.topics.job_workers import in_order, processors
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.keyword_evidence import share_kept
from iqcar.causes.topics.topic_result import Topics
from iqcar.causes.topics.topic_settings import TopicSettings

DEFAULT = TopicSettings()
BLOCK_TASKS = 8192
"""Tasks whose jobs a thread looks at in one go: some tenths of a second."""


def find_topics(
    features: TaskFeatures,
    settings: TopicSettings = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow.

    With a reason where there are none.

    features: of event logs (:func:`iqcar.causes.stragglers.build_features`), of one or many
        applications, or of a trace (:func:`iqcar.lab.traces.trace_features.read_trace`).
    progress: called with the jobs done and the jobs in all, every now and then.
    """
    jobs = Jobs.from_tasks(features, settings)
    kept = share_kept(jobs.tally.seen)
    # Neighbours of together some thousand tasks: a thread's turn should not be over at once.
    cuts = np.flatnonzero(np.diff(jobs.starts[:-1] // BLOCK_TASKS)) + 1
    blocks = np.split(np.arange(len(jobs)), cuts)
    looks: list[JobLook] = []
    for found in in_order(
        lambda block: [look_at_job(jobs[int(job)], settings, kept) for job in block],
        blocks,
        processors(),
    ):
        looks += found
        if progress is not None:
            progress(len(looks), len(jobs))
    return topics_from(looks, jobs.names, settings, jobs.tally, features.labels, features.doubts)
