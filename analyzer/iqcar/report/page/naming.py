"""What a report is called, and whether its input is large enough for topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics import TopicSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iqcar.tables import Tables

SEVERAL = "iqcar-report.html"
"""Name of a report about several paths, or about one that has no name of its own."""
LEAST_TOPIC_STAGES = 3
"""Stages with stragglers that a recurring cause needs at least: what happened in one or two is in
the list of stragglers."""
_KNOWN_ENDINGS = re.compile(
    r"(\.(inprogress|zstd|zst|lz4|snappy|lzf|gz|bz2|zip|json|log))+$", re.IGNORECASE
)


def report_name(paths: Sequence[str]) -> str:
    """Name the file after the log: ``app-1.zstd`` becomes ``app-1-report.html``, here.

    >>> report_name(["/logs/app-1.zstd"]), report_name(["a", "b"]), report_name(["logs/*"])
    ('app-1-report.html', 'iqcar-report.html', 'iqcar-report.html')
    """
    if len(paths) != 1:
        return SEVERAL
    name = re.split(r"[/\\]", paths[0].rstrip("/\\"))[-1]
    stem = _KNOWN_ENDINGS.sub("", name)
    plain = re.fullmatch(r"[\w][\w.\- ]{0,120}", stem)
    return f"{stem}-report.html" if plain else SEVERAL


def enough_for_topics(tables: Tables) -> bool:
    """Tell whether so many stages have stragglers that a cause can recur."""
    settings = TopicSettings()
    tasks = tables.tasks
    stage = tasks["stage"].to_numpy(np.int64)
    good = (tasks["status"] == "success").to_numpy(bool) & (stage >= 0)
    life = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    counts = np.bincount(stage[good], minlength=len(tables.stages))
    large = counts >= settings.least_tasks
    if large.sum() < LEAST_TOPIC_STAGES:
        return False
    mine = good & large[np.maximum(stage, 0)]
    frame = tasks.loc[mine, ["stage"]].assign(life=life[mine])
    median = frame.groupby("stage")["life"].transform("median")
    slow = frame[(frame["life"] > settings.straggler * median).to_numpy()]
    return bool(slow["stage"].nunique() >= LEAST_TOPIC_STAGES)
