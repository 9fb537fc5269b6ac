"""Report Spark's progress from its status tracker, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EVERY_S = 0.5
"""Seconds between two looks at Spark's status: often enough for a person."""


@contextmanager
def watched(
    spark: Any, progress: Callable[[str, int, int], None] | None
) -> Iterator[Callable[[str], None]]:
    """Report the tasks of the stages that run until the end of the block.

    Yields
    ------
    callable
        To be called with what is being done now.
    """
    doing = [""]
    ended = threading.Event()

    def tell() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(EVERY_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # the session is ending: there is nothing more to tell
                return
            known = [stage for stage in stages if stage is not None]
            if progress is not None and known:
                done = sum(stage.numCompletedTasks for stage in known)
                progress(doing[0], done, sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=tell, daemon=True)
    if progress is not None:
        thread.start()
    try:
        yield lambda what: doing.__setitem__(0, what)
    finally:
        ended.set()
        if progress is not None:
            thread.join()
