"""Write the logs of examples/, which the tour and the notebooks read: three runs on two days."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import zstandard

from tests.support.naive_replay import ExecutorPlan, JobPlan, Problem, QueryPlan, StagePlan
from tests.support.replayed_log import log_of

REPO = Path(__file__).resolve().parent.parent
DAYS = {"monday": 1_700_000_000_000, "tuesday": 1_700_086_400_000}
"""When the first run of each day starts, in ms since 1970."""
HOUR_MS = 3_600_000
RUNS = 3
NAMES = ("etl_heavy", "daily_sales", "top_customers", "stock_levels")


def query(start: int, *stages: tuple[int, int], seed: int) -> QueryPlan:
    """A query of stages one after another, each `tasks` tasks of about so many ms."""
    chance = random.Random(seed)
    plans = [
        StagePlan(
            tuple((float(round(ms * chance.uniform(0.95, 1.05))),) for _ in range(tasks)),
            (n - 1,) if n else (),
        )
        for n, (tasks, ms) in enumerate(stages)
    ]
    return QueryPlan(float(start), (JobPlan(0.0, tuple(plans)),))


def problem(day: str, run: int) -> Problem:
    """Four slots, FIFO; on tuesday `etl_heavy` has more tasks, `top_customers` a slower join."""
    tuesday = day == "tuesday"
    seed = 10 * run + tuesday
    queries = (
        query(0, (48 if tuesday else 28, 4000), (4, 1000), seed=seed),
        query(3000, (8, 1200), (4, 900), seed=seed + 100),
        query(6000, (8, 1500), (4, 4000 if tuesday else 1600), seed=seed + 200),
        query(45_000, (4, 800), (4, 700), seed=seed + 300),
    )
    return Problem(queries, (ExecutorPlan(0, 4),))


def write(examples: Path) -> list[Path]:
    """Write all logs, compressed as Spark does; return them."""
    written = []
    for day, first in DAYS.items():
        (examples / day).mkdir(parents=True, exist_ok=True)
        for run in range(RUNS):
            name = f"app-{day}-{run + 1}"
            log = log_of(problem(day, run), None, NAMES, name, first + run * HOUR_MS)
            path = examples / day / f"{name}.zstd"
            path.write_bytes(zstandard.ZstdCompressor().compress(log.bytes()))
            written.append(path)
    return written


if __name__ == "__main__":
    for path in write(REPO / "examples"):
        sys.stdout.write(f"Wrote {path.relative_to(REPO)}\n")
