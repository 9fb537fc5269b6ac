"""Finds depth and critical path in the stage DAG of each query.

The critical path is the chain of stages whose runtimes add up to the most (iQCAR §2.3). Within a
job a chain follows the DAG's edges; from one job of the query to the next it follows time, since
the driver submits a job only when it has what it needs from those before it.

Paper: iQCAR | §2.1, §2.3: depth, critical path | exact in a job; jobs follow in time |
  tests/model/queries/test_dag.py
"""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints


def add_critical_path(tables: Tables) -> Tables:
    """Fill ``stages.depth`` and ``stages.critical``.

    Depth counts the stages on the longest path to a stage that nobody reads from (1 for that
    one, as in example 2.1). Edges that would close a cycle (only a damaged log has them) are
    left out.
    """
    stages = tables.stages
    n = len(stages)
    parents: list[list[int]] = [[] for _ in range(n)]
    for stage, parent in zip(
        tables.stage_parents["stage"], tables.stage_parents["parent"], strict=True
    ):
        parents[stage].append(int(parent))
    order = _parents_first(parents)
    depth = np.ones(n, np.int32)
    for stage in reversed(order):
        for parent in parents[stage]:
            depth[parent] = max(depth[parent], depth[stage] + 1)

    critical = np.zeros(n, bool)
    query = stages["query"].to_numpy()
    by_query = np.argsort(query, kind="stable")
    bounds = np.flatnonzero(np.diff(query[by_query])) + 1
    submission = stages["submission_ms"].to_numpy(np.float64)
    submission = np.where(
        np.isnan(submission), stages["first_launch_ms"].to_numpy(np.float64), submission
    )
    completion = stages["completion_ms"].to_numpy(np.float64)
    submission = np.nan_to_num(submission)
    completion = np.fmax(np.nan_to_num(completion), submission)
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    app = stages["app"].to_numpy()
    apps_with_edges = set(app[tables.stage_parents["stage"].to_numpy()].tolist())
    recorded_job = stages["job"].to_numpy()
    # The oldest logs hold no edges at all: there time alone orders the stages of a job.
    each_alone = np.arange(n)
    for members in np.split(by_query, bounds) if n else []:
        if query[members[0]] < 0:
            continue
        job = recorded_job if app[members[0]] in apps_with_edges else each_alone
        for stage in _heaviest_chain(
            members, parents, job, submission=submission, completion=completion, rank=rank
        ):
            critical[stage] = True
    return tables.with_(stages=stages.assign(depth=depth, critical=critical))


def _parents_first(parents: list[list[int]]) -> list[int]:
    """Order rows so that parents come first (Kahn); drops the edges of cycles in place."""
    n = len(parents)
    children: list[list[int]] = [[] for _ in range(n)]
    missing = [len(p) for p in parents]
    for stage, above in enumerate(parents):
        for parent in above:
            children[parent].append(stage)
    ready = [stage for stage in range(n) if missing[stage] == 0]
    placed = [False] * n
    order: list[int] = []
    for start in [*range(n), None]:
        while ready:
            stage = ready.pop()
            if placed[stage]:
                continue
            placed[stage] = True
            order.append(stage)
            for child in children[stage]:
                missing[child] -= 1
                if missing[child] == 0:
                    ready.append(child)
        if len(order) == n or start is None:
            break
        if not placed[start] and missing[start] > 0:
            parents[start] = [p for p in parents[start] if placed[p]]
            missing[start] = 0
            ready.append(start)
    return order


def _heaviest_chain(
    members: Ints,
    parents: list[list[int]],
    job: Ints,
    submission: Floats,
    completion: Floats,
    rank: Ints,
) -> list[int]:
    """Stages of one query's critical path, last first; O(stages · log stages)."""
    runtime = completion[members] - submission[members]
    weight = dict(zip(members.tolist(), runtime.tolist(), strict=True))
    by_start = members[np.lexsort((rank[members], submission[members]))]
    by_end = iter(sorted(weight, key=lambda s: (completion[s], rank[s])))
    best: dict[int, float] = {}
    through: dict[int, int] = {}
    earlier = _TwoBest()
    waiting = next(by_end, None)
    for stage in by_start.tolist():
        while waiting is not None and completion[waiting] <= submission[stage] and waiting in best:
            earlier.offer(best[waiting], waiting, int(job[waiting]))
            waiting = next(by_end, None)
        options = [(best[p], p) for p in parents[stage] if p in best]
        options += earlier.of_another(int(job[stage]))
        length, before = max(options, default=(0.0, -1))
        best[stage] = weight[stage] + length
        through[stage] = before
    chain: list[int] = []
    stage = max(best, key=lambda s: (best[s], -rank[s]))
    while stage >= 0:
        chain.append(stage)
        stage = through[stage]
    return chain


class _TwoBest:
    """The longest chain seen so far, and the longest that ends in another job than that."""

    def __init__(self) -> None:
        self._best: list[tuple[float, int, int]] = []

    def offer(self, length: float, stage: int, job: int) -> None:
        others = [entry for entry in self._best if entry[2] != job]
        same = [entry for entry in self._best if entry[2] == job]
        same = [max([*same, (length, stage, job)])]
        self._best = sorted(others + same, reverse=True)[:2]

    def of_another(self, job: int) -> list[tuple[float, int]]:
        return [(length, stage) for length, stage, j in self._best if j != job][:1]
