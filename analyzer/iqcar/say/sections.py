"""Says what a diagnosis found, a section each: resources, hosts, queries, owners, waste, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, resource_name, short
from iqcar.causes.blame.demand_weights import BLAME_KINDS, QUERY, RESOURCES, UNATTRIBUTED
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, BlameKind, Resource, WasteCause
from iqcar.logs.text import redact_text
from iqcar.model.queries.identify import OWNERS, owners
from iqcar.rules.vocabulary import waste_cause
from iqcar.say.blamed import QueryNames, cause_name
from iqcar.say.finding import LEAST_LOST_MS, SLIGHT_SHARE
from iqcar.say.rule_lines import (
    RuleLine,
    acting_rules,
    not_accepted,
    rejected_lines,
    rule_lines,
    since_start,
    together_words,
)
from iqcar.say.section import Section, columns
from iqcar.say.sentences import OthersLosses, query_statuses, told_run
from iqcar.tables import Tables, texts

NOT_KNOWN = "(no pool)"
"""The pool of queries of which the log names none."""
MESSAGE_WIDTH = 160
"""Characters shown of what Spark said: the reason with the name of one container or host."""


@dataclass(frozen=True)
class WastedLine:
    """What one cause of wasted work cost one query; every text is printable.

    query: row of the query.
    attempts, again, executors: attempts whose work was wasted, those among them that did again what
    had been done, and executors whose loss or output caused it.
    executor_id: the executor that cost most; empty if none.
    task_ms, elapsed_ms: task time, and how much later the query ended (estimated).
    share_of_run: ``elapsed_ms`` as a share of the query's duration.
    message: what Spark said; empty if nothing.
    taken: attempts whose slot a task of a known query got, where the scheduler took it.
    taken_by, taken_by_pool: id of the query that got most of them, and its scheduler pool; empty if
    not known.
    """

    query: int
    query_id: str
    name: str
    cause: WasteCause
    cause_name: str
    advice: str
    attempts: int
    again: int
    executors: int
    executor_id: str
    task_ms: float
    elapsed_ms: float
    share_of_run: float
    message: str
    taken: int
    taken_by: str
    taken_by_pool: str
    sentence: str

    @property
    def delayed(self) -> bool:
        """Whether the query ended so much later that it is worth naming."""
        return self.elapsed_ms >= LEAST_LOST_MS and self.share_of_run >= SLIGHT_SHARE


def wasted_lines(diagnosis: Diagnosis) -> tuple[WastedLine, ...]:
    """Say what wasted work cost each query, what cost most elapsed time first."""
    frame = diagnosis.wasted.by_query
    frame = frame[(frame["query"] >= 0).to_numpy(bool)]
    order = np.lexsort((-frame["task_ms"].to_numpy(), -frame["elapsed_ms"].to_numpy()))
    names = QueryNames(diagnosis.tables.queries, diagnosis.tables.applications)
    ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
    executors = [*texts(diagnosis.tables.executors, "executor_id"), ""]
    rows = frame.iloc[order].to_dict("records")
    has_takers = bool((frame["taker"] >= 0).any())
    pools = owners(diagnosis.tables, "pool") if has_takers else []
    return tuple(
        _waste_line(
            row, names, ran[row["query"]].item(), executors[row["executor"]],
            pools[row["taker"]] if row["taker"] >= 0 else NOT_KNOWN,
        )
        for row in rows
    )  # fmt: skip


def _waste_line(
    row: dict[Any, Any], names: QueryNames, ran_ms: float, executor: str, pool: str
) -> WastedLine:
    pool = "" if pool == NOT_KNOWN else short(pool)
    message = short(redact_text(row["message"]), MESSAGE_WIDTH)
    known = waste_cause(row["cause"], row["message"])
    name = names.called(row["query"])
    elapsed = float(row["elapsed_ms"])
    return WastedLine(
        query=int(row["query"]),
        query_id=names.ids[row["query"]],
        name=name,
        cause=WasteCause(row["cause"]),
        cause_name=known.name,
        advice=known.advice,
        attempts=int(row["attempts"]),
        again=int(row["again"]),
        executors=int(row["executors"]),
        executor_id=short(executor),
        task_ms=float(row["task_ms"]),
        elapsed_ms=elapsed,
        share_of_run=min(elapsed / ran_ms, 1.0) if ran_ms > 0 else 0.0,
        message=message,
        taken=int(row["taken"]),
        taken_by=names.ids[row["taker"]] if row["taker"] >= 0 else "",
        taken_by_pool=pool,
        sentence=_sentence(row, name, known.name, ran_ms, message) + _taken(row, names, pool),
    )


def _sentence(row: dict[Any, Any], name: str, cause: str, ran_ms: float, message: str) -> str:
    """``q7 ended about 21.0 s (18 % of its run) later because of a lost executor: ...``."""
    attempts, again, elapsed = int(row["attempts"]), int(row["again"]), float(row["elapsed_ms"])
    did = []
    if attempts > again:
        did.append(f"{attempts - again:,} attempt{_s(attempts - again)} came to nothing")
    if again:
        did.append(f"{again:,} finished task{_s(again)} had to run again")
    share = f" ({percent(min(elapsed / ran_ms, 1.0))} of its run)" if ran_ms > 0 else ""
    cost = f"{name} ended about {duration(elapsed)}{share} later because of {cause}"
    if elapsed < 1.0:
        cost = f"{name} ended hardly later because of {cause}"
    end = "" if message.endswith("…") else "."
    said = f" Spark says: {message.rstrip('.')}{end}" if message else ""
    return f"{cost}: {' and '.join(did)}, {duration(row['task_ms'])} of task time.{said}"


def _taken(row: dict[Any, Any], names: QueryNames, pool: str) -> str:
    """`` 3 of 4 slots went to other queries, most to q3 (pool etl).``."""
    if row["cause"] != WasteCause.SLOT_TAKEN:
        return ""
    taken, attempts, taker = int(row["taken"]), int(row["attempts"]), int(row["taker"])
    if taker < 0:
        return " Who got the slots cannot be told from the log."
    whom = "other stages of its own" if taker == row["query"] else names.called(taker)
    in_pool = f" (pool {pool})" if pool else ""
    return f" {taken:,} of {attempts:,} slots are seen to go to others, most to {whom}{in_pool}."


def _s(n: int) -> str:
    return "" if n == 1 else "s"


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

    victim, source: owners; the source of a cause is its name.
    kind: ``own``: to the same query, not to another of the owner's.
    lost_ms, share: elapsed time, and its part of what all queries lost.
    by_resource: the same in ms by name of what was waited for, the largest first.
    evidence: the weakest of its parts.
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

    by: as for :func:`iqcar.model.queries.identify.owners`.
    Returns :data:`COLUMNS`, the largest loss first: victim and source (owners; what is no query has
    the cause's name in brackets), kind (:class:`~iqcar.enums.BlameKind`; ``own`` where a query lost
    time to itself), resource, lost_ms (elapsed, sums to what the queries lost), share (of that
    sum), evidence (the weakest of the row).
    Raises UsageError if nothing can be grouped so.
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

    losses: from :func:`losses_by_owner`.
    most: lines at most.
    Returns the largest first; and the sum of what is beyond them, if anything.
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


APPLICATION, NUMBER = 18, 14
"""Characters of an application's name in a table, and of a query's number in it."""


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
    names = QueryNames(diagnosis.tables.queries, diagnosis.tables.applications)
    return Section(
        "aggressive-queries",
        "Aggressive queries",
        columns=columns(
            "query:name | others lost:time | queries hit:count | mostly for | worst hit:name"
        ),
        rows=tuple(
            (
                names.called(names.row_of(row["query_id"]), 32),
                row["lost_ms"],
                int(row["victims"]),
                resource_name(row["resource"]),
                names.called(row["worst_victim"]) if row["worst_victim"] >= 0 else None,
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
                *(line.victim, line.source, KIND_WORDS[line.kind]),
                *(line.lost_ms, line.share, line.by_resource, line.evidence),
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
                *(line.name, line.cause_name, line.attempts, line.again),
                *(line.task_ms, line.elapsed_ms, line.share_of_run, line.message),
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
                " ".join(filter(None, _reasons(line))),
            )
            for line in lines
        ),
        notes=tuple(printable(note) for note in notes),
    )


def _reasons(line: RuleLine) -> tuple[str, ...]:
    expected = f"Expected: {line.expected}." if line.expected else ""
    return line.reason, line.instead, line.besides, expected


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
    apps, of_query = _application_names(diagnosis.tables), queries["app"].tolist()
    others = OthersLosses(diagnosis, queries["lost_ms"].to_numpy(np.float64))
    status, rows = query_statuses(diagnosis.tables), []
    for row, query in zip(order.tolist(), queries.iloc[order].to_dict("records"), strict=True):
        number = query["query_id"].rpartition("/")[2]
        ran, lost = query["duration_ms"], query["lost_ms"]
        rows.append(
            (
                *((apps[of_query[row]],) if several else ()),
                short(number, NUMBER),
                query["name"],
                told_run(ran, status[row]),
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
            "+driver:time" if several else "driver:time",
            "tasks:count",
            *(f"{resource_name(one)}:time" for one in shown),
        ),
        rows=tuple(rows),
    )


def failed_lines(diagnosis: Diagnosis, most: int = 10) -> list[str]:
    """Say why each query failed, those that ran longest first; so many at most."""
    queries = diagnosis.tables.queries
    status, errors = query_statuses(diagnosis.tables), texts(queries, "error")
    ids, ran = texts(queries, "query_id"), queries["duration_ms"].to_numpy(np.float64)
    rows = np.flatnonzero(queries["failed"].to_numpy(bool))
    rows = rows[np.argsort(-ran[rows], kind="stable")]
    lines = [
        f"{printable(ids[row].rpartition('/')[2])} {status[row]}: "
        f"{printable(errors[row]) or 'the log does not say why'}"
        for row in rows[:most].tolist()
    ]
    more = len(rows) - most
    return [*lines, f"{more:,} more failed (--json lists all)."] if more > 0 else lines


def _application_names(tables: Tables) -> list[str]:
    """Names of applications in a table; where several have one name, each with its id's end."""
    names = [short(name, APPLICATION) for name in texts(tables.applications, "name")]
    ids = texts(tables.applications, "application_id")
    return [
        name if name and names.count(name) == 1 else f"{short(name, APPLICATION - 6)} …{end[-4:]}"
        for name, end in zip(names, ids, strict=True)
    ]
