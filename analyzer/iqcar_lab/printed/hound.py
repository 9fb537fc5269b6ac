"""Finds recurring causes of stragglers exactly as Hound prints it: slow, to read beside the paper.

P. Zheng, B. C. Lee: *Hound: Causal Learning for Datacenter-scale Straggler Diagnosis*, SIGMETRICS
2018. Our own method, and why it leaves the paper: docs/topics.md.

A learner (§3.1, algorithms 1 and 2) is a function of X, (tasks, metrics), and y,
(tasks,), to the effect of each metric. Symbols: I `REPLICATES`, `ROUNDS`; λ₁, λ₂ `ridge`, `lasso`;
C(u, v) `copula`; Z and e(X) `z`, `e`. Of algorithms 3 and 4: C `profiles`, V the words K₁(+),
K₁(−), K₂(+), …, W `WORDS`, k_min `LEAST_TOPICS`, ε `COVERAGE`, η `TRIM`, λ `BALANCE`; β, θ
`topics`, `mixtures` of :class:`PrintedModel`; E, 𝒫ℰ those of :class:`PrintedEnsemble`; PPE, PDE,
PCE `of_model`. A job is a stage with 20 tasks or more (§4.1) and a straggler, over 1.5 times the
median (§1); its metrics are our features, not table 3's.

Where the print leaves a choice:

- Algorithm 1 prints neither λ₁ and λ₂, nor I, nor an intercept. Taken: λ₂ = 2 λ₁, as λ₁ has the
  least error on five folds; 50; none, as metrics and latency are standardised first, which is how
  coefficients are "re-scaled" (§3.1). Its minimum is one, so coordinate descent stands for LARS-EN.
- SSW has the third case of its sign as L₂ − L₁ < ε, which holds for negative dependence, too.
  Taken: L₁ − L₂ < −ε. ε is not printed: 0.
- Algorithm 2's weak classifier is C4.5 (appendix G): a whole tree makes no error, and α no value.
  Taken: one split of fewest errors. No error, or nothing but errors, counts as half of one, and
  e(X) stays half a task from 0 and 1, where Δ has no value.
- Its ε is a share of M tasks x_m. Taken: of the M drawn, which it was trained on; of all tasks, D
  left out, e(X) would end near 0 and 1.
- §3.1 writes Z as 0 and 1, algorithm 2 as −1 and 1. "High" has no cut: above the median, here.
- Δ as printed is not divided by the sums of its weights, so that it depends on where latency's zero
  is, which is not printed. Taken: its mean; latency is standardised.
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

Paper: Hound | algorithm 1: BAE | exact; another solver of the same minimum |
  tests/lab/printed/test_hound_learners_printed.py
Paper: Hound | §3.1: SSW | exact; the sign's misprint mended |
  tests/lab/printed/test_hound_learners_printed.py
Paper: Hound | algorithm 2, IPW | exact; splits for C4.5 |
  tests/lab/printed/test_hound_learners_printed.py
Paper: Hound | algorithm 3, §5.1: coverage | exact; documents at once, at most 30 topics |
  tests/lab/printed/test_hound_printed.py
Paper: Hound | algorithm 4, tables 4, 17, 18 | exact | tests/lab/printed/test_hound_printed.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.enums import BaseModel
from iqcar.tables.arrays import Floats, Ints, share_of

PrintedLearner: TypeAlias = Callable[[Floats, Floats, np.random.Generator], Floats]
"""From X and y to the effects; draws from the generator."""
REPLICATES, ROUNDS = 50, 50
FOLDS = 5
PENALTIES = np.geomspace(1.0, 1e-3, 20)
"""λ₂ looked at, of the least that leaves no metric."""
SWEEPS = 100


def standardised(values: Floats) -> Floats:
    """Return columns with mean 0 and standard deviation 1; a constant column becomes zeros."""
    size = np.abs(values).max(axis=0, initial=0.0)
    scaled = values / np.where(size > 0, size, 1.0)
    centred = scaled - scaled.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-12  # what rounding leaves of a constant is no spread
    return np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)


def bagged_elastic_net(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Average the coefficients of bootstrap replicates (BAE, algorithm 1)."""
    x, y = standardised(x), standardised(y)
    lasso = _cross_validated(x, y, rng)
    fitted = []
    for _ in range(REPLICATES):
        drawn = rng.integers(len(y), size=len(y))
        fitted.append(elastic_net(x[drawn], y[drawn], lasso / 2, lasso))
    return np.asarray(np.mean(fitted, axis=0), np.float64)


def elastic_net(x: Floats, y: Floats, ridge: float, lasso: float) -> Floats:
    """Minimise ‖y − Xβ‖² + λ₁ ‖β‖² + λ₂ ‖β‖₁ (algorithm 1); ridge > 0."""
    gram, cross = x.T @ x, x.T @ y
    beta = np.zeros(len(cross))
    for _ in range(SWEEPS):
        before = beta.copy()
        for j in range(len(beta)):
            rest = cross[j] - gram[j] @ beta + gram[j, j] * beta[j]
            beta[j] = np.sign(rest) * max(abs(rest) - lasso / 2, 0.0) / (gram[j, j] + ridge)
        if np.abs(beta - before).max(initial=0.0) < 1e-5:
            break
    return beta


def _cross_validated(x: Floats, y: Floats, rng: np.random.Generator) -> float:
    """Return the λ₂ of least error on what it was not fitted to; 1 where nothing varies."""
    largest = 2 * float(np.abs(x.T @ y).max(initial=0.0))
    if largest == 0:
        return 1.0
    fold = rng.permutation(len(y)) % FOLDS
    errors = np.zeros(len(PENALTIES))
    for k in range(FOLDS):
        inside = fold != k
        for number, share in enumerate(PENALTIES):
            lasso = share * largest
            beta = elastic_net(x[inside], y[inside], lasso / 2, lasso)
            errors[number] += ((y[~inside] - x[~inside] @ beta) ** 2).sum()
    return largest * float(PENALTIES[np.argmin(errors)])


def schweizer_wolff(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Measure SSW of each metric with latency: 12 / (N² − 1) Σ |C − uv|, signed (§3.1)."""
    return np.array([ssw(column, y) for column in x.T])


def ssw(x: Floats, y: Floats, epsilon: float = 0.0) -> float:
    """Return SSW(X, Y) of observed pairs: in [−1, 1], unless many values are equal."""
    n = len(y)
    x_upto, y_upto = x[:, None] <= x[None, :], y[:, None] <= y[None, :]
    u, v = x_upto.mean(axis=0), y_upto.mean(axis=0)
    copula = x_upto.T.astype(np.float64) @ y_upto.astype(np.float64) / n
    swd = 12 / (n**2 - 1) * np.abs(copula - np.outer(u, v)).sum()
    l1 = (np.minimum.outer(u, v) - copula).mean()
    l2 = (copula - np.maximum(np.add.outer(u, v) - 1, 0)).mean()
    # Equal bounds differ by what rounding leaves.
    sign = 0.0 if abs(l1 - l2) <= max(epsilon, 1e-12) else float(np.sign(l2 - l1))
    return sign * float(swd)


def adaboost_ipw(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Estimate Δ of each metric's being high, the others held by boosted propensities (AIPW)."""
    found, r = np.zeros(x.shape[1]), standardised(y)
    for j, column in enumerate(x.T):
        high = column > np.median(column)
        if high.any():
            e = boosted_propensities(np.delete(x, j, 1), np.where(high, 1.0, -1.0), rng)
            found[j] = ipw(high.astype(np.float64), r, e)
    return found


def ipw(z: Floats, r: Floats, e: Floats) -> float:
    """Return Δ = E[ZR / e(X)] − E[(1 − Z) R / (1 − e(X))], Z being 0 or 1 (§3.1)."""
    return float((z * r / e).mean() - ((1 - z) * r / (1 - e)).mean())


def boosted_propensities(x: Floats, z: Floats, rng: np.random.Generator) -> Floats:
    """Return e(X) = P{Z = 1 | X} of each task, Z being −1 or 1 (algorithm 2)."""
    m = len(z)
    d, f = np.full(m, 1 / m), np.zeros(m)
    order = np.argsort(x, axis=0, kind="stable")
    for _ in range(ROUNDS):
        drawn = np.bincount(rng.choice(m, m, p=d), minlength=m)
        h = weak_classifier(x, z, drawn, order)
        error = float(np.clip(drawn[h != z].sum() / m, 0.5 / m, 1 - 0.5 / m))
        alpha = 0.5 * np.log((1 - error) / error)
        f += alpha * h
        d = d * np.exp(-alpha * z * h)
        d /= d.sum()
    return np.clip(1 / (1 + np.exp(-2 * f)), 0.5 / m, 1 - 0.5 / m)


def weak_classifier(x: Floats, z: Floats, drawn: Ints, order: Ints) -> Floats:
    """Return h(X) in {−1, 1}: the split with fewest errors on the drawn, or none.

    drawn: (tasks,) how often each was.
    order: (tasks, metrics) tasks by rising values.
    """
    weight = drawn * z
    upto = np.cumsum(weight[order], axis=0)
    rising = np.take_along_axis(x, order, 0)
    gain = weight.sum() - 2 * upto[:-1]  # of saying 1 above the cut, −1 up to it
    gain[rising[1:] == rising[:-1]] = 0.0
    if not gain.size or np.abs(gain).max() <= abs(weight.sum()):
        return np.full(len(z), 1.0 if weight.sum() >= 0 else -1.0)
    cut, metric = np.unravel_index(int(np.argmax(np.abs(gain))), gain.shape)
    side = 1.0 if gain[cut, metric] > 0 else -1.0
    return np.where(x[:, metric] > rising[cut, metric], side, -side)


PRINTED: Mapping[BaseModel, PrintedLearner] = {
    BaseModel.PREDICTIVE: bagged_elastic_net,
    BaseModel.DEPENDENCE: schweizer_wolff,
    BaseModel.CAUSAL: adaboost_ipw,
}
"""The learners of §3.1."""
LEAST_TOPICS = 5
COVERAGE = 0.05
TRIM = 0.1
WORDS = 500
BALANCE = 2 / 3
MOST_TOPICS = 30
"""The paper has at most 15 (appendix G)."""
MOST_TASKS = 400
"""Tasks of a job that are drawn at most: "sampling reduces cost" (§3.1)."""
LEAST_KNOWN = 0.5
"""Share of a job's tasks that have to know a metric."""
PASSES, STEPS = 50, 20
"""Of the inference: over all documents, and over each document in one of them."""
ENSEMBLE = "ensemble"

Member: TypeAlias = tuple[int, int]
"""A model and a topic of it."""


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
    largest = float(np.abs(finite).max(initial=0.0))
    scaled = finite / largest if largest else finite  # neither tiny nor huge effects overflow
    return share_of(scaled, np.abs(scaled).sum())


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


def lda(counts: Ints, k: int, rng: np.random.Generator) -> PrintedModel:
    """Infer β and θ by variational Bayes (Hoffman, Blei, Bach 2010)."""
    from scipy.special import digamma

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
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    rows = np.array([models[m].topics[t] for m, t in members])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    alike = np.clip(unit @ unit.T, 0.0, 1.0)
    tree = linkage(squareform(1 - alike, checks=False), "average")
    levels = {number: cut_tree(tree, number).ravel() for number in range(2, len(members) + 1)}
    best = max(levels, key=lambda number: (score(alike, levels[number]), number))
    return [
        [members[i] for i in np.flatnonzero(levels[best] == cluster)] for cluster in range(best)
    ]


def score(alike: Floats, cluster: Ints) -> float:
    """Return SCORE = λ H₁ + (1 − λ)(1 − H₂): mean similarity inside and between clusters."""
    same = cluster[:, None] == cluster
    other = ~np.eye(len(cluster), dtype=bool)
    members = [(cluster == c)[:, None] & same & other for c in np.unique(cluster)]
    inside = np.mean([alike[pairs].mean() if pairs.any() else 0.0 for pairs in members])
    between = alike[~same].mean() if (~same).any() else 0.0
    return float(BALANCE * inside + (1 - BALANCE) * (1 - between))


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
    """A row per keyword of a topic (tables 4 and 14 to 16), the ensemble's first: `model`, `topic`,
    `word` with (+) where stragglers have more, its `weight`, the `cluster` of the ensemble that the
    topic became (−1: rejected), the shares of jobs that have it and that it dominates. A topic that
    a job has and no keyword is left of has one row without a word."""
    mixtures: pd.DataFrame
    """A row per job, model and topic (tables 17 and 18): `stage`, `model`, `topic`, `share`."""


def printed_topics(
    features: TaskFeatures,
    learners: Mapping[BaseModel, PrintedLearner] = PRINTED,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PrintedHound:
    """Learn from all jobs, and find what recurs.

    features: of the tasks of event logs or of a trace.
    learners: by default those of §3.1.
    progress: called with the jobs done and the jobs in all.
    """
    jobs = Jobs.from_tasks(features, TopicSettings())
    rng = np.random.default_rng(seed)
    profiles = np.zeros((len(learners), len(jobs), len(jobs.names)))
    for number, job in enumerate(jobs):
        x, y = _filled(job.metrics), job.latency_ms
        if len(y) > MOST_TASKS:
            drawn = rng.choice(len(y), MOST_TASKS, replace=False)
            x, y = x[drawn], y[drawn]
        for m, learner in enumerate(learners.values()):
            profiles[m, number] = causality_profile(learner(x, y, rng))
        if progress is not None:
            progress(number + 1, len(jobs))
    models = [meta_learn(one, rng) for one in profiles]
    return _laid_out(jobs, list(learners), models, ensemble(models))


def _filled(metrics: Floats) -> Floats:
    """Put a metric's median where it is unknown; one that most tasks lack is 0 for all."""
    frame = pd.DataFrame(metrics)
    known = frame.notna().mean() >= LEAST_KNOWN
    return np.asarray(frame.fillna(frame.median()).where(known, 0.0, axis=1), np.float64)


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
    names = ["model", "topic", "word", "weight", "cluster", "coverage", "dominant_coverage"]
    return PrintedHound(
        pd.DataFrame(rows, columns=names),
        pd.DataFrame(shares, columns=["stage", "model", "topic", "share"]),
    )
