"""Computes what the file of an experiment holds: curves, validation and raw runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from iqcar.enums import Request
from iqcar.errors import IqcarError
from iqcar.model.waits.columns import wait_column
from iqcar.model.waits.measure import measure_waits
from iqcar.pipeline import read
from iqcar.replay.whatif.curves import QUERY, SCHEMA_VERSION, STAGE, Curve
from iqcar.show.json.described import schema_text
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, known_or_zero
from iqcar.version import __version__
from iqcar_lab.experiment.experiment_plan import LoadedPlan, at_level, fit_law, streams
from iqcar_lab.experiment.run_experiment import Done, ExperimentRun

IN_DEVICE = {
    "cpu": ("compute_ms", wait_column(Request.RUN_QUEUE)),
    "disk": (wait_column(Request.IO_READ), wait_column(Request.IO_WRITE)),
    "network": (wait_column(Request.SHUFFLE_FETCH),),
    "memory": ("duration_ms",),
}
"""Columns of waits whose sum is the time in each resource: work there and waiting for it."""
MOVED = {
    "cpu": (),
    "disk": ("input_bytes", "shuffle_write_bytes", "output_bytes", "disk_spilled_bytes"),
    "network": ("remote_bytes",),
    "memory": (),
}
"""Columns of tasks whose sum is what they moved in each resource."""
LEAST_MS = 50.0
LEAST_SHARE = 0.05
"""Time in a device, all tasks together, and as a share of all their time, below which it is not
worth a curve: what is left is the noise of clocks."""
_RUN = re.compile(r"\(run (\d{1,9})\)")


@dataclass(frozen=True)
class StageTime:
    """A stage of one run; stages of one label count as one.

    device_ms: mean time of a task in each resource.
    total_ms: the same, all tasks together.
    moved: bytes that all tasks moved in each resource; 0 in processors and memory.
    task_ms: all time of the tasks together.
    at_once: tasks that ran together on a machine with hogs, mean over the time in which any ran.
    """

    run: int
    label: str
    device_ms: dict[str, float]
    total_ms: dict[str, float]
    moved: dict[str, float]
    task_ms: float
    at_once: float

    def rate_per_s(self, resource: str) -> float:
        """Bytes that a task moved in a second there; 0 unknown."""
        total = self.total_ms[resource]
        return 1e3 * self.moved[resource] / total if total > 0 else 0.0

    def uses(self, resource: str) -> bool:
        """Whether its tasks spend enough time in the resource."""
        total = self.total_ms[resource]
        return total >= LEAST_MS and total >= LEAST_SHARE * self.task_ms


def stage_times(logs: Sequence[Path], hosts: Collection[str]) -> list[StageTime]:
    """Return the stages of all runs, of tasks on hosts with hogs (all hosts where none is named).

    logs: event logs of the experiment's Spark.
    hosts: names of hosts with hogs.
    """
    tables = read([str(log) for log in logs])
    waits = measure_waits(tables)
    runs = [_RUN.search(name) for name in texts(tables.queries, "name")]
    run_of_query = np.array([int(found[1]) if found else 0 for found in runs] + [0])
    tasks = tables.tasks
    run = run_of_query[tasks["query"].to_numpy(np.int64)]
    is_loaded = np.array([name in hosts for name in texts(tables.hosts, "host")] + [False])
    on_host = is_loaded[tasks["host"].to_numpy(np.int64)]
    if not on_host.any():
        on_host[:] = True
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    counted = on_host & (run > 0) & (finish >= launch) & (tasks["status"] == "success").to_numpy()
    labels = texts(tables.stages, "label")
    label = np.array([*labels, ""], dtype=object)[tasks["stage"].to_numpy(np.int64)]
    device = {
        name: np.sum([known_or_zero(waits[c].to_numpy(np.float64)) for c in columns], axis=0)
        for name, columns in IN_DEVICE.items()
    }
    moved = {
        name: sum(
            (known_or_zero(tasks[c].to_numpy(np.float64)) for c in columns), np.zeros(len(tasks))
        )
        for name, columns in MOVED.items()
    }
    found = []
    rows = np.flatnonzero(counted).tolist()
    for number, name in sorted({(int(run[row]), str(label[row])) for row in rows}):
        here = counted & (run == number) & (label == name)
        total = {resource: float(values[here].sum()) for resource, values in device.items()}
        lasted = finish[here] - launch[here]
        found.append(
            StageTime(
                run=number,
                label=name,
                device_ms={resource: value / len(lasted) for resource, value in total.items()},
                total_ms=total,
                moved={resource: float(values[here].sum()) for resource, values in moved.items()},
                task_ms=float(lasted.sum()),
                at_once=float(lasted.sum()) / max(_covered(launch[here], finish[here]), 1.0),
            )
        )
    return found


def _covered(launch: Floats, finish: Floats) -> float:
    """Time in which any of these tasks ran."""
    order = np.argsort(launch, kind="stable")
    begin, until = launch[order], np.maximum.accumulate(finish[order])
    before = np.append(begin[:1], until[:-1])
    return float(np.maximum(until - np.maximum(begin, before), 0.0).sum())


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
    k: Annotated[float, Meta(description="Hogs for each task.")]
    pairs: int
    measured: Annotated[float, Meta(description="Slowdown, geometric mean over the pairs.")]
    predicted: Annotated[float, Meta(description="By the fit to the pairs of all other levels.")]
    low: float
    high: float
    error: Annotated[float, Meta(description="predicted / measured - 1")]


class CurvesFile(msgspec.Struct, frozen=True):
    """What `iqcar-lab experiment` writes, and `--curves` of `iqcar analyze` and `whatif` reads.

    Durations are milliseconds.
    """

    schema_version: str
    iqcar_version: str
    law: Annotated[str, Meta(description="The law that was fitted.")]
    ended_by: Annotated[str, Meta(description="A signal, budget, or empty: every pair was run.")]
    plan: Annotated[dict[str, Any], Meta(description="As it was given.")]
    hosts: Annotated[list[str], Meta(description="Names of the hosts under hogs.")]
    curves: list[Curve]
    validation: list[Checked]
    runs: list[ExperimentRun]


def curves_schema() -> str:
    """Return the JSON Schema of a file of curves, as text."""
    return schema_text(
        CurvesFile,
        title="Curves of iqcar-lab experiment",
        identity="https://iqcar.org/curves.schema.json",
    )


Key = tuple[str, str, str, str]
"""What a curve is of (stage or query), the query, the label and the resource."""


def results_of(plan: LoadedPlan, done: Done) -> CurvesFile:
    """Return the content of the file of curves."""
    stages: list[StageTime] = []
    with suppress(IqcarError):  # a log that cannot be read costs the curves of stages only
        stages = stage_times(done.logs, plan.loaded_hosts) if done.logs else []
    points = curve_points(plan, done, stages)
    return CurvesFile(
        schema_version=SCHEMA_VERSION,
        iqcar_version=__version__,
        law=LAW,
        ended_by=done.ended_by,
        plan=plan.as_given,
        hosts=sorted(plan.loaded_hosts),
        curves=[curve_of(key, of) for key, of in points.items()],
        validation=[row for key, of in points.items() for row in validate(key, of)],
        runs=done.runs,
    )


def curve_points(
    plan: LoadedPlan, done: Done, stages: Sequence[StageTime]
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
        took = alone.duration_ms or 0.0, loaded.duration_ms or 0.0
        points[key].append(Point(loaded.level, hogs / at_once, *took, at_once))
        for label, before in of_run[alone.number].items():
            after = of_run[loaded.number].get(label)
            if after is None or not before.uses(loaded.resource):
                continue
            key = STAGE, loaded.query, label, loaded.resource
            mine, then = before.device_ms[loaded.resource], after.device_ms[loaded.resource]
            if mine > 0 and then > 0:
                # The driver starts a task before it notes the end of the one whose slot it takes.
                most = min(before.at_once, at_once)
                point = Point(loaded.level, hogs / most, mine, then, most)
                rate = before.rate_per_s(loaded.resource)
                points[key].append(point._replace(rate_per_s=rate))
    return dict(points)


def _pairs(runs: Sequence[ExperimentRun]) -> Iterator[tuple[ExperimentRun, ExperimentRun]]:
    """Pairs of a run alone and one under hogs that both ended."""
    by_pair: dict[int, list[ExperimentRun]] = defaultdict(list)
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
        *key, alone_ms=float(np.median([point.alone_ms for point in points])),
        tasks_at_once=at_once, share=fit.share, low=fit.low, high=fit.high,
        identified=fit.identified, own_rate_share=min(fit.share / max(at_once, 1e-9), 1.0),
        residual=fit.residual, pairs=len(points), own_rate_per_s=rate if rate > 0 else None,
    )  # fmt: skip


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
            *key, level=level, k=k, pairs=len(left_out), measured=measured, predicted=predicted,
            low=low, high=high, error=predicted / measured - 1,
        )  # fmt: skip


def _arrays(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p.k for p in points]), np.array([p.slowdown for p in points])
