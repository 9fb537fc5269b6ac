"""Runs work on blocks of jobs in several threads, with results in the order of the blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Block = TypeVar("Block")
Found = TypeVar("Found")

AHEAD = 2
"""Blocks that wait for a worker: enough that none is idle, few enough for the memory."""


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Block], Found], blocks: Iterable[Block], workers: int
) -> Iterator[Found]:
    """Do some work on every block, in threads: what is compiled runs at the same time.

    Iterator of what the work returned, in the order of the blocks.

    blocks: read in the thread of the caller, a few blocks ahead.
    workers: threads; with one, the work is done in the caller's.
    """
    if workers <= 1:
        yield from map(work, blocks)
        return
    waiting: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(workers, "iqcar-look") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                if len(waiting) >= workers + AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
