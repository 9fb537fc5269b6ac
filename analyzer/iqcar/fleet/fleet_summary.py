"""Sums up the diagnoses of many groups of applications in lists of bounded length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import by_cause
from iqcar.diagnosis import Diagnosis, Settings
from iqcar.fleet.fleet_diagnosis import diagnose_on_spark
from iqcar.fleet.shared_hosts import MOST_TASKS, Cut
from iqcar.say import all_doubts
from iqcar.tables import Tables, texts

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
    totals : applications, queries, tasks, stragglers (counts); duration_ms, lost_ms,
        lost_to_others_ms, wasted_ms (sums over queries).
    resources : resource, lost_ms, queries (that lost time to it).
    hosts : host, lost_ms, slots_lost_ms (the part of it lost to waits for slots and executors).
    applications : application_id, attempt_id, name, user, queries, duration_ms, lost_ms,
        lost_to_others_ms, others_lost_ms (what queries of other applications lost to it).
    queries : query_id, name, application_name, duration_ms, lost_ms, lost_to_others_ms,
        worst_source, worst_source_ms; those that lost most to others first.
    sources : query_id, name, lost_ms (of others), victims, resource.
    pairs : source, target (application ids), lost_ms.
    causes : cause, stragglers, delay_ms.
    doubts : bundles by doubt.
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
    "applications": (["lost_to_others_ms", "lost_ms"], ["application_id", "attempt_id"], None),
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
    graph = diagnosis.graph
    pairs = graph.who_hurts_whom()
    pairs = pairs[(pairs["source_query"] >= 0) & (pairs["lost_ms"] > 0)]
    pairs = pairs[pairs["source_query"] != pairs["target_query"]]
    between = _between_applications(diagnosis, pairs)
    summed = between.groupby(["source", "target"], as_index=False)["lost_ms"].sum()
    ids = np.array(texts(diagnosis.tables.applications, "application_id"), object)
    resources = graph.hot_resources()[["resource", "lost_ms", "targets"]]
    found = FleetSummary(
        totals=_totals(diagnosis),
        resources=resources.rename(columns={"targets": "queries"}),
        hosts=graph.slow_nodes()[["host", "lost_ms", "slots_lost_ms"]],
        applications=_applications(diagnosis, between),
        queries=_queries(diagnosis, pairs),
        sources=graph.aggressive_queries()[["query_id", "name", "lost_ms", "victims", "resource"]],
        pairs=summed.assign(
            source=ids[summed["source"].to_numpy(np.int64)],
            target=ids[summed["target"].to_numpy(np.int64)],
        ),
        causes=by_cause(diagnosis.stragglers)[["cause", "stragglers", "delay_ms"]],
        doubts=dict.fromkeys(_doubts(diagnosis)[:MOST_DOUBTS], 1),
    )
    return sum_up([found])


def _totals(diagnosis: Diagnosis) -> dict[str, float]:
    tables = diagnosis.tables
    wasted = diagnosis.wasted.of_queries(len(tables.queries))["wasted_elapsed_ms"]
    return {
        "applications": float(len(tables.applications)),
        "queries": float(len(tables.queries)),
        "tasks": float(tables.inputs["tasks"].sum()),
        "stragglers": float(len(diagnosis.stragglers.stragglers)),
        "duration_ms": float(np.nansum(tables.queries["duration_ms"].to_numpy(np.float64))),
        "lost_ms": float(diagnosis.lost_ms().sum()),
        "lost_to_others_ms": float(diagnosis.lost_to_others_ms().sum()),
        "wasted_ms": float(np.nansum(wasted)),
    }


def _between_applications(diagnosis: Diagnosis, pairs: pd.DataFrame) -> pd.DataFrame:
    """List what queries of one application lost to those of another; both by row."""
    app = diagnosis.tables.queries["app"].to_numpy(np.int64)
    between = pd.DataFrame(
        {
            "source": app[pairs["source_query"].to_numpy(np.int64)],
            "target": app[pairs["target_query"].to_numpy(np.int64)],
            "lost_ms": pairs["lost_ms"].to_numpy(np.float64),
        }
    )
    return between[between["source"] != between["target"]]


def _applications(diagnosis: Diagnosis, between: pd.DataFrame) -> pd.DataFrame:
    applications, queries = diagnosis.tables.applications, diagnosis.tables.queries
    size, app = len(applications), queries["app"].to_numpy(np.int64)
    duration = np.nan_to_num(queries["duration_ms"].to_numpy(np.float64))
    return pd.DataFrame(
        {
            "application_id": np.array(texts(applications, "application_id"), object),
            **{name: texts(applications, name) for name in ("attempt_id", "name", "user")},
            "queries": np.bincount(app, minlength=size),
            "duration_ms": np.bincount(app, duration, size),
            "lost_ms": np.bincount(app, diagnosis.lost_ms(), size),
            "lost_to_others_ms": np.bincount(app, diagnosis.lost_to_others_ms(), size),
            "others_lost_ms": np.bincount(between["source"], between["lost_ms"], size),
        }
    )


def _queries(diagnosis: Diagnosis, pairs: pd.DataFrame) -> pd.DataFrame:
    queries = diagnosis.tables.queries
    names = np.array(texts(diagnosis.tables.applications, "name"), object)
    worst = pairs.sort_values("lost_ms", ascending=False).drop_duplicates("target_query")
    worst = worst.set_index("target_query").reindex(range(len(queries)))
    return pd.DataFrame(
        {
            "query_id": texts(queries, "query_id"),
            "name": texts(queries, "name"),
            "application_name": names[queries["app"].to_numpy(np.int64)],
            "duration_ms": queries["duration_ms"].to_numpy(np.float64),
            "lost_ms": diagnosis.lost_ms(),
            "lost_to_others_ms": diagnosis.lost_to_others_ms(),
            "worst_source": worst["source_query_id"].fillna("").to_numpy(object),
            "worst_source_ms": worst["lost_ms"].fillna(0.0).to_numpy(np.float64),
        }
    )


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
    tables : with an ``inputs`` row per log found, applications and hosts; all else is empty.
    groups : rows of the inputs that were diagnosed together.
    cuts : groups that were too large to be diagnosed together.
    bundles : diagnoses that were made: small groups are diagnosed at once.
    summary : None if no log could be analysed.
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
