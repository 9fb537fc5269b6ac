"""Selects Hound's jobs, stage attempts with many tasks and stragglers, as matrices of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from iqcar.causes.stragglers.features import Feature, TaskFeatures
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints

PARTS_OF_LATENCY = frozenset({"run_ms"})
"""Features that are the latency but for a rest: they would explain every straggler by itself."""

LEAST_TOPIC_STAGES = 3
"""Stages with stragglers that a recurring cause needs at least: what happened in one or two is in
the list of stragglers."""


@dataclass(frozen=True)
class Tally:
    """How many stages there were, and how many of them are no jobs.

    seen: stages with a task of known duration.
    small: with too few tasks.
    even: without stragglers.
    """

    seen: int
    small: int
    even: int

    def __add__(self, other: Tally) -> Tally:
        """Count the stages of both."""
        return Tally(self.seen + other.seen, self.small + other.small, self.even + other.even)


@dataclass(frozen=True)
class TopicJob:
    """Tasks of one job, the fastest first.

    stage: row of the stage; no two jobs have the same.
    app, query: rows of its application and query; −1 if none.
    metrics: (tasks, metrics); NaN where unknown.
    latency_ms: (tasks,) positive, rising.
    slow: (tasks,) which are stragglers.
    median_ms: of the latency.
    """

    stage: int
    app: int
    query: int
    metrics: Floats
    latency_ms: Floats
    slow: Flags
    median_ms: float


@dataclass(frozen=True)
class Jobs:
    """Tasks of the jobs that have stragglers, job by job.

    names: (metrics,) in alphabetical order: results do not depend on the order of columns.
    metrics: (tasks, metrics); NaN where unknown.
    latency_ms: (tasks,).
    median_ms: (jobs,) median latency.
    starts: (jobs + 1,) first task of each job.
    stage, app, query: (jobs,) rows.
    threshold: a straggler took more than this times its job's median.
    """

    names: tuple[str, ...]
    metrics: Floats
    latency_ms: Floats
    median_ms: Floats
    starts: Ints
    stage: Ints
    app: Ints
    query: Ints
    tally: Tally
    threshold: float

    @classmethod
    def from_tasks(cls, features: TaskFeatures, settings: TopicSettings) -> Jobs:
        """Take the stages that are jobs; tasks without a positive latency are left out."""
        frame = features.frame
        listed = metric_names(features.features)
        latency = features.column("duration_ms")
        stage = frame["stage"].to_numpy(np.int64)
        usable = frame["compared"].to_numpy(bool) & np.isfinite(latency) & (latency > 0)

        def values(rows: Ints) -> Floats:
            found = np.empty((len(rows), len(listed)))
            for j, name in enumerate(listed):
                found[:, j] = frame[name].to_numpy(np.float64)[rows]
            return found

        app, query = frame["app"].to_numpy(np.int64), frame["query"].to_numpy(np.int64)
        rows = np.flatnonzero(usable & (stage >= 0))
        return cls.among(
            listed, rows, stage, latency=latency, values=values, app=app, query=query,
            settings=settings,
        )  # fmt: skip

    @classmethod
    def among(
        cls, names: tuple[str, ...], rows: Ints, stage: Ints, latency: Floats,
        values: Callable[[Ints], Floats], app: Ints, query: Ints, settings: TopicSettings,
    ) -> Jobs:  # fmt: skip
        """Take the stages that are jobs among some tasks.

        names: (metrics,).
        rows: tasks to be looked at, as positions in `stage`, `latency`, `app` and `query`.
        values: metrics of some of them: (tasks, metrics).
        """
        rows = rows[np.lexsort((latency[rows], stage[rows]))]
        stages, first, count = np.unique(stage[rows], return_index=True, return_counts=True)
        middle = latency[rows[(first + (count - 1) // 2)]] if len(rows) else np.zeros(0)
        upper = latency[rows[(first + count // 2)]] if len(rows) else np.zeros(0)
        median = middle / 2 + upper / 2
        slowest = latency[rows[first + count - 1]] if len(rows) else np.zeros(0)
        large = count >= settings.least_tasks
        straggles = slowest > settings.straggler * median
        kept = np.flatnonzero(large & straggles)
        fastest = rows[first[kept]]
        rows = rows[np.repeat(large & straggles, count)]
        metrics = values(rows)
        metrics[~np.isfinite(metrics)] = np.nan
        return cls(
            names=names, metrics=metrics, latency_ms=latency[rows], median_ms=median[kept],
            starts=np.concatenate([[0], np.cumsum(count[kept])]).astype(np.int64),
            stage=stages[kept], app=app[fastest], query=query[fastest],
            tally=Tally(len(stages), int((~large).sum()), int((large & ~straggles).sum())),
            threshold=settings.straggler,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self.stage)

    def __getitem__(self, job: int) -> TopicJob:
        """One of the jobs."""
        part = slice(int(self.starts[job]), int(self.starts[job + 1]))
        latency, median = self.latency_ms[part], float(self.median_ms[job])
        return TopicJob(
            stage=int(self.stage[job]), app=int(self.app[job]), query=int(self.query[job]),
            metrics=self.metrics[part], latency_ms=latency, slow=latency > self.threshold * median,
            median_ms=median,
        )  # fmt: skip

    def __iter__(self) -> Iterator[TopicJob]:
        """One job after the other, in the order of their stages."""
        return (self[job] for job in range(len(self)))


def metric_names(features: tuple[Feature, ...]) -> tuple[str, ...]:
    """Features that can be a cause, in alphabetical order."""
    return tuple(sorted(f.name for f in features if f.name not in PARTS_OF_LATENCY))


def enough_for_topics(tables: Tables, least: int = LEAST_TOPIC_STAGES) -> bool:
    """Tell whether so many stages have stragglers that a cause can recur."""
    settings = TopicSettings()
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    good = (tasks["status"] == "success").to_numpy(bool) & (stage >= 0)
    life = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    counts = np.bincount(stage[good], minlength=len(tables.stages))
    large = counts >= settings.least_tasks
    if large.sum() < least:
        return False
    compared = good & large[np.maximum(stage, 0)]
    frame = tasks.loc[compared, ["stage"]].assign(life=life[compared])
    median = frame.groupby("stage")["life"].transform("median")
    slow = frame[(frame["life"] > settings.straggler * median).to_numpy()]
    return bool(slow["stage"].nunique() >= least)
