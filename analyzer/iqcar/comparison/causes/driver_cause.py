"""Names the part of a query's time in the driver that changed most, and what the driver did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from iqcar.base.units import duration
from iqcar.comparison.causes.stage_cause import StageCause
from iqcar.comparison.match.compared_rows import ComparedRows
from iqcar.enums import ChangeKind
from iqcar.model.waits.driver_time import DriverPart, DriverWork, driver_time
from iqcar.tables import texts

DRIVER = StageCause(
    ChangeKind.RATE, "metric:driver_ms", "the driver took another time between stages"
)


class _What(NamedTuple):
    category: int
    part: str
    work: str


def driver_causes(before: ComparedRows, after: ComparedRows) -> dict[int, StageCause]:
    """Return :data:`DRIVER` in words of what changed most, by the category of the query.

    Queries whose time in the driver is not recorded on both sides are left out.
    """
    (was, old), (now, new) = (_means(side) for side in (before, after))
    changes: dict[int, dict[_What, float]] = {}
    for one in was.keys() | now.keys():
        if one.category in old & new:
            change = now.get(one, 0.0) - was.get(one, 0.0)
            changes.setdefault(one.category, {})[one] = change
    return {
        category: DRIVER._replace(sentence=sentence)
        for category, by_what in changes.items()
        if (sentence := _sentence(by_what))
    }


def _sentence(changes: Mapping[_What, float]) -> str:
    whole = sum(changes.values())
    most = max(sorted(changes), key=lambda one: changes[one] * np.sign(whole))
    change = changes[most]
    if abs(change) < 1.0:
        return ""
    did = "" if most.work == DriverWork.OTHER else f" ({DriverWork(most.work).words})"
    longer = "longer" if change > 0 else "less long"
    where = DriverPart(most.part).words
    return f"the driver took {duration(abs(change))} {longer} {where}{did}"


def _means(side: ComparedRows) -> tuple[dict[_What, float], set[int]]:
    """Mean times by category, part and work, and the categories of which all are known."""
    found, weights = driver_time(side.tables), side.weights()
    here = side.category >= 0
    unknown = set(side.category[here & np.isnan(found.total)].tolist())
    means: dict[_What, float] = {}
    work = found.work
    query = work["query"].to_numpy(np.int64)
    for category, part, what, time in zip(
        side.category[query].tolist(),
        texts(work, "part"),
        texts(work, "work"),
        (weights[query] * work["time_ms"].to_numpy(np.float64)).tolist(),
        strict=True,
    ):
        key = _What(category, part, what)
        means[key] = means.get(key, 0.0) + time
    return means, set(side.category[here].tolist()) - unknown
