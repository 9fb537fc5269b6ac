"""Curves, validation and raw runs of an experiment: what its file holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from iqcar.errors import IqcarError
from iqcar.lab.experiment.cells import at_level, streams
from iqcar.lab.experiment.experiment_plan import ExperimentPlan
from iqcar.lab.experiment.law import fit_law
from iqcar.lab.experiment.run_experiment import Done, Run
from iqcar.lab.experiment.stage_times import StageTime, stage_times
from iqcar.replay.whatif.curves import QUERY, SCHEMA_VERSION, STAGE, Curve
from iqcar.version import __version__

LAW = "slowdown = max(1, (1 + k) * r / C)"


class Point(NamedTuple):
    """A pair of runs as a point of a curve."""

    level: float
    k: float
    alone_ms: float
    loaded_ms: float
    at_once: float
    rate_per_s: float = 0.0
    """Bytes that a task moves in a second in the device without hogs; 0 unknown."""

    @property
    def slowdown(self) -> float:
        """Measured."""
        return self.loaded_ms / self.alone_ms


class Checked(msgspec.Struct, frozen=True):
    """A level predicted by the fit to the other levels' pairs, and measured."""

    of: str
    query: str
    label: str
    resource: str
    level: float
    k: float
    pairs: int
    measured: float
    predicted: float
    low: float
    high: float
    error: float


Key = tuple[str, str, str, str]
"""What a curve is of (stage or query), the query, the label and the resource."""


def results_of(plan: ExperimentPlan, done: Done) -> dict[str, Any]:
    """Return the content of the file of curves (``iqcar schema curves``)."""
    stages: list[StageTime] = []
    with suppress(IqcarError):  # a log that cannot be read costs the curves of stages only
        stages = stage_times(done.logs, plan.loaded_hosts, len(plan.places)) if done.logs else []
    points = curve_points(plan, done, stages)
    return {
        "schema_version": SCHEMA_VERSION,
        "iqcar_version": __version__,
        "law": LAW,
        "ended_by": done.ended_by,
        "plan": plan.as_given,
        "curves": [msgspec.to_builtins(curve_of(key, of)) for key, of in points.items()],
        "validation": [
            msgspec.to_builtins(row) for key, of in points.items() for row in validate(key, of)
        ],
        "runs": [msgspec.to_builtins(run) for run in done.runs],
    }


def curve_points(
    plan: ExperimentPlan, done: Done, stages: Sequence[StageTime]
) -> dict[Key, list[Point]]:
    """Return the points of each curve: of queries as elapsed, of stages the time in the device."""
    points: dict[Key, list[Point]] = defaultdict(list)
    of_run: dict[int, dict[str, StageTime]] = defaultdict(dict)
    for stage in stages:
        of_run[stage.run][stage.label] = stage
    for alone, loaded in _pairs(done.runs):
        full = plan.strengths[loaded.resource]
        hogs = streams(at_level(full, loaded.level), full)
        key = QUERY, loaded.query, "", loaded.resource
        at_once = done.at_once[loaded.query]
        points[key].append(
            Point(
                loaded.level, hogs / at_once, alone.duration_ms or 0.0, loaded.duration_ms or 0.0,
                at_once,
            )
        )  # fmt: skip
        for label, before in of_run[alone.number].items():
            after = of_run[loaded.number].get(label)
            if after is None or not before.uses(loaded.resource):
                continue
            key = STAGE, loaded.query, label, loaded.resource
            mine, then = before.device_ms[loaded.resource], after.device_ms[loaded.resource]
            if mine > 0 and then > 0:
                # The driver starts a task before it notes the end of the one whose slot it takes.
                most = min(before.at_once, at_once)
                rate = before.rate_per_s(loaded.resource)
                points[key].append(Point(loaded.level, hogs / most, mine, then, most, rate))
    return dict(points)


def _pairs(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    """Pairs of a run alone and one under hogs that both ended."""
    by_pair: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        if run.pair and run.duration_ms:
            by_pair[run.pair].append(run)
    for both in by_pair.values():
        if len(both) == 2:
            alone, loaded = sorted(both, key=lambda run: run.level)
            yield alone, loaded


def curve_of(key: Key, points: Sequence[Point]) -> Curve:
    """Fit the law to the points of one curve."""
    fit = fit_law(*_arrays(points))
    at_once = float(np.median([point.at_once for point in points]))
    rate = float(np.median([point.rate_per_s for point in points]))
    return Curve(
        *key,
        alone_ms=float(np.median([point.alone_ms for point in points])),
        tasks_at_once=at_once,
        share=fit.share,
        low=fit.low,
        high=fit.high,
        identified=fit.identified,
        own_rate_share=min(fit.share / max(at_once, 1e-9), 1.0),
        residual=fit.residual,
        pairs=len(points),
        own_rate_per_s=rate if rate > 0 else None,
    )


def validate(key: Key, points: Sequence[Point]) -> Iterator[Checked]:
    """Predict each level from the pairs of the other levels; nothing where there is one level."""
    for level in sorted({point.level for point in points}):
        rest = [point for point in points if point.level != level]
        left_out = [point for point in points if point.level == level]
        if not rest:
            continue
        k = float(np.mean([point.k for point in left_out]))
        predicted, low, high = fit_law(*_arrays(rest)).predict(k)
        measured = float(np.exp(np.mean(np.log([point.slowdown for point in left_out]))))
        yield Checked(
            *key, level, k, len(left_out), measured, predicted, low, high, predicted / measured - 1
        )


def _arrays(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p.k for p in points]), np.array([p.slowdown for p in points])
