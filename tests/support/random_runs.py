"""Random runs of recurring queries in tests: overlapping stages, times that are missing."""

from __future__ import annotations

import numpy as np

from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

HOUR_MS = 3_600_000.0
LABELS = ("scan", "join", "window")


def random_runs(seed: int, *, shuffle: int | None = None) -> Tables:
    """Tables of one to four applications that run some of three queries, each query up to twice.

    Parameters
    ----------
    seed : int
        Decides everything but the order of rows.
    shuffle : int, optional
        Decides the order of tasks, else the one they were made in.
    """
    draw = np.random.default_rng(seed)
    applications, executors, jobs, stages, tasks, parents = [], [], [], [], [], []
    for app in range(draw.integers(1, 5)):
        now = HOUR_MS * draw.integers(0, 3) + draw.integers(0, 1000)
        executors.append(
            {"app": app, "executor_id": "1", "host": app % 2, "cores": float(draw.integers(1, 5))}
        )
        first = now
        for query in draw.integers(0, 3, draw.integers(1, 5)).tolist():
            submitted = now + draw.integers(0, 50)
            own = []
            for _ in range(draw.integers(1, 5)):
                began = submitted + draw.integers(0, 400)
                row = len(stages)
                ends = []
                for index in range(draw.integers(0, 4)):
                    launch = began + draw.integers(0, 200)
                    ends.append(launch + draw.integers(0, 500))
                    run = max(ends[-1] - launch - draw.integers(0, 20), 0)
                    tasks.append(
                        {
                            "app": app, "stage": row, "host": app % 2, "executor": app,
                            "task_id": len(tasks), "index": index, "launch_ms": float(launch),
                            "finish_ms": float(ends[-1]), "run_ms": float(run),
                            "cpu_ms": float(draw.choice([np.nan, run * draw.random()])),
                            "gc_ms": float(draw.choice([np.nan, 0, 30])),
                            "input_bytes": float(draw.choice([np.nan, draw.integers(0, 9999)])),
                            "fetch_wait_ms": float(draw.choice([np.nan, 40])),
                        }
                    )  # fmt: skip
                stages.append(
                    {
                        "app": app, "stage_id": row, "job": len(jobs),
                        "name": LABELS[draw.integers(0, 3)],
                        "declared_tasks": int(draw.choice([-1, len(ends)])),
                        "submission_ms": float(draw.choice([np.nan, began], p=[0.1, 0.9])),
                        "first_launch_ms": float(min(ends, default=np.nan)),
                        "completion_ms": float(max([*ends, began]) + draw.integers(0, 30)),
                    }
                )  # fmt: skip
                if own and draw.random() < 0.7:
                    parents.append({"stage": row, "parent": int(draw.choice(own))})
                own.append(row)
            now = float(max(stages[row]["completion_ms"] for row in own) + draw.integers(0, 50))
            jobs.append(
                {
                    "app": app, "job_id": len(jobs), "description": f"query {query}",
                    "submission_ms": float(submitted), "completion_ms": now,
                    "succeeded": bool(draw.random() < 0.9),
                }
            )  # fmt: skip
        applications.append(
            {"application_id": f"app-{seed}-{app}", "start_ms": first, "end_ms": now + 10}
        )
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(len(tasks))
        tasks = [tasks[row] for row in order]
    tables = tiny_tables(
        applications=applications, hosts=[{"host": f"{seed}-h{n}"} for n in (0, 1)],
        executors=executors,
        jobs=jobs, stages=stages, stage_parents=parents, tasks=tasks,
    )  # fmt: skip
    return add_critical_path(identify(tables))
