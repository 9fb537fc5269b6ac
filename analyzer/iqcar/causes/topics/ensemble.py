"""Finds the topics that several models agree on, and their mixture per job (algorithm 4).

Paper: Hound | algorithm 4 | exact clusters; mixtures then straggler by straggler |
  tests/causes/topics/test_topic_model.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from iqcar.causes.topics.topic_model import TopicModel, trimmed
from iqcar.tables.arrays import Floats, Ints, share_of


@dataclass
class TopicEnsemble:
    """Clusters the topics of several models by cosine similarity; keeps what two models found.

    topics_: (topics, words) rows sum to 1; the topic that weighs most in all jobs first.
    mixtures_: (jobs, topics) rows sum to 1; zeros for a job of which no kept topic was found.
    members_: per topic the (model, topic) pairs it was made of.
    rejected_: (model, topic) pairs that only one model found.
    agreement_: (jobs,) how alike the models' mixtures are: 1 less their mean total variation; NaN
        where fewer than two models say anything.
    scores_: dict of the number of clusters to SCORE.
    """

    trim: float = 0.1
    balance: float = 2 / 3
    topics_: Floats = field(init=False, repr=False)
    mixtures_: Floats = field(init=False, repr=False)
    members_: list[list[tuple[int, int]]] = field(init=False, repr=False)
    rejected_: list[tuple[int, int]] = field(init=False, repr=False)
    agreement_: Floats = field(init=False, repr=False)
    scores_: dict[int, float] = field(init=False, repr=False)

    def fit(self, models: Sequence[TopicModel]) -> TopicEnsemble:
        """Reconcile fitted topic models of the same jobs and words."""
        topic_of = [(m, t) for m, model in enumerate(models) for t in range(len(model.topics_))]
        model = np.array([m for m, _ in topic_of], np.int64)
        vectors = np.concatenate([member.topics_ for member in models])
        cluster = self._clusters(vectors, model)
        clusters = [np.flatnonzero(cluster == c) for c in range(int(cluster.max(initial=-1)) + 1)]
        kept = [member for member in clusters if len(np.unique(model[member])) > 1]
        self.rejected_ = [
            topic_of[i] for member in clusters if len(np.unique(model[member])) == 1 for i in member
        ]
        centroids = [
            trimmed(vectors[member].mean(axis=0, keepdims=True), self.trim) for member in kept
        ]
        width = vectors.shape[1]
        topics = np.concatenate(centroids) if centroids else np.zeros((0, width))
        members = [[topic_of[i] for i in member] for member in kept]
        mixtures, self.agreement_ = self._mixtures(models, members)
        self.topics_, self.members_ = topics, members
        return self.remix(mixtures)

    def remix(self, mixtures: Floats) -> TopicEnsemble:
        """Take these mixtures, trimmed; topics are put in their order, which does not matter else.

        mixtures: (jobs, topics) rows sum to 1 or are zeros.
        """
        kept = trimmed(mixtures, self.trim)
        order = np.lexsort((*(self.topics_.T[::-1]), -kept.sum(axis=0).round(9)))
        self.topics_, self.mixtures_ = self.topics_[order], kept[:, order]
        self.members_ = [self.members_[i] for i in order]
        return self

    def _clusters(self, vectors: Floats, model: Ints) -> Ints:
        """Cluster of each topic: of all numbers of clusters, the one with the highest SCORE."""
        if len(vectors) < 2:
            self.scores_ = {}
            return np.zeros(len(vectors), np.int64)
        alike = cosine(vectors)
        # With fewer clusters than most models have topics, topics that most tell apart are mixed.
        least = int(np.median(np.unique(model, return_counts=True)[1]))
        levels = average_linkage(alike)
        self.scores_ = {
            m: score(alike, levels[m], self.balance) for m in range(max(least, 1), len(vectors) + 1)
        }
        best = max(self.scores_, key=lambda m: (round(self.scores_[m], 12), m))
        return levels[best]

    def _mixtures(
        self, models: Sequence[TopicModel], members: list[list[tuple[int, int]]]
    ) -> tuple[Floats, Floats]:
        """Phase II: each model's mixture in terms of the kept topics; then their mean."""
        jobs = len(models[0].mixtures_)
        each = np.zeros((len(models), jobs, len(members)))
        for e, topics in enumerate(members):
            for m, t in topics:
                each[m, :, e] += models[m].mixtures_[:, t]
        total = each.sum(axis=2, keepdims=True)
        says = total[:, :, 0] > 0
        each = share_of(each, total)
        mixtures = each.sum(axis=0) / np.maximum(says.sum(axis=0), 1)[:, None]
        apart, pairs = np.zeros(jobs), np.zeros(jobs)
        for a in range(len(models)):
            for b in range(a):
                both = says[a] & says[b]
                apart += np.where(both, np.abs(each[a] - each[b]).sum(axis=1) / 2, 0.0)
                pairs += both
        agreement = np.where(pairs > 0, 1.0 - apart / np.maximum(pairs, 1), np.nan)
        return mixtures, agreement


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
    same = cluster[:, None] == cluster[None, :]
    other = ~np.eye(len(cluster), dtype=bool)
    inside = []
    for c in range(int(cluster.max()) + 1):
        members = cluster == c
        pairs = members[:, None] & members[None, :] & other
        inside.append(float(alike[pairs].mean()) if pairs.any() else 0.0)
    between = float(alike[~same].mean()) if (~same).any() else 0.0
    return balance * float(np.mean(inside)) + (1.0 - balance) * (1.0 - between)
