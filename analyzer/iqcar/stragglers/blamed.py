"""Who was in a straggler's way: the queries that iQCAR blames for its host's resource meanwhile.

Blame is known per target stage, request and host. Here it is divided among moments: a source's part
of a straggler is its blame per ms that it was on the host while the target stage was, times the ms
that it was there during the straggler. What is known or unattributed is spread evenly over the
stage's task time. The shares of one cause sum to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.blame import BLAME_KINDS
from iqcar.kinds import REQUESTS, Request, Resource
from iqcar.stragglers.feature_list import CPU, DISK, NETWORK
from iqcar.stragglers.result import STRAGGLER_SOURCES
from iqcar.stragglers.windows import Spans, Windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iqcar.blame import Blame
    from iqcar.tables import Tables

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

RESOURCE_OF = {CPU: Resource.CPU, DISK: Resource.IO, NETWORK: Resource.NETWORK}
"""Causes that are a resource of a host."""
ON_HOSTS = (Request.RUN_QUEUE, Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH)
"""Requests that tasks of any application on the host can be in the way of."""


def blamed_queries(
    stragglers: pd.DataFrame, causes: pd.DataFrame, tables: Tables, blame: Blame
) -> pd.DataFrame:
    """Link causes that are a resource of a host to the queries blamed for it there and then.

    Parameters
    ----------
    stragglers : DataFrame of :data:`iqcar.stragglers.result.STRAGGLERS`
    causes : DataFrame of :data:`iqcar.stragglers.result.STRAGGLER_CAUSES`
    tables : Tables
    blame : Blame

    Returns
    -------
    DataFrame of :data:`iqcar.stragglers.result.STRAGGLER_SOURCES`
        The largest share of each cause first; no rows for a cause that nobody lost time to.
    """
    links = _links(stragglers, causes, blame)
    if not len(links):
        return STRAGGLER_SOURCES.empty()
    weight = links["lost_ms"].to_numpy(np.float64) * _presence(links, tables)
    links = links.assign(weight=np.where(weight > 0, weight, 0.0))
    links = links[links["weight"] > 0]
    query = tables.stages["query"].to_numpy(np.int64)
    source = links["source_stage"].to_numpy(np.int64)
    links = links.assign(query=np.where(source >= 0, query[np.maximum(source, 0)], -1))
    by_query = links.groupby(["cause", "kind", "query"], sort=True)["weight"].sum().reset_index()
    share = by_query["weight"] / by_query.groupby("cause")["weight"].transform("sum")
    by_query = by_query.assign(share=share)
    order = np.lexsort((by_query["query"], by_query["kind"], -share, by_query["cause"]))
    by_query = by_query.iloc[order]
    return STRAGGLER_SOURCES.frame(
        {
            "cause": by_query["cause"].to_numpy(),
            "kind": [str(BLAME_KINDS[code]) for code in by_query["kind"].tolist()],
            "query": by_query["query"].to_numpy(),
            "share": by_query["share"].to_numpy(),
        }
    )


def _links(stragglers: pd.DataFrame, causes: pd.DataFrame, blame: Blame) -> pd.DataFrame:
    """Pair every cause that is a resource of a host with the sources of its stage's demands."""
    resources = causes["cause"].map(RESOURCE_OF)
    mine = causes[resources.notna()]
    of = stragglers.iloc[mine["straggler"].to_numpy(np.int64)]
    pairs = pd.DataFrame(
        {
            "cause": mine.index.to_numpy(np.int64),
            "resource": [str(r) for r in resources[mine.index]],
            "stage": of["stage"].to_numpy(np.int64),
            "host": of["host"].to_numpy(np.int64),
            "launch": of["launch_ms"].to_numpy(np.float64),
            "finish": (of["launch_ms"] + of["duration_ms"]).to_numpy(np.float64),
        }
    )
    demands = blame.demands
    of_host = np.isin(demands["request"].to_numpy(), [REQUESTS.index(r) for r in ON_HOSTS])
    demands = demands[of_host & (demands["host"] >= 0).to_numpy()]
    resource = [str(REQUESTS[code].resource) for code in demands["request"].tolist()]
    wanted = pd.DataFrame(
        {
            "demand": demands.index.to_numpy(np.int64),
            "resource": resource,
            "stage": demands["stage"].to_numpy(np.int64),
            "host": demands["host"].to_numpy(np.int64),
        }
    )
    asked = pairs.merge(wanted, on=["resource", "stage", "host"])
    sources = blame.sources[["demand", "kind", "source_stage", "lost_ms"]]
    linked: pd.DataFrame = asked.merge(sources[sources["lost_ms"] > 0], on="demand")
    return linked


def _presence(links: pd.DataFrame, tables: Tables) -> Floats:
    """Share of its time beside the target stage that a source was there during the straggler.

    Where there is no source stage, the straggler's share of its stage's task time there.
    """
    tasks = tables.tasks
    hosts = len(tables.hosts) + 1
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    stage = tasks["stage"].to_numpy(np.int64)
    host = tasks["host"].to_numpy(np.int64)
    target = links["stage"].to_numpy(np.int64)
    source = links["source_stage"].to_numpy(np.int64)
    who = np.where(source >= 0, source, target) * hosts + links["host"].to_numpy(np.int64)
    where = target * hosts + links["host"].to_numpy(np.int64)

    # Only tasks of stages and hosts that links name are placed in time.
    named = np.unique(np.concatenate([who, where]))
    key = stage * hosts + host
    usable = (stage >= 0) & (host >= 0) & np.isfinite(launch) & (finish >= launch)
    usable &= np.isin(key, named)
    group = np.searchsorted(named, key[usable])
    begin, end = launch[usable], finish[usable]
    spans = Spans.of(group, begin, end)
    one = np.ones(len(group))
    first, last = np.full(len(named), np.inf), np.full(len(named), -np.inf)
    np.minimum.at(first, group, begin)
    np.maximum.at(last, group, end)

    who, where = np.searchsorted(named, who), np.searchsorted(named, where)
    start, stop = links["launch"].to_numpy(np.float64), links["finish"].to_numpy(np.float64)
    during = Windows(spans, who, start, stop).total(one)
    beside = Windows(spans, who, first[where], last[where]).total(one)
    # Without a source the straggler is its stage's own task time: its length of the whole.
    during = np.where(source >= 0, during, stop - start)
    return np.divide(during, beside, out=np.zeros(len(during)), where=beside > 0)
