"""Find on executors the queries blamed for topics that lack a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.topics.topic_result import STRAGGLER_TOPICS, TOPIC_SOURCES, Topics
from iqcar.enums import QueryBy
from iqcar.fleet.shared_hosts import shared_devices
from iqcar.fleet.steps import LOADS, SOURCES, Asked
from iqcar.fleet.transport import objects, stepped
from iqcar.tables import Tables

if TYPE_CHECKING:
    from iqcar.fleet.send_code import Shipped


def sources_on_spark(
    placed: Any,
    shipped: Shipped,
    found: Topics,
    lacks: Mapping[int, str],
    tables: Tables,
    query_by: QueryBy,
) -> Topics:
    """Find the topic of every straggler, and link those that lack a resource to who is blamed.

    Parameters
    ----------
    placed : DataFrame of Spark
        Tables of each group of logs.
    shipped : Shipped
    found : Topics
    lacks : mapping of topic to :class:`iqcar.enums.Resource`
    tables : Tables
        Of all logs, without tasks.
    query_by : QueryBy

    Returns
    -------
    Topics
        With sources and stragglers.
    """
    mixture = found.mixtures
    if not len(mixture):
        return found
    stage = found.jobs["stage"].to_numpy(np.int64)
    asked = Asked(
        stage[mixture["job"].to_numpy(np.int64)],
        mixture["topic"].to_numpy(np.int64),
        mixture["share"].to_numpy(np.float64),
        found.words,
        found.settings,
        dict(lacks),
    )
    measured = stepped(placed, shipped.step("fleet.steps.loads_step", query_by))
    known = shared_devices([loads for _, loads in objects(measured, LOADS)])
    answered = stepped(placed, shipped.step("fleet.steps.sources_step", asked, known, query_by))
    parts = [part for _, part in objects(answered, SOURCES)]
    if not parts:
        return found
    row_of = {int(number): row for row, number in enumerate(stage.tolist())}
    blamed = _by_job([part for part, _ in parts], row_of)
    query = np.append(tables.stages["query"].to_numpy(np.int64), -1)
    blamed["query"] = query[blamed["query"].to_numpy(np.int64)]
    slow = _by_job([part for _, part in parts], row_of)
    return replace(
        found,
        sources=TOPIC_SOURCES.frame(
            {name: blamed[name].to_numpy() for name in TOPIC_SOURCES.column_names()}
        ),
        stragglers=STRAGGLER_TOPICS.frame(
            {name: slow[name].to_numpy() for name in STRAGGLER_TOPICS.column_names()}
        ),
    )


def _by_job(parts: Sequence[pd.DataFrame], row_of: Mapping[int, int]) -> pd.DataFrame:
    """Put the answers of all groups together, jobs by their rows instead of their stages."""
    joined = pd.concat(parts, ignore_index=True)
    joined["job"] = [row_of[int(number)] for number in joined["job"].tolist()]
    ordered: pd.DataFrame = joined.iloc[np.argsort(joined["job"].to_numpy(), kind="stable")].copy()
    return ordered
