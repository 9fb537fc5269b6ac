"""Finds the queries that used a straggler's resource on its host while it ran.

Blame is known per target stage, request and host. Here it is divided among moments: a source's part
of a straggler is its blame per ms that it was on the host while the target stage was, times the ms
that it was there during the straggler. What is known or unattributed is spread evenly over the
stage's task time. The shares of one cause sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.blame_tables import BLAME_KINDS
from iqcar.causes.stragglers.feature_list import CPU, DISK, NETWORK
from iqcar.causes.stragglers.host_features import Spans, Windows
from iqcar.causes.stragglers.straggler_result import STRAGGLER_SOURCES
from iqcar.enums import REQUESTS, Request, Resource
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, share_of

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
