"""Hound's base learners with scikit-learn: the reference for accuracy and for time."""

from __future__ import annotations

from pathlib import Path

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
