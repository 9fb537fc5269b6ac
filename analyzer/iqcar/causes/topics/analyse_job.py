"""Learns from one job all that topics need of its tasks.

A pure function of one job; jobs can be looked at in any order, anywhere, by any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iqcar.causes.topics.jobs import TopicJob
from iqcar.causes.topics.kernels.ranks import Ranks
from iqcar.causes.topics.learners import Learners
from iqcar.causes.topics.mixture_by_straggler import Deviations, deviations_of_job
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.causes.topics.validate import differences
from iqcar.enums import BaseModel
from iqcar.tables.arrays import Floats

GOLDEN = 0.6180339887498949
"""Its multiples fill the interval from 0 to 1 evenly, wherever one stops."""
MOST_TASKS = 2000
"""Tasks of a job that are kept at most, evenly chosen by latency: its mutual information is then
off by thousandths."""


@dataclass(frozen=True)
class KeptTasks:
    """Tasks of a job that is in the selection whose mutual information is measured.

    metrics: (tasks, metrics) finite.
    latency_ms: (tasks,).
    """

    metrics: Floats
    latency_ms: Floats


@dataclass(frozen=True)
class JobAnalysis:
    """What was seen in one job.

    stage, app, query: rows; as of the job.
    tasks, stragglers: how many.
    delay_ms: what the stragglers took over the median, in all.
    profiles: causality profile, (metrics,), by each kind of base learner.
    p_value: (metrics,) of the rank-sum test of stragglers and others.
    quartile_difference: (metrics,) mean difference of their quartiles, in interquartile ranges.
    deviations: Deviations of the stragglers, where the learners share topics out by straggler.
    """

    stage: int
    app: int
    query: int
    tasks: int
    stragglers: int
    delay_ms: float
    profiles: dict[BaseModel, Floats]
    p_value: Floats
    quartile_difference: Floats
    deviations: Deviations | None
    kept: KeptTasks | None


def analyse_job(
    job: TopicJob, settings: TopicSettings, kept: float = 1.0, most_tasks: int | None = None
) -> JobAnalysis:
    """Learn from one job what topics need of it.

    kept: share of all jobs whose tasks are kept for mutual information; which, depends on the
        stage's number alone.
    most_tasks: tasks to learn from at most, evenly chosen by latency; all by default.
    """
    chosen = np.arange(len(job.latency_ms))
    if most_tasks is not None and len(chosen) > most_tasks:
        chosen = np.linspace(0, len(chosen) - 1, most_tasks).astype(np.int64)
    ranks = Ranks.from_metrics(job.metrics[chosen])
    learners = settings.learners()
    metrics, latency = np.ascontiguousarray(ranks.values.T), job.latency_ms[chosen]
    p_value, difference = differences(ranks.order, ranks.ordered, job.slow[chosen])
    return JobAnalysis(
        stage=job.stage,
        app=job.app,
        query=job.query,
        tasks=len(job.latency_ms),
        stragglers=int(job.slow.sum()),
        delay_ms=float((job.latency_ms - job.median_ms)[job.slow].sum()),
        profiles=profiles_of_job(metrics, latency, learners, ranks),
        p_value=p_value,
        quartile_difference=difference,
        deviations=(
            deviations_of_job(metrics, latency, settings) if learners.by_straggler else None
        ),
        kept=_kept(metrics, latency) if lot(job.stage) < kept else None,
    )


def profiles_of_job(
    metrics: Floats, latency: Floats, learners: Learners, ranks: Ranks | None = None
) -> dict[BaseModel, Floats]:
    """Causality profile of one job by each kind of base learner.

    metrics: (tasks, metrics) finite.
    latency: (tasks,) positive.
    ranks: of these metrics, where they were sorted before.
    """
    ranks = ranks or Ranks.from_metrics(metrics)
    response = np.log(latency) if learners.log_latency else latency
    return {
        kind: learner.fit(metrics, response, ranks).profile_
        for kind, learner in learners.of_model.items()
    }


def lot(stage: int) -> float:
    """Draw for a stage, from 0 to 1: the stages with the smallest are an even selection."""
    return (stage + 1) * GOLDEN % 1.0


def _kept(metrics: Floats, latency: Floats) -> KeptTasks:
    if len(latency) > MOST_TASKS:
        chosen = np.linspace(0, len(latency) - 1, MOST_TASKS).astype(np.int64)
        return KeptTasks(metrics[chosen], latency[chosen])
    return KeptTasks(metrics, latency.copy())
