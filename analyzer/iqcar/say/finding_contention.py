"""Finds queries that were in the way of others, and what removing them would save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from iqcar.base.units import resource_name
from iqcar.enums import BlameKind, FindingKind, Resource
from iqcar.replay.whatif.question import Question
from iqcar.rules.executor_advice import executor_advice_for
from iqcar.rules.task_sizes import held_by_long_tasks, split_tasks
from iqcar.rules.vocabulary.lost_time import OTHER_APPLICATION, advice_for
from iqcar.say.finding import WIDER, About, Finding
from iqcar.say.others_words import LostToOthers
from iqcar.say.severity import LEAST_LOST_MS, SLIGHT_SHARE


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
        yield found


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
        action=_against(about, source, worst, resource),
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
    rows = np.arange(len(app))
    remedy = _rule_for(about, source, target) or advice_for(str(resource))
    long = resource is Resource.SLOTS and held_by_long_tasks(
        about.tables, rows == source, rows == target
    )
    return f"{split_tasks(about.names.called(source))} {remedy}" if long else remedy


def _rule_for(about: About, source: int, target: int) -> str:
    """What a proposed rule does about it; empty where none helps."""
    prints = about.tables.queries["fingerprint"]
    both = {str(prints.iloc[source]), str(prints.iloc[target])} - {""}
    rules = [r for r in about.diagnosis.rules if r.helps_pools and r.fingerprint in both]
    if not rules:
        return ""
    ids = ", ".join(rule.id for rule in rules)
    return (
        f"Apply rules {ids}: iqcar analyze {about.tables.given} --rules rules.json, then "
        "spark-submit $(iqcar conf --apply-rules rules.json)."
    )
