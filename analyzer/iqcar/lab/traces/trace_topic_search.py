"""Find topics in a trace that need not fit the memory, block by block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iqcar.causes.stragglers.feature_list import Feature
from iqcar.causes.stragglers.labels import Labels
from iqcar.causes.topics.analyse_job import JobAnalysis, analyse_job
from iqcar.causes.topics.build_topics import in_order, processors, topics_from
from iqcar.causes.topics.jobs import Jobs, Tally, metric_names
from iqcar.causes.topics.keyword_evidence import share_kept
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.lab.traces.trace_stream import TraceStream
from iqcar.lab.traces.trace_survey import TraceBlock

DEFAULT = TopicSettings()


def jobs_of_block(
    block: TraceBlock, features: tuple[Feature, ...], settings: TopicSettings
) -> Jobs:
    """Take the jobs of a part of a trace; `features` are of the columns of its metrics."""
    place = {feature.name: j for j, feature in enumerate(features)}
    listed = metric_names(features)
    columns = np.array([place[name] for name in listed], np.int64)
    app, query = np.zeros(len(block.job), np.int64), np.full(len(block.job), -1)
    return Jobs.among(
        listed, np.arange(len(block.job)), block.job, block.latency_ms,
        lambda rows: block.metrics[np.ix_(rows, columns)], app, query, settings,
    )  # fmt: skip


def find_topics_in_trace(
    trace: TraceStream,
    settings: TopicSettings = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 0,
) -> Topics:
    """Find what keeps making tasks slow in a trace that need not fit the memory.

    Parameters
    ----------
    trace : TraceStream
    settings : TopicSettings
    progress : callable, optional
        Called with the jobs done, those that are too small for anything included, and in all.
    workers : int
        Threads; 0 means as many as there are processors. The result does not depend on it.

    Returns
    -------
    Topics
        As of :func:`find_topics` on the whole trace.
    """
    layout, kept = trace.layout, share_kept(trace.n_jobs)

    def look(block: TraceBlock) -> tuple[Tally, list[JobAnalysis]]:
        jobs = jobs_of_block(block, layout.features, settings)
        return jobs.tally, [analyse_job(job, settings, kept) for job in jobs]

    tally = Tally(0, 0, 0)
    looks: list[JobAnalysis] = []
    for more, found in in_order(look, trace.blocks(), workers or processors()):
        tally += more
        looks += found
        if progress is not None:
            progress(tally.seen, trace.n_jobs)
    labels = Labels([layout.where], layout.jobs, [], [], [])
    names = metric_names(layout.features)
    return topics_from(looks, names, settings, tally, labels, layout.doubts)
