"""Says what a diagnosis found, a section each: resources, hosts, queries, owners, waste, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, resource_name, short
from iqcar.causes.blame.demand_weights import BLAME_KINDS, QUERY, RESOURCES, UNATTRIBUTED
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, BlameKind, Resource
from iqcar.model.queries.owners import OWNERS, owners
from iqcar.say.blamed import cause_name
from iqcar.say.rule_lines import (
    acting_rules,
    not_accepted,
    rejected_lines,
    rule_lines,
    since_start,
    together_words,
)
from iqcar.say.section import Section, columns
from iqcar.say.sentences import OthersLosses
from iqcar.say.wasted_lines import WastedLine
from iqcar.tables import Tables

COLUMNS = ("victim", "source", "kind", "resource", "lost_ms", "share", "evidence")
"""Columns of :func:`losses_by_owner`, named as in the result's JSON."""

KIND_WORDS = {
    BlameKind.OWN: "the same query",
    BlameKind.QUERY: "other queries",
    BlameKind.REST: "",
    BlameKind.KNOWN: "",
    BlameKind.UNATTRIBUTED: "",
}
"""What tells an owner's own queries from its others."""


@dataclass(frozen=True)
class OwnerLine:
    """What one owner's queries lost to another's, or to a cause.

    Attributes
    ----------
    victim, source : str
        Owners; the source of a cause is its name.
    kind : BlameKind
        ``own``: to the same query, not to another of the owner's.
    lost_ms, share : float
        Elapsed time, and its part of what all queries lost.
    by_resource : mapping
        The same in ms by name of what was waited for, the largest first.
    evidence : str
        The weakest of its parts.
    """

    victim: str
    source: str
    kind: BlameKind
    lost_ms: float
    share: float
    by_resource: Mapping[str, float]
    evidence: str


def losses_by_owner(diagnosis: Diagnosis, by: str) -> pd.DataFrame:
    """Sum lost time by the owner of the query that lost it and of that which was in its way.

    Parameters
    ----------
    diagnosis : Diagnosis
    by : str
        As for :func:`iqcar.model.queries.owners.owners`.

    Returns
    -------
    DataFrame
        :data:`COLUMNS`, the largest loss first: victim and source (owners; what is no query has
        the cause's name in brackets), kind (:class:`~iqcar.enums.BlameKind`; ``own`` where a query
        lost time to itself), resource, lost_ms (elapsed, sums to what the queries lost), share (of
        that sum), evidence (the weakest of the row).

    Raises
    ------
    UsageError
        If nothing can be grouped so.
    """
    names, graph = owners(diagnosis.tables, by), diagnosis.graph
    owner_names, owner_of = np.unique(np.array([*names, ""], object), return_inverse=True)
    owner = owner_of[:-1].astype(np.int64)
    s = graph.structure
    demand = s.towards[4]
    if not len(demand):
        return pd.DataFrame({name: [] for name in COLUMNS})
    lost = graph.lost.amount[4]
    source = s.source_query[graph.query_of_explanation]
    # A source stage of no known query is nobody that could be named.
    kind = np.where((s.kind == QUERY) & (source < 0), UNATTRIBUTED, s.kind)
    rows = pd.DataFrame(
        {
            "victim": owner[s.targets[s.target[4]]],
            "source": np.where(source >= 0, owner[np.maximum(source, 0)], -1),
            "kind": kind,
            "resource": graph.resource_of_demand[demand],
            "lost_ms": lost,
            "evidence": diagnosis.blame.demands["evidence"].to_numpy(np.int64)[s.demand][demand],
        }
    )
    sums = (
        rows[lost > 0]
        .groupby(["victim", "source", "kind", "resource"], as_index=False)
        .agg({"lost_ms": "sum", "evidence": "min"})
        .sort_values("lost_ms", ascending=False, kind="stable", ignore_index=True)
    )
    kinds = [BLAME_KINDS[code] for code in sums["kind"].tolist()]
    resources = [RESOURCES[code] for code in sums["resource"].tolist()]
    total = float(sums["lost_ms"].sum())
    found = {
        "victim": owner_names[sums["victim"].to_numpy(np.int64)],
        "source": [
            str(owner_names[one]) if one >= 0 else f"({cause_name(kind, resource)})"
            for one, kind, resource in zip(sums["source"].tolist(), kinds, resources, strict=True)
        ],
        "kind": [str(kind) for kind in kinds],
        "resource": [str(resource) for resource in resources],
        "lost_ms": sums["lost_ms"],
        "share": sums["lost_ms"] / total if total > 0 else sums["lost_ms"],
        "evidence": [str(EVIDENCES[code]) for code in sums["evidence"].tolist()],
    }
    return pd.DataFrame(found)


def owner_lines(losses: pd.DataFrame, most: int) -> tuple[tuple[OwnerLine, ...], OwnerLine | None]:
    """Join the resources of each victim and source.

    Parameters
    ----------
    losses : DataFrame
        From :func:`losses_by_owner`.
    most : int
        Lines at most.

    Returns
    -------
    (tuple of OwnerLine, OwnerLine or None)
        The largest first; and the sum of what is beyond them, if anything.
    """
    groups = losses.groupby(["victim", "source", "kind"], sort=False)
    lines = [_line(victim, source, kind, part) for (victim, source, kind), part in groups]
    lines.sort(key=lambda one: -one.lost_ms)  # ties stay in the order of their largest part
    if len(lines) <= most:
        return tuple(lines), None
    shown = {(one.victim, one.source, str(one.kind)) for one in lines[:most]}
    keys = zip(losses["victim"], losses["source"], losses["kind"], strict=True)
    beyond = losses[[key not in shown for key in keys]]
    left = len(lines) - most
    return tuple(lines[:most]), _line("", f"{left:,} more pairs", BlameKind.REST, beyond)


def groupings_that_tell(tables: Tables, by: str = "") -> list[str]:
    """Return what is worth grouping by: what was asked for, then what tells queries apart."""
    telling = [one for one in OWNERS if one != by and len(set(owners(tables, one))) > 1]
    return [by, *telling] if by else telling


def _line(victim: str, source: str, kind: str, part: pd.DataFrame) -> OwnerLine:
    by_resource = part.groupby("resource")["lost_ms"].sum().sort_values(ascending=False)
    weakest = min(part["evidence"], key=[str(one) for one in EVIDENCES].index)
    return OwnerLine(
        victim=victim, source=source, kind=BlameKind(kind), lost_ms=float(part["lost_ms"].sum()),
        share=float(part["share"].sum()),
        by_resource={resource_name(Resource(name)): float(ms) for name, ms in by_resource.items()},
        evidence=weakest,
    )  # fmt: skip


APPLICATION = 13
"""Characters of an application's id in a table."""


def resources_section(diagnosis: Diagnosis) -> Section:
    """Show what all queries lost to each resource."""
    frame = diagnosis.graph.hot_resources()
    return Section(
        "resources",
        "Hot resources",
        columns=columns(
            "resource:name | lost to it:time | of all lost time:share | queries hit:count",
            "+what it means",
        ),
        rows=tuple(
            (
                resource_name(row["resource"]),
                row["lost_ms"],
                row["share"],
                int(row["targets"]),
                Resource(row["resource"]).sentence,
            )
            for row in frame[frame["lost_ms"] > 0].to_dict("records")
        ),
        caption="Elapsed time that all queries lost, by what they waited for",
    )


def aggressive_section(diagnosis: Diagnosis, most: int) -> Section:
    """Show the queries that cost others most."""
    frame = diagnosis.graph.aggressive_queries(most)
    names = diagnosis.tables.queries["name"].tolist()
    return Section(
        "aggressive-queries",
        "Aggressive queries",
        columns=columns(
            "query:name | others lost:time | queries hit:count | mostly for | worst hit:name"
        ),
        rows=tuple(
            (
                f"{short(row['name'], 32)} {row['query_id'].rpartition('/')[2]}",
                row["lost_ms"],
                int(row["victims"]),
                resource_name(row["resource"]),
                names[row["worst_victim"]] if row["worst_victim"] >= 0 else None,
            )
            for row in frame[frame["lost_ms"] > 0].to_dict("records")
        ),
    )


def owners_section(diagnosis: Diagnosis, by: str, most: int) -> Section:
    """Show what owners lost to owners and causes; the last row sums what is not shown."""
    lines, rest = owner_lines(losses_by_owner(diagnosis, by), max(most, 1))
    return Section(
        "owners",
        f"Who lost to whom, by {printable(by)}",
        columns=columns(
            "lost by:name | to:name | which is | lost:time | of all:share | waiting for:times",
            "evidence",
        ),
        rows=tuple(
            (
                line.victim,
                line.source,
                KIND_WORDS[line.kind],
                line.lost_ms,
                line.share,
                line.by_resource,
                line.evidence,
            )
            for line in ((*lines, rest) if rest else lines)
        ),
        caption=f"Elapsed time lost, by {printable(by)}",
    )


def wasted_section(diagnosis: Diagnosis, lines: Sequence[WastedLine], most: int) -> Section:
    """Show what work of no use cost each query, and what helps against what was costly."""
    tasks = diagnosis.wasted.tasks
    sentence = "No work was wasted: no task failed, was killed or ran again."
    if len(tasks):
        again = int(tasks["again"].sum())
        repeats = f", {again:,} of them to do again what had been done" if again else ""
        sentence = (
            f"{len(tasks):,} task attempt{'s' if len(tasks) != 1 else ''} of no use{repeats}: "
            f"{duration(float(tasks['task_ms'].sum()))} of task time, "
            f"{percent(diagnosis.wasted.share)} of all. How much later queries ended is "
            "estimated; it overlaps with the time they lost waiting."
        )
    advice = {line.cause_name: line.advice for line in lines[:most] if line.delayed}
    return Section(
        "wasted",
        "Wasted work",
        sentence=sentence,
        columns=columns(
            "query:name | cause | attempts:count | of them again:count | task time:time",
            "ended later by about:time | of its run:share | +Spark says",
        ),
        rows=tuple(
            (
                line.name,
                line.cause_name,
                line.attempts,
                line.again,
                line.task_ms,
                line.elapsed_ms,
                line.share_of_run,
                line.message,
            )
            for line in lines
        ),
        caption="Attempts of no use by query and cause, those first that delayed a query most "
        "(estimated)",
        advice=tuple(advice.items()),
    ).first(most, "more, of less cost, in the result of --json")


def acting_rules_section(tables: Tables) -> Section:
    """Show what each rule did from when to when; empty where the plugin had no rules file."""
    acting, refused = acting_rules(tables), not_accepted(tables)
    return Section(
        "acted",
        "Rules that acted",
        columns=columns("rule:name | from | until | what it did"),
        rows=tuple(
            (
                one.rule,
                since_start(tables, one.app, one.from_ms),
                since_start(tables, one.app, one.until_ms),
                one.sentence,
            )
            for one in acting
        ),
        caption="What the plugin's rules did in this run, from when to when after the "
        "application's start",
        notes=tuple(
            f"{since_start(tables, app, time)}: {sentence}"
            for app, time, sentence in refused[: limits.MOST_ACTED]
        ),
    ).first(limits.MOST_ACTED)


def rules_section(diagnosis: Diagnosis) -> Section:
    """Show the scheduler rules, why each, and what is expected of it."""
    lines, together = rule_lines(diagnosis.rules), diagnosis.rules_together
    notes = [*rejected_lines(diagnosis.rejected_rules), *diagnosis.earlier.notes]
    if lines and together is not None:
        notes.insert(0, f"All together, expected: {together_words(together)}")
    nothing = "none: no query lost enough to another to be worth a rule"
    return Section(
        "rules",
        "Scheduler rules",
        sentence="" if lines or notes else nothing,
        columns=columns("type | query:name | value:number | why"),
        rows=tuple(
            (
                line.type,
                line.name,
                line.value,
                " ".join(
                    filter(
                        None,
                        (
                            line.reason,
                            line.instead,
                            line.besides,
                            line.expected and f"Expected: {line.expected}.",
                        ),
                    )
                ),
            )
            for line in lines
        ),
        notes=tuple(printable(note) for note in notes),
    )


def queries_section(diagnosis: Diagnosis, waits: int = len(Resource)) -> Section:
    """Show every query, those that lost most first.

    waits: how many kinds of waits to show, those that were waited for most; none that is unknown
    or empty for every query.
    """
    queries = diagnosis.queries
    total = {one: float(np.nansum(queries[f"{one}_wait_ms"])) for one in Resource}
    ranked = sorted((one for one in Resource if total[one] > 0), key=lambda one: -total[one])
    shown = [one for one in Resource if one in ranked[:waits]]
    order = np.lexsort((queries["start_ms"].to_numpy(), -queries["lost_ms"].to_numpy()))
    several = len(diagnosis.tables.applications) > 1
    others = OthersLosses(diagnosis, queries["lost_ms"].to_numpy(np.float64))
    rows = []
    for row, query in zip(order.tolist(), queries.iloc[order].to_dict("records"), strict=True):
        application, _, number = query["query_id"].rpartition("/")
        ran, lost = query["duration_ms"], query["lost_ms"]
        rows.append(
            (
                *((_end(application),) if several else ()),
                short(number, 24),
                query["name"],
                duration(ran) if query["ended"] else f"{duration(ran)} …",
                lost,
                min(lost / ran, 1.0) if ran > 0 else 0.0,
                others.of([row]).short,
                query["driver_ms"] if query["driver_ms"] >= 0 else None,
                int(query["tasks"]),
                *(query[f"{resource}_wait_ms"] for resource in shown),
            )
        )
    return Section(
        "queries",
        "Queries",
        columns=columns(
            *(["application"] if several else []),
            "query",
            "name:name",
            "ran:time",
            "lost:time",
            "of it:share",
            "to others",
            "driver:time",
            "tasks:count",
            *(f"{resource_name(one)}:time" for one in shown),
        ),
        rows=tuple(rows),
    )


def _end(application: str) -> str:
    """Return the end of an application's id, which differs from others'."""
    return application if len(application) <= APPLICATION else f"…{application[1 - APPLICATION :]}"
