"""Makes ADVICE rules from stragglers, their causes, and waits for executors that others held.

They are in the form of scheduler rules but no scheduler acts on them, and no pool is made. Nobody
can replay what a person's change will do: their expected effect is always None.

No scheduler pool acts across applications: what helps is the cluster manager's business, and what
the holder gives back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.causes.stragglers.features import MEMORY
from iqcar.causes.stragglers.find_stragglers import RESOURCE_OF
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.enums import BlameKind, Resource
from iqcar.rules.propose_rules import large_tasks, small_tasks
from iqcar.rules.recorded_setup import sure_slots
from iqcar.rules.rule import QueryType, Rule, RuleType, in_a_sentence
from iqcar.rules.straggler_delays import (
    SlowHost,
    cause_parts,
    held_up_ms,
    kind_parts,
    slow_hosts,
    tasks_at_once,
)
from iqcar.rules.topic_shapes import Nobodys
from iqcar.rules.vocabulary import AdviceKind, advice_kinds, filled, fits, version_of
from iqcar.tables import Tables, recorded_applications, texts
from iqcar.tables.arrays import Ints

LEAST_DELAY_MS = 1_000.0
"""Time over the median from which on advice is worth reading."""
LEAST_SHARE = 0.05
"""… and the share of its queries' duration by which stages can have ended later for it. Two runs of
one query on a shared cluster differ by as much."""
RESOURCES = {**RESOURCE_OF, MEMORY: Resource.MEMORY}
"""Resources that causes are a lack of."""
OF_HOSTS = {*RESOURCE_OF, "host-memory"}
"""Causes that are of a host."""
MOST_SHARE = 0.5
"""Part of the time from which on the host with most of it is named."""
SMALL_KIND, LARGE_KIND = "fewer-tasks", "more-tasks"
"""Kinds of advice that are not about stragglers but about :mod:`iqcar.rules.propose_rules`."""


def advise(
    tables: Tables,
    found: Stragglers,
    *,
    top: int,
    topics: pd.DataFrame | None = None,
    kinds: str = "",
    instead: Sequence[Nobodys] = (),
) -> tuple[Rule, ...]:
    """Make ADVICE rules from stragglers and their causes.

    Returns: What explains most time over the median first; none where nothing reaches
    :data:`LEAST_DELAY_MS` and :data:`LEAST_SHARE`.

    found: Of these tables.
    top: At most this many.
    topics: task, key: names of the stragglers' topics; reasons count those that say the same.
    kinds: File with kinds of advice in the format of ``rules/advice_kinds.json``; ours by default.
    instead: Queries that get advice in place of a pool, beyond `top` too.
    """
    vocabulary = advice_kinds(kinds)
    hosts = {slow.host: slow for slow in slow_hosts(tables, found)}
    parts = kind_parts(cause_parts(found), vocabulary, found, set(hosts))
    writer = _AdviceWriter(tables, found, hosts, vocabulary, topics)
    pieces = writer.sizes()
    for key, of_kind in parts.groupby("kind", sort=True):
        pieces += writer.pieces(str(key), of_kind)
    order = lambda piece: (-piece.delay_ms, piece.key, piece.fingerprint, piece.host)  # noqa: E731
    chosen = sorted(pieces, key=order)[: max(top, 0)]
    chosen = sorted(writer.with_instead(chosen, pieces, instead), key=order)
    return tuple(writer.rule(piece, number) for number, piece in enumerate(chosen, 1))


@dataclass(frozen=True)
class _AdvicePart:
    """What becomes one rule."""

    key: str
    delay_ms: float
    query: int
    """Row of the run with most evidence."""
    apps: frozenset[int]
    queries: frozenset[int]
    host: str
    reason: str
    fingerprint: str


class _AdviceWriter:
    def __init__(
        self,
        tables: Tables,
        found: Stragglers,
        hosts: Mapping[int, SlowHost],
        vocabulary: Mapping[str, AdviceKind],
        topics: pd.DataFrame | None,
    ) -> None:
        queries = tables.queries
        self.tables, self.found, self.hosts, self.vocabulary = tables, found, hosts, vocabulary
        self.fingerprints = texts(queries, "fingerprint")
        self.runs: dict[str, list[int]] = {}
        for row, fingerprint in enumerate(self.fingerprints):
            self.runs.setdefault(fingerprint, []).append(row)
        self.names = texts(queries, "name")
        self.ids = texts(queries, "query_id")
        self.app = queries["app"].to_numpy(np.int64)
        self.app_names = texts(tables.applications, "name")
        self.duration = np.nan_to_num(queries["duration_ms"].to_numpy(np.float64))
        self.at_once = tasks_at_once(tables)
        listed = topics.itertuples(index=False) if topics is not None else ()
        self.topic = {int(task): str(key) for task, key in listed}

    def pieces(self, key: str, parts: pd.DataFrame) -> list[_AdvicePart]:
        """Make the pieces of advice of one kind: per query, application or host."""
        kind = self.vocabulary[key]
        query = parts["query"].to_numpy(np.int64)
        group: list[object]
        if kind.scope == "query":
            group = [self.fingerprints[row] for row in query]
        elif kind.scope == "application":
            group = [self.app_names[row] for row in self.app[query]]
        else:
            group = parts["host"].tolist()
        made = []
        for name, mine in parts.groupby(np.array(group, object), sort=True):
            total = self._duration(kind, name, mine)
            held = held_up_ms(mine, self.at_once)
            delay = float(mine["delay_ms"].sum())
            worth = delay >= LEAST_DELAY_MS and total > 0 and held >= LEAST_SHARE * total
            if worth and mine["stage"].nunique() >= kind.stages:
                host = self.found.labels.host(int(str(name))) if kind.scope == "host" else ""
                reason = self._reason(kind, mine, held, total, host)
                made.append(self._piece(key, mine, delay, host, reason))
        return [piece for piece in made if piece.fingerprint]

    def sizes(self) -> list[_AdvicePart]:
        """Make the pieces of advice about tasks that are too small or too large."""
        small = small_tasks(self.tables).rename(columns={"start_ms": "delay_ms"})
        found = {app: sure_slots(self.tables, app) for app in sorted(set(self.app.tolist()))}
        large = large_tasks(self.tables, {app: n for app, n in found.items() if n is not None})
        large = large.assign(held_ms=large["delay_ms"])
        made = [
            *self._of_sizes(SMALL_KIND, small, self._too_small),
            *self._of_sizes(LARGE_KIND, large, self._too_large),
        ]
        return [piece for piece in made if piece.fingerprint]

    def with_instead(
        self, chosen: list[_AdvicePart], pieces: Sequence[_AdvicePart], instead: Sequence[Nobodys]
    ) -> list[_AdvicePart]:
        """Add advice for each query that gets it in place of a pool, and say so."""
        for one in instead:
            keys = [
                key
                for key, kind in self.vocabulary.items()
                if one.name.key in kind.topics and kind.scope != "host"
            ]
            known = [p for p in pieces if p.key in keys and one.query in p.queries]
            piece = known[0] if known else self._by_topic(keys[0], one)
            chosen = [p for p in chosen if p is not piece]
            said = (
                f"; no pool is made for {in_a_sentence(self.names[one.query])}: it would not help"
            )
            reason = f"{piece.reason.removesuffix('.')}{said}."
            chosen.append(replace(piece, reason=reason))
        return chosen

    def _by_topic(self, key: str, one: Nobodys) -> _AdvicePart:
        """Advice against a topic, where single causes do not come to any."""
        name = in_a_sentence(self.names[one.query])
        reason = (
            f"{one.stragglers:,} of {one.of:,} stragglers of {name} "
            f"have the recurring topic {one.name.name}; stages ended about {_time(one.held_ms)} "
            "later for that"
        )
        return _AdvicePart(
            key=key, delay_ms=one.delay_ms, query=one.query,
            apps=frozenset((int(self.app[one.query]),)), queries=frozenset((one.query,)), host="",
            reason=f"{reason}.", fingerprint=one.fingerprint,
        )  # fmt: skip

    def _of_sizes(
        self, key: str, stages: pd.DataFrame, said: Callable[[pd.DataFrame], str]
    ) -> Iterator[_AdvicePart]:
        if key not in self.vocabulary or not len(stages):
            return
        names = np.array([self.fingerprints[row] for row in stages["query"].tolist()], object)
        for name, mine in stages.groupby(names, sort=True):
            delay, held = float(mine["delay_ms"].sum()), float(mine["held_ms"].sum())
            total = self._duration(self.vocabulary[key], name, mine)
            if delay >= LEAST_DELAY_MS and total > 0 and held >= LEAST_SHARE * total:
                part = (
                    f"about {_time(held)} ({percent(held / total)}) of the {_time(total)} it ran."
                )
                yield self._piece(key, mine, delay, "", f"{said(mine)}, {part}")

    def _too_small(self, mine: pd.DataFrame) -> str:
        return (
            f"{_count(int(mine['tasks'].sum()), 'task')} in {_count(len(mine), 'stage')} of "
            f"{self._who(mine)} ran {mine['run_ms'].median():.0f} ms each (median) and took "
            f"{_time(float(mine['delay_ms'].sum()))} of slots to be started and ended"
        )

    def _too_large(self, mine: pd.DataFrame) -> str:
        worst = mine.iloc[0]
        stage = in_a_sentence(self.found.labels.stage(int(worst["stage"])))
        return (
            f"{_count(int(mine['tasks'].sum()), 'task')} in {_count(len(mine), 'stage')} of "
            f"{self._who(mine)} read {mine['bytes'].median() / 2**20:,.0f} MB each (median) while "
            f"most slots had nothing to do ({worst['busy']:.1f} of {int(worst['slots'])} busy in "
            f"stage {stage}): on all of them they would have taken less"
        )

    def _duration(self, kind: AdviceKind, name: object, mine: pd.DataFrame) -> float:
        """Duration of the queries that a group's share is of."""
        if kind.scope == "query":
            rows = self.runs[str(name)]
        else:
            rows = np.flatnonzero(np.isin(self.app, mine["app"].unique())).tolist()
        return float(self.duration[rows].sum())

    def _piece(
        self, key: str, mine: pd.DataFrame, delay: float, host: str, reason: str
    ) -> _AdvicePart:
        by_query = mine.groupby("query", sort=True)["delay_ms"].sum()
        by_query = by_query[[bool(self.fingerprints[int(row)]) for row in by_query.index]]
        worst = int(by_query.idxmax()) if len(by_query) else -1
        return _AdvicePart(
            key=key, delay_ms=delay, query=worst,
            apps=frozenset(int(row) for row in mine["app"].unique()),
            queries=frozenset(int(row) for row in mine["query"].unique()), host=host, reason=reason,
            fingerprint=self.fingerprints[worst] if worst >= 0 else "",
        )  # fmt: skip

    def _reason(
        self, kind: AdviceKind, mine: pd.DataFrame, held: float, total: float, host: str
    ) -> str:
        delay = float(mine["delay_ms"].sum())
        by_stage = mine.groupby("stage", sort=True)["delay_ms"].sum()
        where = f"in {_count(len(by_stage), 'stage')} of {self._who(mine)}"
        text = (
            f"{_count(mine['straggler'].nunique(), 'straggler')} {where} took {_time(delay)} over "
            f"the median, {filled(kind.how, host)}"
        )
        if len(by_stage) > 1:
            stage = in_a_sentence(self.found.labels.stage(int(by_stage.idxmax())))
            text += f", most in stage {stage} ({_time(float(by_stage.max()))})"
        text += self._on_host(kind, mine)
        slow = self.hosts.get(int(mine["host"].iloc[0])) if kind.scope == "host" else None
        if slow is not None:
            text += (
                f"; tasks there took {slow.ratio:.1f} times as long as those of the same stages "
                f"elsewhere, in {slow.slower} of {slow.stages} stages of {_count(slow.jobs, 'job')}"
            )
        whose = "it" if kind.scope == "query" else "that all queries"
        text += (
            f"; stages ended about {_time(held)} later for that, {percent(held / total)} of the "
            f"{_time(total)} {whose} ran"
        )
        return text + self._recurring(kind, mine) + "."

    def _on_host(self, kind: AdviceKind, mine: pd.DataFrame) -> str:
        """Name the host with most of it, where the causes are those of hosts."""
        if kind.scope == "host" or not set(kind.causes) & OF_HOSTS:
            return ""
        by_host = mine.groupby("host", sort=True)["delay_ms"].sum()
        part = float(by_host.max() / by_host.sum())
        name = self.found.labels.host(int(by_host.idxmax()))
        return f", {percent(part)} of it on {name}" if name and part >= MOST_SHARE else ""

    def _recurring(self, kind: AdviceKind, mine: pd.DataFrame) -> str:
        """Say how many of the stragglers have a topic that says the same."""
        task = self.found.stragglers["task"].to_numpy(np.int64)
        stragglers = {int(task[row]) for row in mine["straggler"].tolist()}
        same = sum(self.topic.get(row) in kind.topics for row in stragglers)
        if not same:
            return ""
        return f"; a recurring topic says the same of {same} of them"

    def _who(self, mine: pd.DataFrame) -> str:
        """Name the query with most, and count the other recurring queries and the runs."""
        rows = mine.groupby("query", sort=True)["delay_ms"].sum()
        worst = int(rows.idxmax())
        name = in_a_sentence(self.names[worst]) or self.ids[worst]
        prints = {self.fingerprints[int(row)] for row in rows.index}
        if len(prints) > 1:
            others = _count(len(prints) - 1, "other query", "other queries")
            return f"{name} and {others}"
        return f"{len(rows)} runs of {name}" if len(rows) > 1 else name

    def rule(self, piece: _AdvicePart, order: int) -> Rule:
        """Write one rule."""
        kind = self.vocabulary[piece.key]
        version = version_of(
            texts(self.tables.applications, "spark_version")[self.app[piece.query]]
        )
        sql, local = self._has_sql(piece.queries), self._is_local(piece.apps)
        settings = tuple(
            {"name": setting.name, "value": filled(setting.value, piece.host), "why": setting.why}
            for setting in kind.settings
            if fits(setting, version, sql, local)
        )
        resources = {str(RESOURCES[cause]) for cause in kind.causes if cause in RESOURCES}
        return Rule(
            id=f"{RuleType.ADVICE}-{order}", rule_type=RuleType.ADVICE,
            query_id=self.ids[piece.query], query_type=QueryType.TARGET,
            rule_value=round(piece.delay_ms, 3), rule_order=order, fingerprint=piece.fingerprint,
            query_name=self.names[piece.query],
            resource=resources.pop() if len(resources) == 1 else "", reason=piece.reason,
            helps_pools=False, advice=filled(self._do(kind, piece), piece.host), kind=piece.key,
            host=piece.host, settings=settings,
        )  # fmt: skip

    def _do(self, kind: AdviceKind, piece: _AdvicePart) -> str:
        """What to do; nobody is told to record what the plugin recorded."""
        recorded = recorded_applications(self.tables)[sorted(piece.apps)].all()
        return kind.do if recorded else f"{kind.do} {kind.unrecorded}".rstrip()

    def _has_sql(self, queries: frozenset[int]) -> bool:
        jobs = self.tables.jobs
        return bool((jobs["query"].isin(queries) & (jobs["sql_execution"] >= 0)).any())

    def _is_local(self, apps: frozenset[int]) -> bool:
        executors = self.tables.executors
        mine = executors[executors["app"].isin(apps).to_numpy(bool)]
        return bool(len(mine)) and set(texts(mine, "executor_id")) == {"driver"}


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


LEAST_IDLE = 0.1
"""Share of the time in which executors were held from which on idle ones are mentioned."""
_MANAGERS = (
    ("executors-yarn", "yarn", r"application_\d+_\d+"),
    ("executors-kubernetes", "k8s://", r"spark-[0-9a-f]{32}"),
    ("executors-standalone", "spark://", r"app-\d{14}-\d{4,}"),
)
"""Kinds of advice with the master's name and the form of ids of applications of each manager."""
OTHER_MANAGER = "executors-other"


class ExecutorWait(NamedTuple):
    """What one query lost to executors that one other query held.

    holder: row of the application that held them.
    source, target: rows of the queries.
    lost_ms, idle_ms: elapsed; the second to executors that ran no task.
    """

    holder: int
    source: int
    target: int
    lost_ms: float
    idle_ms: float


def manager_kind(tables: Tables, app: int) -> str:
    """Return the kind of advice for the cluster manager of an application."""
    master = texts(tables.applications, "master")[app]
    application_id = texts(tables.applications, "application_id")[app]
    for kind, prefix, form in _MANAGERS:
        if master.startswith(prefix) or (not master and re.fullmatch(form, application_id)):
            return kind
    return OTHER_MANAGER


def executor_advice_for(tables: Tables, app: int) -> str:
    """Say in a sentence or two what helps an application that waits for executors."""
    return advice_kinds()[manager_kind(tables, app)].do


def advise_on_executors(
    tables: Tables, graph: IQCGraph, *, top: int, after: int = 0, kinds: str = ""
) -> tuple[Rule, ...]:
    """Make one ADVICE rule for each application whose executors others waited for.

    Returns: The holder that cost most first; none where no query lost
    :data:`iqcar.rules.advice_rules.LEAST_DELAY_MS` and :data:`iqcar.rules.advice_rules.LEAST_SHARE`
    of its duration.

    tables: The tables the graph was built from.
    top: At most this many.
    after: Number of ADVICE rules before them: they are numbered on.
    kinds: File with kinds of advice in the format of ``rules/advice_kinds.json``; ours by default.
    """
    app = tables.queries["app"].to_numpy(np.int64)
    by_holder: dict[int, list[ExecutorWait]] = {}
    for wait in executor_waits(tables, graph):
        by_holder.setdefault(wait.holder, []).append(wait)
    holders = sorted(by_holder.items(), key=lambda one: (-_lost(one[1]), one[0]))
    found: list[Rule] = []
    for holder, waits in holders:
        rule = _rule(tables, app, holder, waits=waits, order=after + len(found) + 1, kinds=kinds)
        if rule is not None and len(found) < top:
            found.append(rule)
    return tuple(found)


def executor_waits(tables: Tables, graph: IQCGraph) -> list[ExecutorWait]:
    """Return what each query lost to executors that each query of another application held."""
    app = tables.queries["app"].to_numpy(np.int64)
    row_of = {query_id: row for row, query_id in enumerate(texts(tables.queries, "query_id"))}
    hurts = graph.who_hurts_whom(Resource.EXECUTORS)
    found = []
    for target in np.unique(hurts["target_query"].to_numpy(np.int64)).tolist():
        for row in graph.blame_rows(target):
            lost = row["by_resource"].get(Resource.EXECUTORS.value, 0.0)
            if row["kind"] == BlameKind.QUERY.value and lost > 0:
                source = row_of[row["source_query_id"]]
                found.append(ExecutorWait(int(app[source]), source, target, lost, row["idle_ms"]))
    return found


def _lost(waits: list[ExecutorWait]) -> float:
    return sum(wait.lost_ms for wait in waits)


def _rule(
    tables: Tables,
    app: Ints,
    holder: int,
    waits: list[ExecutorWait],
    order: int,
    kinds: str,
) -> Rule | None:
    """Write the rule about one holder; None where too little was lost."""
    queries, vocabulary = tables.queries, advice_kinds(kinds)
    prints, names = texts(queries, "fingerprint"), texts(queries, "name")
    of_target = {wait.target: 0.0 for wait in waits if prints[wait.target]}
    for wait in waits:
        if wait.target in of_target:
            of_target[wait.target] += wait.lost_ms
    worst = max(of_target, key=lambda row: of_target[row], default=-1)
    key = manager_kind(tables, int(app[worst]))
    if worst < 0 or key not in vocabulary:
        return None
    ran = float(queries["duration_ms"].iloc[worst])
    if of_target[worst] < LEAST_DELAY_MS or not of_target[worst] >= LEAST_SHARE * ran:
        return None
    kind = vocabulary[key]
    version = version_of(texts(tables.applications, "spark_version")[app[worst]])
    return Rule(
        id=f"{RuleType.ADVICE}-{order}",
        rule_type=RuleType.ADVICE,
        query_id=texts(queries, "query_id")[worst],
        query_type=QueryType.TARGET,
        rule_value=round(_lost(waits), 3),
        rule_order=order,
        fingerprint=prints[worst],
        query_name=names[worst],
        resource=Resource.EXECUTORS.value,
        reason=_reason(tables, holder, waits, worst, of_target[worst]),
        helps_pools=False,
        advice=kind.do,
        kind=key,
        settings=tuple(
            {"name": setting.name, "value": setting.value, "why": setting.why}
            for setting in kind.settings
            if fits(setting, version, sql=True, local=False)
        ),
    )


def _reason(tables: Tables, holder: int, waits: list[ExecutorWait], worst: int, lost: float) -> str:
    names, apps = texts(tables.queries, "name"), texts(tables.applications, "name")
    ids = texts(tables.applications, "application_id")
    application = in_a_sentence(apps[holder]) or ids[holder]
    by_source: dict[int, float] = {}
    for wait in waits:
        by_source[wait.source] = by_source.get(wait.source, 0.0) + wait.lost_ms
    most = in_a_sentence(names[max(by_source, key=lambda row: by_source[row])])
    ran = float(tables.queries["duration_ms"].iloc[worst])
    others = len({wait.target for wait in waits}) - 1
    text = (
        f"{in_a_sentence(names[worst])} lost {_time(lost)} ({percent(lost / ran)}) of the "
        f"{_time(ran)} it ran waiting for executors that application {application} held, "
        f"most for {most}"
    )
    if others:
        queries = "another query" if others == 1 else f"{others} other queries"
        text += f"; with {queries} {_time(_lost(waits))} were lost to it"
    idle = sum(wait.idle_ms for wait in waits) / _lost(waits)
    if idle >= LEAST_IDLE:
        text += (
            f"; {percent(idle)} of that to executors that ran no task, the cheapest to give back"
        )
    return text + "."
