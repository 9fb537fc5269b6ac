"""The verdict: each worst-hit query in a sentence, what of its loss went where, and advice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.blame.attribute import KNOWN, OWN, QUERY, UNATTRIBUTED
from iqcar.enums import Resource
from iqcar.formatting import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    duration,
    percent,
    printable,
    run_numbers,
    short,
)
from iqcar.report.html import limits
from iqcar.report.html.blame_rows import FOLDED, RESOURCE_OF_REQUEST, RESOURCES, sums_by
from iqcar.report.html.severity import Severity, severity_of
from iqcar.rules import QueryType, RuleType
from iqcar.rules.vocabulary.lost_time import OTHER_APPLICATION, advice_for, cause_of
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from iqcar.diagnosis import Diagnosis
    from iqcar.report.html.blame_rows import Facts

WORTH_NAMING = 0.1
"""A part of the loss from a tenth on is named in the sentence."""
MOST_PARTS = 3
"""Parts named in one sentence; the bar below it shows all."""
MOSTLY_BY = 0.5
"""Share of what was lost to others from which one query is named as the one in the way."""
MOSTLY = 0.75
"""Share of a part from which one host stands for it."""
NAME_WIDTH = 60
"""Characters of a name in a sentence."""
NUMBER_WIDTH = 24
"""Characters of what tells two queries of one name apart."""

HELD_UP = (Severity.SEVERE, Severity.MARKED, Severity.SLIGHT)
"""A query of these was held up by others."""

_HELD = {
    Resource.SLOTS: "waiting for slots held by",
    Resource.CPU: "waiting for CPU used by",
    Resource.MEMORY: "waiting for memory held by",
    Resource.NETWORK: "waiting for the network used by",
    Resource.IO: "waiting for disks used by",
}
_CAUSES = {
    OWN: "by its own tasks in each other's way",
    KNOWN: "for known causes (such as garbage collection, or no executors)",
    UNATTRIBUTED: "unattributed",
}


@dataclass(frozen=True)
class Part:
    """A part of what a query lost.

    Attributes
    ----------
    kind : code of the blame kind
    source : query row; −1 unless another query is blamed
    resource : what was waited for; None where several are summed
    lost_ms, share : elapsed time, and as a share of the query's loss
    where : the hosts in words; empty where they do not matter
    """

    kind: int
    source: int
    resource: Resource | None
    lost_ms: float
    share: float
    where: str


@dataclass(frozen=True)
class Finding:
    """What the verdict says of one query.

    Attributes
    ----------
    query, query_id, name : row, id and name as shown
    severity : in a word
    sentence : what it lost, of what, to whom, where
    parts : what of its loss went where, the largest first
    advice : what helps against the largest part; empty where an earlier finding says the same
    rules : id of each rule that helps it, and what the rule does
    ended : whether the log holds its end
    """

    query: int
    query_id: str
    name: str
    severity: Severity
    sentence: str
    parts: tuple[Part, ...]
    advice: str
    rules: tuple[tuple[str, str], ...]
    ended: bool


@dataclass(frozen=True)
class Verdict:
    """What the page says first.

    Attributes
    ----------
    quiet : whether nothing is worth acting on
    headline : one sentence
    findings : the targets, worst first
    """

    quiet: bool
    headline: str
    findings: tuple[Finding, ...]


def verdict_of(diagnosis: Diagnosis, facts: Facts) -> Verdict:
    """Put the diagnosis into sentences, the worst-hit query first."""
    shown = diagnosis.targets[: limits.MOST_FINDINGS]
    findings = _without_repeats(_finding(diagnosis, facts, query) for query in shown)
    queries = len(diagnosis.tables.queries)
    to_others, lost = diagnosis.lost_to_others_ms(), diagnosis.lost_ms()
    ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
    held_up = [
        query
        for query in range(queries)
        if severity_of(ran[query], lost[query], to_others[query]) in HELD_UP
    ]
    if held_up:
        worst = max(held_up, key=lambda query: to_others[query])
        return Verdict(False, _headline(diagnosis, facts, held_up, worst), findings)
    most = float(to_others.max(initial=0.0))
    if queries == 0:
        head = "Nothing ran in these logs that could have waited."
    elif most <= 0:
        head = "No query lost time to another."
    else:
        head = f"No query lost more than {_at_most(most)} to another."
    own = [one for one in findings if one.severity is Severity.OWN]
    if own:
        ms = float(lost[own[0].query])
        head += f" {own[0].name} lost {duration(ms)} all the same, for reasons of its own."
    return Verdict(not own, head, findings)


def _headline(diagnosis: Diagnosis, facts: Facts, held_up: Sequence[int], worst: int) -> str:
    """How many queries were held up, by whom mostly, and which was worst hit."""
    taken: dict[int, float] = {}
    rows = facts.frame
    rows = rows[((rows["kind"] == QUERY) & rows["target"].isin(held_up)).to_numpy()]
    for (_, source), ms in rows.groupby(["target", "source"])["lost_ms"].sum().items():
        taken[int(source)] = taken.get(int(source), 0.0) + float(ms)
    total = sum(taken.values())
    taken.pop(FOLDED, None)
    culprit = max(taken, key=lambda source: taken[source], default=FOLDED)
    most = culprit >= 0 and taken[culprit] >= MOSTLY_BY * total
    by = f", mostly by {_name(diagnosis, culprit)}" if most else ""
    name, share = _name(diagnosis, worst), _share_lost(diagnosis, worst)
    if len(held_up) == 1:
        return f"{name} lost {share} of its run to other queries{by.replace(' by ', ' to ', 1)}."
    queries = len(diagnosis.tables.queries)
    return (
        f"{len(held_up):,} of {queries:,} queries were held up by others{by}. Most was lost by "
        f"{name}: {share} of its run."
    )


def _without_repeats(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Give the same advice once: five times the same is not read once."""
    said: set[str] = set()
    kept = []
    for finding in findings:
        kept.append(replace(finding, advice="") if finding.advice in said else finding)
        said.add(finding.advice)
    return tuple(kept)


def _finding(diagnosis: Diagnosis, facts: Facts, query: int) -> Finding:
    tables = diagnosis.tables
    ran = float(tables.queries["duration_ms"].iloc[query])
    lost = float(diagnosis.lost_ms()[query])
    to_others = min(float(diagnosis.lost_to_others_ms()[query]), lost)
    rows = facts.of(query)
    parts = parts_of(rows, tables.hosts["host"].tolist())
    severity = severity_of(ran, lost, to_others)
    return Finding(
        query=query,
        name=_name(diagnosis, query),
        query_id=printable(str(tables.queries["query_id"].iloc[query])),
        severity=severity,
        sentence=_sentence(diagnosis, query, ran, lost, parts),
        parts=tuple(parts),
        advice=_advice(diagnosis, query, severity, parts),
        rules=_rules(diagnosis, query, parts) if severity is not Severity.QUIET else (),
        ended=bool(tables.queries["ended"].iloc[query]),
    )


def parts_of(rows: pd.DataFrame, hosts: Sequence[str]) -> list[Part]:
    """Split what one target lost by whom it is put down to and what was waited for.

    Parameters
    ----------
    rows : DataFrame of one target, as in :class:`iqcar.report.html.blame_rows.Facts`
    hosts : names by row

    Returns
    -------
    list of Part
        The largest first; their shares sum to 1 where anything was lost.
    """
    lost = rows["lost_ms"].to_numpy(np.float64)
    total = lost.sum()
    if not total > 0:
        return []
    kind = rows["kind"].to_numpy(np.int64)
    by_query = kind == QUERY
    source = np.where(by_query, rows["source"].to_numpy(np.int64), -1)
    resource = RESOURCE_OF_REQUEST[rows["request"].to_numpy(np.int64)]
    resource = np.where(by_query, resource, -1)
    host = rows["host"].to_numpy(np.int64)
    everywhere = np.unique(host[lost > 0])
    keys, sums, member = sums_by((kind, source, resource), lost)
    parts = []
    for at in np.argsort(-sums, kind="stable").tolist():
        if sums[at] <= 0:
            continue
        code, who, what = keys[at]
        named = code == QUERY and who >= 0 and sums[at] >= WORTH_NAMING * total
        mine = member == at if named else slice(0)
        parts.append(
            Part(
                code,
                who,
                RESOURCES[what] if what >= 0 else None,
                float(sums[at]),
                float(sums[at] / total),
                _where(host[mine], lost[mine], everywhere, hosts) if named else "",
            )
        )
    return parts


def _where(host: np.ndarray, lost: np.ndarray, everywhere: np.ndarray, names: Sequence[str]) -> str:
    rows, member = np.unique(host, return_inverse=True)
    sums = np.bincount(member.ravel(), lost, minlength=len(rows))
    rows, sums = rows[sums > 0], sums[sums > 0]
    if len(rows) == 0:
        return ""
    top = int(sums.argmax())
    name = printable(names[rows[top]]) if rows[top] >= 0 else "an unknown host"
    if len(rows) == 1:
        return f"on {name}"
    if sums[top] >= MOSTLY * sums.sum():
        return f"mostly on {name}"
    if len(rows) == len(everywhere):
        return "on both hosts" if len(rows) == 2 else f"on all {len(rows)} hosts"
    return f"on {len(rows)} of {len(everywhere)} hosts"


def _sentence(
    diagnosis: Diagnosis, query: int, ran: float, lost: float, parts: Sequence[Part]
) -> str:
    name = _name(diagnosis, query)
    if not lost > 0:
        return f"{name} lost no time that could be measured."
    # Rounding of summed times can lift the loss over the duration by a hair.
    shown = min(lost, ran) if ran > 0 else lost
    start = f"{name} lost {duration(shown)}" + (
        f" of its {duration(ran)}" if np.isfinite(ran) else ""
    )
    large = [part for part in parts if part.share >= WORTH_NAMING]
    named = [part for part in large if part.kind != UNATTRIBUTED and part.source != FOLDED]
    named = named[:MOST_PARTS]
    said = [_part_words(diagnosis, part) for part in named]
    unattributed = sum(part.share for part in parts if part.kind == UNATTRIBUTED)
    rest = 1 - unattributed - sum(part.share for part in named)
    if rest >= WORTH_NAMING:
        others = "in smaller parts" if said else "in parts, none larger than a tenth"
        said.append(f"{percent(rest)} {others}")
    if unattributed > 0:
        said.append(f"{percent(unattributed)} unattributed")
    return f"{start}: {'; '.join(said)}."


def _part_words(diagnosis: Diagnosis, part: Part) -> str:
    if part.resource is None:
        return f"{percent(part.share)} {_CAUSES[part.kind]}"
    who = _name(diagnosis, part.source)
    return f"{percent(part.share)} {_HELD[part.resource]} {who} {part.where}".rstrip()


def _advice(diagnosis: Diagnosis, query: int, severity: Severity, parts: Sequence[Part]) -> str:
    if severity is Severity.QUIET or not parts:
        return "Nothing to do."
    worst = parts[0]
    if worst.resource is not None:
        app = diagnosis.tables.queries["app"]
        if worst.source >= 0 and int(app.iloc[worst.source]) != int(app.iloc[query]):
            return advice_for(OTHER_APPLICATION)
        return advice_for(cause_of("query", worst.resource))
    kind = {OWN: "own", KNOWN: "known", UNATTRIBUTED: "unattributed"}[worst.kind]
    return advice_for(cause_of(kind, _largest_resource(diagnosis, query, kind)))


def _largest_resource(diagnosis: Diagnosis, query: int, kind: str) -> str:
    for row in diagnosis.graph.blame_of(query).to_dict("records"):
        if row["kind"] == kind and row["by_resource"]:
            return str(next(iter(row["by_resource"])))
    return str(Resource.CPU)


def _rules(diagnosis: Diagnosis, query: int, parts: Sequence[Part]) -> tuple[tuple[str, str], ...]:
    """Rules about a query, or about the one that was most in its way."""
    fingerprints = diagnosis.tables.queries["fingerprint"]
    mine = str(fingerprints.iloc[query])
    worst = parts[0].source if parts else -1
    culprit = str(fingerprints.iloc[worst]) if worst >= 0 else ""
    found = []
    for rule in diagnosis.rules:
        if not rule.helps_pools or not rule.fingerprint:
            continue
        if rule.fingerprint == mine and rule.query_type is QueryType.TARGET:
            said = "raises its priority"
            if rule.expected:
                said += f" (expected {rule.expected['victims_change_percent']:+.0f} %)"
            found.append((rule.id, said))
        elif rule.fingerprint == culprit and rule.query_type is QueryType.SOURCE:
            name = _name(diagnosis, worst)
            does = (
                "a pool of its own for"
                if rule.rule_type is RuleType.AGG
                else "lowers the priority of"
            )
            found.append((rule.id, f"{does} {name}"))
    return tuple(found)


def _share_lost(diagnosis: Diagnosis, query: int) -> str:
    ran = float(diagnosis.tables.queries["duration_ms"].iloc[query])
    return percent(min(float(diagnosis.lost_to_others_ms()[query]) / ran, 1.0))


def _name(diagnosis: Diagnosis, query: int) -> str:
    """Name of a query; with its number where another one is called the same."""
    names = texts(diagnosis.tables.queries, "name")
    name = short(names[query], NAME_WIDTH)
    ids = texts(diagnosis.tables.queries, "query_id")
    number = short(run_numbers(ids, names)[query], NUMBER_WIDTH)
    if not name:
        return number
    return name if names.count(names[query]) == 1 else f"{name} ({number})"


def _at_most(ms: float) -> str:
    """Round up to what the words show: "no more than 240 ms" has to be true."""
    if ms < SECOND_MS:
        step = 1.0
    elif ms < 2 * MINUTE_MS:
        step = SECOND_MS / 10
    else:
        step = (MINUTE_MS if ms < 2 * HOUR_MS else HOUR_MS) / 10
    return duration(float(np.ceil(ms / step) * step))
