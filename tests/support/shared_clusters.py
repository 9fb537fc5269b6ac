"""Random applications of one cluster, whose executors come and go over a minute."""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

SECONDS = 60


def random_shared_cluster(seed: int) -> Tables:
    """Make two to four applications with whole seconds as times, and one host."""
    rng = np.random.default_rng(seed)
    apps = int(rng.integers(2, 5))
    executors, stages, tasks, queries = [], [], [], []
    for app in range(apps):
        asked = sorted(int(time) for time in rng.integers(0, SECONDS // 2, rng.integers(1, 4)))
        first = len(stages)
        for time in asked:
            row = len(stages)
            stages.append(
                {"app": app, "stage_id": row, "query": row, "submission_ms": 1000.0 * time}
            )
            queries.append({"app": app, "query_id": f"q{row}", "name": f"q{row}"})
        for _ in range(rng.integers(1, 4)):
            since = int(rng.integers(0, SECONDS - 10))
            until = int(rng.integers(since + 5, SECONDS + 1))
            cores = int(rng.integers(1, 4))
            executors.append(
                {
                    "app": app,
                    "executor_id": str(len(executors)),
                    "host": 0,
                    "cores": float(cores),
                    "added_ms": 1000.0 * since,
                    "removed_ms": 1000.0 * until,
                }
            )
            for _ in range(cores):
                now = max(since, asked[0]) + int(rng.integers(0, 8))
                while now < until:
                    finish = min(now + int(rng.integers(1, 12)), until)
                    ready = [n for n, time in enumerate(asked) if time <= now]
                    tasks.append(
                        {
                            "app": app,
                            "stage": first + ready[rng.integers(len(ready))],
                            "host": 0,
                            "executor": len(executors) - 1,
                            "task_id": len(tasks),
                            "index": len(tasks),
                            "launch_ms": 1000.0 * now,
                            "finish_ms": 1000.0 * finish,
                        }
                    )
                    tasks[-1]["query"] = tasks[-1]["stage"]
                    now = finish + int(rng.integers(0, 6))
    return tiny_tables(
        applications=[
            {"application_id": f"app-{app}", "start_ms": 0.0, "end_ms": 1000.0 * SECONDS}
            for app in range(apps)
        ],
        executors=executors,
        stages=stages,
        queries=queries,
        tasks=tasks,
    )
