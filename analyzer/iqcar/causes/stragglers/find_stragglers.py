"""Finds stragglers, folds the marks of their features into causes, and names who is to blame.

Blame is known per target stage, request and host. Here it is divided among moments: a source's part
of a straggler is its blame per ms that it was on the host while the target stage was, times the ms
that it was there during the straggler. What is known or unattributed is spread evenly over the
stage's task time. The shares of one cause sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.demand_weights import BLAME_KINDS
from iqcar.causes.stragglers.features import (
    CPU,
    DISK,
    NETWORK,
    SLOW_HOST,
    Feature,
    Spans,
    TaskFeatures,
    Windows,
)
from iqcar.causes.stragglers.root_causes import ComparedTasks, cause_names, feature_of, find_marks
from iqcar.causes.stragglers.straggler_result import (
    INTRA,
    PEERS,
    STRAGGLER_CAUSES,
    STRAGGLER_SOURCES,
    STRAGGLERS,
    Marks,
    Stragglers,
    StragglerSettings,
)
from iqcar.enums import REQUESTS, CauseEvidence, FeatureKind, Request, Resource
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, share_of

RESOURCE_OF = {CPU: Resource.CPU, DISK: Resource.IO, NETWORK: Resource.NETWORK}
"""Causes that are a resource of a host."""
ON_HOSTS = (Request.RUN_QUEUE, Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH)
"""Requests that tasks of any application on the host can be in the way of."""
SLOT_WAIT = REQUESTS.index(Request.SLOT_WAIT)


def blamed_queries(
    stragglers: pd.DataFrame, causes: pd.DataFrame, tables: Tables, blame: Blame
) -> pd.DataFrame:
    """Link causes that are a resource of a host to the queries blamed for it there and then.

    Frame of `STRAGGLER_SOURCES`. The largest share of each cause first; no rows for a cause that
    nobody lost time to.

    stragglers: frame of `STRAGGLERS`.
    causes: frame of `STRAGGLER_CAUSES`.
    """
    resources = causes["cause"].map(RESOURCE_OF)
    of_resources = causes[resources.notna()]
    delayed = stragglers.iloc[of_resources["straggler"].to_numpy(np.int64)]
    moments = pd.DataFrame(
        {
            "what": of_resources.index.to_numpy(np.int64),
            "resource": [str(r) for r in resources[of_resources.index]],
            "stage": delayed["stage"].to_numpy(np.int64),
            "host": delayed["host"].to_numpy(np.int64),
            "launch": delayed["launch_ms"].to_numpy(np.float64),
            "finish": (delayed["launch_ms"] + delayed["duration_ms"]).to_numpy(np.float64),
        }
    )
    by_query = blamed_during(moments, tables, blame)
    if not len(by_query):
        return STRAGGLER_SOURCES.empty()
    return STRAGGLER_SOURCES.frame(
        {
            "cause": by_query["what"].to_numpy(),
            "kind": by_query["kind"].tolist(),
            "query": by_query["query"].to_numpy(),
            "share": by_query["share"].to_numpy(),
        }
    )


def blamed_during(
    moments: pd.DataFrame, tables: Tables, blame: Blame, requests: Sequence[Request] = ON_HOSTS
) -> pd.DataFrame:
    """Tell who is blamed for a resource on a host while tasks ran there.

    what, kind (of :class:`iqcar.enums.BlameKind`), query (−1 where it is none), lost_ms, share
    (those of one `what` sum to 1); by what, the largest share first.

    moments: what (any number; moments of one are summed), resource, stage, host, launch, finish: a
        task of a stage that lacked a resource; for slots, from the stage's submission to the
        launch.
    requests: waits that count for their resource.
    """
    links = _links(moments, blame, requests)
    columns = ["what", "kind", "query", "lost_ms", "share"]
    if not len(links):
        return pd.DataFrame(columns=columns)
    weight = links["lost_ms"].to_numpy(np.float64) * _presence(links, tables)
    links = links.assign(weight=np.where(weight > 0, weight, 0.0))
    links = links[links["weight"] > 0]
    query = tables.stages["query"].to_numpy(np.int64)
    source = links["source_stage"].to_numpy(np.int64)
    links = links.assign(query=np.where(source >= 0, query[np.maximum(source, 0)], -1))
    by_query = links.groupby(["what", "kind", "query"], sort=True)["weight"].sum().reset_index()
    share = by_query["weight"] / by_query.groupby("what")["weight"].transform("sum")
    by_query = by_query.assign(share=share)
    order = np.lexsort((by_query["query"], by_query["kind"], -share, by_query["what"]))
    by_query = by_query.iloc[order].rename(columns={"weight": "lost_ms"})
    named = [str(BLAME_KINDS[code]) for code in by_query["kind"].tolist()]
    return by_query.assign(kind=named)[columns].reset_index(drop=True)


def _links(moments: pd.DataFrame, blame: Blame, requests: Sequence[Request]) -> pd.DataFrame:
    """Pair every moment with the sources of its stage's demands for the resource on the host."""
    demands = blame.demands
    wanted_requests = np.isin(demands["request"].to_numpy(), [REQUESTS.index(r) for r in requests])
    demands = demands[wanted_requests & (demands["host"] >= 0).to_numpy()]
    resource = [str(REQUESTS[code].resource) for code in demands["request"].tolist()]
    wanted = pd.DataFrame(
        {
            "demand": demands.index.to_numpy(np.int64),
            "request": demands["request"].to_numpy(np.int64),
            "resource": resource,
            "stage": demands["stage"].to_numpy(np.int64),
            "host": demands["host"].to_numpy(np.int64),
        }
    )
    asked = moments.merge(wanted, on=["resource", "stage", "host"])
    sources = blame.sources[["demand", "kind", "source_stage", "lost_ms"]]
    return asked.merge(sources[sources["lost_ms"] > 0], on="demand")


def _presence(links: pd.DataFrame, tables: Tables) -> Floats:
    """Share of its time beside the target stage that a source was there during the straggler.

    Where there is no source stage, the straggler's share of its stage's task time there. Of a wait
    for a slot the time is not that of tasks but that from their stage's submission to their launch.
    """
    tasks = tables.tasks
    hosts = len(tables.hosts) + 1
    waiting = (len(tables.stages) + 1) * hosts
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    stage = tasks["stage"].to_numpy(np.int64)
    host = tasks["host"].to_numpy(np.int64)
    target = links["stage"].to_numpy(np.int64)
    source = links["source_stage"].to_numpy(np.int64)
    place = links["host"].to_numpy(np.int64)
    where = target * hosts + place
    where = np.where(links["request"].to_numpy() == SLOT_WAIT, where + waiting, where)
    who = np.where(source >= 0, source * hosts + place, where)

    # Only tasks of stages and hosts that links name are placed in time.
    named = np.unique(np.concatenate([who, where]))
    submitted = tables.stages["submission_ms"].to_numpy(np.float64)[np.maximum(stage, 0)]
    key = stage * hosts + host
    keys = np.concatenate([key, key + waiting])
    begin, end = np.concatenate([launch, submitted]), np.concatenate([finish, launch])
    placed = (stage >= 0) & (host >= 0)
    usable = np.tile(placed, 2) & np.isfinite(begin) & (end >= begin) & np.isin(keys, named)
    group = np.searchsorted(named, keys[usable])
    begin, end = begin[usable], end[usable]
    spans = Spans.from_times(group, begin, end)
    ones = np.ones(len(group))
    first, last = np.full(len(named), np.inf), np.full(len(named), -np.inf)
    np.minimum.at(first, group, begin)
    np.maximum.at(last, group, end)

    who, where = np.searchsorted(named, who), np.searchsorted(named, where)
    start, stop = links["launch"].to_numpy(np.float64), links["finish"].to_numpy(np.float64)
    during = Windows(spans, who, start, stop).total(ones)
    beside = Windows(spans, who, first[where], last[where]).total(ones)
    # Without a source the straggler is its stage's own task time: its length of the whole.
    during = np.where(source >= 0, during, stop - start)
    return share_of(during, beside)


_KILO = 1000.0
_MANY = 1000.0
"""A multiple above it is written without its digits: the peers had next to nothing."""

_DISCRETE = {
    "locality": "ran at locality ANY or RACK_LOCAL, most normal tasks of its stage near their data",
    "first_on_executor": "was among the first tasks of its executor, most normal tasks were not",
}
_PEERS = (
    *("tasks on other hosts", "other tasks on its host", "other tasks", "tasks on other hosts"),
    "tasks on other executors",
)


def quantity(value: float, unit: str) -> str:
    """Write a value with its unit: ``640 ms``, ``41.2 s``, ``1.3 GB``, ``12 %``, ``5,100``."""
    if not math.isfinite(value):
        return "unknown"
    if unit == "share":
        return percent(value)
    if unit == "ms":
        return f"{value:.0f} ms" if value < _KILO else f"{value / _KILO:.1f} s"
    if unit in ("bytes", "bytes/s"):
        per = "/s" if unit == "bytes/s" else ""
        for name in ("B", "KB", "MB", "GB", "TB"):
            if value < _KILO or name == "TB":
                return f"{value:.0f} {name}{per}" if name == "B" else f"{value:.1f} {name}{per}"
            value /= _KILO
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def unit_of(feature: Feature) -> str:
    """Unit of a mark's value: shares of the duration for times, else the feature's own."""
    return "share" if feature.kind is FeatureKind.TIME else feature.unit


def sentence_of(
    feature: Feature,
    value: float,
    peer_mean: float,
    ratio: float,
    peers: int,
    explained: float,
    delay_ms: float,
) -> str:
    """Say in a plain sentence, without a full stop, what the numbers of one cause say."""
    if feature.kind is FeatureKind.DISCRETE:
        default = f"had {feature.phrase}, most normal tasks of its stage did not"
        return _DISCRETE.get(feature.name, default)
    unit = unit_of(feature)
    own, theirs = quantity(value, unit), quantity(peer_mean, unit)
    if feature.kind is FeatureKind.WAIT:
        expected = f" where {theirs} were to be expected" if peer_mean >= 1 else ""
        return (
            f"waited {own} for {feature.phrase}{expected}: {quantity(explained, 'share')} of its "
            f"{quantity(delay_ms, 'ms')} over the stage's median"
        )
    if feature is SLOW_HOST:
        return (
            f"the stage's other tasks on its host took {own} on average, {ratio:.1f} × those on "
            f"other hosts ({theirs})"
        )
    those = _PEERS[peers]
    where = f"the mean of its stage's {those}"
    if feature.kind is FeatureKind.RESOURCE:
        there = "" if peers == INTRA else " there"
        where = f"the mean while its stage's {those} ran{there}"
    took = " of its time" if feature.kind is FeatureKind.TIME else ""
    if math.isinf(ratio) or ratio > _MANY:
        nothing = "none" if peer_mean == 0 else f"next to none ({theirs})"
        return f"{feature.phrase} {own}{took}, its stage's {those} {nothing}"
    return f"{feature.phrase} {own}{took}, {ratio:.1f} × {where} ({theirs})"


COLD = "cold-executor"
DEFAULT = StragglerSettings()


def find_stragglers(
    features: TaskFeatures, tables: Tables, blame: Blame, settings: StragglerSettings = DEFAULT
) -> Stragglers:
    """Find the stragglers of event logs, their causes, and who iQCAR blames for those of hosts.

    features: of the tables' tasks, from :func:`iqcar.causes.stragglers.build_features`.
    tables: with queries identified.
    blame: from :func:`iqcar.causes.blame.attribute.attribute`.
    """
    found = explain(features, settings)
    sources = blamed_queries(found.stragglers, found.causes, tables, blame)
    return replace(found, sources=sources)


def explain(features: TaskFeatures, settings: StragglerSettings = DEFAULT) -> Stragglers:
    """Find the stragglers among tasks of any origin, and their causes; nobody is blamed.

    features: of event logs (:func:`iqcar.causes.stragglers.build_features`).
    """
    compared = ComparedTasks.from_features(features, settings)
    marks = find_marks(features, compared, settings)
    stragglers, number = _stragglers(features, compared)
    causes = _causes(features, marks, number, stragglers)
    count = np.bincount(causes["straggler"].to_numpy(np.int64), minlength=len(stragglers))
    return Stragglers(
        stragglers=stragglers.assign(causes=count.astype(np.int32)),
        causes=causes,
        sources=STRAGGLER_SOURCES.empty(),
        compared_stages=_count(features, compared, ["stage", "app", "query"]),
        compared_hosts=_count(features, compared, ["host", "app"]),
        labels=features.labels,
        settings=settings,
        doubts=(*features.doubts, *_doubts(features, compared)),
    )


def _stragglers(features: TaskFeatures, compared: ComparedTasks) -> tuple[pd.DataFrame, Ints]:
    """Table of stragglers, the most delayed first; and the row of each compared task in it."""
    slow = np.flatnonzero(compared.straggler)
    delay = compared.duration[slow] - compared.median[slow]
    task_id = features.frame["task_id"].to_numpy(np.int64)[compared.rows[slow]]
    slow = slow[np.lexsort((compared.rows[slow], task_id, -delay))]
    tasks = features.frame.iloc[compared.rows[slow]]
    unknown = np.full(len(slow), np.nan)
    columns = {"run_ms": unknown, "cpu_ms": unknown}
    columns.update({c.name: tasks[c.name] for c in STRAGGLERS.columns if c.name in tasks})
    median = compared.median[slow]
    frame = STRAGGLERS.frame(
        {
            **columns,
            "median_ms": median,
            "delay_ms": compared.duration[slow] - median,
            "causes": np.zeros(len(slow)),
            "recorded": _recorded(features)[compared.rows[slow]],
        }
    )
    number = np.full(len(compared.rows), -1)
    number[slow] = np.arange(len(slow))
    return frame.reset_index(drop=True), number


def _recorded(features: TaskFeatures) -> Flags:
    """Return whether any task of each task's application was measured."""
    app = features.frame["app"].to_numpy(np.int64)
    return np.isin(app, app[features.frame["measured"].to_numpy(bool)])


def _causes(
    features: TaskFeatures, marks: Marks, number: Ints, stragglers: pd.DataFrame
) -> pd.DataFrame:
    """Fold marks into causes: of the features that are evidence of one cause the first is named."""
    straggler = number[marks.task]
    known = {int(p): feature_of(features, int(p)) for p in np.unique(marks.feature)}
    named = cause_names(features, marks)
    numbers = {cause: n for n, cause in enumerate(dict.fromkeys(named))}
    cause = np.array([numbers[name] for name in named], np.int64)
    if COLD in numbers and SLOW_HOST.cause in numbers:
        # A cold executor is why all its tasks are slow: no need of another reason for its host.
        is_cold = np.isin(straggler, straggler[cause == numbers[COLD]])
        cause = np.where(is_cold & (cause == numbers[SLOW_HOST.cause]), numbers[COLD], cause)
    order = np.lexsort((marks.feature, -np.nan_to_num(marks.explained), straggler))
    both = straggler[order] * max(len(numbers), 1) + cause[order]
    _, first = np.unique(both, return_index=True)
    kept = order[np.sort(first)]
    causes = list(numbers)
    delay = stragglers["delay_ms"].to_numpy(np.float64)[straggler[kept]]
    listed = [known[int(p)] for p in marks.feature[kept]]
    numeric = [
        column[kept].tolist()
        for column in (marks.value, marks.peer_mean, marks.ratio, marks.peers, marks.explained)
    ]
    sentences = [
        sentence_of(feature, *row)
        for feature, *row in zip(listed, *numeric, delay.tolist(), strict=True)
    ]
    waited = [feature.kind is FeatureKind.WAIT for feature in listed]
    return STRAGGLER_CAUSES.frame(
        {
            "straggler": straggler[kept],
            "cause": [causes[n] for n in cause[kept].tolist()],
            "feature": [feature.name for feature in listed],
            "unit": [unit_of(feature) for feature in listed],
            "value": marks.value[kept],
            "peer_mean": marks.peer_mean[kept],
            "quantile": marks.quantile[kept],
            "ratio": marks.ratio[kept],
            "peers": [PEERS[p] for p in marks.peers[kept].tolist()],
            "explained": marks.explained[kept],
            "evidence": [str(CauseEvidence.MEASURED if w else CauseEvidence.PAPER) for w in waited],
            "sentence": sentences,
        }
    )


def _count(features: TaskFeatures, compared: ComparedTasks, by: list[str]) -> pd.DataFrame:
    tasks = features.frame.iloc[compared.rows][by]
    return tasks.groupby(by, sort=True).size().rename("tasks").reset_index()


def _doubts(features: TaskFeatures, compared: ComparedTasks) -> list[str]:
    """Say what could not be compared, in sentences."""
    doubts = []
    left_out = int(features.frame["compared"].sum()) - len(compared.rows)
    if not len(compared.rows):
        return ["no stage has enough tasks that succeeded: there is no median to be slower than"]
    if left_out:
        doubts.append(
            f"{left_out} tasks are in stages of too few tasks to have stragglers: they were not "
            "looked at"
        )
    stage_of_cell = np.zeros(compared.cell.max() + 1, np.int64)
    stage_of_cell[compared.cell] = compared.stage
    alone = int((np.bincount(stage_of_cell, minlength=compared.stages) == 1).sum())
    if alone == compared.stages:
        doubts.append("every stage ran on one host: tasks have no peers on other hosts")
    known = [f.name for f in features.features if f.kind is FeatureKind.RESOURCE and f.cause]
    rows = compared.rows[compared.straggler]
    sampled = [name for name in known if np.isfinite(features.column(name)[rows]).any()]
    measured = bool(features.frame["measured"].to_numpy(bool)[rows].any())
    if len(rows) and known and not sampled and not measured:
        record = "" if _recorded(features)[rows].all() else " (record with the iqcar plugin)"
        doubts.append(
            "neither samples of hosts nor measured waits are in the input: a busy host can only be "
            f"told from its other tasks{record}"
        )
    return doubts
