"""Reads the setup of the recorded run: slots, pools, priorities, losses between queries.

Runs of one fingerprint are one query here: a rule matches all of them, so what they lost to each
other cannot be mended by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
import pandas as pd

from iqcar.enums import BlameKind, Resource
from iqcar.rules.rule import FEW, INT_MAX, MAX_POOL_NAME, AboveZero, Pool, Rule, scheduler_rules
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Floats, Ints, sum_by

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph


@dataclass(frozen=True)
class QueryLosses:
    """Time that recurring queries lost to each other.

    fingerprints: (g,) fingerprint of each recurring query; empty for a run that has none.
    group: (queries,) recurring query of each run.
    pairs: source, target (runs, as query rows), source_group, target_group, resource, lost_ms, dor;
        one row per pair of runs of different recurring queries, and resource.
    suffered_ms, inflicted_ms: (g,) elapsed time lost to others, and by others to it; whole, also
        where `pairs` name only the largest sources of each target.
    duration_ms: (g,) total duration of the runs.
    unnamed_ms: by "target" and "source", (g,) the part of `suffered_ms` and of `inflicted_ms` that
        is in no pair.
    """

    fingerprints: list[str]
    group: Ints
    pairs: pd.DataFrame
    suffered_ms: Floats
    inflicted_ms: Floats
    duration_ms: Floats
    unnamed_ms: dict[str, Floats]

    def net_ms(self) -> Floats:
        """What each cost others, less what it lost to others: above 0 it is a source."""
        return self.inflicted_ms - self.suffered_ms


def gather(tables: Tables, graph: IQCGraph) -> QueryLosses:
    """Sum what the graph's targets lost to other queries, by recurring query.

    Waits for executors are left out: no scheduler of one application acts on them.
    """
    group = recurring_queries(tables)
    named = dict(zip(group.tolist(), texts(tables.queries, "fingerprint"), strict=True))
    pairs = _pairs(graph)
    source, target = pairs["source"].to_numpy(np.int64), pairs["target"].to_numpy(np.int64)
    pairs = pairs.assign(source_group=group[source], target_group=group[target])
    pairs = pairs[pairs["source_group"] != pairs["target_group"]].reset_index(drop=True)
    size = len(named)
    lost = pairs["lost_ms"].to_numpy(np.float64)
    duration = np.nan_to_num(tables.queries["duration_ms"].to_numpy(np.float64))
    unnamed_source, unnamed_target = _unnamed(graph, len(group))
    folded = graph.folded
    among = folded["recurring_ms"].to_numpy() if len(folded) else np.zeros(len(group))
    unnamed = {"source": unnamed_source - among, "target": unnamed_target - among}
    unnamed = {side: np.maximum(sum_by(group, ms, size), 0.0) for side, ms in unnamed.items()}
    return QueryLosses(
        fingerprints=list(named.values()), group=group, pairs=pairs,
        suffered_ms=sum_by(pairs["target_group"], lost, size) + unnamed["target"],
        inflicted_ms=sum_by(pairs["source_group"], lost, size) + unnamed["source"],
        duration_ms=sum_by(group, duration, size), unnamed_ms=unnamed,
    )  # fmt: skip


def _unnamed(graph: IQCGraph, queries: int) -> tuple[Floats, Floats]:
    """What each query took as a source, and lost as a target, in rests: nobody is named there."""
    folded = graph.folded
    if not len(folded):
        return np.zeros(queries), np.zeros(queries)
    hurts = graph.who_hurts_whom()
    rest = hurts[(hurts["kind"] == BlameKind.REST.value).to_numpy(bool)]
    lost = sum_by(rest["target_query"], rest["lost_ms"].to_numpy(np.float64), queries)
    hurts = graph.who_hurts_whom(Resource.EXECUTORS)
    rest = hurts[(hurts["kind"] == BlameKind.REST.value).to_numpy(bool)]
    lost -= sum_by(rest["target_query"], rest["lost_ms"].to_numpy(np.float64), queries)
    taken = folded["lost_ms"] - folded[f"{Resource.EXECUTORS}_lost_ms"]
    return np.maximum(taken.to_numpy(np.float64), 0.0), np.maximum(lost, 0.0)


def _pairs(graph: IQCGraph) -> pd.DataFrame:
    parts = []
    for resource in Resource:
        if resource is Resource.EXECUTORS:
            continue
        hurts = graph.who_hurts_whom(resource)
        hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value) & (hurts["source_query"] >= 0)]
        part = hurts[["source_query", "target_query", "lost_ms", "dor"]]
        parts.append(part.assign(resource=resource.value))
    names = {"source_query": "source", "target_query": "target"}
    pairs: pd.DataFrame = pd.concat(parts, ignore_index=True).rename(columns=names)
    return pairs


def most_at_once(tables: Tables, app: int) -> int:
    """How many queries of an application ran at once at most; at least 1.

    A query that starts the moment another ends does not run at once with it.
    """
    queries = tables.queries[tables.queries["app"] == app]
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    times = np.concatenate([end[known], start[known]])
    steps = np.repeat([-1, 1], known.sum())
    running = np.cumsum(steps[np.argsort(times, kind="stable")])
    return max(1, int(running.max(initial=1)))


DEFAULT_POOL = "default"
"""Where Spark puts jobs that name no pool."""
FAIR: Final = "FAIR"
"""The scheduler mode in which weights count."""


def recorded_priorities(tables: Tables) -> dict[str, float]:
    """Return the weight of the pool that each recurring query ran in.

    Returns: Of its last run whose pool's weight is recorded; empty for a log without the plugin.

    tables: ``queries``, ``applications`` and ``pools`` are used.
    """
    weights: dict[tuple[int, str], float] = {}
    order = np.argsort(tables.pools["time_ms"].to_numpy(), kind="stable")
    pools = tables.pools.iloc[order]
    for app, name, weight in zip(
        pools["app"].tolist(), texts(pools, "name"), pools["weight"].tolist(), strict=True
    ):
        weights[app, name] = weight
    if not weights:
        return {}
    fair = [mode == FAIR for mode in texts(tables.applications, "scheduler_mode")]
    queries = tables.queries.iloc[np.argsort(tables.queries["start_ms"].to_numpy(), kind="stable")]
    found: dict[str, float] = {}
    for app, fingerprint, pool in zip(
        queries["app"].tolist(),
        texts(queries, "fingerprint"),
        texts(queries, "pool"),
        strict=True,
    ):
        weight = weights.get((app, pool or DEFAULT_POOL))
        if fingerprint and weight is not None and app >= 0 and fair[app]:
            found[fingerprint] = weight
    return found


SURE_SHARE = 0.9
"""Slots count that were there for this share of the time in which tasks ran: executors that are
still starting do not lower the number, executors that came for a peak do not raise it."""

MAX_KEPT_POOLS = 100
"""Pools of the application's own that a plan keeps. People who name pools by hand have fewer; more
come from programs that make one per user, and those make them again."""


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a plan has to fit: facts of the recorded run."""

    slots: AboveZero | None = None
    """Tasks that could run at once nearly all of the time; None where the log does not say."""
    running: AboveZero | None = None
    """Queries that ran at once at most; None where that is not known."""
    pools: Annotated[tuple[Pool, ...], FEW] = ()
    """The application's own pools, ``default`` among them if it was seen."""


def recorded_scheduler(tables: Tables, rules: Sequence[Rule]) -> Recorded:
    """Look up what the scheduler had in the applications that rules are for.

    Returns: Of several applications the fewest slots and the most queries at once; a pool that two
    of them have is that of the first.

    tables: What the rules were proposed from.
    rules: Their ``query_id`` names the applications; ADVICE rules are for no scheduler.
    """
    app_of = dict(zip(texts(tables.queries, "query_id"), tables.queries["app"], strict=True))
    acting = scheduler_rules(rules)
    apps = sorted({int(app_of[rule.query_id]) for rule in acting if rule.query_id in app_of})
    slots = [found for app in apps if (found := sure_slots(tables, app)) is not None]
    pools: dict[str, Pool] = {}
    for app in apps:
        for pool in _pools(tables, app):
            pools.setdefault(pool.name, pool)
    return Recorded(
        min(slots) if len(slots) == len(apps) and slots else None,
        max((most_at_once(tables, app) for app in apps), default=None),
        tuple(sorted(pools.values(), key=lambda pool: pool.name))[:MAX_KEPT_POOLS],
    )


def sure_slots(tables: Tables, app: int) -> int | None:
    """Count tasks that fit at once nearly all of the time in which tasks ran."""
    of_app = tables.tasks["app"].to_numpy() == app
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)[of_app]
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)[of_app]
    executors = tables.executors[tables.executors["app"] == app]
    cores = executors["cores"].to_numpy(np.float64)
    task_cpus = float(tables.applications["task_cpus"].iloc[app])
    known = np.isfinite(launch).any() and np.isfinite(finish).any() and len(cores)
    if not known or not (cores > 0).all():
        return None
    first, last = float(np.nanmin(launch)), float(np.nanmax(finish))
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    came = np.clip(np.where(np.isnan(added), first, added), first, last)
    went = np.clip(np.where(np.isnan(removed), last, removed), first, last)
    times = np.concatenate([[first], came, went])
    steps = np.concatenate([[0.0], cores, -cores])
    order = np.argsort(times, kind="stable")
    offered = np.cumsum(steps[order])
    lasted = np.diff(np.append(times[order], last))
    if lasted.sum() <= 0:
        return None
    most_first = np.argsort(-offered, kind="stable")
    sure = np.searchsorted(np.cumsum(lasted[most_first]), SURE_SHARE * lasted.sum())
    tasks = offered[most_first][min(int(sure), len(offered) - 1)] / max(task_cpus, 1.0)
    return min(int(tasks), INT_MAX) if tasks >= 1 else None


def _pools(tables: Tables, app: int) -> list[Pool]:
    """Return the pools that the plugin saw last; none under FIFO, where pools do not count.

    Pools of rules that were taken back while the application ran are not among them.
    """
    if texts(tables.applications, "scheduler_mode")[app] != FAIR:
        return []
    rows = tables.pools[tables.pools["app"] == app].sort_values("time_ms", kind="stable")
    last = rows[rows["time_ms"] == rows["time_ms"].max()]
    gone = _taken_back(tables, app) - set(texts(last, "name"))
    pools = {
        name: Pool(
            name,
            _whole(weight, 1),
            _whole(share, 0),
            FAIR if mode == FAIR else "FIFO",
            cap_or_none(cap),
            strict=strict,
        )
        for name, mode, weight, share, cap, strict in zip(
            texts(rows, "name"),
            texts(rows, "mode"),
            rows["weight"].tolist(),
            rows["min_share"].tolist(),
            rows["cap"].tolist(),
            rows["strict"].tolist(),
            strict=True,
        )
        if name.isprintable() and name.strip() and len(name) <= MAX_POOL_NAME and name not in gone
    }
    return list(pools.values())


def cap_or_none(cap: float) -> int | None:
    """Return a recorded cap; None where there was none."""
    return int(min(cap, INT_MAX)) if cap >= 1 else None


def _taken_back(tables: Tables, app: int) -> set[str]:
    """Return the pools that rules no longer defined at the end."""
    changes = tables.rule_changes
    changes = changes[(changes["app"] == app) & (changes["kind"] == "pool")]
    last = dict(zip(texts(changes, "name"), texts(changes, "after"), strict=True))
    return {name for name, after in last.items() if not after}


def _whole(value: float, least: int) -> int:
    return int(min(max(value, least), INT_MAX)) if np.isfinite(value) else least


def default_of(recorded: Sequence[Pool]) -> Pool:
    """Return the recorded pool ``default``, else the one that Spark makes."""
    return next((p for p in recorded if p.name == DEFAULT_POOL), Pool(DEFAULT_POOL))
