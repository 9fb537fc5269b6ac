"""From features to topics: jobs → profiles → topics per model → ensemble → mixtures per job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.kinds import BaseModel
from iqcar.topics.ensemble import TopicEnsemble
from iqcar.topics.evidence import check_words, information_of
from iqcar.topics.jobs import Jobs
from iqcar.topics.learners import BY_STRAGGLER, LOG_LATENCY, base_learners
from iqcar.topics.meta import TopicModel
from iqcar.topics.result import MIXTURES, TOPIC_JOBS, TOPIC_SOURCES, TOPIC_WORDS, TOPICS, Topics
from iqcar.topics.settings import TopicSettings
from iqcar.topics.shares import deviations_of_job, refined_mixtures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.stragglers import TaskFeatures

    Floats = NDArray[np.float64]

FEW_JOBS = 20
"""With fewer jobs, a topic of 5 % of them is one job: nothing is known to recur."""
SMALL_JOB = 40
"""Mixtures of smaller jobs are off by .15 on synthetic truth, three times as much as of large."""
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
    profiles = causality_profiles(jobs, settings, progress)
    models = {
        kind: TopicModel(
            least_topics=settings.least_topics,
            most_topics=settings.most_topics,
            coverage=settings.coverage,
            trim=settings.trim,
            words=settings.words,
        ).fit(profile)
        for kind, profile in profiles.items()
    }
    ensemble = TopicEnsemble(settings.trim, settings.balance).fit(list(models.values()))
    if settings.learners in BY_STRAGGLER:
        seen = [deviations_of_job(*jobs.known(job), settings) for job in range(len(jobs))]
        ensemble.remix(refined_mixtures(seen, ensemble.topics_, ensemble.mixtures_, settings))
    return _result(features, jobs, settings, models, ensemble)


def causality_profiles(
    jobs: Jobs,
    settings: TopicSettings,
    progress: Callable[[int, int], None] | None = None,
) -> dict[BaseModel, Floats]:
    """Causality profile of every job by each kind of base learner, (jobs, metrics) each."""
    learners = base_learners(settings.learners, settings.seed)
    profiles = {kind: np.zeros((len(jobs), len(jobs.names))) for kind in learners}
    for job in range(len(jobs)):
        metrics, latency = jobs.known(job)
        for kind, profile in profiles_of_job(metrics, latency, settings).items():
            profiles[kind][job] = profile
        if progress is not None:
            progress(job + 1, len(jobs))
    return profiles


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


def word(names: Sequence[str], index: int) -> str:
    """A word of the vocabulary: a metric raised (+) or lowered (-)."""
    metrics = len(names)
    return f"{names[index % metrics]}({'+' if index < metrics else '-'})"


def _result(
    features: TaskFeatures,
    jobs: Jobs,
    settings: TopicSettings,
    models: dict[BaseModel, TopicModel],
    ensemble: TopicEnsemble,
) -> Topics:
    kinds = list(models)
    mixtures = ensemble.mixtures_
    job, topic = np.nonzero(mixtures)
    order = np.lexsort((topic, -mixtures[job, topic], job))
    mixture = MIXTURES.frame(
        {"job": job[order], "topic": topic[order], "share": mixtures[job, topic][order]}
    )
    words = _words(ensemble.topics_, jobs.names)
    reason = _reason(jobs, ensemble)
    return Topics(
        topics=_topics(ensemble, kinds),
        words=words,
        jobs=_jobs(features, jobs, ensemble),
        mixtures=mixture,
        validation=check_words(jobs, mixture, words),
        sources=TOPIC_SOURCES.empty(),
        initial={
            str(kind): [_named(row, jobs.names) for row in model.topics_]
            for kind, model in models.items()
        },
        rejected=[
            (str(kinds[m]), _named(models[kinds[m]].topics_[t], jobs.names))
            for m, t in ensemble.rejected_
        ],
        information=information_of(jobs, mixture, words),
        labels=features.labels,
        settings=settings,
        reason=reason,
        doubts=(*features.doubts, *_doubts(jobs, ensemble)),
    )


def _topics(ensemble: TopicEnsemble, kinds: list[BaseModel]) -> pd.DataFrame:
    mixtures = ensemble.mixtures_
    count = max(len(mixtures), 1)
    some = max(int(mixtures.any(axis=1).sum()), 1)
    return TOPICS.frame(
        {
            "models": [
                "+".join(str(kinds[m]) for m in sorted({m for m, _ in of}))
                for of in ensemble.members_
            ],
            "jobs": (mixtures > 0).sum(axis=0),
            "coverage": (mixtures > 0).sum(axis=0) / count,
            "dominant_coverage": (mixtures > 0.5).sum(axis=0) / count,
            "mean_share": mixtures.sum(axis=0) / some,
        }
    )


def _words(topics: Floats, names: Sequence[str]) -> pd.DataFrame:
    topic, index = np.nonzero(topics)
    order = np.lexsort((index, -topics[topic, index].round(12), topic))
    topic, index = topic[order], index[order]
    metrics = max(len(names), 1)
    return TOPIC_WORDS.frame(
        {
            "topic": topic,
            "word": [word(names, int(i)) for i in index],
            "feature": [names[int(i) % metrics] for i in index],
            "sign": np.where(index < metrics, 1, -1),
            "weight": topics[topic, index],
        }
    )


def _named(topic: Floats, names: Sequence[str]) -> dict[str, float]:
    heaviest = np.argsort(-topic.round(12), kind="stable")
    return {word(names, int(i)): float(topic[i]) for i in heaviest if topic[i] > 0}


def _jobs(features: TaskFeatures, jobs: Jobs, ensemble: TopicEnsemble) -> pd.DataFrame:
    first = features.frame.iloc[jobs.rows[jobs.starts[:-1]]]
    mixtures = ensemble.mixtures_
    slow = [jobs.straggling(job) for job in range(len(jobs))]
    over = jobs.latency_ms - np.repeat(jobs.median_ms, np.diff(jobs.starts))
    parts = [slice(int(a), int(b)) for a, b in zip(jobs.starts[:-1], jobs.starts[1:], strict=True)]
    top = mixtures.argmax(axis=1) if mixtures.shape[1] else np.zeros(len(jobs), np.int64)
    most = mixtures.max(axis=1, initial=0.0) > 0.5
    return TOPIC_JOBS.frame(
        {
            "stage": jobs.stage,
            "app": first["app"].to_numpy(),
            "query": first["query"].to_numpy(),
            "tasks": np.diff(jobs.starts),
            "stragglers": [int(one.sum()) for one in slow],
            "delay_ms": [float(over[p][one].sum()) for p, one in zip(parts, slow, strict=True)],
            "dominant": np.where(most, top, -1),
            "agreement": ensemble.agreement_,
        }
    )


def _reason(jobs: Jobs, ensemble: TopicEnsemble) -> str:
    if len(ensemble.topics_):
        return ""
    if not jobs.seen:
        return "No task has a known duration."
    if not len(jobs):
        return (
            f"Of {jobs.seen:,} stages, {jobs.small:,} have too few tasks and {jobs.even:,} have no "
            "stragglers: there is nothing to learn from."
        )
    if not jobs.names:
        return "No metric of the tasks is known."
    return (
        f"No two kinds of learners agree on a cause that recurs in the {len(jobs):,} "
        f"stage{'s' if len(jobs) > 1 else ''} with stragglers."
    )


def _doubts(jobs: Jobs, ensemble: TopicEnsemble) -> list[str]:
    doubts = []
    if 0 < len(jobs) < FEW_JOBS:
        doubts.append(
            f"topics come from {len(jobs)} stage{'s' if len(jobs) > 1 else ''} only: with fewer "
            f"than {FEW_JOBS}, nothing is known to recur"
        )
    small = int((np.diff(jobs.starts) < SMALL_JOB).sum())
    if small:
        doubts.append(
            f"{small:,} of {len(jobs):,} stages have fewer than {SMALL_JOB} tasks: the shares in "
            "their mixtures are rough"
        )
    without = int((~ensemble.mixtures_.any(axis=1)).sum())
    if without and len(ensemble.topics_):
        doubts.append(f"{without:,} of {len(jobs):,} stages have none of the topics")
    return doubts
