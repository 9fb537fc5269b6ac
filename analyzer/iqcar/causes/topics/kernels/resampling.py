"""Draws folds and bootstrap replicates as counts of each of a job's tasks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.uint16]

MOST_TASKS = 2048
"""Draws for jobs of more tasks are not kept: there are few such jobs."""
MOST_SIZES = 512
"""Sizes of jobs whose draws are kept at most: some 30 MB in all, jobs being mostly small."""


def folds_and_draws(tasks: int, folds: int, replicates: int, seed: int) -> Counts:
    """How often each task counts in each fold and in each replicate.

    Shape (folds + replicates, tasks) read-only.

    seed: the same for all jobs: those of as many tasks get the same draws.
    """
    draw = _kept if tasks <= MOST_TASKS else _drawn
    return draw(tasks, folds, replicates, seed)


def _drawn(tasks: int, folds: int, replicates: int, seed: int) -> Counts:
    fold = np.arange(tasks) % folds
    within = fold == np.arange(folds)[:, None]
    drawn = np.random.default_rng(seed).multinomial(
        tasks, np.full(tasks, 1.0 / tasks), size=replicates
    )
    counts = np.concatenate([within, drawn]).astype(np.uint16)
    counts.setflags(write=False)
    return counts


_kept = lru_cache(MOST_SIZES)(_drawn)
