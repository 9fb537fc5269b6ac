"""Jobs in Hound's sense: stage attempts with many tasks and stragglers, as matrices of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iqcar.stragglers import TaskFeatures
    from iqcar.topics.settings import TopicSettings

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

PARTS_OF_LATENCY = frozenset({"run_ms"})
"""Features that are the latency but for a rest: they would explain every straggler by itself."""
LEAST_KNOWN = 0.5
"""A metric that fewer of a job's tasks have is taken as unknown for the whole job."""


@dataclass(frozen=True)
class Jobs:
    """Tasks of the jobs that have stragglers, job by job.

    Attributes
    ----------
    names : (metrics,) in alphabetical order: results do not depend on the order of columns
    metrics : (tasks, metrics); NaN where unknown
    latency_ms : (tasks,)
    median_ms : (jobs,) median latency
    starts : (jobs + 1,) first task of each job
    rows : (tasks,) row of each task in the features
    stage : (jobs,) row of the stage
    seen, small, even : how many stages there were, had too few tasks, had no stragglers
    threshold : a straggler took more than this times its job's median
    """

    names: tuple[str, ...]
    metrics: Floats
    latency_ms: Floats
    median_ms: Floats
    starts: Rows
    rows: Rows
    stage: Rows
    seen: int
    small: int
    even: int
    threshold: float

    @classmethod
    def of(cls, features: TaskFeatures, settings: TopicSettings) -> Jobs:
        """Take the stages that are jobs; tasks without a positive latency are left out."""
        frame = features.frame
        listed = sorted(f.name for f in features.features if f.name not in PARTS_OF_LATENCY)
        latency = features.column("duration_ms")
        stage = frame["stage"].to_numpy(np.int64)
        usable = frame["compared"].to_numpy(bool) & np.isfinite(latency) & (latency > 0)
        rows = np.flatnonzero(usable & (stage >= 0))
        rows = rows[np.lexsort((latency[rows], stage[rows]))]
        stages, first, count = np.unique(stage[rows], return_index=True, return_counts=True)
        middle = latency[rows[(first + (count - 1) // 2)]] if len(rows) else np.zeros(0)
        upper = latency[rows[(first + count // 2)]] if len(rows) else np.zeros(0)
        median = middle / 2 + upper / 2
        slowest = latency[rows[first + count - 1]] if len(rows) else np.zeros(0)
        large = count >= settings.least_tasks
        straggles = slowest > settings.straggler * median
        kept = np.flatnonzero(large & straggles)
        of = np.repeat(large & straggles, count)
        rows = rows[of]
        values = np.empty((len(rows), len(listed)))
        for j, name in enumerate(listed):
            values[:, j] = frame[name].to_numpy(np.float64)[rows]
        values[~np.isfinite(values)] = np.nan
        return cls(
            names=tuple(listed),
            metrics=values,
            latency_ms=latency[rows],
            median_ms=median[kept],
            starts=np.concatenate([[0], np.cumsum(count[kept])]).astype(np.int64),
            rows=rows,
            stage=stages[kept],
            seen=len(stages),
            small=int((~large).sum()),
            even=int((large & ~straggles).sum()),
            threshold=settings.straggler,
        )

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self.stage)

    def known(self, job: int) -> tuple[Floats, Floats]:
        """Metrics and latencies of one job; what is unknown takes the job's median.

        Returns
        -------
        (tasks, metrics), (tasks,)
            A metric that most of the job's tasks lack is 0 for all: it cannot be a cause.
        """
        part = slice(int(self.starts[job]), int(self.starts[job + 1]))
        values = self.metrics[part]
        missing = np.isnan(values)
        if missing.any():
            lacking = missing.mean(axis=0) > LEAST_KNOWN
            values = np.where(lacking, 0.0, values)
            missing &= ~lacking
            middle = np.zeros(values.shape[1])
            some = missing.any(axis=0)
            middle[some] = np.nanmedian(values[:, some], axis=0)
            values = np.where(missing, middle, values)
        return values, self.latency_ms[part]

    def straggling(self, job: int) -> NDArray[np.bool_]:
        """Which tasks of a job are stragglers."""
        part = slice(int(self.starts[job]), int(self.starts[job + 1]))
        slow: NDArray[np.bool_] = self.latency_ms[part] > self.threshold * self.median_ms[job]
        return slow
