"""Tells the own rates and capacities that an experiment measured, for the fit to a run.

A curve gives r/C of the tasks that ran at once, and what one of them moves in a second by itself:
its own rate r, if they do not fill the device. Both together give the capacity C of the hosts that
were under hogs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log
from typing import NamedTuple

import numpy as np

from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.estimate import BOUNDS, MIDDLE, Known, KnownCapacities, KnownRates
from iqcar.replay.whatif.curves import FILLED, STAGE, Curve, MeasuredCurves
from iqcar.tables import Tables, texts

REQUESTS_OF = {"disk": (Request.IO_READ, Request.IO_WRITE), "network": (Request.SHUFFLE_FETCH,)}
"""Requests whose own rate a curve tells. That of a processor is a core, whatever hogs do."""
WITH_CAPACITY = ("disk",)
"""Resources whose hogs fill the device that tasks use; those of the network use loopback only."""
LEAST_SPREAD = 0.05
"""Standard deviation, in log, that what curves tell has at least."""
NO_CURVE = "no stage of these logs has a curve of a disk or network: nothing of the file was used"


class _Told(NamedTuple):
    """Mean and variance of a logarithm."""

    mean: float
    variance: float


def known_of_curves(
    found: MeasuredCurves, tables: Tables, earlier: Known
) -> tuple[Known, tuple[str, ...]]:
    """Return what curves tell of the stages and hosts of some tables, over what was known earlier.

    A stage is that of a curve if it has its label; of several curves that of a query of its name
    counts, else their mean, with their scatter. Returns doubts, too, in sentences.
    """
    rates = _rates(found.curves, tables)
    capacities = _capacities(found, tables)
    if not len(rates.stage):
        return earlier, (NO_CURVE,)
    return Known(rates, capacities).over(earlier), ()


def _rates(curves: Sequence[Curve], tables: Tables) -> KnownRates:
    by_label: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        if curve.of == STAGE and curve.resource in REQUESTS_OF and _own_rate(curve) is not None:
            by_label.setdefault((curve.label, curve.resource), []).append(curve)
    names = texts(tables.queries, "name")
    rows: list[tuple[int, int, int, float, float]] = []
    stages = zip(texts(tables.stages, "label"), tables.stages["query"].tolist(), strict=True)
    for stage, (label, query) in enumerate(stages):
        for resource, requests in REQUESTS_OF.items() if query >= 0 else ():
            like = by_label.get((label, resource), [])
            like = [one for one in like if one.query == names[query]] or like
            told = [rate for one in like if (rate := _own_rate(one)) is not None]
            if told:
                rows += [(stage, query, REQUESTS.index(one), *_merged(told)) for one in requests]
    if not rows:
        return Known().rates
    whole = np.array([row[:3] for row in rows], np.int64).T
    mean, variance = np.array([row[3:] for row in rows], np.float64).T
    return KnownRates(whole[0], whole[1], whole[2], mean, variance)


def _capacities(found: MeasuredCurves, tables: Tables) -> KnownCapacities:
    hosts = [row for row, name in enumerate(texts(tables.hosts, "host")) if name in found.hosts]
    rows: list[tuple[int, int, float, float]] = []
    for resource in WITH_CAPACITY:
        told = [
            capacity
            for curve in found.curves
            if curve.of == STAGE and curve.resource == resource
            if (capacity := _capacity(curve)) is not None
        ]
        if told:
            rows += [
                (host, REQUESTS.index(one), *_merged(told))
                for host in hosts
                for one in REQUESTS_OF[resource]
            ]
    if not rows:
        return Known().capacities
    host, request, mean, variance = np.array(rows, np.float64).T
    return KnownCapacities(host.astype(np.int64), request.astype(np.int64), mean, variance)


def _own_rate(curve: Curve) -> _Told | None:
    """Return log bytes per ms of one task; None where its tasks may have filled the device."""
    if not curve.own_rate_per_s or not curve.high < FILLED:
        return None
    return _sane(curve.own_rate_per_s / 1e3, curve.residual * curve.residual)


def _capacity(curve: Curve) -> _Told | None:
    """Return log bytes per ms of the device; None where hogs did not slow the stage for certain."""
    if not (curve.identified and curve.own_rate_per_s and 0 < curve.low <= curve.high):
        return None
    if not curve.own_rate_share > 0:
        return None
    spread = (log(curve.high) - log(curve.low)) / (2.0 * MIDDLE)
    capacity = curve.own_rate_per_s / 1e3 / curve.own_rate_share
    return _sane(capacity, spread**2 + curve.residual * curve.residual)


def _sane(value: float, variance: float) -> _Told | None:
    low, high = BOUNDS
    if not (value > 0 and low <= log(value) <= high and isfinite(variance)):
        return None
    return _Told(log(value), variance + LEAST_SPREAD**2)


def _merged(told: Sequence[_Told]) -> _Told:
    """Merge normal distributions by precision, with their scatter."""
    mean, variance = np.array(told).T
    weight = 1.0 / variance
    middle = float(np.average(mean, weights=weight))
    scatter = float(np.average((mean - middle) ** 2, weights=weight))
    return _Told(middle, 1.0 / float(weight.sum()) + scatter)
