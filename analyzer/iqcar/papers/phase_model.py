"""Fits a hidden Markov model with Gaussian evidence, and finds the most likely states.

The phases of "More intervention now!" (§4), after Rabiner (1986). The hidden state of each interval
is its phase; the evidence is what it spent its time on. The model is fitted by expectation
maximisation (Baum–Welch) over all tasks; each gets its Viterbi path.

Paper: Intervention | §4: phases | exact | tests/model/waits/test_phases.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Flags, Floats, Ints

STATES = 3
ROUNDS = 30
LEAST_VARIANCE = 1e-3
"""Shares are between 0 and 1: a state whose evidence never varies would rule out all else."""
GAIN = 1e-4
"""Mean log-likelihood per interval that another round must gain."""
FITTED = 20_000
"""Intervals that the model is fitted on, those of the first tasks."""
AT_ONCE = 4_096
"""Tasks whose paths are computed together."""


class PhaseModel(NamedTuple):
    """A hidden Markov model."""

    start: Floats
    """Of shape (n_states,)."""
    move: Floats
    """(n_states, n_states): probability of the column after the row."""
    mean: Floats
    variance: Floats
    """Of shape (n_states, n_parts)."""


def most_likely_states(evidence: Floats, first: Ints) -> tuple[Ints, Floats]:
    """Fit the model and return the most likely state of each interval.

    ``evidence``, (n_intervals, n_parts): intervals of one task follow one another. ``first``,
    (n_tasks,): position of the first interval of each task. Returns the states, (n_intervals,),
    and their means, (n_states, n_parts).
    """
    lengths = np.diff(np.append(first, len(evidence)))
    some = max(int(np.searchsorted(np.cumsum(lengths), FITTED)), 1)
    model, _ = fit(evidence, first[:some], lengths[:some])
    state = np.zeros(len(evidence), np.int64)
    for begin in range(0, len(first), AT_ONCE):
        mine = slice(begin, begin + AT_ONCE)
        rows, there = _padded(first[mine], lengths[mine])
        path = _viterbi(model, evidence[rows], there)
        state[rows[there]] = path[there]
    return state, model.mean


def fit(evidence: Floats, first: Ints, lengths: Ints) -> tuple[PhaseModel, list[float]]:
    """Fit by expectation maximisation; also the log-likelihood before each round, which rises."""
    rows, there = _padded(first, lengths)
    seen = evidence[rows]
    model = _beginning(evidence[rows[there]])
    history: list[float] = []
    count = int(there.sum())
    for _ in range(ROUNDS):
        model, likelihood = _round(model, seen, there)
        history.append(likelihood)
        if len(history) > 1 and history[-1] - history[-2] < GAIN * count:
            break
    return model, history


def _padded(first: Ints, lengths: Ints) -> tuple[Ints, Flags]:
    """Positions of each task's intervals as a rectangle, and which of them are there."""
    step = np.arange(int(lengths.max()))
    there = step < lengths[:, None]
    return np.where(there, first[:, None] + step, first[:, None]), there


def _beginning(seen: Floats) -> PhaseModel:
    """States around the most frequent dominating parts; then the largest differences."""
    parts = seen.shape[1]
    dominates = np.bincount(seen.argmax(axis=1), minlength=parts)
    mean = np.full((STATES, parts), 0.5 / parts)
    mean[np.arange(STATES), np.argsort(-dominates, kind="stable")[:STATES]] += 0.5
    variance = np.full((STATES, parts), max(float(seen.var()), LEAST_VARIANCE))
    move = np.full((STATES, STATES), 0.2 / (STATES - 1)) + np.eye(STATES) * (
        0.8 - 0.2 / (STATES - 1)
    )
    return PhaseModel(np.full(STATES, 1 / STATES), move, mean, variance)


def _log_evidence(model: PhaseModel, seen: Floats) -> Floats:
    """Log density of each interval in each state: (tasks, steps, states)."""
    off = seen[:, :, None, :] - model.mean
    density: Floats = -0.5 * (off**2 / model.variance + np.log(2 * np.pi * model.variance)).sum(-1)
    return density


def _round(model: PhaseModel, seen: Floats, there: Flags) -> tuple[PhaseModel, float]:
    """One round of Baum–Welch over all tasks at once, scaled at each step."""
    logs = _log_evidence(model, seen)
    highest = logs.max(axis=-1, keepdims=True)
    density = np.exp(logs - highest)
    tasks, steps, states = density.shape
    forward, scale = np.zeros(density.shape), np.ones((tasks, steps))
    for t in range(steps):
        before = model.start if t == 0 else forward[:, t - 1] @ model.move
        now = before * density[:, t]
        scale[:, t] = np.where(there[:, t], now.sum(axis=1), 1.0)
        kept = forward[:, t - 1] if t else now
        forward[:, t] = np.where(there[:, t, None], now / scale[:, t, None], kept)
    backward = np.ones(density.shape)
    for t in range(steps - 2, -1, -1):
        after = (density[:, t + 1] * backward[:, t + 1]) @ model.move.T / scale[:, t + 1, None]
        backward[:, t] = np.where(there[:, t + 1, None], after, 1.0)
    chance = forward * backward * there[:, :, None]
    chance /= np.maximum(chance.sum(axis=-1, keepdims=True), 1e-300)
    chance *= there[:, :, None]
    pairs = np.zeros((states, states))
    for t in range(steps - 1):
        weight = np.where(there[:, t + 1], 1.0 / scale[:, t + 1], 0.0)[:, None]
        pairs += (forward[:, t] * weight).T @ (density[:, t + 1] * backward[:, t + 1])
    move = pairs * model.move
    whole = chance.sum(axis=(0, 1))
    mean = np.einsum("nts,ntp->sp", chance, seen) / np.maximum(whole, 1e-12)[:, None]
    square = np.einsum("nts,ntp->sp", chance, seen**2) / np.maximum(whole, 1e-12)[:, None]
    used = whole > 1e-6
    fitted = PhaseModel(
        chance[:, 0].sum(axis=0) / tasks,
        np.where(
            move.sum(axis=1, keepdims=True) > 0,
            move / np.maximum(move.sum(axis=1, keepdims=True), 1e-300),
            model.move,
        ),
        np.where(used[:, None], mean, model.mean),
        np.where(used[:, None], np.maximum(square - mean**2, LEAST_VARIANCE), model.variance),
    )
    likelihood = float((np.log(scale) + highest[:, :, 0])[there].sum())
    return fitted, likelihood


def _viterbi(model: PhaseModel, seen: Floats, there: Flags) -> Ints:
    """Most likely path of each task: (tasks, steps)."""
    logs = _log_evidence(model, seen)
    tiny = np.finfo(np.float64).tiny
    move = np.log(np.maximum(model.move, tiny))
    tasks, steps, states = logs.shape
    came = np.zeros((tasks, steps, states), np.int64)
    best = np.log(np.maximum(model.start, tiny)) + logs[:, 0]
    for t in range(1, steps):
        options = best[:, :, None] + move
        came[:, t] = np.where(there[:, t, None], options.argmax(axis=1), np.arange(states))
        best = np.where(there[:, t, None], options.max(axis=1) + logs[:, t], best)
    path = np.zeros((tasks, steps), np.int64)
    path[:, -1] = best.argmax(axis=1)
    for t in range(steps - 1, 0, -1):
        path[:, t - 1] = came[np.arange(tasks), t, path[:, t]]
    return path
