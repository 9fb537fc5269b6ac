"""Traces of many jobs with planted causes of stragglers, in the shape of Google's (Hound table 2).

Metrics come in collinear groups. A job has 1 to 5 causes (table 6) with weights; each of its
stragglers has one of them, drawn by weight: the metrics of that cause's group are shifted and the
latency grows with the shift. Apart from stragglers, latency also depends a little on the metrics
of the job's causes, unless the cause is seen in the tail only. Latencies have heavy tails, some
metrics are only noise, some readings are wrong by an order of magnitude, and some are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import Feature, TaskFeatures
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.enums import FeatureKind

GROUPS = {
    "data skew": ("MEM_ASSIGN", "MEAN_MEM", "PEAK_MEM"),
    "page cache": ("PAGE_CACHE", "PAGE_CACHE_UM"),
    "disk space": ("DISK_SPACE",),
    "cpu": ("MEAN_CPU", "PEAK_CPU"),
    "io": ("MEAN_IO", "PEAK_IO"),
    "cache": ("CPI", "CACHE_MISS"),
    "queueing": ("SCHED_DELAY",),
    "eviction": ("EVICT",),
}
CAUSES = {
    "data skew": ("data skew", 1), "page cache": ("page cache", 1), "disk space": ("disk space", 1),
    "computation skew": ("cpu", 1), "I/O skew": ("io", 1), "limited processor": ("cpu", -1),
    "limited memory": ("data skew", -1), "limited I/O": ("io", -1),
    "cache bottleneck": ("cache", 1), "queueing delay": ("queueing", 1),
    "eviction": ("eviction", 1),
}  # fmt: skip
NOISE = ("FAIL", "MACHINE_CPU", "MACHINE_RAM", "PRIORITY", "REQ_CPU", "REQ_DISK", "REQ_MEM")
METRICS = tuple(sorted([m for group in GROUPS.values() for m in group] + list(NOISE)))
HOW_MANY_CAUSES = (0.12, 0.33, 0.36, 0.16, 0.03)
"""Hound table 6."""
POPULARITY = np.array([3.0, 1.5, 1.5, 1.5, 1.5, 2.5, 1.0, 1.5, 2.0, 1.5, 1.0])


@dataclass(frozen=True)
class Planted:
    """A trace and what was planted in it."""

    features: TaskFeatures
    mixtures: np.ndarray
    """(jobs, causes): share of each job's stragglers that have the cause, as it was drawn."""
    causes: tuple[str, ...] = tuple(CAUSES)


def plant(
    jobs: int,
    seed: int,
    *,
    tasks: tuple[int, int] = (20, 600),
    outliers: float = 0.003,
    missing: float = 0.02,
    tail_only: float = 0.3,
    straggling: tuple[float, float] = (0.06, 0.2),
    shift: float = 1.0,
    entangled: float = 0.0,
    skewed: float = 0.35,
) -> Planted:
    """Make a trace of jobs with stragglers.

    Parameters
    ----------
    jobs, seed : int
    tasks : fewest and most tasks of a job; drawn evenly on a logarithmic scale
    outliers : share of readings that are wrong by 5 to 50 times
    missing : share of readings that are missing
    tail_only : share of causes that only stragglers show
    straggling : smallest and largest share of a job's tasks that straggle
    shift : how far causes move their metrics, as a part of what they do by default
    entangled : how much of each group of metrics follows the group before it, in all tasks: a
        cause shows itself in metrics of another one, too
    skewed : standard deviation of the logarithm of a metric; 0 for metrics that are not skewed
    """
    kind = _Kind(outliers, missing, tail_only, straggling, shift, entangled, skewed)
    rng = np.random.default_rng(seed)
    frames, mixtures = [], np.zeros((jobs, len(CAUSES)))
    for job in range(jobs):
        size = int(np.exp(rng.uniform(np.log(tasks[0]), np.log(tasks[1]))))
        frame, mixtures[job] = _job(rng, size, kind)
        frames.append(frame.assign(stage=job))
    table = pd.concat(frames, ignore_index=True)
    return Planted(features_from(table), mixtures)


class _Kind(NamedTuple):
    """What :func:`plant` is asked for."""

    outliers: float
    missing: float
    tail_only: float
    straggling: tuple[float, float]
    shift: float
    entangled: float
    skewed: float


def _job(rng, size, kind):
    wanted = 1 + rng.choice(len(HOW_MANY_CAUSES), p=np.array(HOW_MANY_CAUSES))
    chosen: list[int] = []
    for cause in rng.choice(
        len(CAUSES), len(CAUSES), replace=False, p=POPULARITY / POPULARITY.sum()
    ):
        groups = {list(CAUSES.values())[c][0] for c in chosen}
        if len(chosen) < wanted and list(CAUSES.values())[cause][0] not in groups:
            chosen.append(int(cause))
    weights = rng.dirichlet(np.full(len(chosen), 2.0))
    slow = np.flatnonzero(rng.random(size) < rng.uniform(*kind.straggling))
    if len(slow) < len(chosen) + 1:
        slow = rng.choice(size, len(chosen) + 1, replace=False)
    of = np.concatenate([np.arange(len(chosen)), rng.choice(len(chosen), len(slow), p=weights)])
    of = of[: len(slow)]
    latent = {group: rng.normal(size=size) for group in GROUPS}
    slowdown = np.zeros(size)
    gentle = np.zeros(size)
    for number, cause in enumerate(chosen):
        group, sign = list(CAUSES.values())[cause]
        mine = slow[of == number]
        strength = rng.gamma(4.0, 0.35, len(mine)) + 0.6
        slowdown[mine] += strength
        latent[group][mine] += sign * (1.2 * strength + 1.0) * kind.shift
        if rng.random() >= kind.tail_only:
            gentle += sign * 0.06 * latent[group] * weights[number]
    if kind.entangled:
        before = dict(latent)
        for group, other in zip(GROUPS, list(GROUPS)[-1:] + list(GROUPS), strict=False):
            own = np.sqrt(1 - kind.entangled**2)
            latent[group] = own * before[group] + kind.entangled * before[other]
    latency = rng.lognormal(np.log(rng.uniform(5e3, 5e4)), 0.03, size)
    latency *= np.exp(rng.standard_t(4, size) * 0.05 + gentle) * (1.0 + slowdown)
    columns = {"duration_ms": latency}
    for group, metrics in GROUPS.items():
        for metric in metrics:
            if group == "eviction":
                columns[metric] = np.maximum(np.round(latent[group] - 2.2), 0.0)
                continue
            alike = 0.92 * latent[group] + 0.39 * rng.normal(size=size)
            level = np.exp(rng.uniform(-1, 4))
            columns[metric] = level * (
                np.exp(kind.skewed * alike) if kind.skewed else np.maximum(1 + 0.15 * alike, 0.0)
            )
    for metric in NOISE:
        levels = rng.integers(1, 9)
        columns[metric] = (
            rng.poisson(0.05, size).astype(float) if metric == "FAIL"
            else rng.integers(0, levels, size).astype(float)
        )  # fmt: skip
    for metric in METRICS:
        wrong = rng.random(size) < kind.outliers
        columns[metric] = np.where(
            wrong, columns[metric] * rng.uniform(5, 50, size), columns[metric]
        )
        columns[metric] = np.where(rng.random(size) < kind.missing, np.nan, columns[metric])
    mixture = np.zeros(len(CAUSES))
    mixture[chosen] = np.bincount(of, minlength=len(chosen)) / len(of)
    return pd.DataFrame(columns), mixture


def features_from(table: pd.DataFrame) -> TaskFeatures:
    """A table with stage, duration_ms and metrics as the features of a trace."""
    n = len(table)
    metrics = [name for name in table.columns if name not in ("stage", "duration_ms")]
    none = np.full(n, -1, np.int32)
    frame = pd.DataFrame(
        {
            "task": np.arange(n, dtype=np.int32), "task_id": np.arange(n),
            "app": np.zeros(n, np.int32), "stage": table["stage"].to_numpy(np.int32),
            "query": none, "host": none, "launch_ms": np.zeros(n),
            "duration_ms": table["duration_ms"].to_numpy(), "compared": np.ones(n, bool),
            "measured": np.zeros(n, bool), **{m: table[m].to_numpy() for m in metrics},
        }
    )  # fmt: skip
    listed = tuple(Feature(m, FeatureKind.NUMERICAL, m, "", m, "A metric.") for m in metrics)
    stages = [f"job {i}" for i in range(int(frame["stage"].max()) + 1 if n else 0)]
    return TaskFeatures(frame, listed, Labels(["trace"], stages, [], [], []))


def words_of_cause(cause: str) -> set[str]:
    """Keywords that a cause shows itself by."""
    group, sign = CAUSES[cause]
    return {f"{metric}({'+' if sign > 0 else '-'})" for metric in GROUPS[group]}


def cause_of_words(words: dict[str, float]) -> str | None:
    """The planted cause most of whose weight these keywords have; None below half."""
    weight = {
        cause: sum(w for word, w in words.items() if word in words_of_cause(cause))
        for cause in CAUSES
    }
    best = max(weight, key=lambda cause: weight[cause])
    return best if weight[best] > 0.5 else None
