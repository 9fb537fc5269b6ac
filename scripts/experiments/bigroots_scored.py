"""Compute the decisions of one run of the BigRoots experiment: truth and answers of methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bigroots_methods import METHODS, OURS, Judged, all_pcc, sweeps
from bigroots_scoring import (
    RESOURCES,
    Flags,
    Injected,
    Part,
    area,
    begun,
    could_delay,
    count,
    curve,
    overlaps,
    truth_of_the_paper,
)
from numpy.typing import NDArray

import iqcar
from iqcar.causes.stragglers.features import build_features
from iqcar.model.waits.measure import measure_waits
from iqcar_lab.inject.run_plan import LEAD_S, read_log

Floats = NDArray[np.float64]
READING = "scan"
"""The query of :mod:`bigroots_jobs` whose tasks read files."""
LITTLE = "it waited little more for it than its work explains"


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


ROWS = (
    "part", "host", "reads", "starting", "shared_ms", "truth", "delaying", "counted",
    "duration_ms", "delay_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """The decisions of one run, or of several put together; one row per straggler.

    part: name of the experiment it was launched in
    host: where it ran
    reads, starting: whether its task reads files, and ran while an injection's processes started
    shared_ms, truth, delaying, counted: (stragglers, resources); see :mod:`bigroots_scoring`
    duration_ms, delay_ms: its duration, and what of it was over its stage's median
    named: by method, (stragglers, resources)
    moved: by method and by value of one threshold
    grid: the baseline's, by its two thresholds
    tasks, stages: how many were compared
    injected: anomalies, one entry per injection
    """

    part: NDArray[np.object_]
    host: NDArray[np.object_]
    reads: Flags
    starting: Flags
    shared_ms: Floats
    truth: Flags
    delaying: Flags
    counted: Flags
    duration_ms: Floats
    delay_ms: Floats
    named: dict[str, Flags]
    moved: dict[str, dict[float, Flags]]
    grid: dict[tuple[float, float], Flags]
    tasks: int
    stages: int
    injected: list[str]

    @classmethod
    def from_run(cls, folder: Path, planned: Sequence[Part], moments: Sequence[int]) -> Scored:
        """Judge one run.

        folder: with ``eventlogs/`` and ``truth.jsonl``.
        planned: the experiments, in order.
        moments: when each of them started, epoch ms.
        """
        tables = iqcar.read([folder / "eventlogs"])
        features = build_features(tables, measure_waits(tables), OURS.edge_ms)
        launch = features.column("launch_ms")
        within = launch >= moments[0]
        judged = Judged.from_features(features, within)
        compared = judged.compared
        rows = compared.rows[judged.rows]
        duration = compared.duration[judged.rows]
        names = tables.hosts["host"].astype(str).to_numpy()
        host = names[features.frame["host"].to_numpy()[rows]]
        truths = injected(folder / "truth.jsonl")
        shared = overlaps(list(host), launch[rows], launch[rows] + duration, truths)
        queries = tables.queries["name"].astype(str).to_numpy()
        reads = queries[features.frame["query"].to_numpy()[rows]] == READING
        finish, lead_ms = launch[rows] + duration, 1000 * LEAD_S
        starting = begun(list(host), launch[rows], finish, truths, lead_ms)
        delaying, counted = could_delay(shared, duration, reads, starting)
        part = np.searchsorted(np.array(moments), launch[rows], side="right") - 1
        seen = within[compared.rows]
        return cls(
            part=np.array([one.name for one in planned], dtype=object)[part],
            host=host.astype(object),
            reads=reads,
            starting=starting,
            shared_ms=shared,
            truth=truth_of_the_paper(shared),
            delaying=delaying,
            counted=counted,
            duration_ms=duration,
            delay_ms=duration - compared.median[judged.rows],
            named={name: method(judged) for name, method in METHODS.items()},
            moved={
                method: dict(zip(values, flags, strict=True))
                for method, values, flags in sweeps(judged)
            },
            grid={(s.pearson, s.quantile): flags for s, flags in all_pcc(judged)},
            tasks=int(seen.sum()),
            stages=len(np.unique(compared.stage[seen])),
            injected=[one.anomaly for one in truths],
        )

    @classmethod
    def join(cls, runs: Sequence[Scored]) -> Scored:
        """Put the decisions of several runs together."""

        def both(name: str) -> Any:
            return np.concatenate([getattr(run, name) for run in runs])

        first = runs[0]
        return cls(
            **{name: both(name) for name in ROWS},
            named={k: np.concatenate([run.named[k] for run in runs]) for k in first.named},
            moved={
                k: {v: np.concatenate([run.moved[k][v] for run in runs]) for v in of}
                for k, of in first.moved.items()
            },
            grid={k: np.concatenate([run.grid[k] for run in runs]) for k in first.grid},
            tasks=sum(run.tasks for run in runs),
            stages=sum(run.stages for run in runs),
            injected=[one for run in runs for one in run.injected],
        )


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
