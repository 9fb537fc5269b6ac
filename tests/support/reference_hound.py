"""Hound as one would write it with scikit-learn: the reference for accuracy and for time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

CLIP = 0.05
JOBS, SEED = 120, 21
KEPT = Path(__file__).with_name("reference_profiles.npz")
"""The trace whose profiles are kept, and where: AdaBoost takes two seconds of a core a job."""


def profiles(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Causality profiles of one job: predictive, dependence, causal."""
    return [bagged_elastic_net(x, y), schweizer_wolff(x, y), boosted_effects(x, y)]


def bagged_elastic_net(x: np.ndarray, y: np.ndarray, replicates: int = 50) -> np.ndarray:
    """Algorithm 1; the penalty is chosen once by cross-validation."""
    from sklearn.linear_model import ElasticNet, ElasticNetCV
    from sklearn.model_selection import KFold

    z, r = _standardised(x), _standardised(y)
    folds = KFold(5, shuffle=True, random_state=0)  # tasks come in the order of their latency
    chosen = ElasticNetCV(l1_ratio=0.5, cv=folds).fit(z, r).alpha_
    rng = np.random.default_rng(0)
    coefs = []
    for _ in range(replicates):
        drawn = rng.integers(0, len(z), len(z))
        coefs.append(ElasticNet(alpha=chosen, l1_ratio=0.5).fit(z[drawn], r[drawn]).coef_)
    return _profile(np.mean(coefs, axis=0))


def schweizer_wolff(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """SSW over all pairs of tasks, as matrices."""
    n = len(y)
    found = []
    v = np.searchsorted(np.sort(y), y, side="right") / n
    below_y = (y[:, None] <= y[None, :]).astype(np.float64)
    for column in x.T:
        u = np.searchsorted(np.sort(column), column, side="right") / n
        copula = (column[:, None] <= column[None, :]).astype(np.float64).T @ below_y / n
        size = 12 / (n * n - 1) * np.abs(copula - np.outer(u, v)).sum()
        low = (np.minimum.outer(u, v) - copula).mean()
        high = (copula - np.maximum(np.add.outer(u, v) - 1, 0)).mean()
        found.append(np.sign(high - low) * size)
    return _profile(np.array(found))


def boosted_effects(x: np.ndarray, y: np.ndarray, rounds: int = 50) -> np.ndarray:
    """Algorithm 2 and Hájek's weights, each metric a treatment above its median."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    r = _standardised(y)
    effects = np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        treated = x[:, j] > np.median(x[:, j])
        if treated.all() or not treated.any():
            continue
        model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=rounds)
        rest = np.delete(x, j, 1)
        model.fit(rest, treated)
        # It gives 2 Σ wᵢ hᵢ / Σ wᵢ with weights wᵢ = 2 αᵢ: four times f over their sum.
        score = model.decision_function(rest) * model.estimator_weights_.sum() / 4
        e = np.clip(1 / (1 + np.exp(-2 * score)), CLIP, 1 - CLIP)
        one = np.average(r[treated], weights=1 / e[treated])
        effects[j] = one - np.average(r[~treated], weights=1 / (1 - e[~treated]))
    return _profile(effects)


def _standardised(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)


def _profile(effects: np.ndarray) -> np.ndarray:
    return effects / max(np.abs(effects).sum(), 1e-300)


class Topics(NamedTuple):
    """Topics of one model or of all, and the mixtures of jobs."""

    topics: np.ndarray
    """(topics, 2 × metrics) rows sum to 1: metrics raised, then metrics lowered."""
    mixtures: np.ndarray
    """(jobs, topics) rows sum to 1, or zeros."""


def documents(profile: np.ndarray, words: int, rng: np.random.Generator) -> np.ndarray:
    """Words drawn from each job's profile (algorithm 3, initialisation)."""
    weights = np.concatenate([np.maximum(profile, 0), np.maximum(-profile, 0)], axis=1)
    drawn = np.zeros(weights.shape, np.int64)
    for job, row in enumerate(weights.astype(np.float64)):
        if row.sum() > 0:
            drawn[job] = rng.multinomial(words, row / row.sum())
    return drawn


def meta_learner(
    profile: np.ndarray, *, least: int = 5, most: int = 30, coverage: float = 0.05,
    trim: float = 0.1, words: int = 500, sweeps: int = 100, seed: int = 0,
) -> Topics:  # fmt: skip
    """Algorithm 3: one more topic at a time, until one of them is of too few jobs."""
    from sklearn.decomposition import LatentDirichletAllocation

    counts = documents(profile, words, np.random.default_rng(seed))
    some = counts.any(axis=1)
    for k in range(least, most + 1):
        model = LatentDirichletAllocation(
            k, learning_method="batch", max_iter=sweeps, max_doc_update_iter=20, random_state=seed
        )
        mixtures = np.zeros((len(counts), k))
        mixtures[some] = _trimmed(model.fit_transform(counts[some]), trim)
        topics = _trimmed(model.components_ / model.components_.sum(axis=1, keepdims=True), trim)
        if ((mixtures[some] > 0).mean(axis=0) < coverage).any():
            break
    # A topic all of whose words are trivial says nothing.
    some_words = topics.any(axis=1)
    return Topics(topics[some_words], mixtures[:, some_words])


def ensemble(models: list[Topics], *, trim: float = 0.1, balance: float = 2 / 3) -> Topics:
    """Algorithm 4: clusters of topics by average linkage, and the mean of the models' mixtures."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics.pairwise import cosine_similarity

    model = np.concatenate([np.full(len(one.topics), m) for m, one in enumerate(models)])
    vectors = np.concatenate([one.topics for one in models])
    alike = cosine_similarity(vectors)
    # The paper does not say what m₁ and m₂ are: from as many as a model has topics to all apart.
    fewest = int(np.median([len(one.topics) for one in models]))
    best, clusters = -np.inf, np.arange(len(vectors))
    for m in range(fewest, len(vectors) + 1):
        labels = AgglomerativeClustering(m, metric="cosine", linkage="average").fit_predict(vectors)
        score = balance * _inside(alike, labels) + (1 - balance) * (1 - _between(alike, labels))
        if score > best:
            best, clusters = score, labels
    kept = [c for c in np.unique(clusters) if len(set(model[clusters == c])) > 1]
    topics = np.array([_trimmed(vectors[clusters == c].mean(axis=0)[None], trim)[0] for c in kept])
    mixtures = np.zeros((len(models[0].mixtures), len(kept)))
    for m, one in enumerate(models):
        mine = np.stack(
            [one.mixtures[:, clusters[model == m] == c].sum(axis=1) for c in kept], axis=1
        )
        mixtures += mine / np.maximum(mine.sum(axis=1, keepdims=True), 1e-12) / len(models)
    total = mixtures.sum(axis=1, keepdims=True)
    return Topics(topics, _trimmed(mixtures / np.maximum(total, 1e-12), trim))


def hound(each: np.ndarray, *, sweeps: int = 100, seed: int = 0) -> Topics:
    """Algorithms 3 and 4 on the profiles of all kinds of learners, (kinds, jobs, metrics)."""
    return ensemble([meta_learner(profile, sweeps=sweeps, seed=seed) for profile in each])


def _inside(alike: np.ndarray, labels: np.ndarray) -> float:
    """H₁; a cluster of one has no similarity inside."""
    found = []
    for c in np.unique(labels):
        pairs = alike[np.ix_(labels == c, labels == c)][np.triu_indices((labels == c).sum(), 1)]
        found.append(pairs.mean() if len(pairs) else 0.0)
    return float(np.mean(found))


def _between(alike: np.ndarray, labels: np.ndarray) -> float:
    """H₂."""
    apart = labels[:, None] != labels[None, :]
    return float(alike[apart].mean()) if apart.any() else 0.0


def _trimmed(weights: np.ndarray, least: float) -> np.ndarray:
    kept = np.where(weights >= least, weights, 0)
    return kept / np.maximum(kept.sum(axis=1, keepdims=True), 1e-12)
