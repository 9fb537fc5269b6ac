"""Compute the victim's iQC-Graph by phase from the event logs of induced contention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, Request, Resource

ASKED = {
    Resource.CPU: Request.RUN_QUEUE,
    Resource.IO: Request.IO_READ,
    Resource.NETWORK: Request.SHUFFLE_FETCH,
}
"""The request of each resource that the victim waits for most."""
CULPRITS = {"cpu": Resource.CPU, "io": Resource.IO}
"""Phase, and the resource that its culprit takes."""


def make_result(folder: Path, phases: Sequence[str], loaded: str) -> dict[str, Any]:
    """Sum the victim's losses by phase, resource and host.

    folder: with ``eventlogs/``.
    phases: the victim's queries are named after them.
    loaded: the host that culprits ran on.
    """
    diagnosis = iqcar.diagnose(iqcar.read([folder / "eventlogs"]))
    queries = diagnosis.tables.queries
    inputs = diagnosis.tables.inputs
    victims = inputs.loc[inputs["application_name"] == "induced-victim", "app"]
    of_victim = queries["app"].isin(victims).to_numpy() & (queries["kind"] == "sql").to_numpy()
    phase = queries["name"].astype(str).str.rpartition("-")[0].to_numpy()
    ended = queries["ended"].to_numpy(bool)
    found = []
    for name in phases:
        rows = np.flatnonzero(of_victim & (phase == name) & ended)
        # The first query of a phase began in the one before.
        found.append(_phase(diagnosis, name, rows[1:] if len(rows) > 2 else rows, loaded))
    return {"phases": found}


def _phase(
    diagnosis: Diagnosis, name: str, rows: np.ndarray[Any, Any], loaded: str
) -> dict[str, Any]:
    queries, hosts = diagnosis.tables.queries, diagnosis.tables.hosts["host"].astype(str).to_numpy()
    duration = queries["duration_ms"].to_numpy(np.float64)[rows]
    graph = diagnosis.graph
    by_resource = graph.vertices(2)
    by_host = graph.vertices(3)
    mine = by_resource[by_resource["target"].isin(rows)]
    there = by_host[by_host["target"].isin(rows)]
    total = float(duration.sum())
    demands = diagnosis.blame.demands
    demands = demands[demands["query"].isin(rows)]
    losses = {}
    for resource, request in ASKED.items():
        one = there[there["resource"] == str(resource)]
        at = hosts[one["host"].to_numpy(np.int64)]
        asked = demands[(demands["request"] == REQUESTS.index(request)).to_numpy()]
        where = hosts[asked["host"].to_numpy(np.int64)]
        losses[str(resource)] = {
            "share": float(mine.loc[mine["resource"] == str(resource), "lost_ms"].sum()) / total,
            "share_loaded": float(one.loc[at == loaded, "lost_ms"].sum()) / total,
            "share_other": float(one.loc[at != loaded, "lost_ms"].sum()) / total,
            "ratp_loaded": _median(asked[where == loaded], "ratp"),
            "ratp_other": _median(asked[where != loaded], "ratp"),
            "wait_ms_loaded": _median(asked[where == loaded], "wait_ms"),
            "wait_ms_other": _median(asked[where != loaded], "wait_ms"),
        }
    blamed = pd.concat([graph.blame_of(int(row)) for row in rows])
    others = blamed[blamed["kind"] == "query"]
    lost = float(blamed["lost_ms"].sum())
    inputs = diagnosis.tables.inputs
    culprits = inputs.loc[inputs["application_name"] == f"induced-{name}", "application_id"]
    of_culprit = others["source_query_id"].astype(str).str.split("/").str[0].isin(culprits)
    to_culprit = float(others.loc[of_culprit.to_numpy(bool), "lost_ms"].sum())
    return {
        "phase": name,
        "culprit": str(CULPRITS[name]) if name in CULPRITS else "",
        "queries": len(rows),
        "duration_s": [round(d / 1e3, 3) for d in duration.tolist()],
        "losses": losses,
        "blamed_on_culprit": to_culprit / lost if lost and name in CULPRITS else None,
    }


def _median(demands: pd.DataFrame, name: str) -> float | None:
    """Median over queries; each has one task there that asks for much."""
    by_query = demands.groupby("query")[name].max().dropna()
    return float(by_query.median()) if len(by_query) else None
