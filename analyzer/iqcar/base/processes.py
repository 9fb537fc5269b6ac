"""What processes of ours have in common: their processors, and that they end with their input."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress


def usable_cores() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def at_end_of(descriptor: int, act: Callable[[], object]) -> None:
    """Act, in a thread, once an input ends: whoever held its other end let go or was killed."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        act()

    threading.Thread(target=wait, daemon=True).start()
