"""Compares two recorded runs, before and after rules, with what was predicted.

A view of their :class:`~iqcar.comparison.comparison.Comparison`: it matches the queries, averages
their runs and tells which differences are no chance. A topic is known by its keywords, whatever
topics either run has by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base.units import change_words, percent
from iqcar.causes.stragglers.features import TaskFeatures, build_features
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.causes.topics.topic_of_straggler import straggler_topics
from iqcar.causes.topics.topic_result import (
    MIXTURES,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    VALIDATION,
    Topics,
    TopicSettings,
)
from iqcar.comparison.comparison import Comparison, compare_sides
from iqcar.comparison.rule_verdict import (
    CONTROLS_OFF_PERCENT,
    JudgedEffect,
    RuleVerdict,
    judge_effect,
)
from iqcar.comparison.sides import measure_side
from iqcar.enums import ChangeVerdict, Kind, MatchBy, RunBy
from iqcar.model.waits.measure import measure_waits
from iqcar.replay.loop.run import Recording, record
from iqcar.replay.loop.scheduling import is_fair, ran_in_pools
from iqcar.rules.compile_pools import RulesFile, compile_rules
from iqcar.rules.rule import PoolPlan, QueryType, Rule, RuleTopic, pools_of, scheduler_rules
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

TIMES = 2.0
"""A topic is rarer if its share is by this factor smaller: stragglers come together, and two runs
of one query on an idle cluster differ by half."""
FEW = 5
"""Stragglers of either run, at least, from which on that is told."""


class TopicChange(Kind):
    """What became of a topic of a rule."""

    RARER = "rarer", "At most half as large a part of the tasks has it."
    AS_BEFORE = "as-before", "Neither half nor twice the part of the tasks has it."
    MORE = "more", "At least twice as large a part of the tasks has it."
    UNKNOWN = "unknown", "Too few stragglers have it, or its keywords are not recorded."


@dataclass(frozen=True)
class CheckedTopic:
    """A topic of a rule in both runs.

    weight: part of the stragglers that had it when the rule was proposed.
    before, after: part of the tasks of the queries it is to help that are stragglers and have it;
        None where none of their stages has enough tasks, or its keywords are not recorded.
    """

    topic: str
    name: str
    resource: str
    weight: float
    before: float | None
    after: float | None
    change: str


def in_words(topics: Sequence[CheckedTopic]) -> str:
    """Return what became of the heaviest topic that is told, as a clause; empty without any."""
    for one in topics:
        known = one.before is not None and one.after is not None
        if known and one.change != TopicChange.UNKNOWN.value:
            now, then = percent(one.after or 0.0), percent(one.before or 0.0)
            return f"; {now} of their tasks have the topic {one.name}, {then} had it"
    return ""


class TopicRun:
    """One run in which topics of rules are looked for."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    @cached_property
    def features(self) -> TaskFeatures:
        """Features of all tasks."""
        edge = StragglerSettings().edge_ms
        return build_features(self.tables, measure_waits(self.tables), edge)

    def having(self, topics: Sequence[RuleTopic], queries: Ints) -> tuple[list[int | None], int]:
        """Count the stragglers of some queries that have each topic, and all their tasks.

        None for a topic of which no keyword is recorded; only stages with 20 tasks count.
        """
        known = {one.name for one in self.features.features}
        words = [
            (number, word, word[:-3], 1 if word.endswith("(+)") else -1, weight)
            for number, topic in enumerate(topics)
            for word, weight in topic.words.items()
            if word[:-3] in known and word[-3:] in ("(+)", "(-)")
        ]
        tasks = self.tables.tasks
        stage = tasks["stage"].to_numpy(np.int64)
        mine = (tasks["query"].isin(queries) & (tasks["status"] == "success")).to_numpy(bool)
        count = np.bincount(stage[mine & (stage >= 0)], minlength=len(self.tables.stages))
        stages = np.flatnonzero(count >= TopicSettings().least_tasks)
        if not len(stages) or not words:
            return [None] * len(topics), int(count[stages].sum())
        columns = ("topic", "word", "feature", "sign", "weight")
        found = straggler_topics(
            Topics(
                topics=TOPICS.empty(),
                words=TOPIC_WORDS.frame(dict(zip(columns, zip(*words, strict=True), strict=True))),
                jobs=_jobs(stages),
                mixtures=_mixtures(len(stages), topics),
                validation=VALIDATION.empty(),
                sources=TOPIC_SOURCES.empty(),
                labels=self.features.labels,
                settings=TopicSettings(),
                reason="",
                doubts=(),
            ),
            self.features,
        )
        told = {number for number, *_ in words}
        having = np.bincount(found["topic"].to_numpy(np.int64), minlength=len(topics)).tolist()
        counts = [having[number] if number in told else None for number in range(len(topics))]
        return counts, int(count[stages].sum())


def _jobs(stages: Ints) -> pd.DataFrame:
    unknown = {name: np.full(len(stages), -1) for name in ("app", "query", "dominant")}
    counts = {name: np.zeros(len(stages)) for name in ("tasks", "stragglers", "delay_ms")}
    return TOPIC_JOBS.frame({"stage": stages, **unknown, **counts})


def _mixtures(jobs: int, topics: Sequence[RuleTopic]) -> pd.DataFrame:
    """Every job may have every topic, as often as when the rule was proposed."""
    return MIXTURES.frame(
        {
            "job": np.repeat(np.arange(jobs), len(topics)),
            "topic": np.tile(np.arange(len(topics)), jobs),
            "share": np.tile([max(topic.weight, 1e-9) for topic in topics], jobs),
        }
    )


def check_topics(
    topics: Sequence[RuleTopic], runs: tuple[TopicRun, TopicRun], fingerprints: Sequence[str]
) -> tuple[CheckedTopic, ...]:
    """Compare how many tasks of some queries have the topics of a rule, before and after.

    fingerprints: Of the queries that the rule is to help, in either run.
    """
    if not topics:
        return ()
    counted = [
        run.having(
            topics, np.flatnonzero(np.isin(texts(run.tables.queries, "fingerprint"), fingerprints))
        )
        for run in runs
    ]
    return tuple(
        _checked(topic, *((counts[number], tasks) for counts, tasks in counted))
        for number, topic in enumerate(topics)
    )


def _checked(
    topic: RuleTopic, before: tuple[int | None, int], after: tuple[int | None, int]
) -> CheckedTopic:
    parts = [
        having / tasks if having is not None and tasks else None
        for having, tasks in (before, after)
    ]
    old, new = parts
    change = TopicChange.UNKNOWN
    if old is not None and new is not None and max(before[0] or 0, after[0] or 0) >= FEW:
        rarer, more = new * TIMES <= old, old * TIMES <= new
        change = TopicChange.RARER if rarer else TopicChange.MORE if more else TopicChange.AS_BEFORE
    return CheckedTopic(
        topic=topic.topic, name=topic.name, resource=topic.resource, weight=topic.weight,
        before=old, after=new, change=change.value,
    )  # fmt: skip


class RuleApplied(Kind):
    """Whether a rule acted in the second run: what the log says of the pools that tasks ran in."""

    YES = "yes", "Every run of its query ran in its pool, under FAIR."
    PARTLY = "partly", "Some runs of its query, or some of their stages, ran in its pool."
    NO = "no", "No run of its query ran in its pool, or the scheduler was FIFO."
    NO_POOL = "no-pool", "It was compiled to no pool."
    NOT_RUN = "not-run", "Its query did not run again."


@dataclass(frozen=True)
class CheckedQuery:
    """One recurring query in both runs; ``off_percent`` is predicted less actual change, ``told``
    what the runs tell (:class:`iqcar.enums.ChangeVerdict`).
    """

    fingerprint: str
    name: str
    runs_before: int
    runs_after: int
    before_ms: float
    after_ms: float
    change_percent: float
    predicted_percent: float | None
    off_percent: float | None
    told: ChangeVerdict


@dataclass(frozen=True)
class Total:
    """All recurring queries of both runs, each as often as it ran before."""

    queries: int
    before_ms: float
    after_ms: float
    change_percent: float
    predicted_percent: float | None
    off_percent: float | None


@dataclass(frozen=True)
class RuleCheck:
    """One rule: whether it acted, and what became of its victims."""

    id: str
    query_name: str
    pool: str
    applied: str
    ran_in: dict[str, int]
    """Pools that the stages of its query ran in, and how many in each."""
    verdict: str
    victims: int
    """Recurring queries that it was to help and that ended in both runs."""
    change_percent: float | None
    predicted_percent: float | None
    off_percent: float | None
    told: ChangeVerdict | None
    """What the runs of its victims tell of that; None without any. Topics are theirs, too."""
    sentence: str
    topics: tuple[CheckedTopic, ...] = ()


@dataclass(frozen=True)
class Check:
    """What two runs say about rules."""

    queries: tuple[CheckedQuery, ...]
    """Recurring queries that ended in both runs, the longest first."""
    total: Total | None
    """All of those; None if there are none."""
    controls: Total | None
    """Those that no rule is about and that no rule is to help; None if there are none."""
    rules: tuple[RuleCheck, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    """Names of queries that ended in one run only."""
    doubts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON."""
        return asdict(self)


def check_rules(file: RulesFile, before: Tables, after: Tables) -> Check:
    """Compare predicted with actual durations.

    ``file``: the rules that the second run was made with, and the pools they were compiled to.
    ADVICE rules are skipped: nothing tells whether anybody followed them. ``before`` and ``after``:
    from :func:`iqcar.read`, queries identified alike.
    """
    known = file.recorded
    rules = scheduler_rules(file.rules)
    plan = file.plan or compile_rules(file.rules, known.slots, known.running, known.pools)
    recording = record(before)
    sides = measure_side(before, RunBy.HOUR), measure_side(after, RunBy.HOUR)
    # Rules name queries, so equal plans do not make two of them one.
    comparison = compare_sides(sides, match_by=MatchBy.NAME, in_common=False)
    both = _BothRuns(comparison, recording, plan)
    doubts = [*recording.doubts, *comparison.doubts]
    if not both.changes:
        doubts.append("no query ended in both runs: nothing can be compared")
    runs = TopicRun(before), TopicRun(after)
    outside = (sides[0].facts.outside_load, sides[1].facts.outside_load)
    about = {
        category
        for rule in rules
        for category in both.find((rule.fingerprint, *_victims_of(rule, rules)))
    }
    alone = [category for category in both.changes if category not in about]
    controls = both.total(alone) if alone else None
    off = None if controls is None else _off(controls)
    if doubt := _controls_doubt(controls):
        doubts.append(doubt)

    def judged(change: float | None) -> JudgedEffect:
        return judge_effect(change, off, outside)

    changes = both.changes.values()
    return Check(
        queries=tuple(sorted(changes, key=lambda c: (-c.before_ms * c.runs_before, c.fingerprint))),
        total=both.total(list(both.changes)) if both.changes else None,
        controls=controls,
        rules=tuple(
            _with_topics(
                _check_rule(rule, rules, plan, after=after, both=both, judged=judged),
                check_topics(rule.topics, runs, both.alike(_victims_of(rule, rules))),
            )
            for rule in rules
        ),
        only_before=both.only_on(0),
        only_after=both.only_on(1),
        doubts=tuple(doubts),
    )


class _BothRuns:
    """Recurring queries of both runs by category, and what was predicted of them."""

    def __init__(self, comparison: Comparison, recording: Recording, plan: PoolPlan) -> None:
        self.comparison = comparison
        self.category_of: dict[str, int] = {}
        for side, categories in zip(comparison.sides, comparison.category_of, strict=True):
            named = zip(texts(side.nodes, "fingerprint"), categories.tolist(), strict=True)
            self.category_of = {f: category for f, category in named if f} | self.category_of
        self.replayed, self.predicted = (
            self._means(recording.replay(planned).duration_ms) for planned in (None, plan)
        )
        self.changes = {category: self._change(category) for category in comparison.common.tolist()}

    def find(self, fingerprints: Iterable[str]) -> list[int]:
        """Return the categories of queries that ended on either side."""
        found = (self.category_of.get(fingerprint, -1) for fingerprint in fingerprints)
        return [category for category in dict.fromkeys(found) if category >= 0]

    def alike(self, fingerprints: Sequence[str]) -> list[str]:
        """Return fingerprints and those of the same queries on the other side."""
        wanted = set(self.find(fingerprints))
        found = (f for f, category in self.category_of.items() if category in wanted)
        return list(dict.fromkeys((*fingerprints, *found)))

    def of_rule(self, rule: Rule, after: Tables) -> Flags:
        """Mark the runs after of a rule's query, ended or not, whatever it is called there."""
        alike = self.alike([rule.fingerprint])
        same: Flags = after.queries["fingerprint"].isin(alike).to_numpy(bool)
        return same

    def only_on(self, side: int) -> tuple[str, ...]:
        """Return the names of queries that ended on one side only."""
        runs = self.comparison.effects[["runs_before", "runs_after"]].to_numpy()
        alone = (runs[:, side] > 0) & (runs[:, 1 - side] == 0)
        queries = self.comparison.queries
        return tuple(sorted(self.comparison.name(row) for row in queries[alone[queries]].tolist()))

    def total(self, categories: Sequence[int]) -> Total:
        """Sum queries, each as often as it ran before."""
        rows = [self.changes[category] for category in categories]
        before = sum(row.before_ms * row.runs_before for row in rows)
        after = sum(row.after_ms * row.runs_before for row in rows)
        actual, predicted = _percent(before, after), None
        if all(category in self.replayed and category in self.predicted for category in categories):
            replayed = (
                sum(mean[c] * row.runs_before for c, row in zip(categories, rows, strict=True))
                for mean in (self.replayed, self.predicted)
            )
            predicted = _percent(*replayed)
        return Total(
            queries=len(rows), before_ms=before, after_ms=after, change_percent=actual,
            predicted_percent=predicted, off_percent=_less(predicted, actual),
        )  # fmt: skip

    def told(self, categories: Sequence[int]) -> ChangeVerdict:
        """Return what the runs tell of some queries: changed if one did, and none the other way."""
        rows = [self.changes[category] for category in categories]
        found = {row.told for row in rows}
        changed = [row for row in rows if row.told is ChangeVerdict.CHANGED]
        ways = {np.sign(row.after_ms - row.before_ms) for row in changed}
        if len(ways) == 1:
            return ChangeVerdict.CHANGED
        return found.pop() if len(found) == 1 and not ways else ChangeVerdict.CANNOT_TELL

    def _means(self, duration_ms: Floats) -> dict[int, float]:
        """Mean duration before by category, as the comparison averages: by run, then over runs."""
        rows, category = self.comparison.sides[0].rows, self.comparison.category_of[0]
        if rows is None:
            return {}  # a baseline, which cannot be replayed
        known = (rows.query_node >= 0) & np.isfinite(duration_ms)
        keys = [category[rows.query_node[known]], rows.query_run[known]]
        of_runs = pd.Series(duration_ms[known]).groupby(keys).mean()
        return {int(key): float(ms) for key, ms in of_runs.groupby(level=0).mean().items()}

    def _change(self, category: int) -> CheckedQuery:
        effect = self.comparison.effects.iloc[category]
        name = self.comparison.categories["name_before"].iloc[category]
        side = self.comparison.sides[0]
        node = int(np.flatnonzero(self.comparison.category_of[0] == category)[0])
        before, after = float(effect["before_ms"]), float(effect["after_ms"])
        actual, predicted = _percent(before, after), None
        if category in self.replayed and category in self.predicted:
            predicted = _percent(self.replayed[category], self.predicted[category])
        # Rules explain what a comparison without them would put down to chance.
        by_time = "time" in effect["evidence"].split(", ")
        told = (
            ChangeVerdict.CHANGED
            if by_time
            else ChangeVerdict(effect["verdict"] or ChangeVerdict.CANNOT_TELL)
        )
        return CheckedQuery(
            fingerprint=side.nodes["fingerprint"].iloc[node], name=name,
            runs_before=self._instances(category, 0), runs_after=self._instances(category, 1),
            before_ms=before, after_ms=after, change_percent=actual, predicted_percent=predicted,
            off_percent=_less(predicted, actual), told=told,
        )  # fmt: skip

    def _instances(self, category: int, side: int) -> int:
        runs = self.comparison.category_runs
        here = (runs["category"] == category) & (runs["side"] == side)
        return int(runs["instances"][here].sum())


def _off(controls: Total) -> float:
    """Return how much longer than predicted the queries took that no rule is about, in percent."""
    off = controls.off_percent
    return controls.change_percent if off is None else -off


def _controls_doubt(controls: Total | None) -> str:
    """Say so if queries that no rule is about changed in another way than was predicted."""
    if controls is None or abs(_off(controls)) < CONTROLS_OFF_PERCENT:
        return ""
    expected = ""
    if controls.predicted_percent is not None:
        expected = f" ({change_words(controls.predicted_percent)} was predicted)"
    which = f"{controls.queries} queries" if controls.queries > 1 else "one query"
    return (
        f"{which} that no rule is about took {change_words(controls.change_percent)} time"
        f"{expected}: more than the rules differed between the runs"
    )


def _check_rule(
    rule: Rule,
    rules: Sequence[Rule],
    plan: PoolPlan,
    after: Tables,
    both: _BothRuns,
    judged: Callable[[float | None], JudgedEffect],
) -> RuleCheck:
    pool = pools_of([rule], plan)[rule.id]
    applied, ran_in = _applied(both.of_rule(rule, after), pool, after)
    victims = [c for c in both.find(_victims_of(rule, rules)) if c in both.changes]
    change, predicted, told = None, None, None
    if victims:
        total, told = both.total(victims), both.told(victims)
        change, predicted = total.change_percent, total.predicted_percent
    effect = judged(change)
    return RuleCheck(
        id=rule.id, query_name=rule.query_name, pool=pool, applied=applied.value, ran_in=ran_in,
        verdict=effect.verdict.value, victims=len(victims), change_percent=change,
        predicted_percent=predicted, off_percent=_less(predicted, change), told=told,
        sentence=_sentence(rule, pool, applied, ran_in, effect, told=told, predicted=predicted),
    )  # fmt: skip


def _with_topics(checked: RuleCheck, topics: tuple[CheckedTopic, ...]) -> RuleCheck:
    told = "" if checked.applied == RuleApplied.NO_POOL.value else in_words(topics)
    return replace(checked, topics=topics, sentence=checked.sentence + told)


def _applied(runs: Flags, pool: str, after: Tables) -> tuple[RuleApplied, dict[str, int]]:
    """Look at the pools that the stages of a query's runs really ran in."""
    query = after.stages["query"].to_numpy(np.int64)
    of_query = (query >= 0) & np.append(runs, False)[query]
    stage = np.flatnonzero(of_query)
    if len(stage) == 0:
        return (RuleApplied.NOT_RUN if pool else RuleApplied.NO_POOL), {}
    app = after.stages["app"].to_numpy(np.int64)[stage]
    fair = np.array([is_fair(after, number) for number in range(len(after.applications))])[app]
    ran = ran_in_pools(after, stage)
    counts = dict(Counter(ran).most_common())
    if not pool:
        return RuleApplied.NO_POOL, counts
    hits = np.array([name == pool for name in ran]) & fair
    if hits.all():
        return RuleApplied.YES, counts
    return (RuleApplied.PARTLY if hits.any() else RuleApplied.NO), counts


def _victims_of(rule: Rule, rules: Sequence[Rule]) -> list[str]:
    """Fingerprints that a rule is to help; those of the file's victims where it does not say."""
    if rule.query_type is QueryType.TARGET:
        return [rule.fingerprint]
    listed = (rule.expected or {}).get("victim_fingerprints")
    if isinstance(listed, list) and listed:
        return list(dict.fromkeys(f for f in listed if isinstance(f, str)))
    return [other.fingerprint for other in rules if other.query_type is QueryType.TARGET]


def _sentence(
    rule: Rule,
    pool: str,
    applied: RuleApplied,
    ran_in: Mapping[str, int],
    effect: JudgedEffect,
    *,
    told: ChangeVerdict | None,
    predicted: float | None,
) -> str:
    elsewhere = ", ".join(list(ran_in)[:3])
    acted = {
        RuleApplied.YES: f"was applied ({pool})",
        RuleApplied.PARTLY: f"was applied to some stages only (they ran in {elsewhere})",
        RuleApplied.NO: f"was not applied: its query ran in {elsewhere}, not in {pool} under FAIR",
        RuleApplied.NO_POOL: "makes no pool",
        RuleApplied.NOT_RUN: "could not act: its query did not run again",
    }[applied]
    if applied is RuleApplied.NO_POOL:
        # What became of its victims is the doing of the other rules.
        return f"{rule.id} {acted}: it did nothing by itself"
    whom = "its query" if rule.query_type is QueryType.TARGET else "its victims"
    verdict = effect.verdict
    if verdict is RuleVerdict.UNKNOWN:
        return f"{rule.id} {acted}; what became of {whom} is not known"
    got = f"{whom} {effect.sentence}"
    if verdict is RuleVerdict.DISTURBED:
        got = f"no verdict: {got}"
    text = f"{rule.id} {acted}; {got}"
    if predicted is not None:
        text += f" ({change_words(predicted)} was predicted)"
    unsure = told is ChangeVerdict.CANNOT_TELL and verdict in (
        RuleVerdict.HELPED,
        RuleVerdict.SLOWER,
    )
    return f"{text}, which too few runs can tell from chance" if unsure else text


def _percent(before: float, after: float) -> float:
    return 100 * (after / before - 1.0) if before > 0 else 0.0


def _less(predicted: float | None, actual: float | None) -> float | None:
    return None if predicted is None or actual is None else predicted - actual
