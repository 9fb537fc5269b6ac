"""Array operations by group: orders by time, running totals, sums, and schedules of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def by_group_and_time(group: Ints, when: Floats) -> Ints:
    """Return the order by group, then time, then position."""
    order = np.argsort(when, kind="stable")
    small = group[order].astype(np.int16) if len(group) and group.max() < 2**15 else group[order]
    # numpy sorts 16-bit integers by radix: several times faster than comparing.
    return order[np.argsort(small, kind="stable")]


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

    Attributes
    ----------
    row : ndarray of shape (n_scheduled,), int64
        Rows of the tasks with events, sorted by their first event: the sweep reads the columns of
        a task at each of its events, and tasks close in time should be close in memory.
    task : ndarray of shape (n_events,), int32
        Position of the event's task in `row`.
    what : ndarray of shape (n_events,), uint8
        Bits such as :data:`iqcar.blame.sweep.TARGET_STARTS`.
    when : ndarray of shape (n_events,), ms
        Time since the domain's first event.
    domain_start : ndarray of shape (n_domains + 1,), int64
        Position of each domain's first event.
    """

    row: Ints
    task: NDArray[np.int32]
    what: NDArray[np.uint8]
    when: Floats
    domain_start: Ints


def schedule(domain: Ints, *moments: tuple[Floats, int]) -> Schedule:
    """Sort the events of all tasks by domain and time.

    Parameters
    ----------
    domain : ndarray of shape (n_tasks,), int64
        Contention domain; −1 leaves the task out.
    moments : tuples of (ndarray of shape (n_tasks,), ms; int)
        Times of one event of every task, and the bits of that event; a task's events from
        earliest to latest. A task with a NaN in any of them is left out.

    Returns
    -------
    Schedule
    """
    usable = domain >= 0
    for when, _ in moments:
        usable &= np.isfinite(when)
    rows = np.flatnonzero(usable)
    when = np.concatenate([moment[rows] for moment, _ in moments])
    group = np.tile(domain[rows], len(moments))
    order = by_group_and_time(group, when)
    group, when = group[order], when[order]
    _, first = np.unique(group, return_index=True)
    start = np.append(first, len(group)).astype(np.int64)
    what = np.repeat(np.array([bits for _, bits in moments], dtype=np.uint8), len(rows))
    task = order % max(len(rows), 1)
    first_seen = task[order < len(rows)]
    place = np.empty(len(rows), dtype=np.int32)
    place[first_seen] = np.arange(len(rows), dtype=np.int32)
    return Schedule(
        row=rows[first_seen],
        task=place[task],
        what=what[order],
        when=when - np.repeat(when[first], np.diff(start)),
        domain_start=start,
    )
