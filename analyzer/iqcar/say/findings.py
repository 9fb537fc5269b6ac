"""Ranks what would save time, whatever the cause: one list, from which every report speaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from iqcar.base.units import duration, percent
from iqcar.causes.savings.start_up import start_up_time
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, FindingKind, Resource
from iqcar.model.waits.stage_parts import most_slots
from iqcar.rules.vocabulary.lost_time import NO_EXECUTORS, UNATTRIBUTED, advice_for
from iqcar.say.finding import About, Finding
from iqcar.say.finding_contention import contention
from iqcar.say.finding_driver import driver_findings
from iqcar.say.finding_stages import stage_findings
from iqcar.say.severity import MARKED_SHARE
from iqcar.say.wasted_lines import WastedLine, wasted_lines
from iqcar.tables import recorded_applications

LEAST_SAVED_MS = 1_000.0
"""Below a second nobody changes anything."""
LEAST_SAVED_SHARE = 0.02
"""… and below a fiftieth of the run: two runs of one query differ by more."""
MOST_ASKED = 3
"""Findings of which a replay is asked: as many as are shown at first."""
NO_EXECUTOR = 0.95
"""Part of the slots missing from which on there was no executor."""
SMALL_CLUSTER_SHARE = 0.5
"""Share of a query's run in which all slots worked from which on more of them are worth naming."""
MORE_SLOTS = 1.5
"""How many times the slots the finding on executors is about."""


_REMEDIES = {
    FindingKind.CONTENTION: "keeping other queries out of the way of {}",
    FindingKind.EXECUTORS: "more executors for {}",
    FindingKind.START_UP: "executors that are there when {} starts",
    FindingKind.PARTITIONS: "other partitions for {}",
    FindingKind.SKEW: "evening out the tasks of {}",
    FindingKind.MEMORY: "no spill in {}",
    FindingKind.BROADCAST: "broadcasting what {} joins",
    FindingKind.GC: "less garbage collection in {}",
    FindingKind.CPU_LIMIT: "a higher CPU limit for {}",
    FindingKind.PAGE_FAULTS: "pages that stay in memory for {}",
    FindingKind.WASTED: "no failed or repeated work in {}",
    FindingKind.SLOW_HOST: "mending or leaving out the host {}",
    FindingKind.DRIVER: "less waiting for the driver in {}",
    FindingKind.UNKNOWN: "finding out what {} waited for",
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
        *_unknown(about),
    ]
    worth = [one for one in _ranked(found) if _is_worth(one)]
    if replay:
        worth = [*map(about.replayed, worth[:MOST_ASKED]), *worth[MOST_ASKED:]]
    worth += [one for one in _executors(about, worth) if _is_worth(one)]
    return tuple(_ranked(worth))


def _ranked(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: (-one.saves_ms, str(one.kind), one.subject))


def findings_headline(findings: Sequence[Finding]) -> str:
    """Say how many things would save time, and which most; empty where nothing would."""
    if not findings:
        return ""
    first = findings[0]
    remedy = _REMEDIES[first.kind].format(first.subject)
    saved = f"about {duration(first.saves_ms)}, {percent(first.share)} of its run"
    if len(findings) == 1:
        return f"One thing would save time: {remedy} ({saved})."
    return f"{len(findings)} things would save time, most of all {remedy} ({saved})."


def _is_worth(one: Finding) -> bool:
    return one.saves_ms >= LEAST_SAVED_MS and one.share >= LEAST_SAVED_SHARE


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
            action=advice_for(UNATTRIBUTED, bool(recorded[app])),
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
    for runs in about.grouped(rows.tolist(), saves[rows]):
        worst = max(runs, key=lambda row: runs[row])
        time = about.of_run(float(missed[list(runs)].sum()), worst)
        some = saves[worst] < NO_EXECUTOR * missed[worst]
        had = f"{lacking[worst]:.0f} slots fewer than it could use" if some else "no executor"
        yield about.finding(
            FindingKind.START_UP,
            runs,
            sentence=f"{about.called(worst)} had {had} for {time}.",
            action=advice_for(NO_EXECUTORS),
            ranged=(0.6, 1.15),
            section="blame",
        )


def _wasted(about: About) -> Iterator[Finding]:
    """Work of no use, one finding per cause, of the query that it delayed most."""
    by_cause: dict[str, list[WastedLine]] = {}
    for line in wasted_lines(about.diagnosis):
        if line.delayed:
            by_cause.setdefault(line.cause_name, []).append(line)
    slots = most_slots(about.tables)[about.tables.queries["app"].to_numpy(np.int64)]
    for lines in by_cause.values():
        # A copy of a task is begun late, others again at once: theirs is the whole stage's time.
        whole = lines[0].task_ms / max(float(slots[lines[0].query]), 1.0)
        others = len(lines) - 1
        more = f" It delayed {others} more quer{'y' if others == 1 else 'ies'}." if others else ""
        yield about.finding(
            FindingKind.WASTED,
            {lines[0].query: lines[0].elapsed_ms},
            sentence=f"{lines[0].sentence}{more}",
            action=lines[0].advice,
            ranged=(0.6, 2.0 * max(whole / lines[0].elapsed_ms, 1.0)),
            section="wasted",
        )


def _executors(about: About, others: Sequence[Finding]) -> Iterator[Finding]:
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
            ranged=(0.6, 1.2),
            sentence=f"{about.called(worst)} has more tasks than the cluster has slots: all of "
            f"them worked for {about.of_run(own, worst)}.",
            action="Give it half as many executors again, or read less: prune columns and "
            "partitions, filter before joins.",
            section="slots",
        )
