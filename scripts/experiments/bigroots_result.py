"""From an event log and the log of what was injected to the result of the experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bigroots_methods import METHODS, OURS, Judged, all_pcc, sweeps
from bigroots_plan import Part
from bigroots_scoring import (
    RESOURCES,
    Counts,
    Flags,
    Injected,
    area,
    clear_truth,
    count,
    curve,
    overlaps,
    truth_of_the_paper,
)
from numpy.typing import NDArray

import iqcar
from iqcar.inject.truth import read_log
from iqcar.stragglers import build_features
from iqcar.waits import measure_waits

Floats = NDArray[np.float64]


def injected(path: Path) -> list[Injected]:
    """What was injected, by its log; one that failed ends the experiment."""
    found = []
    for record in read_log(str(path)):
        if record.error or record.start_ms is None or record.end_ms is None:
            raise SystemExit(f"{path}: injection {record.injection} failed: {record.error}")
        found.append(
            Injected(record.host, record.anomaly, float(record.start_ms), float(record.end_ms))
        )
    return found


def make_result(folder: Path, planned: Sequence[Part], meta: dict[str, Any]) -> dict[str, Any]:
    """Score every method in every experiment.

    Parameters
    ----------
    folder : Path
        With ``eventlogs/`` and ``truth.jsonl``.
    planned : sequence of Part
        The experiments, in order.
    meta : dict
        ``moments``: when each started, epoch ms; the rest is kept in the result.
    """
    tables = iqcar.read([folder / "eventlogs"])
    features = build_features(tables, measure_waits(tables), OURS.edge_ms)
    launch = features.column("launch_ms")
    within = launch >= meta["moments"][0]
    judged = Judged.of(features, within)
    rows = judged.compared.rows[judged.rows]
    duration = judged.compared.duration[judged.rows]
    hosts = [str(tables.hosts["host"].iloc[h]) for h in features.frame["host"].to_numpy()[rows]]
    truths = injected(folder / "truth.jsonl")
    shared = overlaps(hosts, launch[rows], launch[rows] + duration, truths)
    part = np.searchsorted(np.array(meta["moments"]), launch[rows], side="right") - 1
    truth = truth_of_the_paper(shared)
    clear = clear_truth(shared, duration)
    named = {name: method(judged) for name, method in METHODS.items()}
    named["PCC, best thresholds"], best = _best_pcc(judged, truth)
    rocs = [
        _roc(method, values, flags, truth, part, planned)
        for method, values, flags in sweeps(judged)
    ]
    compared = within[judged.compared.rows]
    return {
        **{k: v for k, v in meta.items() if k != "moments"},
        "hosts": len(set(hosts)),
        "tasks": int(compared.sum()),
        "stages": len(np.unique(judged.compared.stage[compared])),
        "stragglers": len(rows),
        "injections": dict(Counter(t.anomaly for t in truths)),
        "resources": list(RESOURCES),
        "pcc_best": best,
        "experiments": [
            _experiment(one.name, named, truth, clear, part == number)
            for number, one in enumerate(planned)
        ],
        "all": _experiment("all", named, truth, clear, np.ones(len(rows), bool)),
        "missed": _missed(named["measured"], truth, shared, judged, duration),
        "wrong": _wrong(named["measured"], truth, part, planned),
        "roc": rocs,
    }


def _experiment(
    name: str, named: dict[str, Flags], truth: Flags, clear: Flags, mine: NDArray[np.bool_]
) -> dict[str, Any]:
    """Counts of one experiment's stragglers, all decisions and the clear ones."""
    return {
        "name": name,
        "stragglers": int(mine.sum()),
        "methods": {
            method: {
                "paper": count(truth[mine], flags[mine]).to_dict(),
                "clear": count(truth[mine], flags[mine], clear[mine]).to_dict(),
            }
            for method, flags in named.items()
        },
    }


def _best_pcc(judged: Judged, truth: Flags) -> tuple[Flags, dict[str, float]]:
    """The baseline at the thresholds that serve it best here: the most right decisions."""
    best = max(all_pcc(judged), key=lambda pair: count(truth, pair[1]).accuracy or 0.0)
    return best[1], {"pearson": best[0].pearson, "quantile": best[0].quantile}


def _roc(
    method: str,
    values: Sequence[float],
    flags: Sequence[Flags],
    truth: Flags,
    part: NDArray[np.int64],
    planned: Sequence[Part],
) -> dict[str, Any]:
    """Points over one threshold, and the area under the curve for all and each experiment."""
    points = [count(truth, one) for one in flags]
    areas = {"all": area(curve(points))}
    for number, one in enumerate(planned):
        mine = part == number
        of: list[Counts] = [count(truth[mine], f[mine]) for f in flags]
        if of and of[0].tpr is not None:
            areas[one.name] = area(curve(of))
    return {
        "method": method,
        "points": [
            {"threshold": v, "fpr": p.fpr, "tpr": p.tpr}
            for v, p in zip(values, points, strict=True)
        ],
        "auc": areas,
    }


def _missed(
    named: Flags, truth: Flags, shared: Floats, judged: Judged, duration: Floats
) -> dict[str, int]:
    """Why measured waits name no cause where something was injected: the paper's three reasons."""
    delay = duration - judged.compared.median[judged.rows]
    reasons: Counter[str] = Counter()
    for row, column in np.argwhere(truth & ~named).tolist():
        if RESOURCES[column] == "network":
            reasons["network: nobody waits for another's loopback"] += 1
        elif shared[row, column] < OURS.explains * delay[row]:
            reasons["overlap too short to explain a quarter of the delay"] += 1
        else:
            reasons["other"] += 1
    return dict(reasons)


def _wrong(
    named: Flags, truth: Flags, part: NDArray[np.int64], planned: Sequence[Part]
) -> dict[str, int]:
    """Which resources measured waits name where none was injected, by experiment."""
    found = Counter(
        f"{RESOURCES[column]} in {planned[part[row]].name}"
        for row, column in np.argwhere(~truth & named).tolist()
    )
    return dict(found)
