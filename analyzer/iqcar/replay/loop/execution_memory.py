"""Execution memory of applications on hosts, handed out as Spark's ExecutionMemoryPool does.

Of N tasks that want memory each gets at most 1/N of it, and waits until it can get 1/2N, or all
that it wants if that is less. What a task gets it holds until it ends.
"""

from __future__ import annotations

from typing import Any

from iqcar.replay.loop.event_heap import NO_REFERENCES
from iqcar.tables.compiled import kernel

SLACK = 1e-9
"""Share of its part that a task may lack: sums of what others hold are not exact."""


@kernel(**NO_REFERENCES)
def give_memory(i: int, pool: int, memory: Any, devices: Any) -> bool:
    """Let a task hold what it gets; False if it has to wait."""
    held, in_use, wanting = memory[:3]
    total = devices.memory_capacity[pool]
    part = total / wanting[pool]
    least = min(devices.memory[i], 0.5 * part)
    left = total - in_use[pool]
    if left < least * (1.0 - SLACK):
        return False
    held[i] = min(devices.memory[i], part, left)
    in_use[pool] += held[i]
    return True


@kernel(**NO_REFERENCES)
def ask_memory(i: int, pool: int, memory: Any, devices: Any) -> bool:
    """Let a task that begins ask; one that has to wait stands in line."""
    wanting, first, last, behind = memory[2:6]
    wanting[pool] += 1
    if give_memory(i, pool, memory, devices):
        return True
    if first[pool] < 0:
        first[pool] = i
    else:
        behind[last[pool]] = i
    last[pool] = i
    return False


@kernel(**NO_REFERENCES)
def give_back_memory(i: int, pool: int, memory: Any) -> None:
    """Take what a task held when it ends."""
    held, in_use, wanting = memory[:3]
    in_use[pool] -= held[i]
    wanting[pool] -= 1
    if wanting[pool] == 0:
        in_use[pool] = 0.0


@kernel(**NO_REFERENCES)
def next_with_memory(pool: int, memory: Any, devices: Any) -> int:
    """Take the first out of line who gets memory now; −1 if nobody does."""
    first, last, behind = memory[3:6]
    before, i = -1, first[pool]
    while i >= 0:
        if give_memory(i, pool, memory, devices):
            if before < 0:
                first[pool] = behind[i]
            else:
                behind[before] = behind[i]
            if last[pool] == i:
                last[pool] = before
            behind[i] = -1
            return int(i)
        before, i = i, behind[i]
    return -1
