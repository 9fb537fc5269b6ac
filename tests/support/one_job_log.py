"""An application of one job with stragglers, drawn at random: the least to look for causes in."""

from __future__ import annotations

import random
from typing import Any

from iqcar_lab.clusters.event_log import SyntheticLog, task_metrics


def one_job_log(draw: random.Random) -> SyntheticLog:
    """One stage of 20 to 40 tasks at once, each tenth some three times as long as the others.

    Each number of a task is drawn, or grows with how long it took, or neither.
    """
    log = SyntheticLog("app-one-job").app().executor().job(0, [0]).stage(0)
    ways: dict[str, float] = {}
    for task in range(draw.randint(20, 40)):
        slower = draw.uniform(2, 4) if task % 10 == 0 else draw.uniform(0.9, 1.1)

        def varied(numbers: dict[str, Any], slower: float = slower) -> dict[str, Any]:
            return {
                name: varied(number)
                if isinstance(number, dict)
                else int(number * slower ** ways.setdefault(name, draw.choice((0, 1, 2)))
                         * draw.uniform(0.9, 1.1))
                if isinstance(number, int)
                else number
                for name, number in numbers.items()
            }  # fmt: skip

        metrics = varied(task_metrics())
        run = metrics["Executor Run Time"] = int(900 * slower)
        log.task(task, metrics=metrics, launch=1000, finish=1000 + run + 50, index=task)
    return log.stage_end(0, 6000).job_end(0, 6000)
