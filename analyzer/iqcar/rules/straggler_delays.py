"""Sum the delay of stragglers that each kind of advice addresses, by place.

A straggler's time over its stage's median is divided among its causes: measured waits take what
they explain, the others share the rest evenly. No time counts twice, so parts can be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, sum_by

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Stragglers
    from iqcar.rules.vocabulary.advice_kinds import AdviceKind

LEAST_PART_MS = 100.0
"""Stragglers of which a cause explains less do not count: nobody notices a task that is a tenth of
a second late, and short tasks straggle by chance (1.5 times of 40 ms is 60 ms)."""

FOLLOWS = {
    "shuffle-write-skew": ("input-skew", "shuffle-skew"),
    "output-skew": ("input-skew", "shuffle-skew"),
    "computation-skew": ("cold-executor",),
}
"""Causes that follow from others of the same straggler and have no part beside them: who reads more
writes more, and the first tasks of an executor compute longer while classes are loaded."""


def cause_parts(found: Stragglers) -> pd.DataFrame:
    """Divide each straggler's delay among its causes.

    A straggler without a cause has no part, also where it has a topic: that a keyword stands out
    does not tell how much of the delay it is.

    Returns: straggler, cause, delay_ms; one row per cause. The parts of a straggler sum to its
    delay at most.
    """
    causes = found.causes
    straggler = causes["straggler"].to_numpy(np.int64)
    delay = found.stragglers["delay_ms"].to_numpy(np.float64)
    explained = np.clip(causes["explained"].to_numpy(np.float64), 0.0, 1.0)
    measured = np.isfinite(explained)
    taken = np.bincount(straggler, np.where(measured, explained, 0.0), minlength=len(delay))
    counted = ~measured & ~_follows(causes)
    others = np.bincount(straggler, counted, minlength=len(delay))
    # Waits of one task can overlap: together they explain all of the delay, not more.
    scale = 1.0 / np.maximum(taken, 1.0)
    rest = np.maximum(1.0 - taken, 0.0) / np.maximum(others, 1.0)
    share = np.where(
        measured, explained * scale[straggler], np.where(counted, rest[straggler], 0.0)
    )
    return pd.DataFrame(
        {
            "straggler": straggler,
            "cause": causes["cause"].to_numpy(object),
            "delay_ms": share * delay[straggler],
        }
    )


def kind_parts(
    parts: pd.DataFrame, kinds: Mapping[str, AdviceKind], found: Stragglers, slow: set[int]
) -> pd.DataFrame:
    """Sum the parts by straggler and kind of advice.

    Returns: straggler, kind, delay_ms and the straggler's app, stage, query, host; only parts of
    :data:`LEAST_PART_MS` and more, of stragglers that belong to a query.

    parts: from :func:`cause_parts`
    kinds: the vocabulary
    slow: hosts that are slow across stages: what they caused is theirs
    """
    straggler = parts["straggler"].to_numpy(np.int64)
    cause, names = pd.factorize(parts["cause"].to_numpy(object))
    delay = parts["delay_ms"].to_numpy(np.float64)
    on_slow = np.isin(found.stragglers["host"].to_numpy(np.int64)[straggler], sorted(slow))
    of_slow_host = on_slow & np.isin(names, _of_hosts(kinds))[cause]
    rows: dict[str, list[Any]] = {"straggler": [], "kind": [], "delay_ms": []}
    for key, kind in kinds.items():
        is_kind = np.isin(names, kind.causes)[cause]
        is_kind &= on_slow if kind.scope == "host" else ~of_slow_host
        summed = sum_by(straggler[is_kind], delay[is_kind], len(found.stragglers))
        listed = np.flatnonzero(summed >= LEAST_PART_MS)
        rows["straggler"] += listed.tolist()
        rows["kind"] += [key] * len(listed)
        rows["delay_ms"] += summed[listed].tolist()
    place = found.stragglers[["app", "stage", "query", "host"]]
    joined = pd.DataFrame(rows).join(place, on="straggler")
    kept: pd.DataFrame = joined[(joined["query"] >= 0).to_numpy(bool)].reset_index(drop=True)
    return kept


def _of_hosts(kinds: Mapping[str, AdviceKind]) -> list[str]:
    return [cause for kind in kinds.values() if kind.scope == "host" for cause in kind.causes]


def _follows(causes: pd.DataFrame) -> Flags:
    """Whether each cause follows from another one of its straggler."""
    cause = causes["cause"].to_numpy(object)
    straggler = causes["straggler"].to_numpy(np.int64)
    found = np.zeros(len(causes), bool)
    for effect, roots in FOLLOWS.items():
        rooted = np.unique(straggler[np.isin(cause, roots)])
        found |= (cause == effect) & np.isin(straggler, rooted)
    return found


def held_up_ms(parts: pd.DataFrame, at_once: Floats) -> float:
    """Estimate by how much stages ended later for their stragglers' parts.

    Returns: In ms, summed over stages: the largest part in each, or all parts divided by the tasks
    that ran at once where that is more: stragglers of several waves delay one after the other.

    parts: stage and delay_ms of each
    at_once: (stages,) tasks of each stage that ran at once, on average
    """
    delay = parts["delay_ms"].to_numpy(np.float64)
    stages, member = np.unique(parts["stage"].to_numpy(np.int64), return_inverse=True)
    largest = np.zeros(len(stages))
    np.maximum.at(largest, member, delay)
    in_turn = np.bincount(member, delay, len(stages)) / at_once[stages]
    return float(np.fmax(largest, in_turn).sum())


def tasks_at_once(tables: Tables) -> Floats:
    """Tasks of each stage that ran at once, on average while any did; NaN for one without tasks."""
    stages = len(tables.stages)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)
    known = (stage >= 0) & np.isfinite(launch) & (finish > launch)
    stage, launch, finish = stage[known], launch[known], finish[known]
    first, last = np.full(stages, np.inf), np.full(stages, -np.inf)
    np.minimum.at(first, stage, launch)
    np.maximum.at(last, stage, finish)
    lasted = np.bincount(stage, finish - launch, minlength=stages)
    span = np.where(last > first, last - first, np.nan)
    return np.maximum(lasted / span, 1.0)
