"""Builds topics from analyses of jobs: agreed topics → mixtures by straggler, tables, doubts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.causes.topics.analyse_job import JobAnalysis, analyse_job
from iqcar.causes.topics.jobs import Jobs, Tally
from iqcar.causes.topics.mixture_by_straggler import refined_mixtures
from iqcar.causes.topics.topic_model import agreed_topics, fit_topics, trimmed
from iqcar.causes.topics.topic_result import (
    FEW_JOBS,
    MIXTURES,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    VALIDATION,
    Topics,
    TopicSettings,
)
from iqcar.tables.arrays import Floats, Ints

SIGNIFICANT = 0.05
"""Stragglers and others differ where chance does so less often (§5.2)."""
SMALL_JOB = 40
"""Mixtures of smaller jobs are off by .15 on synthetic truth, three times as much as of large."""


def topics_from(
    analyses: Iterable[JobAnalysis],
    names: Sequence[str],
    settings: TopicSettings,
    tally: Tally,
    labels: Labels,
    doubts: Sequence[str] = (),
) -> Topics:
    """Find what recurs in jobs that were looked at.

    With a reason where there are none.

    analyses: in any order; no two of the same stage.
    names: (metrics,) names of the metrics.
    settings: those that the jobs were looked at with.
    tally: of all stages, also those that are no jobs.
    doubts: what was doubtful before.
    """
    ordered = sorted(analyses, key=lambda analysis: analysis.stage)
    profiles = np.array([one.profiles for one in ordered]).reshape(len(ordered), 2, len(names))
    models = [fit_topics(profiles[:, kind], settings) for kind in range(2)]
    topics, mixtures = agreed_topics(models, settings)
    deviations = [one.deviations for one in ordered]
    shares = trimmed(refined_mixtures(deviations, topics, mixtures, settings.prior), settings.trim)
    most_first = np.lexsort((*topics.T[::-1], -shares.sum(axis=0).round(9)))
    topics, shares = topics[most_first], shares[:, most_first]
    mixture, words = _mixtures(shares), _words(topics, names)
    return Topics(
        topics=_topics(shares),
        words=words,
        jobs=_jobs(ordered, shares),
        mixtures=mixture,
        validation=check_words(ordered, names, mixture, words),
        sources=TOPIC_SOURCES.empty(),
        labels=labels,
        settings=settings,
        reason=_reason(len(ordered), names, tally, len(topics)),
        doubts=(*doubts, *_doubts(ordered, shares)),
    )


def check_words(
    analyses: Sequence[JobAnalysis],
    names: Sequence[str],
    mixtures: pd.DataFrame,
    words: pd.DataFrame,
) -> pd.DataFrame:
    """Compare stragglers with other tasks in every keyword of a job's topics (§5.2).

    Frame of `VALIDATION`.
    """
    if not len(mixtures):
        return VALIDATION.empty()
    column = {name: j for j, name in enumerate(names)}
    pairs = mixtures[["job", "topic"]].merge(words[["topic", "feature", "sign"]], on="topic")
    # A merge keeps the order of the left side; keywords come in the order of their weight.
    job = pairs["job"].to_numpy(np.int64)
    metric = np.array([column[str(name)] for name in pairs["feature"].tolist()], np.int64)
    p = np.stack([analysis.p_value for analysis in analyses])[job, metric]
    difference = np.stack([analysis.quartile_difference for analysis in analyses])[job, metric]
    agrees = (p < SIGNIFICANT) & (difference * pairs["sign"].to_numpy(np.float64) > 0)
    return VALIDATION.frame(
        {
            "job": job, "topic": pairs["topic"].to_numpy(), "feature": pairs["feature"].tolist(),
            "p_value": p, "quartile_difference": difference, "agrees": agrees,
        }
    )  # fmt: skip


def word(names: Sequence[str], index: int) -> str:
    """A word of the vocabulary: a metric raised (+) or lowered (-)."""
    metrics = len(names)
    return f"{names[index % metrics]}({'+' if index < metrics else '-'})"


def _mixtures(mixtures: Floats) -> pd.DataFrame:
    job, topic = np.nonzero(mixtures)
    order = np.lexsort((topic, -mixtures[job, topic], job))
    return MIXTURES.frame(
        {"job": job[order], "topic": topic[order], "share": mixtures[job, topic][order]}
    )


def _topics(mixtures: Floats) -> pd.DataFrame:
    count = max(len(mixtures), 1)
    some = max(int(mixtures.any(axis=1).sum()), 1)
    return TOPICS.frame(
        {
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


def _jobs(analyses: Sequence[JobAnalysis], mixtures: Floats) -> pd.DataFrame:
    top = mixtures.argmax(axis=1) if mixtures.shape[1] else np.zeros(len(analyses), np.int64)
    most = mixtures.max(axis=1, initial=0.0) > 0.5
    columns = ("stage", "app", "query", "tasks", "stragglers", "delay_ms")
    return TOPIC_JOBS.frame(
        {
            **{name: [getattr(analysis, name) for analysis in analyses] for name in columns},
            "dominant": np.where(most, top, -1),
        }
    )


def _reason(jobs: int, names: Sequence[str], tally: Tally, topics: int) -> str:
    if topics:
        return ""
    if not tally.seen:
        return "No task has a known duration."
    if not jobs:
        return (
            f"Of {tally.seen:,} stages, {tally.small:,} have too few tasks and {tally.even:,} have "
            "no stragglers: there is nothing to learn from."
        )
    if not names:
        return "No metric of the tasks is known."
    return (
        f"Regressions and deviations do not agree on a cause that recurs in the {jobs:,} "
        f"stage{'s' if jobs > 1 else ''} with stragglers."
    )


def _doubts(analyses: Sequence[JobAnalysis], mixtures: Floats) -> list[str]:
    doubts = []
    if 0 < len(analyses) < FEW_JOBS:
        doubts.append(
            f"topics come from {len(analyses)} stage{'s' if len(analyses) > 1 else ''} only: with "
            f"fewer than {FEW_JOBS}, nothing is known to recur"
        )
    small = sum(analysis.tasks < SMALL_JOB for analysis in analyses)
    if small:
        doubts.append(
            f"{small:,} of {len(analyses):,} stages have fewer than {SMALL_JOB} tasks: the shares "
            "in their mixtures are rough"
        )
    without = int((~mixtures.any(axis=1)).sum())
    if without and mixtures.shape[1]:
        doubts.append(f"{without:,} of {len(analyses):,} stages have none of the topics")
    return doubts


DEFAULT = TopicSettings()
GOLDEN = 0.6180339887498949
"""Its multiples fill the interval from 0 to 1 evenly, wherever one stops."""
TOLD_AFTER = 50
"""Jobs between two calls of `progress`."""


def find_topics(
    features: TaskFeatures,
    settings: TopicSettings = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
    most_tasks: int | None = None,
) -> Topics:
    """Find what keeps making tasks slow.

    With a reason where there are none.

    features: of event logs (:func:`iqcar.causes.stragglers.build_features`), of one or many
        applications.
    progress: called with the jobs done and the jobs in all, every now and then.
    most_tasks: tasks that are looked at at most, of evenly chosen jobs; all by default.
    """
    jobs = Jobs.from_tasks(features, settings)
    chosen, most_of_job = _sample(jobs, most_tasks)
    analyses: list[JobAnalysis] = []
    for job in chosen.tolist():
        analyses.append(analyse_job(jobs[job], most_of_job))
        if progress is not None and (len(analyses) % TOLD_AFTER == 0):
            progress(len(analyses), len(chosen))
    if progress is not None:
        progress(len(analyses), len(chosen))
    doubts = list(features.doubts)
    if len(chosen) < len(jobs):
        doubts.append(f"topics come from {len(chosen):,} of {len(jobs):,} stages, evenly chosen")
    return topics_from(
        analyses, jobs.names, settings, tally=jobs.tally, labels=features.labels, doubts=doubts
    )


def _sample(jobs: Jobs, most_tasks: int | None) -> tuple[Ints, int | None]:
    """Positions of the jobs that are looked at, rising, and of how many tasks of each at most."""
    everything = np.arange(len(jobs))
    if most_tasks is None or jobs.starts[-1] <= most_tasks:
        return everything, None
    most_of_job = max(most_tasks // FEW_JOBS, 1)
    by_lot = np.argsort((jobs.stage + 1) * GOLDEN % 1.0, kind="stable")
    taken = np.cumsum(np.minimum(np.diff(jobs.starts), most_of_job)[by_lot])
    return np.sort(by_lot[taken <= most_tasks]), most_of_job
