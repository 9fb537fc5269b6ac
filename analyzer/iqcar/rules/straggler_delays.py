"""Sums the delay of stragglers that each kind of advice addresses, and finds slow hosts.

A straggler's time over its stage's median is divided among its causes: measured waits take what
they explain, the others share the rest evenly. No time counts twice, so parts can be added.

A stage says something about a host if enough of its tasks ran there and elsewhere. Its tasks there
are compared with those elsewhere by their medians; a host is slow if it is so in most stages, not
in one: data that lies there, or one large task, make a stage slow there, not all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.enums import BlameKind
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Stragglers
    from iqcar.rules.vocabulary import AdviceKind

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


LEAST_TASKS = 3
"""Tasks of a stage on the host, and elsewhere, from which on their medians say something."""
SLOW_TIMES = 1.3
"""Median of its stages' ratios from which on a host is slow. Equal machines differ by some percent,
a machine of the generation before by a fifth."""
LEAST_RATIO_STAGES = 4
"""Stages that compare the host: with fewer, all of them are slower by chance too often (1 in 8)."""
SLOW_STAGES_SHARE = 0.75
"""Share of these stages in which the host is slower by a tenth at least."""
SLOWER_TIMES = 1.1
LEAST_JOBS = 2
"""Jobs among them: one job can have its heavy data on one host in every stage."""
OTHERS_SHARE = 0.5
"""Blame for its stragglers on queries from which on the host is busy, not slow."""


@dataclass(frozen=True)
class SlowHost:
    """A host that is slow across stages.

    host: its row
    ratio: median over the stages of the median duration there over that elsewhere
    stages, slower, jobs: stages compared, those in which it is slower, jobs they are of
    """

    host: int
    ratio: float
    stages: int
    slower: int
    jobs: int


def slow_hosts(tables: Tables, found: Stragglers) -> list[SlowHost]:
    """Find hosts that are slow across stages and jobs, the slowest first.

    found: Of these tables; hosts whose stragglers iQCAR blames on queries are left out.
    """
    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    lasted = tasks["finish_ms"].to_numpy(np.float64) - launch
    usable = (tasks["status"] == "success").to_numpy(bool) & np.isfinite(lasted) & (lasted > 0)
    usable &= ((tasks["host"] >= 0) & (tasks["stage"] >= 0)).to_numpy(bool)
    frame = tasks.loc[usable, ["stage", "host"]].assign(lasted=lasted[usable])
    # Only stages that ran on two hosts compare any.
    several = frame.groupby("stage")["host"].transform("nunique") > 1
    ratios = host_ratios(frame[several.to_numpy(bool)])
    job = tables.stages["job"].to_numpy(np.int64)
    ratios = ratios.assign(job=job[ratios["stage"].to_numpy(np.int64)])
    busy = _busy(found)
    hosts = []
    for host, rows in ratios.groupby("host", sort=True):
        slower = int((rows["ratio"] >= SLOWER_TIMES).sum())
        candidate = SlowHost(
            int(str(host)), float(rows["ratio"].median()), len(rows), slower,
            int(rows["job"].nunique()),
        )  # fmt: skip
        recurs = candidate.stages >= LEAST_RATIO_STAGES and candidate.jobs >= LEAST_JOBS
        mostly = slower >= SLOW_STAGES_SHARE * candidate.stages
        if recurs and mostly and candidate.ratio >= SLOW_TIMES and candidate.host not in busy:
            hosts.append(candidate)
    return sorted(hosts, key=lambda candidate: (-candidate.ratio, candidate.host))


def host_ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """Divide the duration of a stage's tasks on each host by that elsewhere, by medians.

    Returns: stage, host, ratio, in this order; of hosts with :data:`LEAST_TASKS` tasks there and
    elsewhere. Tasks are sorted once, however many hosts there are: the k-th shortest elsewhere is
    found by how many of the host's own tasks are shorter.

    frame: stage, host, lasted (ms) of tasks.
    """
    stage, host = (frame[name].to_numpy(np.int64) for name in ("stage", "host"))
    lasted = frame["lasted"].to_numpy(np.float64)
    order = np.lexsort((lasted, stage))
    stage, host, lasted = stage[order], host[order], lasted[order]
    first_of_stage = np.flatnonzero(np.append(True, stage[1:] != stage[:-1])[: len(stage)])
    size = np.diff(np.append(first_of_stage, len(stage)))
    rank = np.arange(len(stage)) - np.repeat(first_of_stage, size)
    # Sorting is stable: within a stage and host the shortest stays first.
    by_host = np.lexsort((host, stage))
    changed = (np.diff(stage[by_host]) != 0) | (np.diff(host[by_host]) != 0)
    first = np.flatnonzero(np.append(True, changed)[: len(stage)])
    count = np.diff(np.append(first, len(stage)))
    of_stage = np.searchsorted(first_of_stage, by_host[first], side="right") - 1
    elsewhere = size[of_stage] - count
    told = (count >= LEAST_TASKS) & (elsewhere >= LEAST_TASKS)
    # How many tasks elsewhere are shorter than each task there.
    shorter = rank[by_host] - (np.arange(len(stage)) - np.repeat(first, count))

    def nth_elsewhere(number: Ints) -> Floats:
        before = np.add.reduceat(shorter <= np.repeat(number, count), first)
        found: Floats = lasted[first_of_stage[of_stage] + np.where(told, number + before, 0)]
        return found

    there = lasted[by_host]
    of_there = (there[first + (count - 1) // 2] + there[first + count // 2]) / 2
    low, high = nth_elsewhere((elsewhere - 1) // 2), nth_elsewhere(elsewhere // 2)
    return pd.DataFrame(
        {
            "stage": stage[by_host][first][told],
            "host": host[by_host][first][told],
            "ratio": (of_there / ((low + high) / 2))[told],
        }
    )


def _busy(found: Stragglers) -> set[int]:
    """Hosts for whose stragglers iQCAR blames queries, mostly: rules between queries help there."""
    causes: Sequence[int] = found.causes["straggler"].to_numpy(np.int64).tolist()
    sources = found.sources
    if not len(sources):
        return set()
    row = found.stragglers["host"].to_numpy(np.int64)
    host = np.array([row[causes[cause]] for cause in sources["cause"].tolist()], np.int64)
    share = sources["share"].to_numpy(np.float64)
    kinds = (BlameKind.QUERY.value, BlameKind.OWN.value, BlameKind.REST.value)
    theirs = np.where(sources["kind"].isin(kinds).to_numpy(), share, 0.0)
    size = int(host.max()) + 1
    known = np.bincount(host[host >= 0], share[host >= 0], minlength=size)
    of_queries = np.bincount(host[host >= 0], theirs[host >= 0], minlength=size)
    return {int(h) for h in np.flatnonzero((known > 0) & (of_queries > OTHERS_SHARE * known))}
