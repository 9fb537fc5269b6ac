"""Find hosts whose tasks are slow across stages and jobs, and not because of a query.

A stage says something about a host if enough of its tasks ran there and elsewhere. Its tasks there
are compared with those elsewhere by their medians; a host is slow if it is so in most stages, not
in one: data that lies there, or one large task, make a stage slow there, not all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.enums import BlameKind
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints

if TYPE_CHECKING:
    from iqcar.causes.stragglers.straggler_result import Stragglers

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
