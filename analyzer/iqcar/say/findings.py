"""Ranks what would save time, whatever the cause: one list, from which every report speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent, printable, resource_name, short, size
from iqcar.causes.savings.stage_savings import driver_time, stage_savings
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Evidence, FindingKind, Resource
from iqcar.rules.executor_advice import executor_advice_for
from iqcar.rules.task_sizes import held_by_long_tasks, split_tasks
from iqcar.rules.vocabulary.advice_kinds import advice_kinds
from iqcar.rules.vocabulary.lost_time import (
    NO_EXECUTORS,
    OTHER_APPLICATION,
    UNATTRIBUTED,
    advice_for,
)
from iqcar.say.query_names import QueryNames
from iqcar.say.severity import LEAST_LOST_MS, MARKED_SHARE, SLIGHT_SHARE
from iqcar.say.wasted_lines import WastedLine, wasted_lines
from iqcar.tables import recorded_applications, recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints

LEAST_SAVED_MS = 1_000.0
"""Below a second nobody changes anything."""
LEAST_SAVED_SHARE = 0.02
"""… and below a fiftieth of the run: two runs of one query differ by more."""
DRIVER_SHARE = 0.15
"""Share of a query's run from which on time without a stage is worth looking at: planning, and
what is between two jobs, take some."""
SMALL_CLUSTER_SHARE = 0.5
"""Share of a query's run in which all slots worked from which on more of them are worth naming."""
MORE_SLOTS = 1.5
"""How many times the slots the finding on executors is about."""


KIND_WORDS = {
    FindingKind.CONTENTION: "less contention in the way",
    FindingKind.EXECUTORS: "more executors for the tasks",
    FindingKind.START_UP: "earlier executors for the start",
    FindingKind.PARTITIONS: "other partitions",
    FindingKind.SKEW: "less skew",
    FindingKind.MEMORY: "less spill",
    FindingKind.GC: "less garbage collection",
    FindingKind.WASTED: "no lost work",
    FindingKind.SLOW_HOST: "a faster host",
    FindingKind.DRIVER: "less work of the driver",
    FindingKind.UNKNOWN: "something unknown",
}
"""What a remedy brings about, before "of" and a query."""


@dataclass(frozen=True)
class Finding:
    """What would save time, and how; every text is printable.

    Attributes
    ----------
    kind : FindingKind
    queries : tuple of int
        Rows of the queries that it is about, the one that saves most first.
    subject : str
        The recurring query, or the host.
    saves_ms, low_ms, high_ms : float
        Elapsed time that the action alone saves, at most what the runs took; and its range.
    share : float
        ``saves_ms`` as a share of the runs' duration.
    evidence : Evidence
    where : str
        Stage, host or resource; empty if everywhere.
    sentence : str
        What was found.
    action : str
        What to do.
    settings : tuple of (str, str, str)
        Name and value of settings, and why.
    section : str
        Key of the section that shows the numbers.
    """

    kind: FindingKind
    queries: tuple[int, ...]
    subject: str
    saves_ms: float
    low_ms: float
    high_ms: float
    share: float
    evidence: Evidence
    where: str
    sentence: str
    action: str
    settings: tuple[tuple[str, str, str], ...]
    section: str

    @property
    def saving(self) -> str:
        """The saving in words: ``saves about 154 s (77 s … 154 s), 36 % of its run``."""
        low, high = duration(self.low_ms), duration(self.high_ms)
        within = f" ({low} … {high})" if low != high else ""
        return f"saves about {duration(self.saves_ms)}{within}, {percent(self.share)} of its run"


def find_findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Find what would save time, what saves most first.

    Each saving is that of one action alone; they overlap, so their sum says nothing.
    """
    about = _About(diagnosis)
    found = [
        *_contention(about),
        *_start_up(about),
        *_stages(about),
        *_wasted(about),
        *_slow_hosts(about),
        *_driver(about),
        *_unknown(about),
    ]
    worth = [one for one in found if _is_worth(one)]
    worth += [one for one in _executors(about, worth) if _is_worth(one)]
    return tuple(sorted(worth, key=lambda one: (-one.saves_ms, str(one.kind), one.subject)))


def findings_headline(findings: Sequence[Finding]) -> str:
    """Say how many things would save time, and which most; empty where nothing would."""
    if not findings:
        return ""
    first = findings[0]
    about = f"{KIND_WORDS[first.kind]} of {first.subject}"
    if first.kind is FindingKind.SLOW_HOST:
        about = f"the host {first.subject}"
    saved = f"about {duration(first.saves_ms)}, {percent(first.share)} of its run"
    if len(findings) == 1:
        return f"One thing would save time: {about} ({saved})."
    return f"{len(findings)} things would save time. Most: {about} ({saved})."


def _is_worth(one: Finding) -> bool:
    return one.saves_ms >= LEAST_SAVED_MS and one.share >= LEAST_SAVED_SHARE


class _About:
    """What findings are about: queries, summed by recurring query."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        tables = diagnosis.tables
        self.diagnosis, self.tables = diagnosis, tables
        self.names = QueryNames(tables.queries, tables.applications)
        self.recurring: Ints = recurring_queries(tables)
        self.ran: Floats = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
        size = int(self.recurring.max(initial=-1)) + 1
        self.run_of = np.bincount(self.recurring, self.ran, size)
        self.runs_of = np.bincount(self.recurring, minlength=size)

    def called(self, query: int) -> str:
        """Name of a recurring query, with the number of its runs."""
        runs = int(self.runs_of[self.recurring[query]])
        if runs == 1:
            return self.names.called(query)
        alike = np.flatnonzero(self.recurring == self.recurring[query])
        if len({self.names.full[row] for row in alike.tolist()}) == 1:
            return f"{self.names.name(query)} ({runs} runs)"
        return f"{self.names.name(query)} and {runs - 1} more of the same description"

    def finding(
        self,
        kind: FindingKind,
        rows: Mapping[int, float],
        *,
        sentence: str,
        action: str,
        ranged: tuple[float, float] = (0.5, 1.0),
        evidence: Evidence = Evidence.ESTIMATED,
        where: str = "",
        settings: Sequence[tuple[str, str, str]] = (),
        section: str = "",
    ) -> Finding:
        """Make a finding on one recurring query of what each of its runs would save.

        ``ranged``: the range, in parts of that.
        """
        order = sorted(rows, key=lambda row: -rows[row])
        ran = float(self.run_of[self.recurring[order[0]]])
        most = min(sum(rows.values()), ran)
        low, high = ranged[0] * most, ranged[1] * most
        saves = (low + high) / 2.0
        return Finding(
            kind=kind,
            queries=tuple(order),
            subject=self.called(order[0]),
            saves_ms=saves,
            low_ms=low,
            high_ms=high,
            share=saves / ran if ran > 0 else 0.0,
            evidence=evidence,
            where=printable(where),
            sentence=printable(sentence),
            action=printable(action),
            settings=tuple(settings),
            section=section,
        )

    def of_run(self, ms: float, query: int) -> str:
        """``12.3 s of its 40.0 s``."""
        return f"{duration(ms)} of its {duration(float(self.run_of[self.recurring[query]]))}"

    def grouped(self, queries: Sequence[int], ms: Floats) -> Iterator[dict[int, float]]:
        """Sum by run, and collect the runs of each recurring query."""
        groups: dict[int, dict[int, float]] = {}
        for query, amount in zip(queries, ms.tolist(), strict=True):
            runs = groups.setdefault(int(self.recurring[query]), {})
            runs[query] = runs.get(query, 0.0) + amount
        yield from groups.values()


def _contention(about: _About) -> Iterator[Finding]:
    """One finding per recurring query that was in the way, of the one that lost most to it."""
    graph = about.diagnosis.graph
    hurts = graph.who_hurts_whom()
    hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value).to_numpy() & (hurts["lost_ms"] > 0)]
    waited_for = _resources_of(about)
    for _, mine in hurts.groupby(about.recurring[hurts["source_query"].to_numpy(np.int64)]):
        victim = about.recurring[mine["target_query"].to_numpy(np.int64)]
        ms = mine["lost_ms"].to_numpy(np.float64)
        by_victim = np.bincount(victim, ms)
        held = (by_victim >= LEAST_LOST_MS) & (
            by_victim >= SLIGHT_SHARE * about.run_of[: len(by_victim)]
        )
        worst = int(np.argmax(np.where(held, by_victim, 0.0)))
        if not held[worst]:
            continue
        rows = mine[victim == worst]
        queries = rows["target_query"].astype(int).tolist()
        (runs,) = about.grouped(queries, rows["lost_ms"].to_numpy(np.float64))
        source = int(mine["source_query"].iloc[int(np.argmax(ms))])
        resource = waited_for.get((source, max(runs, key=lambda row: runs[row])), Resource.SLOTS)
        yield _contended(about, source, runs, int(held.sum()), resource)


def _resources_of(about: _About) -> dict[tuple[int, int], Resource]:
    """What each query mostly waited for of each other: by source and target."""
    most: dict[tuple[int, int], tuple[float, Resource]] = {}
    for resource in Resource:
        pairs = about.diagnosis.graph.who_hurts_whom(resource)
        keys = zip(pairs["source_query"].tolist(), pairs["target_query"].tolist(), strict=True)
        for key, ms in zip(keys, pairs["lost_ms"].tolist(), strict=True):
            if ms > most.get(key, (0.0, resource))[0]:
                most[key] = (ms, resource)
    return {key: resource for key, (_, resource) in most.items()}


def _contended(
    about: _About, source: int, runs: dict[int, float], victims: int, resource: Resource
) -> Finding:
    worst = max(runs, key=lambda row: runs[row])
    most = sum(runs.values())
    several = f"in the way of {victims} queries; {about.called(worst)}"
    lost_words = f"{about.of_run(most, worst)} to it, mostly waiting for {resource_name(resource)}"
    if about.recurring[source] == about.recurring[worst]:
        name = about.names.name(source)
        sentence = f"Runs of {name} were in each other's way: they lost {lost_words}."
    elif victims > 1:
        sentence = f"{about.called(source)} was {several} lost most: {lost_words}."
    else:
        sentence = (
            f"{about.called(worst)} lost {lost_words}: {about.called(source)} was in the way."
        )
        sentence = (
            f"{about.called(source)} was in the way of {about.called(worst)}, which lost "
            f"{lost_words}."
        )
    return about.finding(
        FindingKind.CONTENTION,
        runs,
        sentence=sentence,
        action=_against(about, source, worst, resource),
        where=resource_name(resource),
        section="blame",
    )


def _against(about: _About, source: int, target: int, resource: Resource) -> str:
    """What to do about one query that is in another's way."""
    app = about.tables.queries["app"].to_numpy(np.int64)
    if resource is Resource.EXECUTORS:
        return executor_advice_for(about.tables, int(app[target]))
    if app[source] != app[target]:
        return advice_for(OTHER_APPLICATION)
    rows = np.arange(len(app))
    remedy = _rule_for(about, source, target) or advice_for(str(resource))
    long = resource is Resource.SLOTS and held_by_long_tasks(
        about.tables, rows == source, rows == target
    )
    return f"{split_tasks(about.names.called(source))} {remedy}" if long else remedy


def _unknown(about: _About) -> Iterator[Finding]:
    """Queries that lost much time that nothing in the logs explains."""
    hurts = about.diagnosis.graph.who_hurts_whom()
    mine = hurts[(hurts["kind"] == BlameKind.UNATTRIBUTED.value).to_numpy()]
    mine = mine[(mine["share_of_duration"] >= MARKED_SHARE).to_numpy()]
    recorded = recorded_applications(about.tables)
    queries = mine["target_query"].astype(int).tolist()
    for runs in about.grouped(queries, mine["lost_ms"].to_numpy(np.float64)):
        worst = max(runs, key=lambda row: runs[row])
        app = int(about.tables.queries["app"].iloc[worst])
        yield about.finding(
            FindingKind.UNKNOWN,
            runs,
            sentence=f"Nothing in the logs explains {about.of_run(sum(runs.values()), worst)} that "
            f"{about.called(worst)} lost.",
            action=advice_for(UNATTRIBUTED, bool(recorded[app])),
            ranged=(0.0, 0.6),
            section="blame",
        )


def _rule_for(about: _About, source: int, target: int) -> str:
    """What a proposed rule does about it; empty where none helps."""
    prints = about.tables.queries["fingerprint"]
    both = {str(prints.iloc[source]), str(prints.iloc[target])} - {""}
    rules = [r for r in about.diagnosis.rules if r.helps_pools and r.fingerprint in both]
    if not rules:
        return ""
    ids = ", ".join(rule.id for rule in rules)
    return f"Apply the scheduler rules {ids}: spark-submit $(iqcar conf --apply-rules rules.json)."


def _start_up(about: _About) -> Iterator[Finding]:
    """Queries that waited for executors that were not there yet, or no longer."""
    hurts = about.diagnosis.graph.who_hurts_whom(Resource.SLOTS)
    mine = hurts[(hurts["kind"] == BlameKind.KNOWN.value).to_numpy()]
    queries = mine["target_query"].astype(int).tolist()
    for runs in about.grouped(queries, mine["lost_ms"].to_numpy(np.float64)):
        worst = max(runs, key=lambda row: runs[row])
        yield about.finding(
            FindingKind.START_UP,
            runs,
            sentence=f"{about.called(worst)} had no executor for "
            f"{about.of_run(sum(runs.values()), worst)}.",
            action=advice_for(NO_EXECUTORS),
            ranged=(0.6, 1.0),
            section="blame",
        )


_ADVICE_OF = {
    FindingKind.PARTITIONS: "more-tasks",
    FindingKind.GC: "more-memory",
    FindingKind.MEMORY: "spill-less",
}
_SKEW_ADVICE = {
    "shuffle-skew": "split-shuffle",
    "input-skew": "split-input",
}


def _stages(about: _About) -> Iterator[Finding]:
    """Findings on partitions, skew, memory and garbage collection, one per recurring query."""
    found = stage_savings(about.tables, about.diagnosis.waits)
    recurring = about.recurring[found["query"].to_numpy(np.int64)]
    for (kind, _), mine in found.groupby([found["kind"].astype(str), recurring], sort=True):
        yield _of_stages(about, FindingKind(str(kind)), mine)


def _of_stages(about: _About, kind: FindingKind, mine: pd.DataFrame) -> Finding:
    high = mine["high_ms"].to_numpy(np.float64)
    (runs,) = about.grouped(mine["query"].astype(int).tolist(), high)
    worst = mine.iloc[int(high.argmax())]
    query = max(runs, key=lambda row: runs[row])
    stage = about.diagnosis.stragglers.labels.stage(int(worst["stage"]))
    most = float(high.sum())
    advice = advice_kinds()[_ADVICE_OF.get(kind) or _skew_advice(about, int(worst["stage"]))]
    finding = about.finding(
        kind,
        runs,
        sentence=_stage_sentence(about, kind, worst, query=query, stage=stage, most=most),
        action=_more_partitions(worst) if kind is FindingKind.PARTITIONS else advice.do,
        ranged=(float(mine["low_ms"].sum()) / most, 1.0),
        where=f"stage {stage}",
        settings=[]
        if kind is FindingKind.PARTITIONS
        else [(one.name, one.value, one.why) for one in advice.settings[:2]],
        section="stragglers" if kind is FindingKind.SKEW else "stages",
    )
    middle = min(float(mine["saves_ms"].sum()), finding.high_ms)
    run = float(about.run_of[about.recurring[query]])
    return replace(finding, saves_ms=middle, share=middle / run if run > 0 else 0.0)


def _stage_sentence(
    about: _About, kind: FindingKind, worst: pd.Series, query: int, stage: str, most: float
) -> str:
    called, place = about.called(query), f"stage {short(stage, 60)}"
    tasks, slots = int(worst["tasks"]), int(worst["slots"])
    if kind is FindingKind.PARTITIONS:
        each = f", {size(worst['bytes'])} each" if worst["bytes"] > 0 else ""
        plural = "s" if tasks != 1 else ""
        if tasks < slots:
            return (
                f"{called} left slots idle: {place} has {tasks} task{plural} of "
                f"{duration(worst['median_ms'])}{each}, for {slots} slots."
            )
        return (
            f"{called} ended its waves of tasks unevenly: {place} has {tasks} tasks of "
            f"{duration(worst['median_ms'])}{each}, for {slots} slots."
        )
    if kind is FindingKind.SKEW:
        return (
            f"{called} waited {about.of_run(most, query)} for single tasks: in {place} the longest "
            f"took {duration(worst['longest_ms'])}, the median {duration(worst['median_ms'])}."
        )
    if kind is FindingKind.GC:
        return f"Garbage collection took {about.of_run(most, query)} of {called}, most in {place}."
    return f"{called} spilled {size(worst['bytes'])} to disk in {place}."


def _more_partitions(worst: pd.Series) -> str:
    """How many partitions, and how to get them."""
    count = 2 * int(worst["slots"])
    ways = f"repartition({count}), or spark.sql.shuffle.partitions where it reads a shuffle"
    if worst["bytes"] > 0:
        mb = max(int(worst["bytes"] * worst["tasks"] / count / 2**20), 1)
        ways += (
            f", or spark.sql.files.maxPartitionBytes={mb}m where it reads files that can be split"
        )
    return f"Use {count} partitions or more: {ways}."


def _skew_advice(about: _About, stage: int) -> str:
    """Key of the advice on the most frequent kind of skew among the stragglers of a stage."""
    found = about.diagnosis.stragglers
    rows = found.stragglers.index[(found.stragglers["stage"] == stage).to_numpy()]
    causes = found.causes[found.causes["straggler"].isin(rows)]["cause"].value_counts()
    named = (_SKEW_ADVICE[cause] for cause in causes.index if cause in _SKEW_ADVICE)
    return next(named, "spread-computing")


def _wasted(about: _About) -> Iterator[Finding]:
    """Work of no use, one finding per cause, of the query that it delayed most."""
    by_cause: dict[str, list[WastedLine]] = {}
    for line in wasted_lines(about.diagnosis):
        if line.delayed:
            by_cause.setdefault(line.cause_name, []).append(line)
    for lines in by_cause.values():
        others = len(lines) - 1
        more = f" It delayed {others} more quer{'y' if others == 1 else 'ies'}." if others else ""
        yield about.finding(
            FindingKind.WASTED,
            {lines[0].query: lines[0].elapsed_ms},
            sentence=f"{lines[0].sentence}{more}",
            action=lines[0].advice,
            ranged=(0.3, 1.0),
            section="wasted",
        )


def _slow_hosts(about: _About) -> Iterator[Finding]:
    """Hosts that are slow across stages, as the advice to people says."""
    ids = {query_id: row for row, query_id in enumerate(texts(about.tables.queries, "query_id"))}
    for rule in about.diagnosis.rules:
        if rule.is_advice and rule.kind == "exclude-host" and rule.query_id in ids:
            query = ids[rule.query_id]
            finding = about.finding(
                FindingKind.SLOW_HOST,
                {query: rule.rule_value},
                sentence=rule.reason,
                action=rule.advice,
                ranged=(0.2, 1.0),
                where=rule.host,
                settings=[(one["name"], one["value"], one["why"]) for one in rule.settings[:2]],
                section="hosts",
            )
            yield replace(finding, subject=printable(rule.host))


def _driver(about: _About) -> Iterator[Finding]:
    """SQL queries during which no stage ran for long."""
    queries = about.tables.queries
    is_sql = ((queries["kind"] == "sql") & queries["ended"]).to_numpy(bool)
    idle = np.where(is_sql, driver_time(about.tables), 0.0)
    rows = np.flatnonzero(idle >= DRIVER_SHARE * np.maximum(about.ran, 1.0))
    kind = advice_kinds()["relieve-driver"]
    for runs in about.grouped(rows.tolist(), idle[rows]):
        worst = max(runs, key=lambda row: runs[row])
        yield about.finding(
            FindingKind.DRIVER,
            runs,
            sentence=f"No stage of {about.called(worst)} ran for "
            f"{about.of_run(sum(runs.values()), worst)}: the driver worked, or waited.",
            action="Look at what the driver does there: planning, listing files, collect(), "
            f"broadcasts, committing output. {kind.do}",
            ranged=(0.1, 0.9),
            section="timeline",
        )


def _executors(about: _About, others: Sequence[Finding]) -> Iterator[Finding]:
    """Queries that kept all slots busy, where nothing else is worth as much."""
    hurts = about.diagnosis.graph.who_hurts_whom(Resource.SLOTS)
    mine = hurts[(hurts["kind"] == BlameKind.OWN.value).to_numpy()]
    told = {int(about.recurring[row]) for one in others for row in one.queries[:1]}
    queries = mine["target_query"].astype(int).tolist()
    for runs in about.grouped(queries, mine["lost_ms"].to_numpy(np.float64)):
        worst = max(runs, key=lambda row: runs[row])
        run = float(about.run_of[about.recurring[worst]])
        own = sum(runs.values())
        if int(about.recurring[worst]) in told or own < SMALL_CLUSTER_SHARE * run:
            continue
        fewer = 1.0 - 1.0 / MORE_SLOTS
        yield about.finding(
            FindingKind.EXECUTORS,
            {row: ms * fewer for row, ms in runs.items()},
            sentence=f"{about.called(worst)} has more tasks than the cluster has slots: all of "
            f"them worked for {about.of_run(own, worst)}.",
            action="Give it half as many executors again, or read less: prune columns and "
            "partitions, filter before joins.",
            section="slots",
        )
