"""Sum up the diagnoses of many groups of applications in lists of bounded length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import by_cause
from iqcar.diagnosis import Diagnosis, Settings
from iqcar.fleet.fleet_diagnosis import diagnose_on_spark
from iqcar.fleet.shared_times import MOST_TASKS
from iqcar.say import all_doubts
from iqcar.tables import Tables, texts

if TYPE_CHECKING:
    from iqcar.fleet.shared_times import Cut

MOST = 100
"""Rows of a list of queries, sources or pairs that a summary keeps: those with the largest loss."""
MOST_DOUBTS = 200
"""Different doubts of a bundle that are kept."""
BUNDLE_TASKS = 100_000
"""Tasks of groups that are diagnosed at once: some seconds' work, in some 300 MB."""


@dataclass(frozen=True)
class FleetSummary:
    """What the applications of one or many groups lost, to what and to whom.

    Attributes
    ----------
    totals : dict of str to float
        applications, queries, tasks, stragglers (counts); duration_ms, lost_ms, lost_to_others_ms,
        wasted_ms (sums over queries).
    resources : DataFrame
        resource, lost_ms, queries (that lost time to it).
    hosts : DataFrame
        host, lost_ms, slots_lost_ms (the part of it lost to waits for slots and executors).
    applications : DataFrame
        application_id, attempt_id, name, user, queries, duration_ms, lost_ms, lost_to_others_ms,
        others_lost_ms (what queries of other applications lost to it).
    queries : DataFrame
        query_id, name, application_name, duration_ms, lost_ms, lost_to_others_ms, worst_source,
        worst_source_ms; those that lost most to others first.
    sources : DataFrame
        query_id, name, lost_ms (of others), victims, resource.
    pairs : DataFrame
        source, target (application ids), lost_ms.
    causes : DataFrame
        cause, stragglers, delay_ms.
    doubts : dict of str to int
        Bundles by doubt.
    """

    totals: dict[str, float]
    resources: pd.DataFrame
    hosts: pd.DataFrame
    applications: pd.DataFrame
    queries: pd.DataFrame
    sources: pd.DataFrame
    pairs: pd.DataFrame
    causes: pd.DataFrame
    doubts: dict[str, int]


_ORDER = {
    "resources": (["lost_ms"], ["resource"], None),
    "hosts": (["lost_ms"], ["host"], None),
    "applications": (
        ["lost_to_others_ms", "lost_ms"],
        ["application_id", "attempt_id"],
        None,
    ),
    "queries": (["lost_to_others_ms", "lost_ms"], ["query_id"], MOST),
    "sources": (["lost_ms"], ["query_id"], MOST),
    "pairs": (["lost_ms"], ["source", "target"], MOST),
    "causes": (["delay_ms"], ["cause"], None),
}
"""How each list is ordered, and how many rows of it are kept."""
_SUMMED = {"resources": ["resource"], "hosts": ["host"], "causes": ["cause"]}
"""Lists in which groups can have the same row, and by what."""


def summarise(diagnosis: Diagnosis) -> FleetSummary:
    """Sum up a diagnosis of one group of applications, or of all."""
    tables, graph = diagnosis.tables, diagnosis.graph
    applications, queries = tables.applications, tables.queries
    app = queries["app"].to_numpy(np.int64)
    size = len(applications)
    lost, to_others = diagnosis.lost_ms(), diagnosis.lost_to_others_ms()
    duration = queries["duration_ms"].to_numpy(np.float64)
    wasted = diagnosis.wasted.of_queries(len(queries))["wasted_elapsed_ms"]
    pairs = graph.who_hurts_whom()
    pairs = pairs[(pairs["source_query"] >= 0) & (pairs["lost_ms"] > 0)]
    pairs = pairs[pairs["source_query"] != pairs["target_query"]]
    between = pd.DataFrame(
        {
            "source": app[pairs["source_query"].to_numpy(np.int64)],
            "target": app[pairs["target_query"].to_numpy(np.int64)],
            "lost_ms": pairs["lost_ms"].to_numpy(np.float64),
        }
    )
    between = between[between["source"] != between["target"]]
    cost = np.bincount(between["source"], between["lost_ms"], size)
    between = between.groupby(["source", "target"], as_index=False)["lost_ms"].sum()
    ids = np.array(texts(applications, "application_id"), object)
    names = np.array(texts(applications, "name"), object)
    worst = pairs.sort_values("lost_ms", ascending=False).drop_duplicates("target_query")
    worst = worst.set_index("target_query").reindex(range(len(queries)))
    causes = by_cause(diagnosis.stragglers)
    nodes = graph.slow_nodes()
    resources = graph.hot_resources()
    found = FleetSummary(
        totals={
            "applications": float(size),
            "queries": float(len(queries)),
            "tasks": float(tables.inputs["tasks"].sum()),
            "stragglers": float(len(diagnosis.stragglers.stragglers)),
            "duration_ms": float(np.nansum(duration)),
            "lost_ms": float(lost.sum()),
            "lost_to_others_ms": float(to_others.sum()),
            "wasted_ms": float(np.nansum(wasted)),
        },
        resources=resources[["resource", "lost_ms", "targets"]].rename(
            columns={"targets": "queries"}
        ),
        hosts=nodes[["host", "lost_ms", "slots_lost_ms"]],
        applications=pd.DataFrame(
            {
                "application_id": ids,
                "attempt_id": texts(applications, "attempt_id"),
                "name": names,
                "user": texts(applications, "user"),
                "queries": np.bincount(app, minlength=size),
                "duration_ms": np.bincount(app, np.nan_to_num(duration), size),
                "lost_ms": np.bincount(app, lost, size),
                "lost_to_others_ms": np.bincount(app, to_others, size),
                "others_lost_ms": cost,
            }
        ),
        queries=pd.DataFrame(
            {
                "query_id": texts(queries, "query_id"),
                "name": texts(queries, "name"),
                "application_name": names[app],
                "duration_ms": duration,
                "lost_ms": lost,
                "lost_to_others_ms": to_others,
                "worst_source": worst["source_query_id"].fillna("").to_numpy(object),
                "worst_source_ms": worst["lost_ms"].fillna(0.0).to_numpy(np.float64),
            }
        ),
        sources=graph.aggressive_queries()[["query_id", "name", "lost_ms", "victims", "resource"]],
        pairs=between.assign(
            source=ids[between["source"].to_numpy(np.int64)],
            target=ids[between["target"].to_numpy(np.int64)],
        ),
        causes=causes[["cause", "stragglers", "delay_ms"]],
        doubts=dict.fromkeys(_doubts(diagnosis)[:MOST_DOUBTS], 1),
    )
    return sum_up([found])


def _doubts(diagnosis: Diagnosis) -> list[str]:
    """Return what is doubtful but for single inputs, of which a fleet has too many."""
    paths = tuple(f"{path}: " for path in texts(diagnosis.tables.inputs, "path"))
    return [doubt for doubt in all_doubts(diagnosis) if not doubt.startswith(paths)]


def sum_up(parts: Sequence[FleetSummary]) -> FleetSummary:
    """Sum up the summaries of several groups; there has to be one."""
    totals: Counter[str] = Counter()
    doubts: Counter[str] = Counter()
    for part in parts:
        totals.update(part.totals)
        doubts.update(part.doubts)
    lists = {}
    for field in fields(FleetSummary):
        if field.name not in _ORDER:
            continue
        largest, then, most = _ORDER[field.name]
        joined = pd.concat([getattr(part, field.name) for part in parts], ignore_index=True)
        if field.name in _SUMMED:
            joined = joined.groupby(_SUMMED[field.name], as_index=False).sum()
        else:
            joined = joined[(joined[largest] > 0).any(axis=1)]
        down = [False] * len(largest) + [True] * len(then)
        ordered = joined.sort_values([*largest, *then], ascending=down, ignore_index=True)
        lists[field.name] = ordered if most is None else ordered.head(most)
    return FleetSummary(totals=dict(totals), doubts=dict(doubts.most_common()), **lists)


@dataclass(frozen=True)
class FleetFound:
    """What was found out about many logs.

    Attributes
    ----------
    tables : Tables
        With an ``inputs`` row per log found, applications and hosts; all else is empty.
    groups : tuple of tuple of int
        Rows of the inputs that were diagnosed together.
    cuts : tuple of Cut
        Groups that were too large to be diagnosed together.
    bundles : int
        Diagnoses that were made: small groups are diagnosed at once.
    summary : FleetSummary or None
        None if no log could be analysed.
    """

    tables: Tables
    groups: tuple[tuple[int, ...], ...]
    cuts: tuple[Cut, ...]
    bundles: int
    summary: FleetSummary | None


def summary_on_spark(
    spark: Any,
    paths: str | Path | Sequence[str | Path],
    settings: Settings | None = None,
    *,
    all_sources: bool = False,
    most_tasks: int = MOST_TASKS,
    progress: Callable[[str, int, int], None] | None = None,
) -> FleetFound:
    """Diagnose many logs on Spark, and sum up what was found.

    Parameters and errors are those of :func:`iqcar.fleet.fleet_diagnosis.diagnose_on_spark`;
    settings are those of :func:`iqcar.pipeline.diagnose`. No rule is predicted.
    """
    chosen = settings or Settings()
    found = diagnose_on_spark(
        spark,
        paths,
        "iqcar.fleet.fleet_summary:summarise",
        query_by=chosen.query_by,
        most_tasks=most_tasks,
        bundle_tasks=min(BUNDLE_TASKS, most_tasks),
        progress=progress,
        impact=chosen.impact,
        source_usage=chosen.source_usage,
        critical_path=chosen.critical_path,
        all_sources=all_sources,
        rules=False,
    )
    parts = [answer.value for answer in found.answers if answer.value is not None]
    faulty = {log for answer in found.answers for log in answer.faults}
    groups: dict[int, list[int]] = {}
    for log, group in found.groups.items():
        if log not in faulty:
            groups.setdefault(group, []).append(log)
    return FleetFound(
        found.tables,
        tuple(tuple(groups[group]) for group in sorted(groups)),
        found.cuts,
        len(parts),
        sum_up(parts) if parts else None,
    )
