"""Random tables in which attempts fail, are killed and succeed again, whatever the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from iqcar.tables import EXECUTORS, QUERIES, STAGES, TASK_FAILURES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame
from tests.support.tiny_tables import tiny_tables

REASONS = {
    "failed": ("ExceptionFailure", "FetchFailed", "ExecutorLostFailure", "TaskCommitDenied", ""),
    "killed": ("TaskKilled", ""),
    "success": ("Resubmitted", "", "", ""),
    "running": ("",),
}
MESSAGES = ("", "another attempt succeeded", "Stage cancelled", "Container was preempted", "bad")


def tables_with_waste(max_tasks: int = 14, **fixed: Any) -> st.SearchStrategy[Tables]:
    """Tables of one application from a seed; ``statuses`` limits how attempts end."""
    return st.builds(
        lambda n, seed: random_waste(n, seed, **fixed),
        st.integers(0, max_tasks),
        st.integers(0, 2**32),
    )


def random_waste(n: int, seed: int, statuses: tuple[str, ...] = tuple(REASONS)) -> Tables:
    """Make the tables that a seed stands for."""
    rng = np.random.default_rng(seed)
    n_stages, n_executors, n_queries = (int(rng.integers(1, most)) for most in (6, 4, 4))
    stage_query = rng.integers(-1, n_queries, n_stages)
    stage = np.where(rng.random(n) < 0.05, -1, rng.integers(n_stages, size=n))
    submitted = EPOCH_MS + rng.integers(0, 40, n_stages)
    launch = EPOCH_MS + rng.integers(0, 80, n)
    status = rng.choice(statuses, n)
    reasons = [str(rng.choice(REASONS[one])) for one in status]
    told = np.flatnonzero([bool(reason) for reason in reasons])
    kinds = np.array(reasons, object)[told]
    fetch = kinds == "FetchFailed"
    plain = tiny_tables()
    return plain.with_(
        executors=frame(
            EXECUTORS,
            n_executors,
            app=np.zeros(n_executors),
            removed_ms=EPOCH_MS + rng.choice([np.nan, 20.0, 60.0], n_executors),
        ),
        queries=frame(
            QUERIES,
            n_queries,
            app=np.zeros(n_queries),
            query_id=[f"q{q}" for q in range(n_queries)],
            start_ms=np.full(n_queries, EPOCH_MS + 5),
            end_ms=np.full(n_queries, EPOCH_MS + 90),
            duration_ms=np.full(n_queries, 85.0),
        ),
        stages=frame(
            STAGES,
            n_stages,
            app=np.zeros(n_stages),
            stage_id=rng.integers(0, 4, n_stages),
            query=stage_query,
            rdd=rng.choice([-1, 7], n_stages),
            failure_reason=rng.choice(["", "", "Stage cancelled"], n_stages),
            declared_tasks=np.full(n_stages, -1),
            submission_ms=submitted,
            completion_ms=submitted + rng.integers(-5, 70, n_stages),
        ),
        tasks=frame(
            TASKS,
            n,
            app=np.zeros(n),
            stage=stage,
            query=np.where(stage >= 0, np.append(stage_query, -1)[stage], -1),
            executor=rng.integers(-1, n_executors, n),
            task_id=np.arange(n),
            index=rng.integers(-1, 3, n),
            status=pd.Categorical(status, list(REASONS)),
            speculative=rng.random(n) < 0.2,
            launch_ms=launch,
            finish_ms=launch + rng.integers(0, 40, n),
            shuffle_write_bytes=rng.choice([np.nan, 0.0, 9.0], n),
        ),
        task_failures=TASK_FAILURES.frame(
            {
                "task": told,
                "reason": list(kinds),
                "message": [str(rng.choice(MESSAGES)) for _ in told],
                "source": np.where(fetch, rng.integers(-1, n_executors, len(told)), -1),
            }
        ),
    )
