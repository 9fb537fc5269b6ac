"""What the browser explores: for each query, rows of blame and what its tasks waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.base import limits
from iqcar.diagnosis import Diagnosis
from iqcar.enums import EVIDENCES, REQUESTS
from iqcar.show.html.blame_rows import bounded, demands_of, keep, largest
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.show.html.blame_rows import BlameRows
    from iqcar.show.html.names import PageNames


def explored_queries(diagnosis: Diagnosis) -> list[int]:
    """Rows of the queries that can be explored: the targets, then those that lost most."""
    lost, to_others = diagnosis.lost_ms(), diagnosis.lost_to_others_ms()
    order = [int(row) for row in np.lexsort((-lost, -to_others)) if lost[row] > 0]
    chosen = list(dict.fromkeys([*diagnosis.targets, *order]))
    return chosen[: max(limits.MOST_EXPLORED, len(diagnosis.targets))]


def explore_payload(
    diagnosis: Diagnosis, blame_rows: BlameRows, names: PageNames, chosen: Sequence[int]
) -> dict[str, Any]:
    """Lay out what can be explored of chosen queries, sums unchanged and large parts folded.

    Returns
    -------
    dict
        targets: one entry per query, each with columns; left_out: queries that lost time and are
        not here; folded: whether small parts were joined.
    """
    rows = blame_rows.frame
    hosts = largest(
        rows["host"].to_numpy(np.int64), rows["lost_ms"].to_numpy(np.float64), limits.MOST_HOSTS
    )
    demands = demands_of(diagnosis.graph, diagnosis.blame.demands)
    demands = demands[demands["target"].isin(chosen).to_numpy()]
    by_target = dict(iter(demands.groupby("target", sort=False)))
    any_folded = False
    targets = []
    for query, most in zip(chosen, rows_of_each(len(chosen)), strict=True):
        mine, folded = bounded(blame_rows.of(query), most, hosts)
        any_folded |= folded
        one: dict[str, Any] = {"query": names.query(query), "rows": _rows(mine, names)}
        if query in by_target:
            stages = np.unique(mine["stage"].to_numpy(np.int64))
            one["demands"] = _demands(by_target[query], stages, hosts, names)
        targets.append(one)
    with_loss = int((diagnosis.lost_ms() > 0).sum())
    explored = sum(diagnosis.lost_ms()[query] > 0 for query in chosen)
    return {
        "targets": targets,
        "left_out": with_loss - int(explored),
        "folded": any_folded,
    }


def rows_of_each(queries: int) -> list[int]:
    """How many rows of blame each query gets, the worst hit first."""
    first = min(queries, limits.FIRST)
    most = limits.MOST_ROWS_OF_QUERY
    left = limits.MOST_ROWS - first * most
    room = left // max(queries - first, 1)
    others = min(max(room, limits.LEAST_ROWS_OF_QUERY), most)
    return [most] * first + [others] * (queries - first)


def _rows(rows: pd.DataFrame, names: PageNames) -> dict[str, list[Any]]:
    return {
        "stage": [names.stage(row) for row in rows["stage"].tolist()],
        "request": rows["request"].tolist(),
        "host": [names.host(row) for row in rows["host"].tolist()],
        "kind": rows["kind"].tolist(),
        "sourceStage": [names.stage(row) for row in rows["source_stage"].tolist()],
        "source": [names.query(row) for row in rows["source"].tolist()],
        "lost": [float(f"{ms:.6g}") for ms in rows["lost_ms"].tolist()],
        "dor": [float(f"{dor:.5g}") for dor in rows["dor"].tolist()],
    }


def _demands(
    demands: pd.DataFrame, stages: Ints, hosts: Ints, names: PageNames
) -> dict[str, list[Any]]:
    """Sum demands over what was folded: waits and RATP add up; the slowdown is weighted by wait."""
    frame = keep(keep(demands, "stage", stages), "host", hosts)
    wait = np.nan_to_num(frame["wait_ms"].to_numpy(np.float64))
    frame = frame.assign(
        wait_ms=wait,
        slowed=np.nan_to_num(frame["slowdown"].to_numpy(np.float64)) * wait,
        ratp=np.nan_to_num(frame["ratp"].to_numpy(np.float64), posinf=0.0),
    )
    sums = frame.groupby(["stage", "request", "host"], sort=False, as_index=False).agg(
        tasks=("tasks", "sum"),
        wait_ms=("wait_ms", "sum"),
        slowed=("slowed", "sum"),
        ratp=("ratp", "sum"),
        evidence=("evidence", "min"),
        over_attribution=("over_attribution", "max"),
        lost_ms=("lost_ms", "sum"),
    )
    slowdown = sums["slowed"] / sums["wait_ms"].where(sums["wait_ms"] > 0, 1.0)
    return {
        "stage": [names.stage(row) for row in sums["stage"].tolist()],
        "request": sums["request"].tolist(),
        "host": [names.host(row) for row in sums["host"].tolist()],
        "tasks": sums["tasks"].tolist(),
        "wait": sums["wait_ms"].round(3).tolist(),
        "ratp": [_significant(value) for value in sums["ratp"].tolist()],
        "slowdown": [_significant(value) for value in slowdown.tolist()],
        "evidence": sums["evidence"].tolist(),
        "lost": sums["lost_ms"].round(3).tolist(),
    }


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def code_names() -> dict[str, Any]:
    """What the codes in the columns stand for."""
    return {
        "requests": [
            {"key": str(one), "resource": str(one.resource), "sentence": one.sentence}
            for one in REQUESTS
        ],
        "evidences": [str(one) for one in EVIDENCES],
    }
