"""Bounds of what a log may tell: what lies beyond is damage, and counts as unknown."""

from __future__ import annotations

LAST_PLAUSIBLE_MS = 1e14
"""A time beyond it (the year 5138) is damage, not a time; so is a longer duration."""
MOST_CORES = 10_000
"""More cores of an executor or a task are damage: the largest machines have some 2,000."""
MOST_CORES_OF_A_LOG = 1 << 22
"""More cores of all executors of one log are damage (4 M): replays make room for each."""
MOST_TASKS = 10_000_000
"""More tasks of a stage, or executors, are damage: Spark's driver holds an object of each."""
MOST_BYTES = 2.0**50
"""More memory of an executor, or more bytes or records of a task, are damage (1 PiB)."""
