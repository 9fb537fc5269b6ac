"""Sets the own rates of stages from the curves that ``iqcar-lab experiment`` measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from iqcar.errors import UsageError
from iqcar.replay.loop.task_demands import ASSUMED, DISK, NETWORK, PHASES_OF, PROCESSOR, TaskDemands
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import share_of, sum_by

SCHEMA_VERSION = "1"
"""Version of the file of curves; changes when a reader would have to change."""
MOST_BYTES = 64 << 20
STAGE, QUERY = "stage", "query"
FILLED = 0.9
"""r/C from which tasks alone may fill the device: what they did then is no own rate."""
DEVICE_OF = {"disk": DISK, "network": NETWORK, "cpu": PROCESSOR}
"""Devices of the model by the resource of an experiment; memory is none of them."""


class Curve(msgspec.Struct, frozen=True):
    """How much slower a class of work gets under hogs: ``max(1, (1 + k) · r/C)``.

    of: ``stage`` or ``query``: whose times were measured.
    query: Its name in the plan of the experiment.
    label: The stage's label, which is the same in every run; empty for a query.
    resource: cpu, disk, network or memory.
    alone_ms: Time without hogs, median: of a query as elapsed, of a stage the mean time of a task
        in the device.
    tasks_at_once: Tasks that ran together on the host with the hogs.
    share: r/C of all these tasks together, in [0, 1].
    low, high: 80 % interval of it.
    identified: Whether hogs slowed it for certain; if not, the share is only known to be at most
        ``high``.
    own_rate_share: Own rate of one task as a share of the capacity: r/C divided by the tasks at
        once.
    residual: Root mean square of log(measured / fitted) over the pairs.
    pairs: Runs with hogs, each beside a run without.
    own_rate_per_s: Bytes that a task moves in a second in a disk or network in runs without hogs.
        It is its own rate if ``high`` is below 1: its tasks alone do not fill the device.
    """

    of: str
    query: str
    label: str
    resource: str
    alone_ms: float
    tasks_at_once: float
    share: float
    low: float
    high: float
    identified: bool
    own_rate_share: float
    residual: float
    pairs: int
    own_rate_per_s: float | None = None


class MeasuredCurves(msgspec.Struct, frozen=True):
    """What ``iqcar-lab experiment`` wrote, as far as later analyses use it.

    hosts: Names of the hosts under hogs.
    """

    schema_version: str
    curves: list[Curve]
    hosts: list[str] = []


def read_curves(path: str) -> MeasuredCurves:
    """Read a file that ``iqcar-lab experiment`` wrote.

    Raises UsageError if it cannot be read or is no such file.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError("is larger than 64 MB: no file of curves", path)
        read = msgspec.json.decode(file.read_bytes(), type=MeasuredCurves)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        advice = "iqcar-lab experiment writes one"
        raise UsageError(f"is no file of curves: {error}", path, advice) from error
    if read.schema_version != SCHEMA_VERSION:
        what = f"has version {read.schema_version[:20]!r}; this iqcar reads {SCHEMA_VERSION!r}"
        raise UsageError(what, path)
    wrong = [c for c in read.curves if not 0 <= c.own_rate_share <= 1]
    if wrong:
        raise UsageError(f"{wrong[0].own_rate_share:g} is not 0 to 1", f"{path}: own_rate_share")
    below = [c for c in read.curves if (c.own_rate_per_s or 0.0) < 0]
    if below:
        raise UsageError(f"{below[0].own_rate_per_s:g} is below 0", f"{path}: own_rate_per_s")
    return read


def set_own_rates(
    demands: TaskDemands, tables: Tables, curves: Sequence[Curve]
) -> tuple[TaskDemands, str]:
    """Let the tasks of each measured stage go at the own rate that was measured.

    What a task needs in the device stays; its time alone becomes that divided by the measured rate.
    Tasks of one stage keep their differences. A task is never alone for longer than it took. A
    share of a capacity that is only assumed is no rate: there it is what the tasks did alone, if
    they did not fill the device, else nothing is set.

    Returns: What was done, as a sentence about an assumption; empty where there are no curves.

    curves: Those of stages are used.
    """
    if not curves:
        return demands, ""
    shares: dict[tuple[str, int], list[float]] = defaultdict(list)
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    for curve in curves:
        if curve.of != STAGE or curve.resource not in DEVICE_OF:
            continue
        key = curve.label, DEVICE_OF[curve.resource]
        if curve.identified:
            shares[key].append(curve.own_rate_share)
        if curve.own_rate_per_s and curve.high < FILLED:
            rates[key].append(curve.own_rate_per_s / 1e3)
    label = np.array(texts(tables.stages, "label"), dtype=object)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    host = np.maximum(tables.tasks["host"].to_numpy(np.int64), 0)
    alone, use, touched = demands.alone.copy(), demands.use.copy(), set()
    for name, device in dict.fromkeys((*shares, *rates)):
        share, own = (
            float(np.median(found[name, device])) if found[name, device] else 0.0
            for found in (shares, rates)
        )
        stages = np.flatnonzero(label == name)
        rows = np.flatnonzero(np.isin(stage, stages))
        known = demands.evidence[host, device] != ASSUMED
        rate = np.where(known, share * demands.capacity[host, device] if share else 0.0, own)
        known = rate > 0
        if device == PROCESSOR:
            rate = np.minimum(rate, 1.0)
        for phase in PHASES_OF[device]:
            amount = alone[rows, phase] * use[rows, phase]
            n = len(label)
            mean = share_of(
                sum_by(stage[rows], amount, n), sum_by(stage[rows], alone[rows, phase], n)
            )
            by = share_of(mean[stage[rows]], rate[rows])
            fits = known[rows] & np.isfinite(rate[rows]) & (by > 0)
            slower = np.minimum(alone[rows, phase] * by, demands.spent[rows, phase])
            alone[rows, phase] = np.where(fits, slower, alone[rows, phase])
            use[rows, phase] = np.where(
                fits, share_of(amount, alone[rows, phase]), use[rows, phase]
            )
            touched |= set(stage[rows][fits].tolist())
    said = (
        f"own rates of {len(touched)} of {len(label)} stages are those that iqcar-lab experiment "
        "measured; capacities are this log's"
    )
    return replace(demands, alone=alone, use=use), said
