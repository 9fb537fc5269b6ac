"""Makes ADVICE rules from stragglers and their causes, the largest delay first.

They are in the form of scheduler rules but no scheduler acts on them, and no pool is made. Nobody
can replay what a person's change will do: their expected effect is always None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.causes.stragglers.blame_of_causes import RESOURCE_OF
from iqcar.causes.stragglers.feature_list import MEMORY
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.enums import Resource
from iqcar.rules.recorded_setup import sure_slots
from iqcar.rules.rule import QueryType, Rule, RuleType
from iqcar.rules.rule_sentences import in_a_sentence
from iqcar.rules.straggler_delays import (
    SlowHost,
    cause_parts,
    held_up_ms,
    kind_parts,
    slow_hosts,
    tasks_at_once,
)
from iqcar.rules.task_sizes import large_tasks, small_tasks
from iqcar.rules.topic_shapes import Nobodys
from iqcar.rules.vocabulary.advice_kinds import AdviceKind, advice_kinds, filled, fits, version_of
from iqcar.tables import Tables, recorded_applications, texts

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
"""Kinds of advice that are not about stragglers but about :mod:`iqcar.rules.task_sizes`."""


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
