"""Holds the diagnosis: everything found out about the input; report, JSON and rules read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import OthersRange, range_of_others
from iqcar.causes.blame.held_blame import CachedData, Pair, cached_by_query, held_from
from iqcar.causes.topics.topic_result import Topics
from iqcar.causes.wasted.wasted_work import WastedWork
from iqcar.enums import BlameKind, QueryBy, Resource
from iqcar.errors import IqcarError, UsageError
from iqcar.logs.text import family
from iqcar.model.waits.driver_time import DriverTime, driver_time
from iqcar.model.waits.pending import YarnWaits
from iqcar.replay.rule_effect.expected import Expected
from iqcar.replay.rule_effect.previous_rules import PreviousRules
from iqcar.replay.whatif.curves import Curve
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.plan_capacity import Plan, plan_capacity
from iqcar.replay.whatif.question import Question, ask
from iqcar.replay.whatif.removal_blame import RemovalBlame, blame_by_removal
from iqcar.replay.whatif.what_if import WhatIf, answer
from iqcar.rules.rule import RejectedRule, Rule
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, sum_by

if TYPE_CHECKING:
    from iqcar.causes.blame.attribute import Blame
    from iqcar.causes.graph.iqc_graph import IQCGraph
    from iqcar.causes.stragglers.features import TaskFeatures
    from iqcar.causes.stragglers.straggler_result import Stragglers


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Settings:
    """What the user chose; every field has the default of ``iqcar analyze``."""

    query_by: QueryBy = QueryBy.SQL
    """What counts as one query."""
    critical_path: bool = False
    """Whether only stages on the critical path are target stages."""
    top: int = 5
    """How many targets, sources, paths and rules are shown."""
    by: str = ""
    """What victims and sources are grouped by: user, pool, session, application, or a Spark
    property; empty if by nothing."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Which queries made which wait, for what, where, and what to change.

    Frames hold one row per thing found; integers that name another table are row numbers there
    (see :mod:`iqcar.tables`).
    """

    tables: Tables
    """What was read."""
    waits: pd.DataFrame
    """Waits of every task (``WAITS``)."""
    query_waits: pd.DataFrame
    """Waits of every query by resource (``QUERY_WAITS``)."""
    blame: Blame
    """Demands, their sources, and what each stage lost."""
    graph: IQCGraph
    """iQC-Graph over all queries that lost time."""
    wasted: WastedWork
    """Work whose result was not used: ``wasted.by_query``, ``wasted.tasks``."""
    targets: tuple[int, ...]
    """Rows of the queries under analysis: those that lost most to other queries first."""
    stragglers: Stragglers
    """Tasks that were slower than their stage, and why."""
    features: TaskFeatures
    """Features of the tasks of stages that have stragglers."""
    topics: Topics | None
    """Causes of stragglers that recur; None if nobody asked for them."""
    rules: tuple[Rule, ...]
    """Proposed scheduler rules, each with its expected effect, and advice."""
    rules_together: Expected | None
    """Expected effect of all rules together; None where none acts through pools."""
    doubts: tuple[str, ...]
    """What is doubtful, in sentences."""
    settings: Settings
    """What the user chose."""
    rejected_rules: tuple[RejectedRule, ...] = ()
    """Scheduler rules that are predicted to harm; they are not in ``rules``."""
    earlier: PreviousRules = field(default_factory=PreviousRules)
    """What became of the rules that the run was recorded with, and why."""
    yarn: YarnWaits | None = None
    """What a YARN resource manager told of waits before applications ran; None if not asked."""
    curves: tuple[Curve, ...] = ()
    """Own rates of stages that ``iqcar-lab experiment`` measured, for what-if questions."""
    fitted: Model | None = field(default=None, repr=False, compare=False)
    """The causal model, where the effect of rules was predicted by it."""

    @cached_property
    def queries(self) -> pd.DataFrame:
        """One row per query: its columns, waits by resource, time lost, wasted, in the driver."""
        queries = self.tables.queries
        wide = self.query_waits.pivot_table(
            index="query", columns="resource", values="wait_ms", dropna=False, aggfunc="first"
        ).reindex(index=range(len(queries)), columns=sorted(map(str, Resource)))
        waits = {f"{resource}_wait_ms": wide[resource].to_numpy() for resource in wide.columns}
        extended: pd.DataFrame = queries.assign(
            **waits,
            lost_ms=self.lost_ms(),
            lost_to_others_ms=self.lost_to_others_ms(),
            lost_low_ms=self.others_range.low_ms,
            lost_high_ms=self.others_range.high_ms,
            **self.driver.of_queries(),
            **self.wasted.of_queries(len(queries)),
        )
        return extended

    def lost_ms(self) -> Floats:
        """Elapsed time that each query's target stages lost.

        Returns
        -------
        ndarray of shape (n_queries,), ms
            Computed once; read-only.
        """
        return self.graph.query_losses()

    def lost_to_others_ms(self) -> Floats:
        """Elapsed time that each query lost to other queries; as :meth:`lost_ms`."""
        return self.graph.lost_to_others_ms()

    @cached_property
    def others_range(self) -> OthersRange:
        """Range of what each query lost to other queries; NaN where no replay tells."""
        pairs = self.graph.who_hurts_whom(Resource.EXECUTORS)
        by_others = pairs["kind"].isin([BlameKind.QUERY.value, BlameKind.REST.value])
        pairs = pairs[by_others.to_numpy(bool)]
        n = len(self.tables.queries)
        target, lost = pairs["target_query"].to_numpy(np.int64), pairs["lost_ms"].to_numpy()
        held = sum_by(target, lost, n)
        duration = self.tables.queries["duration_ms"].to_numpy(np.float64)
        return range_of_others(self.blame, self.lost_to_others_ms(), held, duration)

    @cached_property
    def driver(self) -> DriverTime:
        """Time that each query spent in its driver, and what for."""
        return driver_time(self.tables)

    @cached_property
    def cached(self) -> dict[int, list[CachedData]]:
        """What each query had cached, the largest first, by the row of the query."""
        return cached_by_query(self.tables)

    @cached_property
    def held_from(self) -> set[Pair]:
        """Who waited for storage memory that whose cached blocks filled: rows of both queries."""
        return held_from(self.blame.demands, self.blame.sources, self.tables.stages)

    def find_query(self, wanted: str) -> tuple[int, ...]:
        """Rows of the queries that a user means.

        Parameters
        ----------
        wanted : str
            A query id, its last part (``sql-12``), a name or a fingerprint.

        Raises
        ------
        UsageError
            If no query is called so; names the nearest.
        """
        return find_query(self.tables.queries, wanted)

    def __repr__(self) -> str:
        """Name the worst-hit query."""
        n = len(self.tables.queries)
        if not self.targets:
            return f"<Diagnosis of {n} queries: no time was lost to contention>"
        worst = self.targets[0]
        return (
            f"<Diagnosis of {n} queries: {self.tables.queries['name'].iloc[worst]} lost "
            f"{self.lost_ms()[worst] / 1e3:.1f} s of "
            f"{self.tables.queries['duration_ms'].iloc[worst] / 1e3:.1f} s>"
        )


class WhatIfs:
    """What-if questions about one diagnosed run; what they share is fitted once."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._of = diagnosis

    @cached_property
    def model(self) -> Model:
        """The causal model of the run: what tasks need and devices can do, fitted to the record.

        Raises
        ------
        IqcarError
            If nothing of the run can be replayed.
        """
        found = self._of
        if found.fitted is not None and not found.curves:
            return found.fitted
        model = build_model(found.tables, found.waits, found.blame.demand, found.curves)
        if model is None:
            raise IqcarError(
                "nothing can be asked: no application ran tasks in slots that the log tells",
                advice="record with spark.eventLog.enabled=true from the start of the application",
            )
        return model

    def answer(
        self, question: Question | None = None, progress: Progress | None = None, **changes: Any
    ) -> WhatIf:
        """Predict each query's duration if something had been different.

        Parameters
        ----------
        question : Question, optional
        progress : callable, optional
            Called with the replays done and the replays in all, after each.
        **changes
            In place of a question: what :func:`iqcar.replay.whatif.question.ask` takes, such as
            ``remove="etl_heavy"``, ``slots=+8``, ``start={"x": "+10m"}``, ``disk="2x"``.

        Raises
        ------
        UsageError
            If a query or host is not there, or values are absurd or contradict each other.
        """
        wanted = question if question is not None else ask(**changes)
        return answer(self.model, wanted, self._rows, progress)

    def plan(
        self,
        *,
        executors: Iterable[int] | None = None,
        slots: Iterable[int] | None = None,
        price: float | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """Predict the run with each of some numbers of executors, or of slots.

        Parameters
        ----------
        executors, slots : iterable of int
            One of them.
        price : float, optional
            Of one executor or slot for an hour.
        progress : callable, optional
            Called with the values done and the values in all, after each.

        Raises
        ------
        UsageError
            If neither or both are given, or a value is absurd.
        """
        if (executors is None) == (slots is None):
            raise UsageError("needs executors or slots", "plan", "give one of them")
        values = slots if executors is None else executors
        of_what = "slots" if executors is None else "executors"
        return plan_capacity(self.model, of_what, values or (), price, progress)

    def blame_by_removal(self, wanted: str, progress: Progress | None = None) -> RemovalBlame:
        """Find who made a query wait by replays without the others: their Shapley values.

        Parameters
        ----------
        wanted : str
            As of :meth:`Diagnosis.find_query`.
        progress : callable, optional
            Called with the replays done and the replays in all, after each.

        Raises
        ------
        UsageError
            If there is no such query, it did not end, or the replay does not reproduce it.
        """
        rows = self._rows(wanted, "--blame")
        hurts = self._of.graph.who_hurts_whom()
        to_it = hurts[hurts["target_query"].isin(rows) & (hurts["source_query"] >= 0)]
        lost = to_it.groupby("source_query")["lost_ms"].sum()
        attributed = {int(row): float(ms) for row, ms in lost.items()}
        return blame_by_removal(self.model, rows, attributed, progress)

    def _rows(self, wanted: str, option: str) -> tuple[int, ...]:
        """Rows of the queries that an option names."""
        return find_query(self._of.tables.queries, wanted, option)


def find_query(queries: pd.DataFrame, wanted: str, option: str = "--target") -> tuple[int, ...]:
    """Rows of the queries with this id, id's last part, name or fingerprint.

    The name that was recorded counts, too, with or without what told it from others.
    """
    ids, recorded = texts(queries, "query_id"), texts(queries, "family")
    ends = [i.rsplit("/", 1)[-1] for i in ids]
    for column, value in (
        (ids, wanted),
        (ends, wanted),
        (texts(queries, "name"), wanted),
        ([name.rpartition(" (")[0] for name in texts(queries, "name")], wanted),
        (texts(queries, "fingerprint"), wanted),
        (recorded, family(wanted)),
        (
            [f"{name} ({end})" for name, end in zip(recorded, ends, strict=True)],
            f"{family(wanted.rpartition(' (')[0])} ({wanted.rpartition(' (')[2]}",
        ),
    ):
        rows = tuple(row for row, one in enumerate(column) if one and one == value)
        if rows:
            return rows
    from difflib import get_close_matches

    known = dict.fromkeys([*texts(queries, "name"), *ids])
    near = get_close_matches(wanted, known, n=3, cutoff=0.4)
    advice = f"did you mean {' or '.join(near)}" if near else "see `iqcar queries`"
    raise UsageError(f"no query is called {wanted!r}", option, advice)
