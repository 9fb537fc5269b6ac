"""Finds topics that recur in the profiles of many jobs, and those that two kinds of profiles have.

A topic model by expectation and maximisation, with LDA's priors at their mode. It grows a topic
at a time from what the last one explains worst, so nothing is drawn and nothing is restarted.
Documents hold expected counts of words instead of words drawn at random.

Paper: Hound | algorithm 3 | leaves it: expected counts, topics grown one by one |
  tests/causes/topics/test_topic_model.py
Paper: Hound | algorithm 4 | exact clusters; mixtures then straggler by straggler |
  tests/causes/topics/test_topic_model.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.tables.arrays import Flags, Floats, Ints, share_of

TINY = 1e-12
"""Nothing is less probable than this: what is 0 once would stay it."""
MAX_SWEEPS = 200
"""Sweeps after each new topic at most; most end after some dozens."""
TOLERANCE = 1e-5
"""A sweep that moves nothing by more than this is the last: no word of a topic, or no mixture."""
SEED_SHARE = 0.5
"""Part of every job that a new topic starts with: enough to grow, wherever it belongs."""
PATIENCE = 4
"""Growing ends with so many words that made a topic of too few jobs; the paper stops at one."""
MOST_GROWN = 2000
"""Jobs that topics are grown from at most, evenly chosen of all kinds of profiles: a coverage of
5 % is then known to half a percent. The mixtures of the others are found with these topics."""


class TopicModel(NamedTuple):
    """Topics of profiles, and which job has which."""

    topics: Floats
    """(topics, words) weights of words, rows sum to 1; metric j raised is word j, lowered it is
    word j + metrics."""
    mixtures: Floats
    """(jobs, topics) rows sum to 1; zeros for a job without a profile."""


def fit_topics(profiles: Floats, settings: TopicSettings) -> TopicModel:
    """Find topics.

    profiles: (jobs, metrics); a job's sizes sum to 1 or are all 0.
    """
    all_words = words_of(profiles)
    some, used = all_words.any(axis=1), all_words.any(axis=0)
    kept = all_words[some][:, used]
    order = np.lexsort((np.zeros(len(kept)), *kept.T[::-1]))
    documents = kept[order]  # so that sums do not depend on the order of jobs, to the bit
    # In this order, documents at even distances are a selection of all kinds.
    some_of = min(len(documents), MOST_GROWN)
    chosen = np.linspace(0, len(documents) - 1, some_of).astype(np.int64)
    found, mixtures = _grow(documents[chosen], settings)
    if some_of < len(documents):
        even = np.full((len(documents), len(found)), 1.0 / len(found))
        _, mixtures = _improved(documents, found, even, settings, topics_stay=True)
    topics = np.zeros((len(found), all_words.shape[1]))
    topics[:, used] = trimmed(found, settings.trim)
    of_order, of_job = np.zeros_like(mixtures), np.zeros((len(profiles), len(found)))
    of_order[order] = trimmed(mixtures, settings.trim)
    of_job[some] = of_order
    return TopicModel(topics, of_job)


def _grow(documents: Floats, settings: TopicSettings) -> tuple[Floats, Floats]:
    """Add topics until some of them are of too few jobs; leave those out."""
    jobs, width = documents.shape
    if not jobs:
        return np.zeros((0, width)), np.zeros((0, 0))
    most = min(settings.most_topics, width, jobs)
    topics, mixtures = documents.mean(axis=0, keepdims=True), np.ones((jobs, 1))
    tried = np.zeros(width, bool)
    failures = 0
    while len(topics) < most and failures < PATIENCE:
        missing = float(np.abs(documents - mixtures @ topics).sum(axis=1).mean()) / 2
        if missing < settings.trim:  # one more topic would tell trivial words apart
            break
        more, more_mixtures, word = _with_one_more(documents, topics, mixtures, tried)
        more, more_mixtures = _improved(documents, more, more_mixtures, settings)
        enough = len(more) >= min(settings.least_topics, most)
        if enough and (_covered(more_mixtures, settings) < settings.coverage).any():
            # Too few jobs have it: the others keep its jobs, and the next word is tried.
            failures += 1
            tried[word] = True
            continue
        topics, mixtures = more, more_mixtures
    while len(topics) > 1:
        covered = _covered(mixtures, settings)
        rarest = int(np.argmin(covered))
        if covered[rarest] >= settings.coverage:
            break
        topics = np.delete(topics, rarest, 0)
        mixtures = _normalised(np.delete(mixtures, rarest, 1) + TINY)
        topics, mixtures = _improved(documents, topics, mixtures, settings)
    return topics, mixtures


def _with_one_more(
    documents: Floats, topics: Floats, mixtures: Floats, tried: Flags
) -> tuple[Floats, Floats, int]:
    """Add a topic: the word least explained of those not tried, with what is missing beside it."""
    missing = np.maximum(documents - mixtures @ topics, 0.0)
    word = int(np.argmax(np.where(tried, -1.0, (missing * documents).sum(axis=0))))
    new = missing[:, word] @ missing
    if not new.sum() > 0:
        new = documents.mean(axis=0)
    topics = np.concatenate([topics, _normalised(new[None])])
    first = np.full((len(documents), 1), SEED_SHARE)
    return topics, np.concatenate([mixtures * (1.0 - SEED_SHARE), first], axis=1), word


def _improved(
    documents: Floats, topics: Floats, mixtures: Floats, settings: TopicSettings,
    *, topics_stay: bool = False,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Expectation and maximisation in turn (LDA at its mode, with priors 1 / topics)."""
    sparse = (1.0 - 1.0 / max(len(topics), 1)) / settings.words
    for _ in range(MAX_SWEEPS):
        words, shares = swept(documents, topics, mixtures, sparse)
        words = topics if topics_stay else words
        moved = shares - mixtures if topics_stay else words - topics
        topics, mixtures = words, shares
        if np.abs(moved).max(initial=0.0) < TOLERANCE:
            break
    return topics, mixtures


def swept(
    documents: Floats, topics: Floats, mixtures: Floats, sparse: float
) -> tuple[Floats, Floats]:
    """Improve topics and mixtures once.

    documents: (documents, words) shares.
    topics, mixtures: (topics, words) and (documents, topics); rows sum to 1.
    sparse: what the prior takes off each topic's share of a document.
    """
    ratio = documents / np.maximum(mixtures @ topics, TINY)
    shares = np.maximum(mixtures * (ratio @ topics.T) - sparse, TINY)
    return _normalised(topics * (mixtures.T @ ratio)), _normalised(shares)


def _covered(mixtures: Floats, settings: TopicSettings) -> Floats:
    share: Floats = (trimmed(mixtures, settings.trim) > 0).mean(axis=0)
    return share


def words_of(profiles: Floats) -> Floats:
    """Share of each word in a job's document: raised metrics first, then lowered ones."""
    return np.concatenate([np.maximum(profiles, 0.0), np.maximum(-profiles, 0.0)], axis=1)


def trimmed(weights: Floats, least: float) -> Floats:
    """Drop weights below the least and let the rest of each row sum to 1 again.

    A row whose weights are all below keeps the largest alone; a row of zeros stays.
    """
    largest = weights.max(axis=1, initial=0.0, keepdims=True)
    kept = np.where(weights >= np.minimum(least, largest), weights, 0.0)
    return _normalised(np.where(largest > 0, kept, 0.0))


def _normalised(weights: Floats) -> Floats:
    return share_of(weights, weights.sum(axis=1, keepdims=True))


def agreed_topics(models: Sequence[TopicModel], settings: TopicSettings) -> TopicModel:
    """Keep the topics that models of two kinds of profiles found (algorithm 4).

    A topic is the mean of a cluster of those most alike by cosine; a job's mixture is the mean of
    the models' in terms of the kept topics, zeros where no model has one.
    """
    topics = np.concatenate([model.topics for model in models])
    kind = np.repeat(np.arange(len(models)), [len(model.topics) for model in models])
    cluster = _clusters(topics, kind, settings.balance)
    of_cluster = cluster == np.arange(cluster.max(initial=-1) + 1)[:, None]
    kept = [members for members in of_cluster if len(np.unique(kind[members])) > 1]
    belongs = np.array(kept, np.float64).reshape(len(kept), len(topics))
    mixtures = np.zeros((len(models[0].mixtures), len(kept)))
    for number, model in enumerate(models):
        mixtures += _normalised(model.mixtures @ belongs[:, kind == number].T)
    mean = _normalised(belongs) @ topics
    return TopicModel(trimmed(mean, settings.trim), trimmed(_normalised(mixtures), settings.trim))


def _clusters(topics: Floats, kind: Ints, balance: float) -> Ints:
    """Cluster of each topic: of all numbers of clusters, the one with the highest SCORE."""
    if not len(topics):
        return np.zeros(0, np.int64)
    alike = cosine(topics)
    # With fewer clusters than most models have topics, topics that most tell apart are mixed.
    least = max(int(np.median(np.unique(kind, return_counts=True)[1])), 1)
    levels = {m: level for m, level in average_linkage(alike).items() if m >= least}
    best = max(levels, key=lambda m: (round(score(alike, levels[m], balance), 12), m))
    return levels[best]


def cosine(vectors: Floats) -> Floats:
    """Cosine similarity of every two rows."""
    length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    unit = vectors / np.maximum(length, 1e-300)
    alike: Floats = np.clip(unit @ unit.T, 0.0, 1.0)
    return alike


def average_linkage(alike: Floats) -> dict[int, Ints]:
    """Agglomerative clustering by average linkage: cluster of each item, for every number of them.

    alike: (items, items) similarities.
    """
    n = len(alike)
    groups = [[i] for i in range(n)]
    sums = alike.copy()
    levels = {n: np.arange(n)}
    while len(groups) > 1:
        size = np.array([len(g) for g in groups], np.float64)
        mean = sums / (size[:, None] * size[None, :])
        np.fill_diagonal(mean, -1.0)
        a, b = sorted(divmod(int(np.argmax(mean.round(12))), len(groups)))
        groups[a] += groups.pop(b)
        sums[a] += sums[b]
        sums[:, a] += sums[:, b]
        sums = np.delete(np.delete(sums, b, 0), b, 1)
        cluster = np.empty(n, np.int64)
        for c, members in enumerate(groups):
            cluster[members] = c
        levels[len(groups)] = cluster
    return levels


def score(alike: Floats, cluster: Ints, balance: float) -> float:
    """SCORE = λ H₁ + (1 − λ)(1 − H₂) of one clustering (algorithm 4).

    H₁ is the mean similarity inside clusters, averaged over clusters; a cluster of one has none,
    and counts as 0: agreement is what is looked for. H₂ is the mean similarity between clusters.
    """
    same = cluster[:, None] == cluster
    other = ~np.eye(len(cluster), dtype=bool)
    inside = []
    for c in range(int(cluster.max()) + 1):
        pairs = (cluster == c)[:, None] & same & other
        inside.append(float(alike[pairs].mean()) if pairs.any() else 0.0)
    between = float(alike[~same].mean()) if (~same).any() else 0.0
    return balance * float(np.mean(inside)) + (1.0 - balance) * (1.0 - between)
