"""Says what a diagnosis found, a section each: resources, hosts, queries, owners, waste, rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iqcar.base import limits
from iqcar.base.units import duration, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.say.others_words import OthersLosses
from iqcar.say.owner_losses import KIND_WORDS, losses_by_owner, owner_lines
from iqcar.say.rule_lines import rejected_lines, rule_lines, together_words
from iqcar.say.rules_acting import acting_rules, not_accepted, since_start
from iqcar.say.section import Section, columns
from iqcar.say.wasted_lines import WastedLine
from iqcar.tables import Tables

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
