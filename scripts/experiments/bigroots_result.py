"""Compute the result of the BigRoots experiment from the decisions of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from bigroots_methods import OURS
from bigroots_scored import Scored
from bigroots_scoring import RESOURCES, Flags, area, count, curve
from numpy.typing import NDArray

LITTLE = "it waited little more for it than its work explains"


def make_result(runs: Sequence[Scored]) -> dict[str, Any]:
    """Score every method in every experiment, over all runs together."""
    of = Scored.join(runs)
    (pearson, quantile), best = max(
        of.grid.items(), key=lambda pair: count(of.truth, pair[1]).accuracy or 0.0
    )
    named = {**of.named, "PCC, best thresholds": best}
    parts = list(dict.fromkeys(of.part.tolist()))
    return {
        "runs": len(runs),
        "hosts": len(set(of.host.tolist())),
        "tasks": of.tasks,
        "stages": of.stages,
        "stragglers": len(of.part),
        "injections": dict(Counter(of.injected)),
        "resources": list(RESOURCES),
        "pcc_best": {"pearson": pearson, "quantile": quantile},
        "experiments": [_experiment(one, named, of, of.part == one) for one in parts],
        "all": _experiment("all", named, of, np.ones(len(of.part), bool)),
        "missed": _missed(of),
        "wrong": _wrong(of),
        "roc": [_roc(method, values, of, parts) for method, values in of.moved.items()],
    }


def _experiment(
    name: str, named: dict[str, Flags], of: Scored, mine: NDArray[np.bool_]
) -> dict[str, Any]:
    """Counts of one experiment's stragglers, by the paper's truth and by what could delay."""
    truth, delaying, counted = of.truth[mine], of.delaying[mine], of.counted[mine]
    return {
        "name": name,
        "stragglers": int(mine.sum()),
        "methods": {
            method: {
                "paper": count(truth, flags[mine]).to_dict(),
                "could_delay": count(delaying, flags[mine], counted).to_dict(),
            }
            for method, flags in named.items()
        },
    }


def _roc(
    method: str, values: dict[float, Flags], of: Scored, parts: Sequence[str]
) -> dict[str, Any]:
    """Points over one threshold, and the area under the curve for all and each experiment."""
    points = [count(of.truth, flags) for flags in values.values()]
    delaying = [count(of.delaying, flags, of.counted) for flags in values.values()]
    areas = {"all": area(curve(points)), "all, what could delay": area(curve(delaying))}
    for part in parts:
        mine = of.part == part
        found = [count(of.truth[mine], flags[mine]) for flags in values.values()]
        if found[0].tpr is not None:
            areas[part] = area(curve(found))
    return {
        "method": method,
        "points": [
            {"threshold": v, "fpr": p.fpr, "tpr": p.tpr}
            for v, p in zip(values, points, strict=True)
        ],
        "auc": areas,
    }


def _missed(of: Scored) -> dict[str, int]:
    """Why measured waits name no cause where something was injected: the paper's reasons."""
    reasons: Counter[str] = Counter()
    for row, column in np.argwhere(of.truth & ~of.named["measured"]).tolist():
        if RESOURCES[column] == "network":
            reasons["traffic over loopback, for which nobody waits"] += 1
        elif RESOURCES[column] == "io" and not of.reads[row]:
            reasons["a busy disk, and a task that reads no file"] += 1
        elif of.shared_ms[row, column] < OURS.explains * of.delay_ms[row]:
            reasons["an overlap too short to explain a quarter of the delay"] += 1
        elif not of.counted[row, column]:
            reasons[f"an overlap of less than half of the straggler; {LITTLE}"] += 1
        else:
            reasons[LITTLE] += 1
    return dict(reasons)


def _wrong(of: Scored) -> dict[str, int]:
    """Which resources measured waits name where none was injected, and what was there instead."""
    found: Counter[str] = Counter()
    for row, column in np.argwhere(~of.truth & of.named["measured"]).tolist():
        if RESOURCES[column] == "cpu" and of.starting[row]:
            found["cpu while the processes of an injection started there"] += 1
        elif RESOURCES[column] == "cpu" and of.shared_ms[row, RESOURCES.index("network")] > 0:
            found["cpu during traffic over loopback, which takes some"] += 1
        else:
            found[f"{RESOURCES[column]} in {of.part[row]}"] += 1
    return dict(found)
