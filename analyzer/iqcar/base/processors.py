"""Tells on which processors this process may run."""

from __future__ import annotations

import os


def usable_cores() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
