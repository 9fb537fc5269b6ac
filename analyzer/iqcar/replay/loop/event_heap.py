"""Keeps events in a binary heap, the earliest on top; of one moment, that of the lowest number."""

from __future__ import annotations

from typing import Any

from iqcar.tables.compiled import kernel

NO_REFERENCES = {"_nrt": False}
"""numba counts references to arrays atomically, which took most of the time; kernels that allocate
nothing need no count."""


@kernel(**NO_REFERENCES)
def push(times: Any, events: Any, size: Any, time: float, event: int) -> None:
    """Add an event to the heap."""
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


@kernel(**NO_REFERENCES)
def pop(times: Any, events: Any, size: Any) -> tuple[float, int]:
    """Take the earliest event off the heap."""
    first_time, first_event = times[0], events[0]
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
    return first_time, first_event
