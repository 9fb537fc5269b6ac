"""Ordering moments and summing arrays by group: what slots, stages and blame all need."""

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
    """Sum all steps before each: never decreasing where steps are ≥ 0, whatever the rounding."""
    total = np.zeros(len(steps))
    np.cumsum(steps[:-1], out=total[1:])
    return total


def most_at_once(group: Ints, start: Floats, end: Floats, held: Floats, n: int) -> Floats:
    """Return the most that each of ``n`` groups ever held at once (0 where it held nothing)."""
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
    """The starts and ends of tasks as targets and as sources, by domain and time.

    Attributes
    ----------
    row : ndarray of int64, one per task that takes part
        Row of the task; in the order in which they first do something, because the sweep reads
        the columns of each task at every event, and near ones must lie near in memory.
    task : ndarray of int32, one per event
        Position of the event's task in `row`.
    what : ndarray of uint8, one per event
        Bits of :data:`iqcar.blame.sweep.TARGET_STARTS` and so on.
    when : ndarray of float64, one per event
        Time since the domain's first event.
    domain_start : ndarray of int64, one per domain and one more
        Position of each domain's first event.
    """

    row: Ints
    task: NDArray[np.int32]
    what: NDArray[np.uint8]
    when: Floats
    domain_start: Ints


def schedule(domain: Ints, *moments: tuple[Floats, int]) -> Schedule:
    """Order the moments of all tasks by domain and time.

    Parameters
    ----------
    domain : ndarray of int64, one per task
        Contention domain; −1 leaves the task out.
    moments : tuples of (ndarray of float64, one per task; bits)
        When each task does something, earliest first, and what; a task with a NaN anywhere is
        left out.

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
