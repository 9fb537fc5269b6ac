"""Bounds the memory of a process that works on logs and questions of others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from iqcar.base.units import size

MEMORY_SHARE = 0.75
"""Share of the machine's memory that one process may take: more would end others, too."""

ANSWER_BYTES = 2 << 30
"""Memory that answering one question may take beyond what its process holds (2 GiB): three times
what the largest that is answered takes."""


def bound_memory() -> None:
    """Let this process take a share of the machine's memory at most, where the system can."""
    pages, each = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    _limit(int(pages * each * MEMORY_SHARE))


def bound_answer() -> None:
    """Let this process take :data:`ANSWER_BYTES` more than it holds now, where the system can."""
    for line in _status().splitlines():
        name, *words = line.split()
        if name == b"VmData:":
            _limit(int(words[0]) * 1024 + ANSWER_BYTES)


def memory_words() -> str:
    """Say what an answer may take."""
    return f"takes more than {size(ANSWER_BYTES)} of memory: ask for less"


def _status() -> bytes:
    try:
        return Path("/proc/self/status").read_bytes()
    except OSError:
        return b""


def _limit(most: int) -> None:
    if sys.platform != "linux":  # elsewhere the limit is of something else
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
