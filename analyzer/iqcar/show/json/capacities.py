"""Lays out as JSON what devices can do, and how fast stages are alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, DemandEvidence, Request
from iqcar.show.json.plain import plain
from iqcar.tables import texts

_EVIDENCE = tuple(map(str, DemandEvidence))


def demand_to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Lay out the capacities of all devices, and the own rates of the targets' stages.

    Parameters
    ----------
    diagnosis : Diagnosis
    """
    return {"capacities": _capacities(diagnosis), "own_rates": _own_rates(diagnosis)}


def _unit(request: Request) -> str:
    return "cores" if request is Request.RUN_QUEUE else "bytes/s"


def _per_second(request: Request, value: float) -> float:
    return value if request is Request.RUN_QUEUE else value * 1000.0


def _capacities(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    names = texts(diagnosis.tables.hosts, "host")
    for row in diagnosis.blame.demand.capacities().itertuples():
        request = REQUESTS[row.request]
        yield {
            "host": names[row.host],
            "request": str(request),
            "capacity": plain(_per_second(request, row.capacity)),
            "unit": _unit(request),
            "identified": bool(row.identified),
            "contended": plain(row.contended),
            "relative_speed": plain(row.relative_speed),
            "evidence": _EVIDENCE[row.evidence],
            "tasks": int(row.tasks),
        }


def _own_rates(diagnosis: Diagnosis) -> Iterator[dict[str, Any]]:
    stages = diagnosis.tables.stages
    query, spark_id = stages["query"].to_numpy(), stages["stage_id"].to_numpy()
    ids = texts(diagnosis.tables.queries, "query_id")
    rates = diagnosis.blame.demand.own_rates()
    of_targets = np.isin(query[rates["stage"].to_numpy(np.int64)], diagnosis.targets)
    for row in rates[of_targets].itertuples():
        request = REQUESTS[row.request]
        yield {
            "query_id": ids[query[row.stage]],
            "stage_id": int(spark_id[row.stage]),
            "request": str(request),
            "own_rate": plain(_per_second(request, row.own_rate)),
            "low": plain(_per_second(request, row.low)),
            "high": plain(_per_second(request, row.high)),
            "unit": _unit(request),
            "identified": bool(row.identified),
            "evidence": _EVIDENCE[row.evidence],
            "tasks": int(row.tasks),
        }
