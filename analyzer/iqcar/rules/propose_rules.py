"""Proposes rules for the scheduler from who hurts whom (iQCAR §6.3), and tells which stay needed.

``AGG`` gives each of the top aggressive queries a pool of its own with a share of 1/n, n being
the most queries that ran at once in its application, 2 at least. ``DYNP`` raises the priority of
the top victims and lowers that of the top sources. Most queries are both: they count as the one
they are more of (time that others lost to them, less time they lost to others), because a query
cannot get more and less at the same time.

Topics shape this (:mod:`iqcar.rules.topic_shapes`): what a culprit takes from the queries that
share a topic counts as one sum, and a query that is slow for what no scheduler can mend is no
victim.

A rule that works removes the blame that it was proposed for, and a cap even removes the hog's
launches, so that a replay of the run without the rule would find little to run. What no rule
changes is demand: the tasks that a stage has not finished, running or not. A rule is needed while
the queries it holds back and those it helps want slots at the same time, and all together want more
than there are. Of a rule against other waits the latter is not asked.

Paper: iQCAR | §6.3: rules | leaves it: what a replay shows to help | tests/rules/test_rules.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.enums import Resource
from iqcar.rules.recorded_setup import QueryLosses, gather, most_at_once, sure_slots
from iqcar.rules.rule import QueryType, Rule, RuleType, in_a_sentence
from iqcar.rules.topic_shapes import Nobodys, TopicShapes
from iqcar.rules.vocabulary import (
    LONG_TASKS,
    OTHER_APPLICATION,
    SOURCE,
    advice_for,
    vocabulary,
)
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph


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

    source, target: (n_queries,), bool; queries whose tasks ran, and those that waited.
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


MANY_TASKS = 100
"""Tasks of a stage from which on starting them matters: at some 10 ms each it is a second."""
SHORT_MS = 50.0
"""Median run time below which tasks are small: starting one takes 5 to 20 ms on a warm executor."""
START_SHARE = 0.5
"""Part of the tasks' time that goes into starting them and handling their end, from which on their
number, and not their work, is what the stage takes."""

LARGE_BYTES = 256.0 * 2**20
"""Median data read by a task from which on it is large: twice what Spark gives it of a file."""
IDLE_SHARE = 0.5
"""Part of the slots that had nothing to do meanwhile, from which on more tasks would have helped:
with fewer idle slots, a stage twice as wide hardly ends earlier."""

_SMALL = ["stage", "query", "app", "tasks", "run_ms", "start_ms", "held_ms"]
_LARGE = ["stage", "query", "app", "tasks", "slots", "bytes", "busy", "delay_ms"]
"""Columns of what is found."""


def small_tasks(tables: Tables) -> pd.DataFrame:
    """Find stages whose tasks take longer to start than to run.

    Returns: stage, query, app, tasks, run_ms (median), start_ms (slot time that starting tasks and
    handling their ends took), held_ms (the same as a part of the stage's elapsed time); the largest
    start_ms first.
    """
    tasks = tables.tasks
    lasted = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    run = tasks["run_ms"].to_numpy(np.float64)
    usable = (tasks["status"] == "success").to_numpy(bool) & (lasted > 0) & np.isfinite(run)
    usable &= ((tasks["stage"] >= 0) & (tasks["query"] >= 0)).to_numpy(bool)
    stage = tasks["stage"].to_numpy(np.int64)[usable]
    usable[usable] = (np.bincount(stage) >= MANY_TASKS)[stage]
    if not usable.any():
        return pd.DataFrame(columns=_SMALL)
    names = ["stage", "query", "app", "launch_ms", "finish_ms", "run_ms"]
    frame = tasks.loc[usable, names].assign(
        lasted=lasted[usable], start=np.maximum(lasted - run, 0.0)[usable]
    )
    stages = frame.groupby("stage", sort=True).agg(
        query=("query", "first"),
        app=("app", "first"),
        tasks=("lasted", "size"),
        run_ms=("run_ms", "median"),
        start_ms=("start", "sum"),
        lasted=("lasted", "sum"),
        first=("launch_ms", "min"),
        last=("finish_ms", "max"),
    )
    part = stages["start_ms"] / stages["lasted"]
    stages = stages.assign(held_ms=part * (stages["last"] - stages["first"]))
    small = (stages["run_ms"] < SHORT_MS) & (part >= START_SHARE)
    found: pd.DataFrame = (
        stages[small].reset_index().sort_values(["start_ms", "stage"], ascending=[False, True])
    )
    return found[_SMALL].reset_index(drop=True)


def large_tasks(tables: Tables, slots: dict[int, int]) -> pd.DataFrame:
    """Find stages of tasks with much data that left most slots with nothing to do.

    Returns: stage, query, app, tasks, slots, bytes (median read by a task), busy (slots on average
    while the stage ran, whoever's tasks), delay_ms (elapsed time that its work would have taken
    less on all slots); the largest first.

    slots: tasks that fit at once, by application; of those where that is known
    """
    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    parts = tasks[["input_bytes", "remote_bytes", "local_bytes"]].to_numpy(np.float64)
    ran = np.isfinite(launch) & (finish > launch)
    usable = ran & (tasks["status"] == "success").to_numpy(bool)
    usable &= ((tasks["stage"] >= 0) & (tasks["query"] >= 0)).to_numpy(bool)
    read, stage = np.nansum(parts, axis=1), tasks["stage"].to_numpy(np.int64)
    usable &= np.isin(stage, stage[usable & (read >= LARGE_BYTES)])
    if not usable.any():
        return pd.DataFrame(columns=_LARGE)
    frame = tasks.loc[usable, ["stage", "query", "app", "launch_ms", "finish_ms"]].assign(
        bytes=read[usable]
    )
    stages = frame.groupby("stage", sort=True).agg(
        query=("query", "first"), app=("app", "first"), tasks=("bytes", "size"),
        bytes=("bytes", "median"), first=("launch_ms", "min"), last=("finish_ms", "max"),
    )  # fmt: skip
    stages = stages.assign(slots=[slots.get(app, 0) for app in stages["app"].tolist()])
    stages = stages[(stages["bytes"] >= LARGE_BYTES) & (stages["tasks"] < stages["slots"])]
    app = tasks["app"].to_numpy(np.int64)
    busy: list[float] = []
    for row in stages.to_dict("records"):
        of_app = ran & (app == row["app"])
        shared = np.minimum(finish[of_app], row["last"]) - np.maximum(launch[of_app], row["first"])
        busy.append(float(np.maximum(shared, 0.0).sum() / (row["last"] - row["first"])))
    found = stages.reset_index().assign(busy=np.array(busy, np.float64))
    idle = np.maximum(1.0 - found["busy"] / np.maximum(found["slots"], 1), 0.0)
    found = found.assign(delay_ms=idle * (found["last"] - found["first"]))
    found = found.loc[(idle >= IDLE_SHARE).to_numpy(bool), _LARGE]
    whole: pd.DataFrame = found.sort_values(["delay_ms", "stage"], ascending=[False, True])
    return whole.reset_index(drop=True)


TOP = 3
"""Rules per kind (top-k); the paper's experiments use k = 3 (§7.1)."""

MIN_LOST_SHARE = 0.01
"""A query is a victim from this share of its duration on, lost to other queries. Two runs of one
query on an idle cluster differ by more than 1 %: less cannot be told from chance."""

MIN_LOST_MS = 100.0
"""… and from this many ms on, below which a person does not notice a delay. The same holds for
what a source cost its victims."""

ORDINARY_PRIORITY = 1.0
"""Priority of a query whose earlier priority is not known: the weight of a FAIR pool by default."""


def propose(
    tables: Tables,
    graph: IQCGraph,
    *,
    top: int = TOP,
    priorities: Mapping[str, float] | None = None,
    shapes: TopicShapes | None = None,
) -> tuple[Rule, ...]:
    """Propose rules for the next run of this workload.

    A victim's priority is P + i as in the paper, i counted so that the worst-hit gets most. The
    paper does not say by how much to lower a source: here P / (1 + i), the mirror image, which
    stays above 0 as a weight must.

    Returns: Rules for sources, AGG and DYNP of each, then DYNP rules for victims, each with the
    worst first; none where hardly anything was lost to other queries. The same input gives the same
    rules.

    tables: The tables the graph was built from.
    graph: With every query whose loss should count as a target.
    top: At most this many sources, and this many victims.
    priorities: Priorities of the run that was recorded, above 0; :data:`ORDINARY_PRIORITY` by
        default.
    shapes: What recurring topics say of these queries; nothing by default.
    """
    evidence, shapes = gather(tables, graph), shapes or TopicShapes()
    counted = _noticed(evidence.suffered_ms, evidence.duration_ms) & ~_left_out(evidence, shapes)
    shared = _shared(evidence, shapes)
    writer = _RuleWriter(tables, evidence, counted, shared, priorities or {})
    victims = writer.victims(top)
    sources = writer.sources(top)
    rules: list[Rule] = []
    agg, dynp = count(1), count(1)
    for step, source in zip(range(len(sources), 0, -1), sources, strict=True):
        # A share of the whole is no limit.
        if writer.at_once(source) > 1:
            rules.append(writer.own_pool(source, next(agg)))
        rules.append(writer.priority(source, next(dynp), step))
    for step, victim in zip(range(len(victims), 0, -1), victims, strict=True):
        rules.append(writer.priority(victim, next(dynp), step))
    return tuple(rules)


def _noticed(lost_ms: Floats, duration_ms: Floats) -> Flags:
    """Whether so much was lost that a rule is worth it."""
    found: Flags = (lost_ms >= MIN_LOST_MS) & (lost_ms >= MIN_LOST_SHARE * duration_ms)
    return found


def _left_out(evidence: QueryLosses, shapes: TopicShapes) -> Flags:
    """Recurring queries that lost more to what is nobody's fault than to others."""
    held = [
        shapes.nobodys[one].held_ms if one in shapes.nobodys else 0.0
        for one in evidence.fingerprints
    ]
    left_out: Flags = (np.array(held) > 0) & (np.array(held) >= evidence.suffered_ms)
    return left_out


def left_out(tables: Tables, graph: IQCGraph, shapes: TopicShapes) -> list[Nobodys]:
    """Return the queries that lost to others what counts, but for which no rule is proposed."""
    evidence = gather(tables, graph)
    which = _left_out(evidence, shapes) & _noticed(evidence.suffered_ms, evidence.duration_ms)
    return [shapes.nobodys[evidence.fingerprints[group]] for group in np.flatnonzero(which)]


SPILLED_SHARE = 0.5
"""Part of the bytes that a query's tasks moved from which on what it spilled is its load."""


def _spills(tables: Tables, evidence: QueryLosses) -> Flags:
    """Tell which recurring queries load disks mostly by spilling: they lack memory themselves."""
    tasks, size = tables.tasks, len(evidence.fingerprints)
    query = tasks["query"].to_numpy(np.int64)
    group = evidence.group[query[query >= 0]]

    def moved(*names: str) -> Floats:
        each = tasks[list(names)].to_numpy(np.float64)[query >= 0]
        found: Floats = np.bincount(group, np.nansum(each, axis=1), size).astype(np.float64)
        return found

    spilled = 2.0 * moved("disk_spilled_bytes")
    others = moved("input_bytes", "output_bytes", "shuffle_write_bytes", "remote_bytes")
    return (spilled > 0) & (spilled >= SPILLED_SHARE * (spilled + others))


@dataclass(frozen=True)
class _Shared:
    """Whom topics name as culprits, of whom together enough is lost to them.

    pairs: (pairs,) those of a culprit and a query that shares its topic.
    culprit, sharing: (g,) recurring queries that are one, and that share one's topic and are none.
    """

    pairs: Flags
    culprit: Flags
    sharing: Flags


def _shared(evidence: QueryLosses, shapes: TopicShapes) -> _Shared:
    """Find the culprits of topics, where what all queries that share one lost is noticed."""
    pairs, prints = evidence.pairs, np.array(evidence.fingerprints, object)
    found = np.zeros(len(pairs), bool)
    culprit, sharing = np.zeros(len(prints), bool), np.zeros(len(prints), bool)
    for (name, resource), victims in shapes.shared.items():
        victim = np.isin(prints, sorted(victims))
        mine = (prints == name)[pairs["source_group"].to_numpy(np.int64)]
        mine &= victim[pairs["target_group"].to_numpy(np.int64)]
        mine &= (pairs["resource"] == resource).to_numpy(bool)
        lost = np.array([pairs["lost_ms"].to_numpy(np.float64)[mine].sum()])
        if _noticed(lost, evidence.duration_ms[victim].sum()).all():
            found |= mine
            culprit |= prints == name
            sharing |= victim
    return _Shared(found, culprit, sharing & ~culprit)


@dataclass(frozen=True)
class _Side:
    """One recurring query as a victim or as a source, with its evidence."""

    query_type: QueryType
    group: int
    pairs: pd.DataFrame
    """Its rows of the evidence."""
    lost_ms: float
    some_unnamed: bool  # whether more was lost than the pairs name

    def most(self, column: str) -> tuple[Any, float]:
        """Return the value of a column with most lost time, and that time; equals: the first."""
        sums = self.pairs.groupby(column, sort=True)["lost_ms"].sum()
        return sums.idxmax(), float(sums.max())

    @property
    def run(self) -> int:
        """Query row of the run with most evidence."""
        return int(self.most(self.query_type.value)[0])

    @property
    def resource(self) -> Resource:
        return Resource(self.most("resource")[0])

    @property
    def other(self) -> QueryType:
        is_target = self.query_type is QueryType.TARGET
        return QueryType.SOURCE if is_target else QueryType.TARGET


class _RuleWriter:
    def __init__(
        self,
        tables: Tables,
        evidence: QueryLosses,
        counted: Flags,
        shared: _Shared,
        priorities: Mapping[str, float],
    ) -> None:
        self.tables = tables
        self.evidence = evidence
        self.counted, self.shared = counted, shared
        self.priorities = priorities
        self.names = texts(tables.queries, "name")
        self.called = [in_a_sentence(name) for name in self.names]
        self.ids = texts(tables.queries, "query_id")
        self.app = tables.queries["app"].to_numpy(np.int64)
        self._split: dict[tuple[QueryType, int], str] = {}

    def victims(self, top: int) -> list[_Side]:
        """Return recurring queries that lost more to others than others lost to them, and those
        that share a culprit.
        """
        more = (self.evidence.net_ms() < 0) & ~self.shared.culprit
        wanted = self.counted & (more | self.shared.sharing)
        pairs = self.evidence.pairs
        return self._ranked(QueryType.TARGET, pairs, wanted, top)

    def sources(self, top: int) -> list[_Side]:
        """Return recurring queries that cost the counted victims more than they lost, and culprits
        of those that share a topic, who are no sources themselves.
        """
        pairs = self.evidence.pairs
        pairs = pairs[self.counted[pairs["target_group"].to_numpy(np.int64)] | self.shared.pairs]
        more = (self.evidence.net_ms() > 0) & ~self.shared.sharing
        more &= ~_spills(self.tables, self.evidence)
        return self._ranked(QueryType.SOURCE, pairs, more | self.shared.culprit, top)

    def _ranked(
        self, query_type: QueryType, pairs: pd.DataFrame, wanted: Flags, top: int
    ) -> list[_Side]:
        fingerprints = self.evidence.fingerprints
        group = pairs[f"{query_type}_group"].to_numpy(np.int64)
        named = np.bincount(group, pairs["lost_ms"], minlength=len(fingerprints))
        # Where nobody is named nothing can be said of the other side.
        unnamed = np.where(named > 0, self.evidence.unnamed_ms[query_type.value], 0.0)
        lost = named + unnamed
        # Rules match on the fingerprint: a run without one cannot be recognised when it recurs.
        candidates = [
            int(g) for g in np.flatnonzero(wanted & (lost >= MIN_LOST_MS)) if fingerprints[g]
        ]
        candidates.sort(key=lambda g: (-lost[g], fingerprints[g]))
        return [
            _Side(query_type, g, pairs[group == g], float(lost[g]), bool(unnamed[g] > 0))
            for g in candidates[: max(top, 0)]
        ]

    def at_once(self, side: _Side) -> int:
        """Count the queries of its application that ran at once at most."""
        return most_at_once(self.tables, int(self.app[side.run]))

    def own_pool(self, side: _Side, order: int) -> Rule:
        """AGG: a pool of its own with the share it is entitled to."""
        n = self.at_once(side)
        entitled = f"; at most {n} queries of its application ran at once, so its share is 1/{n}"
        return self._rule(RuleType.AGG, side, order, 1.0 / n, entitled)

    def priority(self, side: _Side, order: int, step: int) -> Rule:
        """DYNP: a priority raised or lowered by a number of steps."""
        fingerprint = self.evidence.fingerprints[side.group]
        before = self.priorities.get(fingerprint, ORDINARY_PRIORITY)
        raised = side.query_type is QueryType.TARGET
        value = before + step if raised else before / (1 + step)
        return self._rule(RuleType.DYNP, side, order, value, "")

    def _rule(
        self, rule_type: RuleType, side: _Side, order: int, value: float, addition: str
    ) -> Rule:
        run, resource = side.run, side.resource
        # Slots are contended within one application only, which is where pools act.
        helps_pools = resource is Resource.SLOTS
        return Rule(
            id=f"{rule_type}-{order}",
            rule_type=rule_type,
            query_id=self.ids[run],
            query_type=side.query_type,
            rule_value=float(value),
            rule_order=order,
            fingerprint=self.evidence.fingerprints[side.group],
            query_name=self.names[run],
            resource=resource.value,
            reason=self._reason(side) + addition + ".",
            helps_pools=helps_pools,
            advice=self._long_tasks(side) if helps_pools else self._advice(side),
        )

    def _long_tasks(self, side: _Side) -> str:
        """What helps where long tasks hold the slots; empty where they do not."""
        key = side.query_type, side.group
        if key not in self._split:
            self._split[key] = self._to_split(side)
        return self._split[key]

    def _to_split(self, side: _Side) -> str:
        rows = side.pairs[side.pairs["resource"] == Resource.SLOTS.value]
        if side.query_type is QueryType.TARGET:
            rows = rows[rows["source_group"] == side.most("source_group")[0]]
        queries = np.arange(len(self.names))
        source, target = (np.isin(queries, rows[name]) for name in ("source", "target"))
        if not held_by_long_tasks(self.tables, source, target):
            return ""
        return split_tasks(self.names[int(rows["source"].iloc[0])])

    def _advice(self, side: _Side) -> str:
        """What helps against the resource, and first of all if the other is elsewhere."""
        rows = side.pairs
        across = self.app[rows["source"]] != self.app[rows["target"]]
        elsewhere = float(rows["lost_ms"].to_numpy()[across].sum())
        texts_ = [advice_for(OTHER_APPLICATION)] if elsewhere > side.lost_ms / 2 else []
        return " ".join([*texts_, advice_for(side.resource.value)])

    def _reason(self, side: _Side) -> str:
        rows, name = side.pairs, self.called[side.run]
        own, other = side.query_type.value, side.other.value
        runs = rows[own].nunique()
        every = int(np.count_nonzero(self.evidence.group == side.group))
        counted = f"{runs} of {every} runs" if runs < every else f"{runs} runs"
        who = f"{counted} of {name} (one rule for all)" if every > 1 else name
        partner, partner_ms = side.most(f"{other}_group")
        partner_run = int(rows[rows[f"{other}_group"] == partner][other].iloc[0])
        cause = vocabulary()[side.resource.value].name
        lost, caused = _time(side.lost_ms), _time(side.most("resource")[1])
        if side.some_unnamed:
            caused = f"at least {caused}"
        worst = f"{self.called[partner_run]} ({_time(partner_ms)})"
        if side.query_type is QueryType.TARGET:
            # The share is of the runs that lost time; the floor counts every run.
            duration = float(self.tables.queries["duration_ms"].iloc[rows[own].unique()].sum())
            share = f" ({percent(side.lost_ms / duration)})" if duration > 0 else ""
            text = f"{who} lost {lost} of {_time(duration)}{share} to other queries, "
            text += f"{caused} of it {cause}, most to {worst}"
            back = self.evidence.inflicted_ms[side.group]
            return text + (f"; others lost {_time(back)} to it" if back >= MIN_LOST_MS else "")
        others = rows[f"{other}_group"].nunique()
        victims = f"{others} other queries" if others > 1 else "Another query"
        if side.some_unnamed:
            victims = f"{others} and more other queries"
        text = f"{victims} lost {lost} to {who}, {caused} of it {cause}, most {worst}"
        back = self.evidence.suffered_ms[side.group]
        return text + (f"; it lost {_time(back)} to others" if back >= MIN_LOST_MS else "")


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


HELD_BACK, HELPED, OTHERS = range(3)
"""Sides of a rule that demand is counted for."""

OPEN = ("running", "waiting")
"""Statuses of tasks that have not ended."""


@dataclass(frozen=True)
class Need:
    """What some time of a run says of a rule in force.

    needed: whether those it helps would wait for those it holds back again without it.
    why: the same in words, a clause.
    told: whether both ran, so that the time tells.
    harmed: whether those it helps were measured to be slower since it acts.
    """

    needed: bool
    why: str
    told: bool = True
    harmed: bool = False


def needs_of(rules: Iterable[Rule], tables: Tables, start_ms: float, end_ms: float) -> list[Need]:
    """Look up for each rule in force whether some time of a run needed it.

    tables: Of one application; tasks that run or wait count to the end of that time, those that
        wait only where they have rows (a running application).
    start_ms, end_ms: That time, by the log's clock.
    """
    slots = sure_slots(tables, 0) if len(tables.applications) else None
    return [_need(rule, tables, start_ms, end_ms, slots) for rule in rules]


def victims_of(rule: Rule) -> frozenset[str]:
    """Return the fingerprints that a rule is to help; empty: everybody else."""
    if rule.query_type is QueryType.TARGET:
        return frozenset((rule.fingerprint,))
    listed = (rule.expected or {}).get("victim_fingerprints") or ()
    return frozenset(one for one in listed if isinstance(one, str))


def sides_of(rule: Rule, tables: Tables) -> Ints:
    """Return for each query whether the rule holds it back, helps it, or neither.

    Returns ndarray of shape (n_queries,), int64.
    """
    fingerprints = texts(tables.queries, "fingerprint")
    victims = victims_of(rule)
    if rule.query_type is QueryType.TARGET:
        sides = [HELPED if one in victims else HELD_BACK for one in fingerprints]
    else:
        rest = OTHERS if victims else HELPED
        sides = [
            HELD_BACK if one == rule.fingerprint else HELPED if one in victims else rest
            for one in fingerprints
        ]
    return np.array(sides, np.int64)


def _need(rule: Rule, tables: Tables, start_ms: float, end_ms: float, slots: int | None) -> Need:
    side = np.append(sides_of(rule, tables), OTHERS)[tables.stages["query"].to_numpy(np.int64)]
    lasted, demand = demand_of(tables, side, start_ms, end_ms)
    wanted = demand > 0
    both = wanted[HELD_BACK] & wanted[HELPED]
    of_slots = rule.resource == Resource.SLOTS.value
    # A disk, a network or processors are short for tasks that all have slots.
    short = both & (demand.sum(axis=0) > slots) if of_slots and slots is not None else both
    contended = float(lasted[short].sum())
    least = max(MIN_LOST_MS, MIN_LOST_SHARE * (end_ms - start_ms))
    if contended >= least:
        seconds = f"{contended / 1000:.1f} s"
        did = "wanted slots" if of_slots else "ran side by side"
        return Need(True, f"those it holds back and those it helps {did} for {seconds}")
    if not wanted[HELD_BACK].any():
        return Need(False, "what it holds back did not run", told=False)
    if not wanted[HELPED].any():
        return Need(False, "nobody it helps ran", told=False)
    if not of_slots or not both.any():
        return Need(False, "what it holds back and those it helps did not run at the same time")
    return Need(False, f"all together hardly wanted more than the {slots} slots")


def demand_of(tables: Tables, side: Ints, start_ms: float, end_ms: float) -> tuple[Floats, Floats]:
    """Count the unfinished tasks of open stages over a window.

    Returns ndarray of shape (n_pieces,), ms: how long each piece of the window lasted. Returns
    ndarray of shape (3, n_pieces): tasks that each side wanted to run in it.

    side: (n_stages,), int64; which of the three sides each stage counts for.
    """
    stages, tasks = tables.stages, tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    status = tasks["status"].astype(object).to_numpy()
    # A failed attempt comes again as another row, and a copy is of a task that counts already.
    counts = np.isin(status, ("success", *OPEN)) & ~tasks["speculative"].to_numpy(bool)
    opened = np.fmin(
        stages["submission_ms"].to_numpy(np.float64), stages["first_launch_ms"].to_numpy(np.float64)
    )
    rows = np.flatnonzero(counts & (stage >= 0) & np.isfinite(np.append(opened, np.nan)[stage]))
    stage = stage[rows]
    closed = stages["completion_ms"].to_numpy(np.float64)[stage]
    finish = tasks["finish_ms"].to_numpy(np.float64)[rows]
    finish[np.isin(status[rows], OPEN)] = np.inf
    until = np.fmin(finish, np.where(np.isfinite(closed), closed, np.inf))
    when = np.concatenate([opened[stage], until])
    change = np.repeat([1.0, -1.0], len(rows))
    of_side = np.tile(side[stage], 2)
    inside = np.clip(when, start_ms, end_ms)
    edges = np.unique(np.concatenate([[start_ms, end_ms], inside]))
    demand = np.zeros((3, len(edges)))
    # What ends with or after the window leaves its last piece as it is.
    before_end = when < end_ms
    at = np.searchsorted(edges, inside)
    np.add.at(demand, (of_side[before_end], at[before_end]), change[before_end])
    return np.diff(edges), np.cumsum(demand, axis=1)[:, :-1]
