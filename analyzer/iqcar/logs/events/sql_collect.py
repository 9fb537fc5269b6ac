"""Collecting SQL executions: descriptions, plans, and their metrics as columns, waits too."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, islice, repeat
from math import isfinite, isnan, nan
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from iqcar.logs.events.lenient import BadNumbers
from iqcar.logs.events.operators import (
    NO_OPERATORS,
    Operators,
    hash_plan,
    hash_plan_text,
    nodes_of,
    operators_of,
    plan_name,
    sources_of,
)
from iqcar.logs.events.root_cause import root_cause
from iqcar.logs.events.settings import clean_description, is_user_named, settings_of
from iqcar.logs.events.structs import (
    DriverAccumUpdates,
    PlanNode,
    SqlAdaptive,
    SqlEnd,
    SqlMetricUpdates,
    SqlStart,
)
from iqcar.logs.events.task_structs import NOT_FITTING, Accumulable
from iqcar.logs.events.wait_metrics import DeclaredWaits, wait_of
from iqcar.logs.text import BLANK, END, compiled, encoded, redact_text

_JOINS = ("SortMergeJoin", "ShuffledHashJoin")
_TYPE = re.compile(r"\], (Inner|Cross|LeftOuter|RightOuter|LeftSemi|LeftAnti|ExistenceJoin)\b")
_LEFT_TYPES, _RIGHT_TYPES = ("Inner", "Cross", "RightOuter"), ("RightOuter",)
"""Types of which Spark can build the left side, and of which it cannot build the right one."""
_HASHED = "Exchange hashpartitioning("
_ASKED_FOR = "REPARTITION"
"""In the text of an exchange that the user asked for: it stays whatever the join does."""
_NEEDING = 2
"""Operators above a join that need its partitioning: one window or join, or two aggregates, which
are the partial and the final one."""


class ShuffledJoin(NamedTuple):
    """A join, and the accumulators of the data sizes that its sides' exchanges wrote."""

    left: float
    right: float
    builds_left: bool
    """Whether its type lets Spark broadcast the left side."""
    builds_right: bool


def shuffled_joins(nodes: Sequence[PlanNode]) -> list[ShuffledJoin]:
    """Return the joins that would leave out an exchange if one side were broadcast.

    That is so where both sides are exchanged for the join alone: nothing above needs the same
    partitioning, and no other part of the plan reads what was exchanged.

    nodes: as :func:`~iqcar.logs.events.operators.nodes_of` returns them.
    """
    if not any(node.name.startswith(_JOINS) for node in nodes) or any(
        node.name == "ReusedExchange" and _HASHED in node.text for node in nodes
    ):
        return []
    found = []
    stack = [(nodes[0], 0)]
    while stack:
        node, above = stack.pop()
        is_join = node.name.startswith(_JOINS)
        if is_join and above < _NEEDING and len(node.children) == 2:
            told = _TYPE.search(node.text)
            left, right = map(_exchanged, node.children)
            if told and left is not None and right is not None:
                builds = told[1] in _LEFT_TYPES, told[1] not in _RIGHT_TYPES
                found.append(ShuffledJoin(left, right, *builds))
        if node.name.endswith("Exchange"):
            above = 0
        elif is_join or node.name.startswith("Window"):
            above += _NEEDING
        elif node.name.endswith("Aggregate"):
            above += 1
        stack += [(child, above) for child in node.children]
    return found


def _exchanged(node: PlanNode) -> float | None:
    """Return the accumulator of what an exchange right below a join wrote; None without one."""
    while len(node.children) == 1 and (node.name == "Sort" or node.name.startswith(NO_OPERATORS)):
        node = node.children[0]
    if not node.text.startswith(_HASHED) or _ASKED_FOR in node.text:
        return None
    return next((one.id for one in node.metrics if one.name.startswith("data size")), None)


_LARGEST = 2.0**63
"""No sum of a metric reaches this: Spark counts in 64-bit integers."""


class MetricColumns:
    """Metrics in the order in which they were declared.

    rows: each accumulator's row.
    runs: list of (int, int); an SQL execution, and how many metrics it declared first; the next
        ones, and so on.
    nodes, names, units: its plan node, its name, and the unit of the table.
    factors: array of float64; what makes that unit of Spark's.
    """

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []
        self.nodes: list[str] = []
        self.names: list[str] = []
        self.units: list[str] = []
        self.factors = array("d")
        self._stages = array("d")
        self._driver = array("d")

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self,
        accumulators: Iterable[int],
        execution: int,
        nodes: Collection[str],
        names: Iterable[str],
        units: Iterable[str],
        factors: Iterable[float],
    ) -> None:
        """Add metrics that one execution declared, whose accumulators are new."""
        first, more = len(self.nodes), len(nodes)
        self.rows.update(zip(accumulators, range(first, first + more), strict=True))
        self.runs.append((execution, more))
        self.nodes += nodes
        self.names += names
        self.units += units
        self.factors.extend(factors)
        self._stages.extend(repeat(nan, more))
        self._driver.extend(repeat(nan, more))

    def told_by_stage(self, accumulator: int, value: float) -> None:
        """Take in Spark's own sum over all tasks so far; the last one counts."""
        self._stages[self.rows[accumulator]] = value

    def told_by_driver(self, accumulator: int, value: float) -> None:
        """Take in a value that the driver set; they are added up."""
        row = self.rows[accumulator]
        before = self._driver[row]
        self._driver[row] = value if isnan(before) else before + value

    def totals(self) -> NDArray[np.float64]:
        """Return each metric's sum in its unit: over tasks, or what the driver set; else NaN."""
        value = np.where(np.isnan(self._stages), self._driver, self._stages)
        return np.where(value < _LARGEST, value * np.array(self.factors), nan)

    def forget(self, accumulators: Container[float]) -> None:
        """Drop some metrics."""
        kept = [one not in accumulators for one in self.rows]
        self.rows = {one: row for row, one in enumerate(compress(self.rows, kept))}
        rows = iter(kept)
        self.runs = [(execution, sum(islice(rows, count))) for execution, count in self.runs]
        self.runs = [run for run in self.runs if run[1]]
        self.nodes = list(compress(self.nodes, kept))
        self.names = list(compress(self.names, kept))
        self.units = list(compress(self.units, kept))
        self.factors = array("d", compress(self.factors, kept))
        self._stages = array("d", compress(self._stages, kept))
        self._driver = array("d", compress(self._driver, kept))


_NS_PER_MS = 1e6
_UNITS = {"timing": "ms", "nsTiming": "ms", "size": "bytes", "sum": "count", "count": "count"}
"""Unit of a metric type in the table; ns are converted."""

MAX_METRIC = 200
"""Characters kept of a metric's name and of the name of its plan node."""

_WAIT = compiled(
    r"scan time|metadata time|spill|fetch wait|shuffle write time|remote (?:bytes|reqs|merged)"
    r"|shuffle bytes written|time to |sort time|peak memory|commit time|python|cloud storage"
    r"|filesystem read|broadcast|data size|number of (?:tasks|files|written files)|buffer time"
    r"|(?i:io wait)|part of shuffle file write|cumulative time"
)
"""Metrics that are a wait, or what a wait is due to: reading, spilling, shuffling, broadcasting,
feeding Python."""
_IN_NAME = compiled(
    rf"[{BLANK}]*(?:total )?\(min, med, max[^\n]*\){END}|[{BLANK}]*\((ms|bytes)\){END}"
)


@dataclass(slots=True)
class Execution:
    """One SQL execution, as far as the events so far tell."""

    root: float = nan
    description: str = ""
    plan_hash: str = ""
    start: float = nan
    end: float = nan
    error: str = ""
    succeeded: bool = False
    """Whether Spark says so."""
    plan_name: str = ""
    """A name made from the plan, where the description is empty."""
    tables: str = ""
    operators: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What its session had set."""
    joins: Sequence[ShuffledJoin] = ()
    """Those of its last plan."""


class DeclaredMetric(NamedTuple):
    """What the name and the type of a metric say of it."""

    name: str
    unit: str
    factor: float
    tells_wait: bool


@dataclass
class SqlCollector:
    """All SQL executions of one log."""

    executions: dict[int, Execution] = field(default_factory=dict)
    metrics: MetricColumns = field(default_factory=MetricColumns)
    seen: set[int] = field(default_factory=set)
    """Execution ids that SQL events named; jobs may name more."""
    declared_waits: DeclaredWaits = field(default_factory=DeclaredWaits)
    operators: Operators = field(default_factory=Operators)
    bad: BadNumbers = field(default_factory=BadNumbers)
    _declared: dict[float, int] = field(default_factory=dict)
    """Accumulators that a plan has declared, and the last execution that did; a plan that was
    changed declares most again."""

    def execution(self, number: float, *, seen: bool = True) -> Execution | None:
        """Return the execution of a number, made if new; None if it is no number."""
        if not isfinite(number) or number < 0:
            return None
        key = int(number)
        if seen:
            self.seen.add(key)
        found = self.executions.get(key)
        if found is None:
            found = self.executions[key] = Execution()
        return found

    def start(self, event: SqlStart) -> None:
        """Take in the start of an execution and its initial plan."""
        execution = self.execution(event.execution)
        if execution is None:
            return
        execution.description = clean_description(event.description)
        execution.start = event.time
        execution.settings = settings_of(event.settings, self.bad)
        if event.root is not None and event.root >= 0:
            execution.root = event.root
        if event.plan is not None and event.plan.name:
            nodes = nodes_of(event.plan)
            execution.plan_hash = hash_plan(nodes)
            if not execution.description:
                execution.plan_name = plan_name(nodes)
            execution.tables, execution.operators = sources_of(nodes), operators_of(nodes)
            execution.joins = shuffled_joins(nodes)
            self.operators.add(nodes)
            self._add_metrics(int(event.execution), nodes)
        elif text := _text(event.plan_text):
            execution.plan_hash = hash_plan_text(text)

    def adapt(self, event: SqlAdaptive) -> None:
        """Take in the metrics of a plan that was changed while running."""
        execution = self.execution(event.execution)
        if execution is not None and event.plan is not None:
            nodes = nodes_of(event.plan)
            self._add_metrics(int(event.execution), nodes)
            self.operators.add(nodes)
            execution.joins = shuffled_joins(nodes)

    def update_metrics(self, event: SqlMetricUpdates) -> None:
        """Take in metrics declared without a plan."""
        execution = self.execution(event.execution)
        if execution is not None:
            self._add_metrics(int(event.execution), [PlanNode(metrics=event.metrics)])

    def end(self, event: SqlEnd) -> None:
        """Take in the end of an execution."""
        execution = self.execution(event.execution)
        if execution is not None:
            execution.end = event.time
            execution.error = root_cause(event.error)
            # Spark ≥ 3.4 says that there was no error; before, it says nothing.
            execution.succeeded = event.error == ""

    def driver(self, event: DriverAccumUpdates) -> None:
        """Take in values that the driver set."""
        self.execution(event.execution)
        for update in event.updates:
            if _is_pair(update) and int(update[0]) in self.metrics.rows and update[1] >= 0:
                self.metrics.told_by_driver(int(update[0]), update[1])

    def stage(self, accumulables: Iterable[Accumulable]) -> None:
        """Take in Spark's sums over all tasks so far, which a completed stage repeats."""
        for one in accumulables:
            if isfinite(one.id) and int(one.id) in self.metrics.rows:
                value = _number(one.value)
                if value >= 0:
                    self.metrics.told_by_stage(int(one.id), value)

    def forget(self, executions: Container[int]) -> None:
        """Drop some executions, and what no other one declared."""
        for number in [number for number in self.executions if number in executions]:
            del self.executions[number]
        self.seen = {number for number in self.seen if number not in executions}
        gone = {one for one, number in self._declared.items() if number in executions}
        self._declared = {one: by for one, by in self._declared.items() if one not in gone}
        self.metrics.forget(gone)
        self.declared_waits.nanoseconds -= gone
        self.declared_waits.scans -= gone
        self.operators.forget(gone)

    def _add_metrics(self, number: int, nodes: Sequence[PlanNode]) -> None:
        """Take in the metrics of a plan."""
        known = self.metrics.rows
        accumulators = [metric.id for node in nodes for metric in node.metrics]
        new = set(accumulators).difference(self._declared)
        self._declared.update(zip(accumulators, repeat(number), strict=False))
        added: dict[int, tuple[str, str, str, float]] = {}
        for node in nodes if new else ():
            of_node = ""
            for metric in node.metrics:
                identity = metric.id
                if identity not in new:
                    continue
                new.remove(identity)
                wait = declared(metric.name[:MAX_METRIC], metric.type[:MAX_METRIC])
                if wait is None or not identity >= 0:
                    continue
                key = int(identity)
                if wait.tells_wait:
                    self.declared_waits.add(key, metric.name, metric.type, node.name)
                if wait.unit and key not in known and key not in added:
                    of_node = of_node or redact_text(node.name, MAX_METRIC)
                    added[key] = (of_node, wait.name, wait.unit, wait.factor)
        if added:
            self.metrics.add(added, number, *zip(*added.values(), strict=True))


@lru_cache(maxsize=1024)
def declared(metric: str, kind: str) -> DeclaredMetric | None:
    """Return what a metric's name and type say; None where it has nothing to do with waits.

    The unit is empty where the type is of none, and where the metric is not for the table.
    """
    name, shown = wait_name(metric)
    tells = wait_of(metric) is not None
    if not name and not tells:
        return None
    unit = _UNITS.get(kind, "") if name else ""
    factor = 1 / _NS_PER_MS if kind == "nsTiming" else 1.0
    return DeclaredMetric(name, unit and (shown or unit), factor, tells)


@lru_cache(maxsize=1024)
def wait_name(metric: str) -> tuple[str, str]:
    """Return a metric's name without what Spark 2 shows behind it, and the unit it shows there.

    Both are empty where the metric has nothing to do with waits.

    >>> wait_name("scan time total (min, med, max (stageId: taskId))"), wait_name("rows")
    (('scan time', ''), ('', ''))
    """
    stored = encoded(metric)
    if not _WAIT.search(stored):
        return "", ""
    shown = _IN_NAME.search(stored)
    name = stored[: shown.start()] if shown else stored
    unit: bytes = (shown and shown[1]) or b""
    return redact_text(name.decode("utf-8")), unit.decode("ascii")


def user_named(execution: Execution) -> bool:
    """Tell whether a user named the execution."""
    return _is_user_named(execution.description)


_is_user_named = lru_cache(512)(is_user_named)


def _is_pair(update: list[float]) -> bool:
    return len(update) == 2 and isfinite(update[0]) and isfinite(update[1])


def _number(raw: msgspec.Raw) -> float:
    text = bytes(raw).strip(b'"')
    try:
        return float(text)
    except ValueError:
        return nan


def _text(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str) if bytes(raw) else ""
    except NOT_FITTING:
        return ""
