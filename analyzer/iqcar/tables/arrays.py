"""Computes arrays by group: orders by time, running totals, sums, and schedules of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Ints32 = NDArray[np.int32]
ShortTable = NDArray[np.uint16]
IntTable = Ints
"""Tables have two dimensions, cubes three."""
IntCube = Ints
FloatTable = Floats
FloatCube = Floats
FlagTable = Flags


def by_group_and_time(group: Ints, when: Floats) -> Ints:
    """Return the order by group, then time, then position."""
    order = by_time(when)
    return order[by_group(group[order])]


def by_time(*moments: Floats) -> Ints:
    """Return the order of one or several arrays' times, then position; NaN comes last.

    The moment ``k`` of row ``i`` has the position ``k · n + i``.
    """
    return np.argsort(np.concatenate(moments), kind="stable")


def by_group(group: Ints) -> Ints:
    """Return the order by group, then position."""
    # numpy sorts 16-bit integers by radix: several times faster than comparing.
    small = group.astype(np.int16) if len(group) and group.max() < 2**15 else group
    return np.argsort(small, kind="stable")


def running_total(steps: Floats) -> Floats:
    """Return the sum of all steps before each one; it never decreases where steps are ≥ 0."""
    total = np.zeros(len(steps))
    np.cumsum(steps[:-1], out=total[1:])
    return total


def most_at_once(group: Ints, start: Floats, end: Floats, held: Floats, n: int) -> Floats:
    """Return the maximum that each of ``n`` groups held at one time; 0 for a group without rows."""
    both = np.concatenate([group, group])
    when = np.concatenate([end, start])
    order = by_group_and_time(both, when)
    level = np.cumsum(np.concatenate([-held, held])[order])
    most = np.zeros(n)
    np.maximum.at(most, both[order], level)
    return most


def grown(begin: Floats, end: Floats, amount: Floats) -> Callable[[Floats], Floats]:
    """Return how much of amounts that grow evenly from begin to end there is up to some times."""
    if len(begin) == 0:
        return np.zeros_like
    times, rate = np.concatenate([begin, end]), positive_or_zero(amount) / (end - begin)
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(np.concatenate([rate, -rate])[order])
    total = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    return lambda when: np.interp(when, times, total)


def sum_by(group: Ints, values: Floats, n: int) -> Floats:
    """Sum the values of each of ``n`` groups: ndarray of shape (n,)."""
    return np.bincount(group, values, n).astype(np.float64, copy=False)


def distinct(codes: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers in order, and the position of each code among them.

    The same as ``np.unique`` with the inverse, without sorting; codes are ≥ 0 and memory grows with
    the largest.
    """
    present = np.bincount(codes) > 0
    position = np.cumsum(present) - 1
    return np.flatnonzero(present), position[codes]


def share_of(part: Floats, whole: Floats) -> Floats:
    """Divide, with 0 where the whole is not positive."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0)


def known_or_zero(values: Floats) -> Floats:
    """Return the values, with 0 where one is NaN or infinite."""
    return np.where(np.isfinite(values), values, 0.0)


def positive_or_zero(values: Floats) -> Floats:
    """Return the values, with 0 where one is NaN, infinite or negative."""
    return np.where(np.isfinite(values) & (values > 0), values, 0.0)


def sum_known(*parts: Floats) -> Floats:
    """Add up arrays; an unknown part counts 0, and the sum is NaN only where all are unknown."""
    total = sum((known_or_zero(part) for part in parts), np.zeros(len(parts[0])))
    return np.where(np.logical_and.reduce([np.isnan(part) for part in parts]), np.nan, total)


class Schedule(NamedTuple):
    """Start and end events of tasks as targets and as sources, sorted by domain and time.

    row: ndarray of shape (n_scheduled,), int64; rows of the tasks with events, sorted by their
        first event: the sweep reads the columns of a task at each of its events, and tasks close in
        time should be close in memory.
    task: ndarray of shape (n_events,), int32; position of the event's task in `row`.
    what: ndarray of shape (n_events,), uint8; bits such as
        :data:`iqcar.causes.blame.sweep.TARGET_STARTS`.
    when: ndarray of shape (n_events,), ms; time since the domain's first event.
    domain_start: ndarray of shape (n_domains + 1,), int64; position of each domain's first event.
    """

    row: Ints
    task: NDArray[np.int32]
    what: NDArray[np.uint8]
    when: Floats
    domain_start: Ints


def schedule(domain: Ints, *moments: tuple[Floats, int], order: Ints | None = None) -> Schedule:
    """Sort the events of all tasks by domain and time.

    domain: ndarray of shape (n_tasks,), int64; contention domain; −1 leaves the task out.
    moments: tuples of (ndarray of shape (n_tasks,), ms; int); times of one event of every task,
        and the bits of that event; a task's events from earliest to latest. A task with a NaN in
        any of them is left out.
    order: ndarray of shape (n_moments · n_tasks,), int64, optional; :func:`by_time` of the
        moments, if it is known.
    """
    n = len(domain)
    usable = domain >= 0
    for when, _ in moments:
        usable &= np.isfinite(when)
    if order is None:
        order = by_time(*(when for when, _ in moments))
    task = np.tile(np.arange(n, dtype=np.int32), len(moments))
    if not usable.all():
        order = order[usable[task[order]]]
    order = order[by_group(domain[task[order]])]
    task = task[order]
    group = domain[task]
    when = np.concatenate([moment for moment, _ in moments])[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    start = np.append(first, len(group))
    row = task[order < n].astype(np.int64)
    place = np.empty(n, dtype=np.int32)
    place[row] = np.arange(len(row), dtype=np.int32)
    return Schedule(
        row=row,
        task=place[task],
        what=np.repeat(np.array([bits for _, bits in moments], dtype=np.uint8), n)[order],
        when=when - np.repeat(when[first], np.diff(start)),
        domain_start=start,
    )
