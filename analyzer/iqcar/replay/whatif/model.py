"""Builds the causal model of a recorded run and its check, once for all questions about the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import MISSING, evidence_column
from iqcar.replay.loop.device_sharing import DEVICES
from iqcar.replay.loop.memory_demands import memory_demands
from iqcar.replay.loop.open_loop import MANY_TASKS
from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR, TaskDemands
from iqcar.replay.whatif.curves import Curve
from iqcar.replay.whatif.edit import keep_starts
from iqcar.replay.whatif.outcome import MEMORY, Member, Outcome, replay_scenario
from iqcar.replay.whatif.scenario import Scenario, build_scenario, other_explanation
from iqcar.tables import Tables, recurring_queries
from iqcar.tables.arrays import Flags, Floats, sum_by

if TYPE_CHECKING:
    from iqcar.model.demand.estimate import Demand


ENOUGH = 4
"""Pairs of runs, of all queries together, from which their spread means something."""
SHRUNK = 4.0
"""Pairs of runs of one query that count as much as the spread of all queries."""
WARM = 3
"""Runs of a query from which the first, for which the JVM still compiles, is left out."""
NORMAL = 1.4826
"""Standard deviation by the median of absolute values, of a normal distribution."""
OUTLIER = 3.0
"""Standard deviations that a difference counts as at most."""


def rerun_spread(scenario: Scenario) -> Floats:
    """Estimate the spread of what another run of each query takes, as a share of this one.

    Runs of a query with as many tasks are compared with the run before, by the time that all
    tasks need alone: what they wait for others is what the model computes. The spread of each
    query is shrunk towards that of all.

    Returns ndarray of shape (n_queries,): standard deviation of the logarithm of the ratio of two
    runs; 0 where the log has too few repetitions.
    """
    tables = scenario.tables
    n = len(tables.queries)
    of_query = scenario.query_of_task
    known = of_query >= 0
    work = sum_by(of_query[known], scenario.alone[known].sum(axis=1), n)
    tasks = np.bincount(of_query[known], minlength=n)
    start = tables.queries["start_ms"].to_numpy(np.float64)
    alike = recurring_queries(tables)
    rows = np.flatnonzero(work > 0)
    rows = rows[np.lexsort((start[rows], tasks[rows], alike[rows]))]
    same = (alike[rows][1:] == alike[rows][:-1]) & (tasks[rows][1:] == tasks[rows][:-1])
    # The first of several runs and the one after it differ by more than luck.
    first = np.append(True, ~same)[: len(rows)]
    group = np.cumsum(first) - 1
    warms_up = first & (np.bincount(group)[group] >= WARM)
    pair = same & ~warms_up[:-1]
    difference = np.diff(np.log(work[rows]))[pair]
    if len(difference) < ENOUGH:
        return np.zeros(n)
    of_all = NORMAL * float(np.median(np.abs(difference)))
    bounded = np.minimum(np.abs(difference), OUTLIER * of_all)
    mine, most = alike[rows][1:][pair], int(alike.max()) + 1
    pairs = np.bincount(mine, minlength=most)
    squares = sum_by(mine, bounded**2, most) + SHRUNK * of_all**2
    spread: Floats = np.sqrt(squares / (pairs + SHRUNK))[alike]
    return spread


REFUSED = 0.15
"""Error of the check, as a share of the recorded duration, from which a query is not answered; and
the median from which the run is not."""
MEMORY_OFF = 2.0
"""Factor by which replayed waits for execution memory may differ from the measured ones; if they
differ by more, memory is not shared in the model."""
WAITED_IN = {
    DISK: (Request.IO_READ, Request.IO_WRITE),
    NETWORK: (Request.SHUFFLE_FETCH,),
    PROCESSOR: (Request.RUN_QUEUE,),
}
LUCKS = 3
FEW_TASKS = 20_000
"""Tasks up to which all ways and seeds are replayed; up to :data:`MANY_TASKS` all ways are."""


@dataclass
class Model:
    """A scenario, how well it reproduces the run, and its replays as it was.

    unfitted: The same with no task fitted by itself, for the check.
    demands: What both were built from.
    unrecorded: (n_queries, 3), bool; devices in which no wait of the query's tasks was recorded:
        unknown, not zero.
    no_memory_waits: Where what tasks held does not explain their waits for execution memory: the
        same without these waits.
    """

    scenario: Scenario
    unfitted: Scenario
    demands: TaskDemands
    unrecorded: Flags | None = None
    no_memory_waits: Scenario | None = None
    _bases: dict[Member, Outcome] = field(default_factory=dict)

    @cached_property
    def other(self) -> Scenario | None:
        """Another explanation of the record, if there is one."""
        if self.unfitted is self.scenario:
            return None
        return other_explanation(self.scenario, self.demands)

    @cached_property
    def recorded_ms(self) -> Floats:
        """Recorded duration of each query; NaN where it did not end."""
        queries = self.scenario.tables.queries
        lasted = queries["duration_ms"].to_numpy(np.float64)
        known = queries["ended"].to_numpy(bool) & (lasted > 0)
        return np.where(known, lasted, np.nan)

    @cached_property
    def error(self) -> Floats:
        """(replayed − recorded) / recorded of each query before tasks were fitted; NaN unknown."""
        found: Floats = (
            replay_scenario(self.unfitted, self.members[0]).duration_ms / self.recorded_ms - 1.0
        )
        ran = self.scenario.tables.queries["tasks"].to_numpy(np.int64) > 0
        return np.where(ran, found, np.nan)

    @property
    def median_error(self) -> float:
        """Median of the errors without their signs; NaN where no query is known."""
        known = np.abs(self.error[np.isfinite(self.error)])
        return float(np.median(known)) if len(known) else float("nan")

    @cached_property
    def rerun_spread(self) -> Floats:
        """Return :func:`iqcar.replay.whatif.model.rerun_spread` of each query."""
        return rerun_spread(self.scenario)

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Ways to replay; fewer of a large run."""
        n = len(self.scenario.work.step)
        if n > MANY_TASKS:
            return (Member(),)
        return tuple(Member(seed=seed) for seed in range(LUCKS if n <= FEW_TASKS else 1))

    @cached_property
    def with_recorded_starts(self) -> Model:
        """The same in which all queries start when they did."""
        return replace(
            self,
            scenario=keep_starts(self.scenario),
            unfitted=keep_starts(self.unfitted),
            no_memory_waits=self.no_memory_waits and keep_starts(self.no_memory_waits),
            _bases={},
        )

    def base(self, member: Member) -> Outcome:
        """Replay the run as it was."""
        if member not in self._bases:
            self._bases[member] = replay_scenario(self.scenario, member)
        return self._bases[member]


def build_model(
    tables: Tables,
    waits: pd.DataFrame,
    demand: Demand,
    curves: Sequence[Curve] = (),
    *,
    coarse: bool = False,
    idle_too: bool = True,
) -> Model | None:
    """Build the model of a recorded run, see :func:`iqcar.replay.whatif.scenario.build_scenario`.

    None where nothing can be replayed, or no device can be short and that is not wanted.
    """
    memory = memory_demands(tables, waits)
    built = build_scenario(tables, waits, demand, curves, memory, coarse=coarse, idle_too=idle_too)
    no_waits = None
    if memory is not None and built is not None:
        lacked = float(replay_scenario(built[0]).wait_ms[:, MEMORY].sum())
        if not 1 / MEMORY_OFF <= lacked / float(memory.waited.sum()) <= MEMORY_OFF:
            nothing = np.zeros(0)
            no_waits = replace(built[0], memory=nothing, memory_capacity=nothing.reshape(0, 0))
            built = build_scenario(tables, waits, demand, curves, coarse=coarse, idle_too=idle_too)
    if built is None:
        return None
    return Model(*built, unrecorded=_unrecorded(tables, waits), no_memory_waits=no_waits)


def _unrecorded(tables: Tables, waits: pd.DataFrame) -> Flags:
    """Mark the devices in which no wait of a query's tasks is known: (n_queries, 3)."""
    query = tables.tasks["query"].to_numpy(np.int64)
    found = np.ones((len(tables.queries), DEVICES), bool)
    for device, requests in WAITED_IN.items():
        for request in requests:
            known = waits[evidence_column(request)].to_numpy() != MISSING
            found[query[known & (query >= 0)], device] = False
    return found
