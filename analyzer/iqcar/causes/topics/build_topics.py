"""Builds topics from analyses of jobs: topics per model → ensemble → mixtures, tables, doubts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pandas as pd

from iqcar.base.workers import usable_cores
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.causes.topics.analyse_job import JobAnalysis, analyse_job, lot
from iqcar.causes.topics.ensemble import TopicEnsemble
from iqcar.causes.topics.jobs import Jobs, Tally
from iqcar.causes.topics.keyword_evidence import check_words, information_of, share_kept
from iqcar.causes.topics.mixture_by_straggler import refined_mixtures
from iqcar.causes.topics.topic_model import TopicModel
from iqcar.causes.topics.topic_result import (
    FEW_JOBS,
    MIXTURES,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    Topics,
    TopicSettings,
)
from iqcar.enums import BaseModel
from iqcar.tables.arrays import Floats, Ints

Block = TypeVar("Block")
Found = TypeVar("Found")

AHEAD = 2
"""Blocks that wait for a worker: enough that none is idle, few enough for the memory."""


def in_order(
    work: Callable[[Block], Found], blocks: Iterable[Block], workers: int
) -> Iterator[Found]:
    """Do some work on every block, in threads: what is compiled runs at the same time.

    Iterator of what the work returned, in the order of the blocks.

    blocks: read in the thread of the caller, a few blocks ahead.
    workers: threads; with one, the work is done in the caller's.
    """
    if workers <= 1:
        yield from map(work, blocks)
        return
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(workers, "iqcar-analysis") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                if len(waiting) >= workers + AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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
    kinds = list(settings.learners().of_model)

    def fitted(kind: BaseModel) -> TopicModel:
        return TopicModel(
            least_topics=settings.least_topics,
            most_topics=settings.most_topics,
            coverage=settings.coverage,
            trim=settings.trim,
            words=settings.words,
        ).fit(_profiles(ordered, kind, len(names)))

    models = dict(zip(kinds, in_order(fitted, kinds, len(usable_cores())), strict=True))
    ensemble = TopicEnsemble(settings.trim, settings.balance).fit(list(models.values()))
    seen = [analysis.deviations for analysis in ordered if analysis.deviations is not None]
    if len(seen) == len(ordered):
        ensemble.remix(refined_mixtures(seen, ensemble.topics_, ensemble.mixtures_, settings))
    mixture = _mixtures(ensemble.mixtures_)
    words = _words(ensemble.topics_, names)
    return Topics(
        topics=_topics(ensemble, kinds),
        words=words,
        jobs=_jobs(ordered, ensemble),
        mixtures=mixture,
        validation=check_words(ordered, names, mixture, words),
        sources=TOPIC_SOURCES.empty(),
        initial={
            str(kind): [_named(row, names) for row in model.topics_]
            for kind, model in models.items()
        },
        rejected=[
            (str(kinds[m]), _named(models[kinds[m]].topics_[t], names))
            for m, t in ensemble.rejected_
        ],
        information=information_of(ordered, names, mixture, words),
        labels=labels,
        settings=settings,
        reason=_reason(len(ordered), names, tally, ensemble),
        doubts=(*doubts, *_doubts(ordered, ensemble)),
    )


def word(names: Sequence[str], index: int) -> str:
    """A word of the vocabulary: a metric raised (+) or lowered (-)."""
    metrics = len(names)
    return f"{names[index % metrics]}({'+' if index < metrics else '-'})"


def _profiles(analyses: Sequence[JobAnalysis], kind: BaseModel, metrics: int) -> Floats:
    profiles = np.zeros((len(analyses), metrics))
    for job, analysis in enumerate(analyses):
        profiles[job] = analysis.profiles[kind]
    return profiles


def _mixtures(mixtures: Floats) -> pd.DataFrame:
    job, topic = np.nonzero(mixtures)
    order = np.lexsort((topic, -mixtures[job, topic], job))
    return MIXTURES.frame(
        {"job": job[order], "topic": topic[order], "share": mixtures[job, topic][order]}
    )


def _topics(ensemble: TopicEnsemble, kinds: list[BaseModel]) -> pd.DataFrame:
    mixtures = ensemble.mixtures_
    count = max(len(mixtures), 1)
    some = max(int(mixtures.any(axis=1).sum()), 1)
    return TOPICS.frame(
        {
            "models": [
                "+".join(str(kinds[m]) for m in sorted({m for m, _ in topics}))
                for topics in ensemble.members_
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


def _jobs(analyses: Sequence[JobAnalysis], ensemble: TopicEnsemble) -> pd.DataFrame:
    mixtures = ensemble.mixtures_
    top = mixtures.argmax(axis=1) if mixtures.shape[1] else np.zeros(len(analyses), np.int64)
    most = mixtures.max(axis=1, initial=0.0) > 0.5
    columns = ("stage", "app", "query", "tasks", "stragglers", "delay_ms")
    return TOPIC_JOBS.frame(
        {
            **{name: [getattr(analysis, name) for analysis in analyses] for name in columns},
            "dominant": np.where(most, top, -1),
            "agreement": ensemble.agreement_,
        }
    )


def _reason(jobs: int, names: Sequence[str], tally: Tally, ensemble: TopicEnsemble) -> str:
    if len(ensemble.topics_):
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
        f"No two kinds of learners agree on a cause that recurs in the {jobs:,} "
        f"stage{'s' if jobs > 1 else ''} with stragglers."
    )


def _doubts(analyses: Sequence[JobAnalysis], ensemble: TopicEnsemble) -> list[str]:
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
    without = int((~ensemble.mixtures_.any(axis=1)).sum())
    if without and len(ensemble.topics_):
        doubts.append(f"{without:,} of {len(analyses):,} stages have none of the topics")
    return doubts


DEFAULT = TopicSettings()
BLOCK_TASKS = 8192
"""Tasks whose jobs a thread analyses in one go: some tenths of a second."""


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
    kept = share_kept(jobs.tally.seen)
    # Neighbours of together some thousand tasks: a thread's turn should not be over at once.
    cuts = np.flatnonzero(np.diff(jobs.starts[chosen] // BLOCK_TASKS)) + 1
    blocks = np.split(chosen, cuts)
    analyses: list[JobAnalysis] = []
    for found in in_order(
        lambda block: [analyse_job(jobs[int(job)], settings, kept, most_of_job) for job in block],
        blocks,
        len(usable_cores()),
    ):
        analyses += found
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
    by_lot = np.argsort([lot(stage) for stage in jobs.stage.tolist()], kind="stable")
    taken = np.cumsum(np.minimum(np.diff(jobs.starts), most_of_job)[by_lot])
    return np.sort(by_lot[taken <= most_tasks]), most_of_job
