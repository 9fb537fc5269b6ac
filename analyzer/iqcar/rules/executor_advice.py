"""Makes ADVICE rules from waits for executors that other applications held, one per holder.

No scheduler pool acts across applications: what helps is the cluster manager's business, and what
the holder gives back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from iqcar.base.units import percent
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import BlameKind, Resource
from iqcar.rules.advice_rules import LEAST_DELAY_MS, LEAST_SHARE
from iqcar.rules.rule import QueryType, Rule, RuleType
from iqcar.rules.rule_sentences import in_a_sentence
from iqcar.rules.vocabulary.advice_kinds import advice_kinds, fits, version_of
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints

LEAST_IDLE = 0.1
"""Share of the time in which executors were held from which on idle ones are mentioned."""
_MANAGERS = (
    ("executors-yarn", "yarn", r"application_\d+_\d+"),
    ("executors-kubernetes", "k8s://", r"spark-[0-9a-f]{32}"),
    ("executors-standalone", "spark://", r"app-\d{14}-\d{4,}"),
)
"""Kinds of advice with the master's name and the form of ids of applications of each manager."""
OTHER_MANAGER = "executors-other"


class ExecutorWait(NamedTuple):
    """What one query lost to executors that one other query held.

    holder: row of the application that held them.
    source, target: rows of the queries.
    lost_ms, idle_ms: elapsed; the second to executors that ran no task.
    """

    holder: int
    source: int
    target: int
    lost_ms: float
    idle_ms: float


def manager_kind(tables: Tables, app: int) -> str:
    """Return the kind of advice for the cluster manager of an application."""
    master = texts(tables.applications, "master")[app]
    application_id = texts(tables.applications, "application_id")[app]
    for kind, prefix, form in _MANAGERS:
        if master.startswith(prefix) or (not master and re.fullmatch(form, application_id)):
            return kind
    return OTHER_MANAGER


def executor_advice_for(tables: Tables, app: int) -> str:
    """Say in a sentence or two what helps an application that waits for executors."""
    return advice_kinds()[manager_kind(tables, app)].do


def advise_on_executors(
    tables: Tables, graph: IQCGraph, *, top: int, after: int = 0, kinds: str = ""
) -> tuple[Rule, ...]:
    """Make one ADVICE rule for each application whose executors others waited for.

    Returns: The holder that cost most first; none where no query lost
    :data:`iqcar.rules.advice_rules.LEAST_DELAY_MS` and :data:`iqcar.rules.advice_rules.LEAST_SHARE`
    of its duration.

    tables: The tables the graph was built from.
    top: At most this many.
    after: Number of ADVICE rules before them: they are numbered on.
    kinds: File with kinds of advice in the format of ``rules/advice_kinds.json``; ours by default.
    """
    app = tables.queries["app"].to_numpy(np.int64)
    by_holder: dict[int, list[ExecutorWait]] = {}
    for wait in executor_waits(tables, graph):
        by_holder.setdefault(wait.holder, []).append(wait)
    holders = sorted(by_holder.items(), key=lambda one: (-_lost(one[1]), one[0]))
    found: list[Rule] = []
    for holder, waits in holders:
        rule = _rule(tables, app, holder, waits=waits, order=after + len(found) + 1, kinds=kinds)
        if rule is not None and len(found) < top:
            found.append(rule)
    return tuple(found)


def executor_waits(tables: Tables, graph: IQCGraph) -> list[ExecutorWait]:
    """Return what each query lost to executors that each query of another application held."""
    app = tables.queries["app"].to_numpy(np.int64)
    row_of = {query_id: row for row, query_id in enumerate(texts(tables.queries, "query_id"))}
    hurts = graph.who_hurts_whom(Resource.EXECUTORS)
    found = []
    for target in np.unique(hurts["target_query"].to_numpy(np.int64)).tolist():
        for row in graph.blame_rows(target):
            lost = row["by_resource"].get(Resource.EXECUTORS.value, 0.0)
            if row["kind"] == BlameKind.QUERY.value and lost > 0:
                source = row_of[row["source_query_id"]]
                found.append(ExecutorWait(int(app[source]), source, target, lost, row["idle_ms"]))
    return found


def _lost(waits: list[ExecutorWait]) -> float:
    return sum(wait.lost_ms for wait in waits)


def _rule(
    tables: Tables,
    app: Ints,
    holder: int,
    waits: list[ExecutorWait],
    order: int,
    kinds: str,
) -> Rule | None:
    """Write the rule about one holder; None where too little was lost."""
    queries, vocabulary = tables.queries, advice_kinds(kinds)
    prints, names = texts(queries, "fingerprint"), texts(queries, "name")
    of_target = {wait.target: 0.0 for wait in waits if prints[wait.target]}
    for wait in waits:
        if wait.target in of_target:
            of_target[wait.target] += wait.lost_ms
    worst = max(of_target, key=lambda row: of_target[row], default=-1)
    key = manager_kind(tables, int(app[worst]))
    if worst < 0 or key not in vocabulary:
        return None
    ran = float(queries["duration_ms"].iloc[worst])
    if of_target[worst] < LEAST_DELAY_MS or not of_target[worst] >= LEAST_SHARE * ran:
        return None
    kind = vocabulary[key]
    version = version_of(texts(tables.applications, "spark_version")[app[worst]])
    return Rule(
        id=f"{RuleType.ADVICE}-{order}",
        rule_type=RuleType.ADVICE,
        query_id=texts(queries, "query_id")[worst],
        query_type=QueryType.TARGET,
        rule_value=round(_lost(waits), 3),
        rule_order=order,
        fingerprint=prints[worst],
        query_name=names[worst],
        resource=Resource.EXECUTORS.value,
        reason=_reason(tables, holder, waits, worst, of_target[worst]),
        helps_pools=False,
        advice=kind.do,
        kind=key,
        settings=tuple(
            {"name": setting.name, "value": setting.value, "why": setting.why}
            for setting in kind.settings
            if fits(setting, version, sql=True, local=False)
        ),
    )


def _reason(tables: Tables, holder: int, waits: list[ExecutorWait], worst: int, lost: float) -> str:
    names, apps = texts(tables.queries, "name"), texts(tables.applications, "name")
    ids = texts(tables.applications, "application_id")
    application = in_a_sentence(apps[holder]) or ids[holder]
    by_source: dict[int, float] = {}
    for wait in waits:
        by_source[wait.source] = by_source.get(wait.source, 0.0) + wait.lost_ms
    most = in_a_sentence(names[max(by_source, key=lambda row: by_source[row])])
    ran = float(tables.queries["duration_ms"].iloc[worst])
    others = len({wait.target for wait in waits}) - 1
    text = (
        f"{in_a_sentence(names[worst])} lost {_time(lost)} ({percent(lost / ran)}) of the "
        f"{_time(ran)} it ran waiting for executors that application {application} held, "
        f"most for {most}"
    )
    if others:
        queries = "another query" if others == 1 else f"{others} other queries"
        text += f"; with {queries} {_time(_lost(waits))} were lost to it"
    idle = sum(wait.idle_ms for wait in waits) / _lost(waits)
    if idle >= LEAST_IDLE:
        text += (
            f"; {percent(idle)} of that to executors that ran no task, the cheapest to give back"
        )
    return text + "."


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
