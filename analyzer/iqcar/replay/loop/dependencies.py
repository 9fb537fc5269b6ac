"""Derives the steps of a replay: what follows what in the recorded run, and after what delay.

A query's first job follows the query's start; a later job follows all jobs of its query that had
ended when it was submitted. A stage follows its job's start and the stages it reads from. The
gap between the last of those and the step itself is the driver's time or the user's, and is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Flags, Floats, Ints


class StepOrder(NamedTuple):
    """Steps of one application.

    query, stage: rows of the tables, in the order of their steps.
    query_start, query_end, stage_step: step of each of those queries and stages.
    begin, end: (steps,) when each step was released and done in the recorded run, in ms.
    job_step: (steps,) the step that starts the job of a stage; of any other step, itself.
    earlier, later: (edges,) what follows what.
    """

    query: Ints
    stage: Ints
    query_start: Ints
    query_end: Ints
    stage_step: Ints
    begin: Floats
    end: Floats
    job_step: Ints
    earlier: Ints
    later: Ints

    def delays(self) -> Floats:
        """Time from the last of what a step follows to the step; its own time if nothing."""
        base = np.zeros(len(self.begin))
        np.maximum.at(base, self.later, self.end[self.earlier])
        return np.maximum(self.begin - base, 0.0)


class _Ended(NamedTuple):
    """Moments at which everything of a group that had ended by then was over, in order."""

    group: Ints
    begin: Floats
    end: Floats
    first_step: int

    def by(self, group: Ints, when: Floats) -> Ints:
        """Step that stands for all of a group that had ended by a time; −1 where nothing had.

        What took no time counts only if it was over before: else two such things could follow
        each other.
        """
        n = len(self.group)
        kind = np.concatenate([np.where(self.begin < self.end, 0, 2), np.ones(len(group))])
        groups = np.concatenate([self.group, group])
        order = np.lexsort((kind, np.concatenate([self.end, when]), groups))
        is_item = order < n
        last = np.cumsum(is_item) - 1
        found = np.full(len(group), NONE, np.int64)
        asked = order[~is_item] - n
        position = last[~is_item]
        there = position >= 0
        # Items are kept in this very order: the k-th item seen is the k-th item.
        same = there & (self.group[np.maximum(position, 0)] == group[asked]) if n else there
        found[asked[same]] = self.first_step + position[same]
        return found


class _Edges:
    def __init__(self) -> None:
        self.earlier: list[Ints] = []
        self.later: list[Ints] = []

    def add(self, earlier: Ints, later: Ints) -> None:
        has = (earlier >= 0) & (later >= 0)
        self.earlier.append(earlier[has])
        self.later.append(later[has])

    def add_parents(self, tables: Tables, stage: Ints, stage_of: Ints, stage_step: Ints) -> Flags:
        """Let stages follow their parents and attempts before; return which stages do."""
        reader = _at(stage_of, tables.stage_parents["stage"].to_numpy(np.int64))
        writer = _at(stage_of, tables.stage_parents["parent"].to_numpy(np.int64))
        self.add(np.where(reader >= 0, writer, NONE), reader)
        retried, before = _attempts(tables, stage, stage_step)
        self.add(before, retried)
        return np.isin(stage_step, np.append(reader[(reader >= 0) & (writer >= 0)], retried))


def order_of(tables: Tables, query: Ints, job: Ints, stage: Ints) -> StepOrder:
    """Find out what follows what in one application.

    query, job, stage: rows of the application in these tables, jobs and stages as FIFO orders them.
    """
    q, j, s = len(query), len(job), len(stage)
    start_of = _lookup(len(tables.queries), query, 0)
    job_of = _lookup(len(tables.jobs), job, 2 * q)
    stage_of = _lookup(len(tables.stages), stage, 2 * q + 2 * j)
    query_start, query_end = np.arange(q), np.arange(q) + q
    job_start, job_end = np.arange(j) + 2 * q, np.arange(j) + 2 * q + j
    stage_step = np.arange(s) + 2 * q + 2 * j

    stage_job = _at(job_of, tables.stages["job"].to_numpy(np.int64)[stage])
    stage_query = tables.stages["query"].to_numpy(np.int64)[stage]
    job_query = tables.jobs["query"].to_numpy(np.int64)[job]
    stage_begin, stage_end = _times_of_stages(tables, stage)
    job_begin, job_over = _times_of_jobs(tables, job, stage_job - 2 * q, stage_begin, stage_end)
    first = tables.queries["start_ms"].to_numpy(np.float64)[query]
    over = np.fmax(tables.queries["end_ms"].to_numpy(np.float64)[query], first)

    orphan = np.flatnonzero(stage_job < 0)
    edges = _Edges()
    n = 2 * q + 2 * j + s
    of_query = _ended(
        np.concatenate([job_query, stage_query[orphan]]),
        np.concatenate([job_begin, stage_begin[orphan]]),
        np.concatenate([job_over, stage_end[orphan]]),
        step=np.concatenate([job_end, stage_step[orphan]]), first_step=n, edges=edges,
    )  # fmt: skip
    n += len(of_query.group)
    of_job = _ended(stage_job, stage_begin, stage_end, step=stage_step, first_step=n, edges=edges)

    edges.add(_at(start_of, job_query), job_start)
    edges.add(of_query.by(job_query, job_begin), job_start)
    edges.add(query_start, query_end)
    edges.add(of_query.by(query, over), query_end)
    edges.add(job_start, job_end)
    edges.add(of_job.by(job_start, job_over), job_end)
    edges.add(stage_job, stage_step)
    edges.add(_at(start_of, stage_query[orphan]), stage_step[orphan])
    edges.add(of_query.by(stage_query[orphan], stage_begin[orphan]), stage_step[orphan])

    knows = edges.add_parents(tables, stage, stage_of, stage_step)
    # The oldest logs hold no parents: there a stage follows what had ended in its job.
    lost = np.flatnonzero((stage_job >= 0) & ~knows)
    edges.add(of_job.by(stage_job[lost], stage_begin[lost]), stage_step[lost])

    begin = np.concatenate(
        [first, over, job_begin, job_over, stage_begin, of_query.end, of_job.end]
    )
    end = np.concatenate([first, over, job_begin, job_over, stage_end, of_query.end, of_job.end])
    earlier, later = np.concatenate(edges.earlier), np.concatenate(edges.later)
    job_step = np.arange(len(begin))
    job_step[stage_step] = np.where(stage_job >= 0, stage_job, stage_step)
    kept = end[earlier] <= begin[later]
    return StepOrder(
        query=query, stage=stage, query_start=query_start, query_end=query_end,
        stage_step=stage_step, begin=begin, end=end, job_step=job_step, earlier=earlier[kept],
        later=later[kept],
    )  # fmt: skip


def _ended(
    group: Ints, begin: Floats, end: Floats, step: Ints, first_step: int, edges: _Edges
) -> _Ended:
    """Make one step per item: done when the item is, and all that ended before it in its group.

    A job that waits for a hundred others then follows one step, not a hundred.
    """
    order = np.lexsort((np.where(begin < end, 0, 2), end, group))
    steps = first_step + np.arange(len(order))
    edges.add(step[order], steps)
    same = np.diff(group[order]) == 0
    edges.add(steps[:-1][same], steps[1:][same])
    return _Ended(group[order], begin[order], end[order], first_step)


def _times_of_stages(tables: Tables, stage: Ints) -> tuple[Floats, Floats]:
    stages = tables.stages.iloc[stage]
    launch = stages["first_launch_ms"].to_numpy(np.float64)
    submission = stages["submission_ms"].to_numpy(np.float64)
    begin = np.where(np.isnan(submission), launch, submission)
    return begin, np.fmax(stages["completion_ms"].to_numpy(np.float64), begin)


def _times_of_jobs(
    tables: Tables, job: Ints, stage_job: Ints, stage_begin: Floats, stage_end: Floats
) -> tuple[Floats, Floats]:
    """Submission and completion; from its stages where a log does not tell."""
    jobs = tables.jobs.iloc[job]
    has = stage_job >= 0
    first, last = np.full(len(job), np.nan), np.full(len(job), np.nan)
    np.fmin.at(first, stage_job[has], stage_begin[has])
    np.fmax.at(last, stage_job[has], stage_end[has])
    begin = jobs["submission_ms"].to_numpy(np.float64)
    begin = np.where(np.isnan(begin), first, begin)
    end = jobs["completion_ms"].to_numpy(np.float64)
    end = np.where(np.isnan(end), last, end)
    return begin, np.fmax(end, begin)


def _attempts(tables: Tables, stage: Ints, step: Ints) -> tuple[Ints, Ints]:
    """Steps of further attempts of a stage, and of the attempts before them."""
    stage_id = tables.stages["stage_id"].to_numpy(np.int64)[stage]
    attempt = tables.stages["attempt"].to_numpy(np.int64)[stage]
    order = np.lexsort((attempt, stage_id))
    again = np.flatnonzero(np.diff(stage_id[order]) == 0)
    return step[order[again + 1]], step[order[again]]


def _lookup(size: int, rows: Ints, first: int) -> Ints:
    """Step of each row of a table; −1 for rows of other applications."""
    steps = np.full(size, NONE, np.int64)
    steps[rows] = first + np.arange(len(rows))
    return steps


def _at(lookup: Ints, rows: Ints) -> Ints:
    if len(lookup) == 0:
        return np.full(len(rows), NONE, np.int64)
    return np.where(rows >= 0, lookup[np.maximum(rows, 0)], NONE)
