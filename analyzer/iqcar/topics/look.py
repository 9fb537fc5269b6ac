"""One look at one job: all that is learned from its tasks, so that they are needed only once.

A pure function of one job; jobs can be looked at in any order, anywhere, by any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics.learners import LOG_LATENCY, base_learners
from iqcar.topics.validate import differences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iqcar.kinds import BaseModel
    from iqcar.topics.jobs import Job
    from iqcar.topics.settings import TopicSettings

    Floats = NDArray[np.float64]
    Small = NDArray[np.float32]

GOLDEN = 0.6180339887498949
"""Its multiples fill the interval from 0 to 1 evenly, wherever one stops."""
MOST_TASKS = 2000
"""Tasks of a job that are kept at most, evenly chosen by latency: its mutual information is then
off by thousandths."""
NORMAL_SPREAD = 1.4826
"""The median distance from the median times this is a normal law's standard deviation."""
LARGEST_DEVIATION = 1e6
"""A straggler is not further from the others than this: a float32 holds it."""


@dataclass(frozen=True)
class StragglerDigest:
    """What is kept of a job's stragglers: how far each is from the job's other tasks.

    Attributes
    ----------
    deviations : (stragglers, metrics) float32; spreads above the centre; 0 where unknown, and
        where all tasks have the same value; the slowest straggler last
    slowness : (stragglers,) float32; latency in medians of the job's
    centre, spread : (metrics,) median of the other tasks, and their median distance from it as a
        standard deviation; that is the standard deviation itself where most tasks have the same
        value, of all tasks where all others have; 0 where there is none
    """

    deviations: Small
    slowness: Small
    centre: Floats
    spread: Floats


@dataclass(frozen=True)
class KeptTasks:
    """Tasks of a job that is in the selection whose mutual information is measured.

    Attributes
    ----------
    metrics : (tasks, metrics) finite
    latency_ms : (tasks,)
    """

    metrics: Floats
    latency_ms: Floats


@dataclass(frozen=True)
class JobLook:
    """What was seen in one job.

    Attributes
    ----------
    stage, app, query : rows; as of the job
    tasks, stragglers : how many
    delay_ms : what the stragglers took over the median, in all
    profiles : causality profile, (metrics,), by each kind of base learner
    p_value : (metrics,) of the rank-sum test of stragglers and others
    quartile_difference : (metrics,) mean difference of their quartiles, in interquartile ranges
    digest : StragglerDigest
    kept : KeptTasks, or None
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
    digest: StragglerDigest
    kept: KeptTasks | None


def look_at_job(job: Job, settings: TopicSettings, kept: float = 1.0) -> JobLook:
    """Learn from one job what topics need of it.

    Parameters
    ----------
    job : Job
    settings : TopicSettings
    kept : share of all jobs whose tasks are kept for mutual information; which, depends on the
        stage's number alone
    """
    metrics, latency = job.known()
    slow = job.slow
    p_value, difference = differences(metrics, slow)
    return JobLook(
        stage=job.stage,
        app=job.app,
        query=job.query,
        tasks=len(latency),
        stragglers=int(slow.sum()),
        delay_ms=float((latency - job.median_ms)[slow].sum()),
        profiles=profiles_of_job(metrics, latency, settings),
        p_value=p_value,
        quartile_difference=difference,
        digest=digest_of(job),
        kept=_kept(metrics, latency) if lot(job.stage) < kept else None,
    )


def profiles_of_job(
    metrics: Floats, latency: Floats, settings: TopicSettings
) -> dict[BaseModel, Floats]:
    """Causality profile of one job by each kind of base learner.

    Parameters
    ----------
    metrics : (tasks, metrics) finite
    latency : (tasks,) positive
    settings : TopicSettings
    """
    response = np.log(latency) if settings.learners in LOG_LATENCY else latency
    learners = base_learners(settings.learners, settings.seed)
    return {kind: learner.fit(metrics, response).profile_ for kind, learner in learners.items()}


def digest_of(job: Job) -> StragglerDigest:
    """Digest of a job's stragglers."""
    metrics, latency = job.known()
    others = metrics[~job.slow]
    centre = np.median(others, axis=0)
    spread = NORMAL_SPREAD * np.median(np.abs(others - centre), axis=0)
    for values in (others, metrics):
        spread = np.where(spread > 0, spread, _deviation(values))
    # A reading that is unknown stands at the job's median, and says nothing.
    known = np.isfinite(job.metrics[job.slow]) & (spread > 0)
    away = np.where(known, metrics[job.slow] - centre, 0.0) / np.where(spread > 0, spread, 1.0)
    return StragglerDigest(
        deviations=np.clip(away, -LARGEST_DEVIATION, LARGEST_DEVIATION).astype(np.float32),
        slowness=(latency[job.slow] / job.median_ms).astype(np.float32),
        centre=centre,
        spread=spread,
    )


def lot(stage: int) -> float:
    """Draw for a stage, from 0 to 1: the stages with the smallest are an even selection."""
    return (stage + 1) * GOLDEN % 1.0


def _kept(metrics: Floats, latency: Floats) -> KeptTasks:
    if len(latency) > MOST_TASKS:
        chosen = np.linspace(0, len(latency) - 1, MOST_TASKS).astype(np.int64)
        return KeptTasks(metrics[chosen], latency[chosen])
    return KeptTasks(metrics.copy(), latency.copy())


def _deviation(values: Floats) -> Floats:
    size = np.abs(values).max(axis=0, initial=0.0)
    scale = np.where(size > 0, size, 1.0)
    spread = (values / scale).std(axis=0)
    result: Floats = np.where(spread > 1e-12, spread * scale, 0.0)
    return result
