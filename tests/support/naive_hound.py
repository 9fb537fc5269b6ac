"""Hound's algorithms straight from the paper, slow and plain: the fast ones must agree."""

from __future__ import annotations

import math

import numpy as np


def schweizer_wolff(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """SWD and L1 − L2 by looking at all pairs (§3.1)."""
    n = len(x)
    u = np.array([(x <= value).sum() / n for value in x])
    v = np.array([(y <= value).sum() / n for value in y])
    distance = low = high = 0.0
    for i in range(n):
        for j in range(n):
            copula = ((x <= x[i]) & (y <= y[j])).sum() / n
            distance += abs(copula - u[i] * v[j])
            low += min(u[i], v[j]) - copula
            high += copula - max(u[i] + v[j] - 1, 0)
    return 12.0 * distance / (n * n - 1), (low - high) / n**2


def average_linkage(alike: np.ndarray, wanted: int) -> list[set[int]]:
    """Merge the two clusters that are most alike on average, until so many are left."""
    clusters = [{i} for i in range(len(alike))]
    while len(clusters) > wanted:
        pairs = [
            (np.mean([alike[i, j] for i in a for j in b]), -m, -n)
            for m, a in enumerate(clusters)
            for n, b in enumerate(clusters)
            if m < n
        ]
        _, m, n = max(pairs)
        clusters[-m] |= clusters[-n]
        del clusters[-n]
    return clusters


def score(alike: np.ndarray, clusters: list[set[int]], balance: float) -> float:
    """SCORE of algorithm 4; a cluster of one has no similarity inside."""
    inside = [
        np.mean([alike[i, j] for i in c for j in c if i != j]) if len(c) > 1 else 0.0
        for c in clusters
    ]
    between = [alike[i, j] for a in clusters for b in clusters if a is not b for i in a for j in b]
    return balance * np.mean(inside) + (1 - balance) * (1 - (np.mean(between) if between else 0))


def rank_sum_p(values: np.ndarray, chosen: np.ndarray) -> float:
    """Two-sided p-value of the rank-sum test, by the normal law, ties corrected (§5.2)."""
    n, n1 = len(values), int(chosen.sum())
    rank = np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])
    ties = sum(c**3 - c for c in np.unique(values, return_counts=True)[1].astype(float))
    variance = n1 * (n - n1) / 12 * (n + 1 - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0
    z = (rank[chosen].sum() - n1 * (n + 1) / 2) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def mean_quartile_difference(values: np.ndarray, chosen: np.ndarray) -> float:
    """Mean over the quartiles of the chosen's less the others' (§5.2), scaled."""
    low, high = np.percentile(values, (25, 75))
    one, other = (np.percentile(part, (25, 50, 75)) for part in (values[chosen], values[~chosen]))
    return float((one - other).mean()) / ((high - low) or values.std() or 1.0)


def deviations(x: np.ndarray, slow: np.ndarray, farthest: float) -> tuple[np.ndarray, np.ndarray]:
    """How far tasks are from the normal ones' median in robust standard deviations."""
    away = np.zeros(x.shape)
    for j, column in enumerate(x.T):
        values = np.log(column) if column.min() > 0 else column / max(np.abs(column).max(), 1e-300)
        normal = values[~slow]
        low, middle, high = np.percentile(normal, (25, 50, 75))
        width = (high - low) / 1.3489795
        if width <= 1e-12:
            width = normal.std()
        off = values - middle
        away[:, j] = off / width if width > 1e-12 else np.sign(off) * 1e9
    away = np.clip(away, -farthest, farthest)
    return away[slow], away[~slow].T @ away[~slow] / (~slow).sum()


def responsibilities(
    stragglers: np.ndarray, normal: np.ndarray, keywords: np.ndarray, prior: np.ndarray,
    none: float, shift: float,
) -> np.ndarray:  # fmt: skip
    """Part that each topic has in each straggler, by expectation and maximisation as matrices."""
    length = np.sqrt(np.einsum("kp,pq,kq->k", keywords, normal, keywords))
    score = stragglers @ keywords.T / np.where(length > 1e-6, length, 1)
    likelier = np.exp(shift * score - shift**2 / 2)
    share = np.append(prior, none) / (prior.sum() + none)
    for _ in range(50):
        part = share * np.column_stack([likelier, np.ones(len(score))])
        part /= part.sum(axis=1, keepdims=True)
        better = (part.sum(axis=0) + np.append(prior, none)) / (len(score) + prior.sum() + none)
        moved = np.abs(better - share)[:-1].max()
        share = better
        if moved * len(score) < 1e-4:
            break
    return part[:, :-1]
