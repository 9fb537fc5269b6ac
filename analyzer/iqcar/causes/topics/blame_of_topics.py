"""Finds the queries blamed for stragglers whose topic is the lack of a resource.

As for the causes of stragglers (:mod:`iqcar.causes.stragglers.blame_of_causes`), blame of a stage
on a host is divided among moments: it counts while and where stragglers ran that have the topic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.stragglers.blame_of_causes import ON_HOSTS, blamed_during
from iqcar.causes.topics.topic_result import TOPIC_SOURCES, Topics
from iqcar.enums import Request, Resource
from iqcar.tables import Tables

REQUESTS_OF_TOPICS = (
    *ON_HOSTS, Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY, Request.SLOT_WAIT,
)  # fmt: skip
"""Waits that are a lack of a resource; for locks and signals no topic lacks one."""


def blamed_for(
    found: Topics, resources: Mapping[int, str], tables: Tables, blame: Blame
) -> pd.DataFrame:
    """Link topics that are a lack of a resource to the queries blamed for it, there and then.

    A straggler waits for a slot from its stage's submission to its launch: who held slots of its
    host then was in its way. Frame of `TOPIC_SOURCES`. The largest share of each job and topic
    first; no rows where none of its stragglers lost time to the resource.

    found: of the same tables, with the topics of its stragglers.
    resources: mapping of topic to `Resource`, of those that lack one.
    """
    stragglers = found.stragglers
    resource = stragglers["topic"].map(resources)
    stragglers = stragglers[resource.notna().to_numpy(bool)].assign(resource=resource.dropna())
    if not len(stragglers):
        return TOPIC_SOURCES.empty()
    pairs = stragglers[["job", "topic"]].drop_duplicates().sort_values(["job", "topic"])
    number = {pair: n for n, pair in enumerate(pairs.itertuples(index=False, name=None))}
    tasks = tables.tasks.iloc[stragglers["task"].to_numpy(np.int64)]
    stage = tasks["stage"].to_numpy(np.int64)
    for_slots = (stragglers["resource"] == Resource.SLOTS.value).to_numpy(bool)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    submitted = tables.stages["submission_ms"].to_numpy(np.float64)[stage]
    moments = pd.DataFrame(
        {
            "what": [
                number[p] for p in stragglers[["job", "topic"]].itertuples(index=False, name=None)
            ],
            "resource": stragglers["resource"].to_numpy(object),
            "stage": stage,
            "host": tasks["host"].to_numpy(np.int64),
            "launch": np.where(for_slots, submitted, launch),
            "finish": np.where(for_slots, launch, tasks["finish_ms"].to_numpy(np.float64)),
        }
    )
    total = blamed_during(moments, tables, blame, REQUESTS_OF_TOPICS)
    if not len(total):
        return TOPIC_SOURCES.empty()
    what = total["what"].to_numpy(np.int64)
    job, topic = pairs["job"].to_numpy(np.int64)[what], pairs["topic"].to_numpy(np.int64)[what]
    return TOPIC_SOURCES.frame(
        {
            "job": job,
            "topic": topic,
            "resource": [str(resources[int(row)]) for row in topic],
            "kind": total["kind"].tolist(),
            "query": total["query"].to_numpy(np.int64),
            "lost_ms": total["lost_ms"].to_numpy(np.float64),
            "share": total["share"].to_numpy(np.float64),
        }
    )
