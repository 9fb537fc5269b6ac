"""Ranks what would save time, whatever the cause: one list, from which every report speaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from iqcar.base.units import HOUR_MS, count_of, duration, percent, printable, resource_name
from iqcar.causes.executors_used import start_up_time
from iqcar.causes.slow_tasks import NO_CPU
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, FindingKind, Resource
from iqcar.model.waits.stage_parts import most_slots
from iqcar.replay.whatif.question import Question
from iqcar.rules.actions import Remedy
from iqcar.rules.advice_rules import executor_advice_for
from iqcar.rules.propose_rules import held_by_long_tasks, split_tasks
from iqcar.rules.rule import Outlook
from iqcar.rules.vocabulary import OTHER_APPLICATION, UNATTRIBUTED, advice_for
from iqcar.say.failed import failed_findings, is_told_as_failure, unfinished
from iqcar.say.finding import LEAST_LOST_MS, MARKED_SHARE, SLIGHT_SHARE, WIDER, About, Finding
from iqcar.say.finding_driver import collect_findings, driver_findings
from iqcar.say.finding_stages import stage_findings
from iqcar.say.sections import WastedLine, wasted_lines
from iqcar.say.sentences import LostToOthers
from iqcar.tables import recorded_applications
from iqcar.tables.arrays import Floats, sum_by


def contention(about: About) -> Iterator[Finding]:
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
        found = _contended(about, source, runs, int(held.sum()), resource)
        runs_of_it = about.rows_of[int(about.recurring[source])]
        # A replay has no resource manager: it gives nobody's executors to another application.
        if resource is not Resource.EXECUTORS and not set(runs_of_it) & set(runs):
            gone = tuple(about.names.ids[row] for row in runs_of_it)
            found = replace(found, question=Question(remove=gone))
        yield _with_rules(about, found, source)


def _resources_of(about: About) -> dict[tuple[int, int], Resource]:
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
    about: About, source: int, runs: dict[int, float], victims: int, resource: Resource
) -> Finding:
    worst = max(runs, key=lambda row: runs[row])
    most = sum(runs.values())
    several = f"in the way of {victims} queries; {about.called(worst)}"
    lost_words = f"{about.of_run(most, worst)} to it, mostly waiting for {resource_name(resource)}"
    of_all = about.others.of(list(runs))
    why = f" That may be nothing: {of_all.why_open}." if of_all.is_open else ""
    if about.recurring[source] == about.recurring[worst]:
        name = about.names.name(source)
        sentence = f"Runs of {name} were in each other's way: they lost {lost_words}."
    elif victims > 1:
        sentence = f"{about.called(source)} was {several} lost most: {lost_words}."
    else:
        sentence = (
            f"{about.called(source)} was in the way of {about.called(worst)}, which lost "
            f"{lost_words}."
        )
    return about.finding(
        FindingKind.CONTENTION,
        runs,
        sentence=f"{sentence}{why}",
        action=Remedy(_against(about, source, worst, resource)),
        ranged=_range_of(of_all, resource),
        saves=most,
        where=resource_name(resource),
        section="blame",
    )


def _range_of(lost: LostToOthers, resource: Resource) -> tuple[float, float]:
    """What taking the other away saves, in parts of what was lost to it.

    The range of what was lost is what the data leave open; what comes of it is not known as well.
    """
    if not (np.isfinite(lost.low_ms) and lost.lost_ms > 0):
        return 0.5, WIDER if resource is Resource.SLOTS else 2.0
    return lost.low_ms / lost.lost_ms / WIDER, lost.high_ms / lost.lost_ms * WIDER


def _against(about: About, source: int, target: int, resource: Resource) -> str:
    """What to do about one query that is in another's way."""
    app = about.tables.queries["app"].to_numpy(np.int64)
    if resource is Resource.EXECUTORS:
        return executor_advice_for(about.tables, int(app[target]))
    if app[source] != app[target]:
        return advice_for(OTHER_APPLICATION)
    if resource is not Resource.SLOTS:
        return advice_for(str(resource))
    rows, split = np.arange(len(app)), split_tasks(about.names.called(source))
    if held_by_long_tasks(about.tables, rows == source, rows == target):
        return f"{split} {APART}"
    prints = about.tables.queries["fingerprint"]
    both = {str(prints.iloc[source]), str(prints.iloc[target])} - {""}
    rated = [one for one in about.diagnosis.rules if one.expected and one.fingerprint in both]
    if rated:
        return "No rule of pools is predicted to help: run the two at different times."
    return advice_for(str(resource))


APART = "Or run the two at different times."


def _with_rules(about: About, finding: Finding, source: int) -> Finding:
    """Offer rules on either query where they are predicted to help: then the saving is theirs."""
    prints = about.tables.queries["fingerprint"]
    mine = {str(prints.iloc[row]) for row in finding.queries} - {""}
    both = mine | {str(prints.iloc[source])}
    helping = [
        rule
        for rule in about.diagnosis.rules
        if rule.helps_pools
        and rule.fingerprint in both
        and (rule.expected or {}).get("outlook") == Outlook.HELPS.value
        and mine & set((rule.expected or {})["victim_fingerprints"])
    ]
    ran = float(about.ran[list(finding.queries)].sum())
    shares = [(rule.expected or {})["victims_change_percent"] / -100.0 for rule in helping]
    saves = min(max(shares, default=0.0) * ran, finding.high_ms)
    if saves < LEAST_SAVED_MS:
        return finding
    ids = ", ".join(rule.id for rule in helping)
    split = finding.action.removesuffix(APART)
    before = split if split != finding.action else ""
    found = replace(
        finding,
        low_ms=min(finding.low_ms, RULES_LOW * saves),
        question=None,
        action=f"{before}Apply rules {ids}: iqcar analyze {about.tables.given} --rules "
        "rules.json, then spark-submit $(iqcar conf --apply-rules rules.json).",
    )
    return about.saving(found, saves)


RULES_LOW = 0.5
"""Lower end of what rules save, in parts of what is predicted of them."""
LEAST_SAVED_MS = 1_000.0
"""Below a second nobody changes anything."""
LEAST_SURE_SHARE = 0.01
"""What is not sure to save a hundredth of the run is no claim to spend a day on."""
OPEN = (FindingKind.UNKNOWN, FindingKind.COLLECT)
"""What the log does not tell is open downwards."""
LEAST_SAVED_SHARE = 0.02
"""… and below a fiftieth of the run: two runs of one query differ by more."""
MOST_ASKED = 5
"""Findings of which a replay is asked: more than are shown at first."""
NO_EXECUTOR = 0.95
"""Part of the slots missing from which on there was no executor."""
SMALL_CLUSTER_SHARE = 0.5
"""Share of a query's run in which all slots worked from which on more of them are worth naming."""
MORE_SLOTS = 1.5
"""How many times the slots the finding on executors is about."""
IDLE_SHARE, IDLE_SHARE_DYNAMIC = 0.5, 0.1
"""Part of the time in which tasks ran below which executors were idle; dynamic allocation takes
those away that are idle for long, and some have to be there when the next query comes."""
LEAST_IDLE_MS = 30_000.0
"""A cluster that idles for less than half a minute is nobody's trouble."""


_HEADS = {
    FindingKind.CONTENTION: "{share} of {subject} was lost to another query",
    FindingKind.EXECUTORS: "{subject} kept all slots busy: more of them would save {share} of it",
    FindingKind.START_UP: "{share} of {subject} was spent waiting for executors",
    FindingKind.NOT_GRANTED: "{subject} did not get the executors that it asked for",
    FindingKind.COLD: "{share} of {subject} was spent on cold executors",
    FindingKind.LOCALITY: "{share} of {subject} was spent waiting for executors that held its data",
    FindingKind.PARTITIONS: "{share} of {subject} would be saved by more partitions",
    FindingKind.TINY_TASKS: "{share} of {subject} was spent on starting tiny tasks",
    FindingKind.SKEW: "{share} of {subject} was spent waiting for single large tasks",
    FindingKind.MEMORY: "{share} of {subject} was spent on spilling",
    FindingKind.BROADCAST: "{share} of {subject} was spent on a join that could be broadcast",
    FindingKind.GC: "{share} of {subject} was spent on garbage collection",
    FindingKind.THROTTLED: "{share} of {subject} was spent stopped by a CPU limit",
    FindingKind.LOCK: "{share} of {subject} was spent waiting for a lock",
    FindingKind.PAGE_FAULTS: "{share} of {subject} was spent waiting for pages of memory",
    FindingKind.WASTED: "{share} of {subject} was spent on failed or repeated work",
    FindingKind.SLOW_HOST: "The host {subject} is slow",
    FindingKind.DRIVER: "{share} of {subject} was spent in the driver",
    FindingKind.SCHEMA: "{share} of {subject} was spent on learning the schema of files",
    FindingKind.COLLECT: "{subject} brought a large result to the driver",
    FindingKind.OUTSIDE: "{share} of {subject} was spent waiting for something outside of Spark",
    FindingKind.IDLE: "{subject} left its executors idle for {share} of their time",
    FindingKind.UNKNOWN: "{share} of {subject} is not explained by the log",
}


_FOUND: WeakKeyDictionary[Diagnosis, tuple[Finding, ...]] = WeakKeyDictionary()
"""Findings of each diagnosis: text, page and result ask for them, and replays take time."""


def find_findings(diagnosis: Diagnosis, *, replay: bool = True) -> tuple[Finding, ...]:
    """Find what would save time, what saves most first.

    Each saving is that of one action alone; they overlap, so their sum says nothing.

    replay: Whether replays may be asked; without them all savings are estimated.
    """
    if not replay:
        return _find(diagnosis, replay)
    if diagnosis not in _FOUND:
        _FOUND[diagnosis] = _find(diagnosis, replay)
    return _FOUND[diagnosis]


def _find(diagnosis: Diagnosis, replay: bool) -> tuple[Finding, ...]:
    about = About(diagnosis)
    found = [
        *contention(about),
        *_start_up(about),
        *stage_findings(about),
        *_wasted(about),
        *driver_findings(about),
        *collect_findings(about),
        *_unknown(about),
    ]
    # What failed, or has hardly begun, has no duration that could be shorter.
    gone = about.tables.queries["failed"].to_numpy(bool) | unfinished(about.tables)
    found = [one for one in found if not gone[list(one.queries)].all()]
    worth = [one for one in _ranked(found) if _is_worth(one)]
    if replay:
        worth = [*map(about.replayed, worth[:MOST_ASKED]), *worth[MOST_ASKED:]]
    worth = [one for one in worth if _is_worth(one)]
    more = [one for one in _executors(about, worth) if not gone[list(one.queries)].all()]
    worth += [one for one in more if _is_worth(one)]
    return (*failed_findings(about), *_idle(about, worth), *_ranked(worth))


def _ranked(found: Sequence[Finding]) -> list[Finding]:
    """What surely saves most first; what costs most, more executors, after what is at hand."""

    def place(one: Finding) -> tuple[bool, float, float, str, str]:
        dear = one.kind is FindingKind.EXECUTORS
        return dear, -one.low_ms, -one.saves_ms, str(one.kind), one.subject

    return sorted(found, key=place)


def findings_headline(findings: Sequence[Finding]) -> str:
    """What the first finding comes to, in a few words; empty where nothing would save time."""
    if not findings or findings[0].kind is FindingKind.FAILED:
        return ""
    first = findings[0]
    share = first.frees or first.share
    return f"{_HEADS[first.kind].format(subject=first.subject, share=percent(share))}."


def _is_worth(one: Finding) -> bool:
    sure = one.low_ms * one.share >= LEAST_SURE_SHARE * one.saves_ms or one.kind in OPEN
    return one.saves_ms >= LEAST_SAVED_MS and one.share >= LEAST_SAVED_SHARE and sure


def _unknown(about: About) -> Iterator[Finding]:
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
            sentence=f"Nothing in the logs explains why {about.called(worst)} lost "
            f"{about.of_run(sum(runs.values()), worst)}.",
            action=Remedy(advice_for(UNATTRIBUTED, bool(recorded[app]))),
            ranged=(0.0, 0.6),
            section="blame",
        )


def _start_up(about: About) -> Iterator[Finding]:
    """Queries that waited for executors that were not there yet, or no longer."""
    saves, missed, lacking = start_up_time(about.tables)
    held = about.diagnosis.graph.who_hurts_whom(Resource.EXECUTORS)
    in_the_way = (BlameKind.QUERY, BlameKind.REST, BlameKind.KNOWN)
    held = held[held["kind"].isin([kind.value for kind in in_the_way]).to_numpy(bool)]
    # What other applications held is a contention, and a queue has a limit; where that was most, no
    # start is at fault.
    by_others = np.bincount(held["target_query"], held["lost_ms"], len(saves))
    rows = np.flatnonzero(saves > 2.0 * by_others)
    saves = saves - by_others
    used = about.use_of
    for runs in about.grouped(rows.tolist(), saves[rows]):
        worst = max(runs, key=lambda row: runs[row])
        place, use = about.place(worst), used.get(int(about.tables.queries["app"].iloc[worst]))
        if "local" in place.holds:
            continue
        time = about.of_run(float(missed[list(runs)].sum()), worst)
        some = saves[worst] < NO_EXECUTOR * missed[worst]
        fewer = count_of(max(round(float(lacking[worst])), 1), "slot")
        had = f"{fewer} fewer than it could use" if some else "no executor"
        kind, asked = FindingKind.START_UP, ""
        if use is not None and use.asked > use.most:
            kind = FindingKind.NOT_GRANTED
            asked = f" It asked for {use.asked:.0f} executors, and {use.most} came."
        yield about.finding(
            kind,
            runs,
            sentence=f"{about.called(worst)} had {had} for {time}.{asked}",
            action=place.action(kind.value, values={"executors": use.most if use else "some"}),
            ranged=(0.6, 1.15),
            section="blame",
        )


def _wasted(about: About) -> Iterator[Finding]:
    """Work of no use, one finding per cause, of the query that it delayed most."""
    by_cause: dict[str, list[WastedLine]] = {}
    for line in wasted_lines(about.diagnosis):
        if line.delayed and not is_told_as_failure(about, line):
            by_cause.setdefault(line.cause_name, []).append(line)
    slots = most_slots(about.tables)[about.tables.queries["app"].to_numpy(np.int64)]
    for lines in by_cause.values():
        # A copy of a task is begun late, others again at once: theirs is the whole stage's time.
        whole = lines[0].task_ms / max(float(slots[lines[0].query]), 1.0)
        others = len(lines) - 1
        more = f" It delayed {count_of(others, 'more query')}." if others else ""
        yield about.finding(
            FindingKind.WASTED,
            {lines[0].query: lines[0].elapsed_ms},
            sentence=f"{lines[0].sentence}{more}",
            action=Remedy(lines[0].advice),
            ranged=(0.6, 2.0 * max(whole / lines[0].elapsed_ms, 1.0)),
            section="wasted",
        )


def _executors(about: About, others: Sequence[Finding]) -> Iterator[Finding]:
    """Queries that kept all slots busy, where nothing else is worth as much."""
    hurts = about.diagnosis.graph.who_hurts_whom(Resource.SLOTS)
    mine = hurts[(hurts["kind"] == BlameKind.OWN.value).to_numpy()]
    told = {int(about.recurring[row]) for one in others for row in one.queries[:1]}
    queries = mine["target_query"].astype(int).tolist()
    slots = most_slots(about.tables)
    used = about.use_of
    computed = _computed(about)
    for runs in about.grouped(queries, mine["lost_ms"].to_numpy(np.float64)):
        worst = max(runs, key=lambda row: runs[row])
        # Tasks that only wait, as for a lock, may wait on more slots, too.
        if computed[worst] < NO_CPU:
            continue
        run = float(about.run_of[about.recurring[worst]])
        own = sum(runs.values())
        if int(about.recurring[worst]) in told or own < SMALL_CLUSTER_SHARE * run:
            continue
        app = int(about.tables.queries["app"].iloc[worst])
        use = used.get(app)
        fewer = 1.0 - 1.0 / MORE_SLOTS
        had = use.most if use is not None else 1
        local = "local" in about.place(worst).holds
        more = max(int(np.ceil(MORE_SLOTS * had)), had + 1)
        values = {"from": int(slots[app]) if local else had, "to": more}
        yield about.finding(
            FindingKind.EXECUTORS,
            {row: ms * fewer for row, ms in runs.items()},
            ranged=(0.6, 1.2),
            sentence=f"{about.called(worst)} had more tasks than the {slots[app]:.0f} slots: all "
            f"of them worked for {about.of_run(own, worst)}.",
            action=about.place(worst).action("executors", values=values),
            section="slots",
        )


def _computed(about: About) -> Floats:
    """Return the share of each query's task time on the processor; 1 where nothing tells."""
    waits, query = about.diagnosis.waits, about.tables.tasks["query"].to_numpy(np.int64)
    known, n = query >= 0, len(about.ran)

    def summed(name: str) -> Floats:
        return sum_by(query[known], np.nan_to_num(waits[name].to_numpy(np.float64))[known], n)

    computed, ran = summed("compute_ms") + summed("gc_ms"), summed("duration_ms")
    return np.where((computed > 0) & (ran > 0), computed / np.maximum(ran, 1.0), 1.0)


def _idle(about: About, others: Sequence[Finding]) -> Iterator[Finding]:
    """Applications that hardly used the executors that they held, if that is the largest."""
    saved = max((one.saves_ms for one in others), default=0.0)
    app_of = about.tables.queries["app"].to_numpy(np.int64)
    for use in about.use_of.values():
        rows = np.flatnonzero(app_of == use.app)
        idle = use.span_ms - use.working_ms
        if not len(rows) or idle < max(LEAST_IDLE_MS, saved):
            continue
        place = about.place(int(rows[0]))
        share = IDLE_SHARE_DYNAMIC if "dynamic" in place.holds else IDLE_SHARE
        much = max(use.used_ms / use.paid_ms, use.working_ms / use.span_ms)
        if "local" in place.holds or much >= share:
            continue
        name = printable(str(about.tables.applications["name"].iloc[use.app]))
        hours = use.paid_ms / HOUR_MS
        finding = about.finding(
            FindingKind.IDLE,
            {int(rows[0]): 0.0},
            sentence=f"Nothing ran for {duration(idle)} of {duration(use.span_ms)} in {name}, "
            f"while up to {count_of(use.most, 'executor')} were held: tasks used "
            f"{percent(use.used_ms / use.paid_ms)} of {hours:,.2f} core-hours.",
            action=place.action("idle"),
            section="slots",
        )
        frees = 1.0 - use.working_ms / use.span_ms
        yield replace(finding, subject=name, frees=frees)
