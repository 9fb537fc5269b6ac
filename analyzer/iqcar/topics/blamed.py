"""Who was in a stage's way where its topic is a lack of a resource: the queries iQCAR blames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.blame import BLAME_KINDS
from iqcar.kinds import REQUESTS
from iqcar.topics.result import TOPIC_SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iqcar.blame import Blame
    from iqcar.tables import Tables
    from iqcar.topics.result import Topics


def blamed_for(
    found: Topics, resources: Mapping[int, str], tables: Tables, blame: Blame
) -> pd.DataFrame:
    """Link topics that are a lack of a resource to the queries blamed for it in each job's stage.

    Parameters
    ----------
    found : Topics
        Of the same tables.
    resources : mapping of topic to :class:`iqcar.kinds.Resource`, of those that lack one
    tables : Tables
    blame : Blame

    Returns
    -------
    DataFrame of :data:`iqcar.topics.result.TOPIC_SOURCES`
        The largest share first; no rows for a stage that lost no time to the resource.
    """
    mixture = found.mixtures
    resource = mixture["topic"].map(resources)
    mine = mixture[resource.notna()].assign(resource=resource.dropna())
    stages = found.jobs["stage"].to_numpy(np.int64)
    mine = mine.assign(stage=stages[mine["job"].to_numpy(np.int64)])
    demands = blame.demands
    wanted = pd.DataFrame(
        {
            "demand": demands.index.to_numpy(np.int64),
            "stage": demands["stage"].to_numpy(np.int64),
            "resource": [str(REQUESTS[code].resource) for code in demands["request"].tolist()],
        }
    )
    sources = blame.sources[["demand", "kind", "source_stage", "lost_ms"]]
    sources = sources[(sources["lost_ms"] > 0).to_numpy()]
    links = mine.merge(wanted, on=["stage", "resource"]).merge(sources, on="demand")
    if not len(links):
        return TOPIC_SOURCES.empty()
    query = tables.stages["query"].to_numpy(np.int64)
    source = links["source_stage"].to_numpy(np.int64)
    links = links.assign(query=np.where(source >= 0, query[np.maximum(source, 0)], -1))
    keys = ["job", "topic", "resource", "kind", "query"]
    total = links.groupby(keys, sort=True)["lost_ms"].sum().reset_index()
    whole = total.groupby(["job", "topic"])["lost_ms"].transform("sum")
    total = total.assign(share=total["lost_ms"] / whole)
    order = np.lexsort((total["query"], total["kind"], -total["share"], total["topic"],
                        total["job"]))  # fmt: skip
    total = total.iloc[order]
    return TOPIC_SOURCES.frame(
        {
            **{name: total[name].to_numpy() for name in ("job", "topic", "query", "share")},
            "resource": total["resource"].tolist(),
            "kind": [str(BLAME_KINDS[code]) for code in total["kind"].tolist()],
        }
    )
