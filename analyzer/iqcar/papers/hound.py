"""Finds recurring causes of stragglers exactly as Hound prints it: slow, to read beside the paper.

P. Zheng, B. C. Lee: *Hound: Causal Learning for Datacenter-scale Straggler Diagnosis*, SIGMETRICS
2018. Its base learners (§3.1) are in :mod:`iqcar.papers.hound_learners`; here are algorithms 3 and
4. Our own method, and why it leaves the paper: docs/topics.md.

Symbols: C `profiles`, V the words K₁(+), K₁(−), K₂(+), …, W `WORDS`, k_min `LEAST_TOPICS`, ε
`COVERAGE`, η `TRIM`, λ `BALANCE`; β, θ `topics`, `mixtures` of :class:`PrintedModel`; E, 𝒫ℰ those
of :class:`PrintedEnsemble`; PPE, PDE, PCE `of_model`. A job is a stage with 20 tasks or more (§4.1)
and a straggler, over 1.5 times the median (§1); its metrics are our features, not table 3's.

Where the print leaves a choice:

- Algorithm 3 names no inference, table 22 variational Bayes, online. Taken: all documents at once,
  priors 1 / k.
- Coverage is printed as a sum over j of θ of "the j-th topic in D_i", which counts a job's topics.
  Taken: the jobs that have the topic. A job without any effect is an empty document.
- The topic that ends the growing is in the output. Nothing else ends it: `MOST_TOPICS` does.
- Trimming may leave nothing: such a topic has no words, such a job no cause.
- Algorithm 4 prints neither linkage, nor m₁ and m₂, nor the similarity inside a cluster of one.
  Average linkage, any number of clusters from 2 on, means over clusters, and 0 for a cluster of one
  make of tables 14 to 16 the clusters of table 4; with 1 for it, or over pairs, they do not.
- Centroids are trimmed, as table 4 shows. E₆ of table 4 cannot be had from its own members.
- Table 5 has what tables 17 and 18 give if topics of one name are added before trimming; algorithm
  4 trims topics. Taken: the algorithm. Table 18 mixes up the names of its first two causes.
- Of table 5, limited processor is in three jobs of six; the text says 33.3 %. Table 6 has 45 % of
  jobs with fewer than three causes; the text says more than 80 %.

Paper: Hound | algorithm 3, §5.1: coverage | exact; documents at once, at most 30 topics |
  tests/papers/test_hound_printed.py
Paper: Hound | algorithm 4, tables 4, 17, 18 | exact | tests/papers/test_hound_printed.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.topics.analyse_job import known_values
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_model import average_linkage, cosine, score
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.enums import BaseModel
from iqcar.papers.hound_learners import PRINTED, PrintedLearner
from iqcar.tables.arrays import Floats, Ints, share_of
from iqcar.tables.declarations import TableSpec, declare

LEAST_TOPICS = 5
COVERAGE = 0.05
TRIM = 0.1
WORDS = 500
BALANCE = 2 / 3
MOST_TOPICS = 30
"""The paper has at most 15 (appendix G)."""
MOST_TASKS = 400
"""Tasks of a job that are drawn at most: "sampling reduces cost" (§3.1)."""
PASSES, STEPS = 50, 20
"""Of the inference: over all documents, and over each document in one of them."""
ENSEMBLE = "ensemble"

Member: TypeAlias = tuple[int, int]
"""A model and a topic of it."""

PRINTED_TOPICS = TableSpec(
    "printed_topics",
    "One row per keyword of a topic that Hound as printed finds (tables 4 and 14 to 16). Of a"
    " topic that a job has and no keyword is left of, there is one row without a word.",
    declare(
        ("model", "str", "", "Kind of base learner, or ensemble."),
        ("topic", "int32", "", "Number of the topic among the model's."),
        ("word", "str", "", "The metric, with (+) where stragglers have more, (-) less."),
        ("weight", "float64", "", "Its part of the topic; those of a topic sum to 1, or are 0."),
        ("cluster", "int32", "", "Topic of the ensemble that it became; −1 if it was rejected."),
        ("coverage", "float64", "", "Share of the jobs that have the topic."),
        ("dominant_coverage", "float64", "", "Share of the jobs of which it is over a half."),
    ),
)
PRINTED_MIXTURES = TableSpec(
    "printed_mixtures",
    "One row per job, model and topic in its mixture by Hound as printed (tables 17 and 18).",
    declare(
        ("stage", "int32", "row", "The job."),
        ("model", "str", "", "Kind of base learner, or ensemble."),
        ("topic", "int32", "", "Number of the topic among the model's."),
        ("share", "float64", "", "Part of the job's stragglers; those of a job sum to 1."),
    ),
)


class PrintedModel(NamedTuple):
    """Initial causal topics of one kind of base learners."""

    topics: Floats
    """(topics, words): β; rows sum to 1, or are 0 after trimming."""
    mixtures: Floats
    """(jobs, topics): θ; the same."""


class PrintedEnsemble(NamedTuple):
    """Causal topics."""

    topics: Floats
    mixtures: Floats
    members: list[list[Member]]
    """Of each causal topic: what it is the centroid of."""
    of_model: Floats
    """(models, jobs, topics): the models' mixtures in causal topics."""


def trim(weights: Floats, least: float = TRIM) -> Floats:
    """Drop what weighs less, and rescale each row to sum to one."""
    kept = np.where(weights >= least, weights, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    return share_of(kept, total)


def causality_profile(effects: Floats) -> Floats:
    """Return C: the sizes sum to one (§3.1), or are all 0."""
    finite = np.where(np.isfinite(effects), effects, 0.0)
    finite = finite / max(float(np.abs(finite).max(initial=0.0)), 1e-300)
    return finite / max(float(np.abs(finite).sum()), 1e-300)


def vocabulary(metrics: Sequence[str]) -> list[str]:
    """Return V (algorithm 3, initialize 1)."""
    return [f"{name}({sign})" for name in metrics for sign in "+-"]


def documents(profiles: Floats, rng: np.random.Generator, words: int = WORDS) -> Ints:
    """Draw each job's words from R (algorithm 3, initialize 2): (jobs, words) counts."""
    counts = np.zeros((len(profiles), 2 * profiles.shape[1]), np.int64)
    for job, profile in enumerate(profiles):
        chance = np.stack([np.maximum(profile, 0), np.maximum(-profile, 0)], axis=1).ravel()
        if chance.any():
            counts[job] = rng.multinomial(words, chance / chance.sum())
    return counts


def coverage(mixtures: Floats, more_than: float = 0.0) -> Floats:
    """Return by how many of the jobs a topic is had (algorithm 3, step 3), or dominates (§5.1)."""
    return np.asarray((mixtures > more_than).sum(axis=0) / max(len(mixtures), 1), np.float64)


DOMINANT = 0.5
"""A dominant cause explains the majority of a job's stragglers (§5.1)."""


def digamma(x: Floats) -> Floats:
    """Return ψ(x), x > 0, by its asymptotic series at x + 6."""
    far = x + 6
    shift = sum(1 / (x + n) for n in range(6))
    series = np.log(far) - 1 / (2 * far) - 1 / (12 * far**2) + 1 / (120 * far**4)
    return np.asarray(series - 1 / (252 * far**6) - shift, np.float64)


def lda(counts: Ints, k: int, rng: np.random.Generator) -> PrintedModel:
    """Infer β and θ by variational Bayes (Hoffman, Blei, Bach 2010)."""

    def weights(parameters: Floats) -> Floats:
        total = parameters.sum(axis=1, keepdims=True)
        return np.asarray(np.exp(digamma(parameters) - digamma(total)), np.float64)

    of_topic = rng.gamma(100.0, 0.01, (k, counts.shape[1]))
    for _ in range(PASSES):
        beta = weights(of_topic)
        of_job = np.ones((len(counts), k))
        for _ in range(STEPS):
            theta = weights(of_job)
            ratio = counts / (theta @ beta + 1e-100)
            of_job = 1 / k + theta * (ratio @ beta.T)
        of_topic = 1 / k + beta * (theta.T @ ratio)
    means = (one / one.sum(axis=1, keepdims=True) for one in (of_topic, of_job))
    return PrintedModel(*means)


def meta_learn(profiles: Floats, rng: np.random.Generator) -> PrintedModel:
    """Find initial causal topics in the causality profiles of one kind of learners (algorithm 3).

    profiles: (jobs, metrics).
    """
    counts = documents(profiles, rng)
    said = counts.any(axis=1)
    mixtures = np.zeros((len(counts), 0))
    topics = np.zeros((0, counts.shape[1]))
    for k in range(LEAST_TOPICS, MOST_TOPICS + 1) if said.any() else ():
        found = lda(counts[said], k, rng)
        topics, mixtures = trim(found.topics), np.zeros((len(counts), k))
        mixtures[said] = trim(found.mixtures)
        if (coverage(mixtures[said]) < COVERAGE).any():
            break
    return PrintedModel(topics, mixtures)


def cluster_topics(models: Sequence[PrintedModel]) -> list[list[Member]]:
    """Cluster all initial topics; the number of clusters has the highest SCORE (algorithm 4, I)."""
    members = [
        (m, t) for m, one in enumerate(models) for t, row in enumerate(one.topics) if row.any()
    ]
    if len(members) < 2:
        return [[one] for one in members]
    alike = cosine(np.array([models[m].topics[t] for m, t in members]))
    levels = average_linkage(alike)
    scores = {number: score(alike, levels[number], BALANCE) for number in levels if number > 1}
    best = max(scores, key=lambda number: (scores[number], number))
    return [
        [members[i] for i in np.flatnonzero(levels[best] == cluster)] for cluster in range(best)
    ]


def ensemble(models: Sequence[PrintedModel]) -> PrintedEnsemble:
    """Reconcile topics and mixtures of several models of the same jobs (algorithm 4)."""
    kept = [one for one in cluster_topics(models) if len({m for m, _ in one}) > 1]
    width = models[0].topics.shape[1]
    centroids = [np.mean([models[m].topics[t] for m, t in one], axis=0) for one in kept]
    topics = trim(np.array(centroids).reshape(len(kept), width))
    of_model = np.zeros((len(models), len(models[0].mixtures), len(kept)))
    for topic, one in enumerate(kept):
        for m, t in one:
            of_model[m, :, topic] += models[m].mixtures[:, t]
    return PrintedEnsemble(topics, trim(of_model.mean(axis=0)), kept, of_model)


class PrintedHound(NamedTuple):
    """What is found in the jobs of some logs."""

    topics: pd.DataFrame
    """``PRINTED_TOPICS``: first the ensemble's."""
    mixtures: pd.DataFrame
    """``PRINTED_MIXTURES``."""


def printed_topics(
    features: TaskFeatures,
    learners: Mapping[BaseModel, PrintedLearner] = PRINTED,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PrintedHound:
    """Learn from all jobs, and find what recurs.

    features: of the tasks of event logs or of a trace.
    learners: those of §3.1 or of appendix F.
    progress: called with the jobs done and the jobs in all.
    """
    jobs = Jobs.from_tasks(features, TopicSettings())
    rng = np.random.default_rng(seed)
    profiles = np.zeros((len(learners), len(jobs), len(jobs.names)))
    for number, job in enumerate(jobs):
        x, y = known_values(job.metrics).T, job.latency_ms
        if len(y) > MOST_TASKS:
            drawn = rng.choice(len(y), MOST_TASKS, replace=False)
            x, y = x[drawn], y[drawn]
        for m, learner in enumerate(learners.values()):
            profiles[m, number] = causality_profile(learner(x, y, rng))
        if progress is not None:
            progress(number + 1, len(jobs))
    models = [meta_learn(one, rng) for one in profiles]
    return _laid_out(jobs, list(learners), models, ensemble(models))


def _laid_out(
    jobs: Jobs, kinds: Sequence[BaseModel], models: Sequence[PrintedModel], found: PrintedEnsemble
) -> PrintedHound:
    cluster_of = {one: number for number, of in enumerate(found.members) for one in of}
    words = vocabulary(jobs.names)
    rows: list[tuple[object, ...]] = []
    shares: list[tuple[object, ...]] = []
    named = [(ENSEMBLE, PrintedModel(found.topics, found.mixtures))]
    named += [(str(kind), model) for kind, model in zip(kinds, models, strict=True)]
    for m, (name, model) in enumerate(named, -1):
        has, dominates = coverage(model.mixtures), coverage(model.mixtures, DOMINANT)
        for topic, weights in enumerate(model.topics):
            cluster = topic if m < 0 else cluster_of.get((m, topic), -1)
            order = np.argsort(-weights, kind="stable")
            kept = [(words[word], weights[word]) for word in order if weights[word] > 0]
            if has[topic] > 0 and not kept:
                kept = [("", 0.0)]
            about = (cluster, has[topic], dominates[topic])
            rows.extend((name, topic, *keyword, *about) for keyword in kept)
        for job, mixture in enumerate(model.mixtures):
            order = np.argsort(-mixture, kind="stable")
            had = (topic for topic in order if mixture[topic] > 0)
            shares.extend((jobs.stage[job], name, topic, mixture[topic]) for topic in had)
    return PrintedHound(_frame(PRINTED_TOPICS, rows), _frame(PRINTED_MIXTURES, shares))


def _frame(spec: TableSpec, rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    if not rows:
        return spec.empty()
    columns = zip(*rows, strict=True)
    return spec.frame({c.name: list(v) for c, v in zip(spec.columns, columns, strict=True)})
