"""Keeps events in a binary heap, the earliest on top; of one moment, that of the lowest number."""

from __future__ import annotations

from typing import NamedTuple

from iqcar.tables.arrays import Floats, Ints


class Future(NamedTuple):
    """Events to come: a heap."""

    times: Floats
    events: Ints
    size: Ints


def push(future: Future, time: float, event: int) -> None:
    """Add an event to the heap."""
    times, events, size = future.times, future.events, future.size
    at = size[0]
    size[0] += 1
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and events[above] <= event):
            break
        times[at] = times[above]
        events[at] = events[above]
        at = above
    times[at] = time
    events[at] = event


def pop(future: Future) -> int:
    """Take the earliest event off the heap."""
    times, events, size = future.times, future.events, future.size
    earliest = events[0]
    size[0] -= 1
    last = size[0]
    time, event = times[last], events[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        right = below + 1
        if right < last and (
            times[right] < times[below]
            or (times[right] == times[below] and events[right] < events[below])
        ):
            below = right
        if time < times[below] or (time == times[below] and event <= events[below]):
            break
        times[at] = times[below]
        events[at] = events[below]
        at = below
    times[at] = time
    events[at] = event
    return int(earliest)
