"""Who was in the way, asked on the executors once it is known which topics lack a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.fleet.pieces import objects, stepped
from iqcar.fleet.shared_hosts import capacities_of
from iqcar.fleet.steps import Asked
from iqcar.topics.result import TOPIC_SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iqcar.fleet.ship import Shipped
    from iqcar.kinds import QueryBy
    from iqcar.tables import Tables
    from iqcar.topics import Topics


def sources_on_spark(
    placed: Any,
    shipped: Shipped,
    found: Topics,
    lacks: Mapping[int, str],
    tables: Tables,
    query_by: QueryBy,
) -> pd.DataFrame:
    """Link topics that are a lack of a resource to the queries blamed for it.

    Parameters
    ----------
    placed : DataFrame of Spark
        Tables of each group of logs.
    shipped : Shipped
    found : Topics
    lacks : mapping of topic to :class:`iqcar.kinds.Resource`
    tables : Tables
        Of all logs, without tasks.
    query_by : QueryBy

    Returns
    -------
    DataFrame of :data:`iqcar.topics.result.TOPIC_SOURCES`
    """
    mixture = found.mixtures
    wanted = mixture[mixture["topic"].isin(list(lacks)).to_numpy(bool)]
    if not len(wanted):
        return TOPIC_SOURCES.empty()
    stage = found.jobs["stage"].to_numpy(np.int64)
    job = wanted["job"].to_numpy(np.int64)
    asked = Asked(stage[job], wanted["topic"].to_numpy(np.int64), dict(lacks))
    measured = stepped(placed, shipped.step("steps.speeds_step", query_by))
    known = capacities_of([speeds for _, speeds in objects(measured)])
    answered = stepped(placed, shipped.step("steps.sources_step", asked, known, query_by))
    parts = [part for _, part in objects(answered)]
    if not parts:
        return TOPIC_SOURCES.empty()
    whole = pd.concat(parts, ignore_index=True)
    query = np.append(tables.stages["query"].to_numpy(np.int64), -1)
    row_of = {int(one): row for row, one in enumerate(stage.tolist())}
    whole["job"] = [row_of[int(one)] for one in whole["job"].tolist()]
    whole["query"] = query[whole["query"].to_numpy(np.int64)]
    whole = whole.iloc[np.argsort(whole["job"].to_numpy(), kind="stable")]
    return TOPIC_SOURCES.frame(
        {name: whole[name].to_numpy() for name in TOPIC_SOURCES.column_names()}
    )
