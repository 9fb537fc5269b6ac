"""Says how badly each target was hit, by whom, what helps, and what is doubtful."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.base.units import HOUR_MS, MINUTE_MS, SECOND_MS, change_words, duration, printable
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind
from iqcar.logs.text import redact_text
from iqcar.model.doubts import listener_alone, much_lost
from iqcar.rules.rule import QueryType, RuleType
from iqcar.say.blamed import (
    QueryNames,
    RecurringNames,
    find_blamed,
    fold_blamed,
    sum_blamed,
    with_cached,
)
from iqcar.say.failed import failed_headline, unknown_headline
from iqcar.say.finding import HELD_UP, Finding, Severity, severity_of
from iqcar.say.findings import find_findings, findings_headline
from iqcar.say.rule_lines import do_not_apply
from iqcar.say.sections import wasted_lines
from iqcar.say.sentences import (
    LostToOthers,
    OthersLosses,
    loss_sentence,
    outcome_words,
    parts_of,
    query_statuses,
    run_words,
)
from iqcar.tables import texts

if TYPE_CHECKING:
    from iqcar.say.blamed import Blamed
    from iqcar.say.sections import WastedLine
    from iqcar.say.sentences import SentencePart

_DOES = {
    RuleType.AGG: "a pool of its own for",
    RuleType.DYNP: "lowers the priority of",
    RuleType.CAP: "a cap on the slots of",
}
MOST_RUNS = 20
"""Runs of a recurring query that are told one by one."""
MOSTLY_BY = 0.5
"""Share of what was lost to others from which one query is named as the one in the way."""


@dataclass(frozen=True)
class Target:
    """What the verdict says of one query.

    query: row of the query.
    query_id, name: as shown; queries of one name are told apart.
    severity: how badly it was hit, in a word.
    ran_ms, lost_ms, to_others_ms: its duration (NaN if unknown), what of it was lost, and what of
    that to other queries.
    others: that and its range, in words, too.
    outcome: what became of it, or of a run that did not end well; empty where all did.
    blamed: whom the loss is attributed to, the largest first, small queries summed.
    summary: how long it ran and what it lost, without its name.
    sentence: what it lost, of what, to whom, where.
    advice: what the finding that saves it most advises; empty where an earlier one says the same.
    rules: id of each rule that helps it, and what the rule does.
    runs: the runs of a recurring query that it sums, the worst first; ``query`` is the first of
    them. Empty where it is one run.
    """

    query: int
    query_id: str
    name: str
    severity: Severity
    ran_ms: float
    lost_ms: float
    to_others_ms: float
    others: LostToOthers
    outcome: str
    blamed: tuple[Blamed, ...]
    summary: str
    sentence: str
    advice: str
    rules: tuple[tuple[str, str], ...]
    runs: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What every report says first.

    quiet: whether nothing is worth acting on.
    headline: one sentence.
    targets: the targets, worst first.
    recurring: the same with runs of a recurring query summed.
    findings: what would save time, the most first.
    wasted: what wasted work cost each query, all queries, worst first.
    doubts: what is doubtful, in sentences without a full stop.
    do_not_apply: a sentence that warns of scheduler rules; it comes first. Empty if no warning is
    needed.
    """

    quiet: bool
    headline: str
    targets: tuple[Target, ...]
    recurring: tuple[Target, ...]
    findings: tuple[Finding, ...]
    wasted: tuple[WastedLine, ...]
    doubts: tuple[str, ...]
    do_not_apply: str


def find_verdict(diagnosis: Diagnosis, most: int | None = None) -> Verdict:
    """Judge a diagnosis: terminal, notebook and page show this and nothing else.

    most: targets at most; all by default.
    """
    lost = _LossSums(diagnosis)
    names = QueryNames(diagnosis.tables.queries, diagnosis.tables.applications)
    recurring = RecurringNames(diagnosis.tables)
    findings = find_findings(diagnosis)
    shown = diagnosis.targets[:most]
    summed = []
    for mine in recurring.runs_of(shown):
        each = [_target(diagnosis, lost, names, [query], findings) for query in mine[:MOST_RUNS]]
        one = _target(diagnosis, lost, recurring, mine, findings) if len(mine) > 1 else each[0]
        summed.append(replace(one, runs=tuple(each) if len(mine) > 1 else ()))
    summed.sort(key=lambda one: -one.to_others_ms)
    held_up = [query for query in range(len(lost.ran)) if lost.severity(query) in HELD_UP]
    wasted = wasted_lines(diagnosis)
    failed = failed_headline(diagnosis.tables, findings)
    unknown = "" if failed else unknown_headline(diagnosis.tables)
    if held_up:
        head = _headline(diagnosis, lost, recurring, held_up)
    elif failed or unknown:
        head = ""
    else:
        head = findings_headline(findings) or _quiet_headline(lost, names)
    doubt = listener_alone(diagnosis.tables)
    alone = f"{doubt[0].upper()}{doubt[1:]}." if doubt else ""
    missing = "" if unknown else much_lost(diagnosis.tables)
    return Verdict(
        quiet=not (held_up or findings or unknown),
        headline=" ".join(filter(None, (failed, unknown, missing, head, alone))),
        targets=_without_repeats(
            _target(diagnosis, lost, names, [query], findings) for query in shown
        ),
        recurring=_without_repeats(summed),
        findings=findings,
        wasted=wasted,
        doubts=all_doubts(diagnosis),
        do_not_apply=do_not_apply(diagnosis),
    )


def all_doubts(diagnosis: Diagnosis) -> tuple[str, ...]:
    """List what is doubtful, about stragglers too, each once, without secrets."""
    every = dict.fromkeys([*diagnosis.doubts, *diagnosis.stragglers.doubts])
    return tuple(printable(redact_text(doubt)) for doubt in every)


def meanings(verdict: Verdict) -> dict[str, str]:
    """Explain each cause that the verdict names: name and sentence."""
    every = (one for target in verdict.targets for one in target.blamed)
    return {one.name: one.meaning for one in every if one.meaning}


class _LossSums:
    """Durations and losses of all queries, in ms."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
        lost = diagnosis.lost_ms()
        # Rounding of summed times can lift the loss over the duration by a hair.
        self.lost = np.where(self.ran > 0, np.fmin(lost, self.ran), lost)
        self.others = OthersLosses(diagnosis, self.lost)
        self.to_others = self.others.lost
        self.status = query_statuses(diagnosis.tables)

    def severity(self, query: int) -> Severity:
        return severity_of(*self.of([query]))

    def of(self, runs: Sequence[int]) -> tuple[float, float, float]:
        """Duration, loss and loss to others of some queries together."""
        ran, lost, to_others = (
            float(of[list(runs)].sum()) for of in (self.ran, self.lost, self.to_others)
        )
        return ran, lost, to_others


def _headline(
    diagnosis: Diagnosis, lost: _LossSums, names: RecurringNames, held_up: Sequence[int]
) -> str:
    """Say how many queries were held up, by whom mostly, and which was worst hit.

    Runs of a recurring query are summed: it is one that is in the way.
    """
    of = np.array(names.first, np.int64)
    hurts = diagnosis.graph.who_hurts_whom()
    source = hurts["source_query"].to_numpy(np.int64)
    target = hurts["target_query"].to_numpy(np.int64)
    by_others = hurts["kind"].isin([BlameKind.QUERY.value, BlameKind.REST.value]).to_numpy(bool)
    mine = by_others & np.isin(target, held_up)
    ms = hurts["lost_ms"].to_numpy(np.float64)
    named = mine & (source >= 0)
    taken = np.bincount(of[source[named]], ms[named], len(of))
    culprit = int(taken.argmax())
    by = ""
    if taken[culprit] >= MOSTLY_BY * ms[mine].sum():
        by = f", mostly by {names.called(culprit)}"
    lost_ms = np.bincount(of, lost.to_others)
    worst = max(of[held_up].tolist(), key=lambda row: lost_ms[row])
    who, much = names.called(worst), lost.others.of(np.flatnonzero(of == worst).tolist())
    why = f": {much.why_open}" if much.is_open else ""
    if by and culprit == worst and len(set(of[held_up].tolist())) == 1:
        return (
            f"Runs of {names.name(worst)} were in each other's way: they lost {much.amount}{why}."
        )
    if len(held_up) == 1:
        to = by.replace(" by ", " to ", 1)
        return f"{who} lost {much.amount}, to other queries{to}{why}."
    return (
        f"{len(held_up):,} of {len(lost.ran):,} queries were held up by others{by}. Most was lost "
        f"by {who}: {much.amount}{why}."
    )


def _quiet_headline(lost: _LossSums, names: QueryNames) -> str:
    may = lost.others.most_open
    if may >= 0:
        much = lost.others.of([may])
        return f"{names.called(may)} lost {much.amount} to other queries: {much.why_open}."
    most = float(lost.to_others.max(initial=0.0))
    if len(lost.ran) == 0:
        head = "Nothing ran in these logs that could have waited."
    elif most <= 0:
        head = "No query lost time to another."
    else:
        head = f"No query lost more than {_at_most(most)} to another."
    return head


def _at_most(ms: float) -> str:
    """Round up to what the words show: "no more than 240 ms" has to be true."""
    if ms < SECOND_MS:
        step = 1.0
    elif ms < 2 * MINUTE_MS:
        step = SECOND_MS / 10
    else:
        step = (MINUTE_MS if ms < 2 * HOUR_MS else HOUR_MS) / 10
    return duration(float(np.ceil(ms / step) * step))


def _without_repeats(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Give the same advice once: five times the same is not read once."""
    said: set[str] = set()
    kept = []
    for target in targets:
        kept.append(replace(target, advice="") if target.advice in said else target)
        said.add(target.advice)
    return tuple(kept)


def _target(
    diagnosis: Diagnosis,
    lost: _LossSums,
    names: QueryNames,
    runs: Sequence[int],
    findings: Sequence[Finding],
) -> Target:
    """Say what one run lost, or several of a recurring query together; the worst is the first."""
    ran, lost_ms, to_others = lost.of(runs)
    others = lost.others.of(runs)
    blamed = find_blamed(diagnosis.graph, runs[0], names)
    shown: Sequence[int] = range(len(diagnosis.tables.queries))
    if isinstance(names, RecurringNames):
        shown = names.first
        more = [find_blamed(diagnosis.graph, run, names) for run in runs[1:]]
        blamed = sum_blamed([blamed, *more], names.first, ran)
    blamed = with_cached(blamed, diagnosis, runs, shown)
    parts = parts_of(blamed)
    severity = severity_of(ran, lost_ms, to_others)
    query = runs[0]
    name = names.called(query)
    errors = texts(diagnosis.tables.queries, "error")
    became = (outcome_words(lost.status[row], errors[row]) for row in runs)
    outcome = next(filter(None, became), "")
    return Target(
        query=query,
        query_id=printable(names.ids[query]),
        name=name,
        severity=severity,
        ran_ms=ran,
        lost_ms=lost_ms,
        to_others_ms=to_others,
        others=others,
        outcome=outcome,
        blamed=fold_blamed(blamed),
        summary=run_words(lost_ms, others, outcome),
        sentence=loss_sentence(name, lost_ms, others, parts, names),
        advice=next((one.action for one in findings if set(runs) & set(one.queries)), ""),
        rules=() if severity is Severity.QUIET else _rules(diagnosis, query, parts, names),
    )


def _rules(
    diagnosis: Diagnosis, query: int, parts: Sequence[SentencePart], names: QueryNames
) -> tuple[tuple[str, str], ...]:
    """Rules about a query, or about the one that was most in its way."""
    fingerprints = diagnosis.tables.queries["fingerprint"]
    mine = str(fingerprints.iloc[query])
    worst = parts[0].blamed.query if parts else -1
    culprit = str(fingerprints.iloc[worst]) if worst >= 0 else ""
    found = []
    for rule in diagnosis.rules:
        if not rule.helps_pools or not rule.fingerprint:
            continue
        if rule.fingerprint == mine and rule.query_type is QueryType.TARGET:
            said = "raises its priority"
            if rule.expected:
                said += f" (expected {change_words(rule.expected['victims_change_percent'])})"
            found.append((rule.id, said))
        elif rule.fingerprint == culprit and rule.query_type is QueryType.SOURCE:
            found.append((rule.id, f"{_DOES[rule.rule_type]} {names.called(worst)}"))
    return tuple(found)
