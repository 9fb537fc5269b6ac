"""Tell whether tasks that already ran held the slots that another query waited for."""

from __future__ import annotations

import numpy as np

from iqcar.rules.rule_sentences import in_a_sentence
from iqcar.rules.vocabulary.lost_time import LONG_TASKS, SOURCE, advice_for
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, sum_by

RUNNING_SHARE = 0.5
"""Part of a wait for slots from which on pools hardly help: it was for tasks that already ran and
keep their slots, not for those that were offered a slot first."""
LONG_MS = 1_000.0
"""Time that such tasks still ran, on average, from which on they are worth splitting: starting one
more task takes up to 20 ms, reading its part of the data some more."""
MOST_STAGES = 100
"""Stages that waited longest and that are looked at; the others rarely change the sums."""


def split_tasks(name: str) -> str:
    """Say that the tasks of a query should be split, and why."""
    return advice_for(LONG_TASKS).replace(SOURCE, in_a_sentence(name))


def held_by_long_tasks(tables: Tables, source: Flags, target: Flags) -> bool:
    """Tell whether some queries waited for slots mostly until running tasks of others ended.

    The n-th task of a stage gets the n-th slot that comes free at best, whatever its pool. So its
    wait is divided at the time when the n-th of the tasks that ran when it was submitted ended.

    Parameters
    ----------
    tables : Tables
    source, target : ndarray of shape (n_queries,), bool
        Queries whose tasks ran, and those that waited.
    """
    tasks = tables.tasks
    query, stage = tasks["query"].to_numpy(np.int64), tasks["stage"].to_numpy(np.int64)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    ran = np.isfinite(launch) & (finish > launch) & (query >= 0)
    app = tasks["app"].to_numpy(np.int64)
    holds = np.flatnonzero(ran & source[query])
    holds = holds[np.argsort(launch[holds], kind="stable")]
    waits = np.flatnonzero(ran & target[query] & (stage >= 0))
    if len(holds) == 0 or len(waits) == 0:
        return False
    asked = tables.stages["submission_ms"].to_numpy(np.float64)
    waited = np.nan_to_num(np.maximum(launch[waits] - asked[stage[waits]], 0.0))
    by_stage = sum_by(stage[waits], waited, len(asked))
    longest = float((finish[holds] - launch[holds]).max())
    behind, whole, counted = 0.0, 0.0, 0
    for one in np.argsort(-by_stage, kind="stable")[:MOST_STAGES]:
        mine = stage[waits] == one
        if not by_stage[one] > 0:
            break
        near = holds[slice(*np.searchsorted(launch[holds], [asked[one] - longest, asked[one]]))]
        near = near[app[near] == app[waits[mine][0]]]
        left = _first(finish[near] - asked[one])
        first = _first(waited[mine])[: max(len(left), 1)]
        left = left[: len(first)]
        behind += float(np.minimum(left, first[: len(left)]).sum())
        whole += float(first.sum())
        counted += len(left)
    return behind >= RUNNING_SHARE * whole and behind >= LONG_MS * max(counted, 1)


def _first(times: Floats) -> Floats:
    """Return the times above 0, the earliest first."""
    return np.sort(times[times > 0])
