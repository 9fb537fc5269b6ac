"""Carries out an experiment: pairs of runs with and without hogs, the least certain cell next."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from iqcar.errors import IqcarError
from iqcar.lab.experiment.cells import Cell, Pair, at_level, cells_of, load, next_cell
from iqcar.lab.experiment.experiment_plan import LoadedPlan, PlannedQuery
from iqcar.lab.experiment.hogs import StoppedError, check_reached, hogs
from iqcar.lab.experiment.query_runs import QueryTiming, SparkSession, run_command
from iqcar.lab.inject.plan import Injection, check_room
from iqcar.lab.inject.run_plan import Stop
from iqcar.logs.text import redact_text

BUDGET = "budget"
"""Why it ended, where not by a signal; empty: everything was run."""


class ExperimentRun(msgspec.Struct, frozen=True):
    """One run of a query.

    number: from 1; in the event log it stands in the query's description.
    pair: from 1, alike for a run with hogs and the one beside it without; 0: warm-up.
    k: hogs for each task; 0: none.
    duration_ms: None if it failed.
    cores: processor time of the hogs by time, where told.
    """

    number: int
    pair: int
    query: str
    resource: str
    level: float
    k: float
    start_ms: float
    duration_ms: float | None
    failed: str = ""
    cores: float | None = None


@dataclass
class Done:
    """What was run, and why it ended."""

    runs: list[ExperimentRun] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    ended_by: str = ""
    at_once: dict[str, float] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    """Event logs, one for each start of Spark."""


def check_host_bears(plan: LoadedPlan) -> None:
    """Refuse hogs that take more memory or disk than this host can bear now; raises IqcarError."""
    ms = round(plan.longest_run_s * 1000)
    for place in plan.places:
        for settings in plan.strengths.values() if not place.command else ():
            check_room([Injection(place.host, 0, ms, settings)])


def run_experiment(
    plan: LoadedPlan, folder: Path, stop: Stop, say: Callable[[str], object] = lambda line: None
) -> Done:
    """Run cells until all are repeated, the budget is used up, or it shall stop.

    The budget counts from when Spark has started. No pair is started after it, and the one that
    runs then is finished. Raises IqcarError if Spark does not start, and nothing was measured
    before.

    folder: for Spark's event log and messages.
    say: called with a line about each run.
    """
    experiment = _Experiment(plan, folder, stop, say)
    try:
        experiment.run()
    except StoppedError:
        experiment.done.ended_by = stop.name
    except IqcarError as error:
        if not experiment.done.pairs:
            raise
        experiment.done.ended_by = str(error)
    finally:
        experiment.close()
    return experiment.done


class _Experiment:
    def __init__(
        self, plan: LoadedPlan, folder: Path, stop: Stop, say: Callable[[str], object]
    ) -> None:
        self._plan, self._folder, self._stop, self._say = plan, folder, stop, say
        self._spark: SparkSession | None = None
        self._queries = {query.name: query for query in plan.queries}
        self._until = 0.0
        self.done = Done()

    def run(self) -> None:
        """Warm up, then run pair after pair."""
        for place in self._plan.places:
            if place.command:
                check_reached(place)
        if self._plan.needs_spark:
            self._say("starting Spark")
            self._start_spark()
        self._until = time.monotonic() + self._plan.budget_s
        for query in self._plan.queries:
            slots = self._spark.slots if self._spark and query.sql else 1
            self.done.at_once[query.name] = slots / len(self._plan.places)
            for _ in range(self._plan.warm_up):
                if not self._time_left():
                    return
                self._run(query, None, 0)
        while (cell := next_cell(self._plan, self.done.pairs, self.done.at_once)) is not None:
            if not self._time_left():
                return
            self._pair(cell)

    def close(self) -> None:
        """End Spark."""
        if self._spark is not None:
            self._spark.close()
            if (log := self._spark.log()) is not None:
                self.done.logs.append(log)
            self._spark = None

    def _start_spark(self) -> None:
        self._spark = SparkSession(self._plan, self._folder, self._stop)

    def _time_left(self) -> bool:
        if self._stop.signal:
            raise StoppedError
        if time.monotonic() < self._until:
            return True
        self.done.ended_by = BUDGET
        return False

    def _pair(self, cell: Cell) -> None:
        """Run a cell with and without hogs; the order turns from pair to pair."""
        number = len(self.done.pairs) + 1
        query = self._queries[cell.query]
        order: list[Cell | None] = [None, cell] if number % 2 else [cell, None]
        took = dict.fromkeys((False, True), float("nan"))
        for loaded in order:
            run = self._run(query, loaded, number, cell)
            took[loaded is not None] = run.duration_ms
            if run.failed:
                break
        self.done.pairs.append(Pair(cell, took[False], took[True]))

    def _run(
        self, query: PlannedQuery, cell: Cell | None, pair: int, beside: Cell | None = None
    ) -> QueryTiming:
        number = len(self.done.runs) + 1
        settings, k = None, 0.0
        if cell is not None:
            settings = at_level(self._plan.strengths[cell.resource], cell.level)
            k = load(self._plan, cell, self.done.at_once)
        cores = None
        try:
            with hogs(
                settings, self._plan.places, self._plan.longest_run_s, self._stop
            ) as beside_it:
                took = self._ask(query, number)
            cores = beside_it.cores
            if beside_it.error:
                took = QueryTiming(took.start_ms, float("nan"), f"hogs: {beside_it.error}")
        except IqcarError as error:  # from hogs
            took = QueryTiming(time.time() * 1000, float("nan"), str(error))
        either = cell or beside
        self.done.runs.append(
            ExperimentRun(
                number=number, pair=pair, query=query.name,
                resource=either.resource if either else "", level=cell.level if cell else 0.0, k=k,
                start_ms=took.start_ms, duration_ms=None if took.failed else took.duration_ms,
                failed=redact_text(took.failed), cores=cores,
            )
        )  # fmt: skip
        self._say(self._line(query.name, cell, pair, took))
        if self._plan.needs_spark and self._spark is None:
            self._start_spark()
        return took

    def _ask(self, query: PlannedQuery, number: int) -> QueryTiming:
        if query.command or self._spark is None:
            return run_command(query, self._stop, self._plan.longest_run_s)
        try:
            return self._spark.run(query, number, self._plan.longest_run_s)
        except IqcarError as error:  # it has gone, or still runs the query
            self.close()
            return QueryTiming(time.time() * 1000, float("nan"), str(error))

    def _line(self, name: str, cell: Cell | None, pair: int, took: QueryTiming) -> str:
        under = f"under {cell.resource} {cell.level:g}" if cell else "alone"
        result = (
            f"failed: {redact_text(took.failed)}"
            if took.failed
            else f"{took.duration_ms / 1000:.2f} s"
        )
        in_all = len(cells_of(self._plan)) * self._plan.repeats
        step = f"pair {pair}/{in_all}" if pair else "warm-up"
        return f"{step}  {name} {under}  {result}"
