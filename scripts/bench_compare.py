"""Measure whether comparing two sets of runs takes seconds beyond reading, and is linear in tasks.

    scripts/bench compare           100,000 and 200,000 tasks a side
    scripts/bench compare --full    500,000 and 1,000,000 tasks a side (about 4 GB of memory)

40 queries of 25 stages in 4 runs a side. Tasks of a query run on beside the next one; a stage of
one query is slower, then one of every query, so that the blame of all is needed. Then one query
runs after another; and the tests of 10,000 categories in 10 runs a side.
Times are CPU times, which other load affects little; it all runs on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import iqcar
from iqcar.comparison.effects.effects import TIME
from iqcar.comparison.stats.shrunken_t import judge
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.tables import (
    APPLICATIONS,
    EXECUTORS,
    HOSTS,
    JOBS,
    STAGE_PARENTS,
    STAGES,
    TASKS,
    Tables,
)
from iqcar_lab.clusters.frames import EPOCH_MS, frame
from scripts.benchmarks import Goals, least_s, parser_of, peak_mb, sized, timed

QUERIES, STAGES_EACH, RUNS, SLOTS, N_HOSTS = 40, 25, 4, 64, 16
DAY_MS = 24 * 3_600_000.0
GOAL_S = 5.0
"""Goal for a million tasks a side, beyond reading."""
LINEAR = 1.5
"""Goal: with twice the tasks, the time per task grows by at most this factor."""


def side(n: int, seed: int, slower: float, *, apart: bool, every: bool) -> Tables:
    """Runs of queries one after another, stages in chains; a stage of one or every query is slower.

    Unless they are apart, some tasks of a stage outlast it, beside the next stage or query.
    """
    rng = np.random.default_rng(seed)
    stages = RUNS * QUERIES * STAGES_EACH
    each = n // stages
    stage = np.repeat(np.arange(stages), each)
    query = np.arange(stages) // STAGES_EACH
    run = np.arange(stages) // (QUERIES * STAGES_EACH)
    place = np.arange(stages) % (QUERIES * STAGES_EACH)
    work = 500.0 * (1 + place % 7) * np.exp(rng.normal(0, 0.05, stages))
    work[(place % STAGES_EACH if every else place) == 3] *= slower
    waves = -(-each // SLOTS)
    length = work * waves * 1.2
    began = EPOCH_MS + seed * 100 * DAY_MS + run * DAY_MS + _running(length, run)
    index = np.tile(np.arange(each), stages)
    took = work[stage] * np.exp(rng.normal(0, 0.1, len(stage)))
    if apart:
        took = np.minimum(took, work[stage] * 1.2)
    launch = began[stage] + (index // SLOTS) * work[stage] * 1.2
    read = 1e6 * (1 + place % 5)[stage] * np.exp(rng.normal(0, 0.01, len(stage)))
    host = index % N_HOSTS
    app = run[stage]
    tasks = frame(
        TASKS, len(stage), app=app, stage=stage, host=host, executor=app * N_HOSTS + host,
        task_id=np.arange(len(stage)), index=index, attempt=np.zeros(len(stage)),
        status=pd.Categorical.from_codes(np.zeros(len(stage), int), ["success"]),
        launch_ms=launch, finish_ms=launch + took, run_ms=took * 0.95, cpu_ms=took * 0.7,
        gc_ms=took * 0.05, deserialize_ms=took * 0.02, deserialize_cpu_ms=took * 0.01,
        result_serialize_ms=np.zeros(len(stage)), getting_result_ms=np.zeros(len(stage)),
        fetch_wait_ms=took * 0.1, shuffle_write_ms=took * 0.05, input_bytes=read,
    )  # fmt: skip
    labels = [f"Exchange; stage {number % STAGES_EACH}" for number in range(stages)]
    jobs = np.arange(RUNS * QUERIES)
    first = np.arange(0, stages, STAGES_EACH)
    ended = began + length
    inner = np.flatnonzero(np.arange(stages) % STAGES_EACH)
    tables = Tables.empty().with_(
        applications=frame(
            APPLICATIONS, RUNS, application_id=[f"app-{seed}-{at}" for at in range(RUNS)],
            name=["suite"] * RUNS, start_ms=[began[run == at].min() for at in range(RUNS)],
            end_ms=[ended[run == at].max() for at in range(RUNS)], ended=[True] * RUNS,
            task_cpus=[1.0] * RUNS,
        ),
        hosts=frame(HOSTS, N_HOSTS, host=[f"h{at}" for at in range(N_HOSTS)]),
        executors=frame(
            EXECUTORS, RUNS * N_HOSTS, app=np.repeat(np.arange(RUNS), N_HOSTS),
            executor_id=[str(at) for at in range(RUNS * N_HOSTS)],
            host=np.tile(np.arange(N_HOSTS), RUNS),
            cores=np.full(RUNS * N_HOSTS, SLOTS / N_HOSTS),
        ),
        jobs=frame(
            JOBS, len(jobs), app=run[first], job_id=jobs, sql_execution=np.full(len(jobs), -1),
            description=[f"query {job % QUERIES}" for job in jobs.tolist()],
            submission_ms=began[first], completion_ms=ended[first + STAGES_EACH - 1],
            succeeded=[True] * len(jobs),
        ),
        stages=frame(
            STAGES, stages, app=run, stage_id=np.arange(stages), attempt=np.zeros(stages),
            job=query, name=labels, label=labels, declared_tasks=np.full(stages, each),
            submission_ms=began, first_launch_ms=began, completion_ms=ended,
            completed=[True] * stages,
        ),
        stage_parents=frame(STAGE_PARENTS, len(inner), stage=inner, parent=inner - 1),
        tasks=tasks,
    )  # fmt: skip
    return add_critical_path(identify(tables))


def _running(length: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Start of each stage in its run: they follow one another."""
    total = np.cumsum(length) - length
    first = np.searchsorted(run, np.arange(RUNS))
    return total - total[first][run]


def measure(n: int, *, apart: bool = False, every: bool = False) -> float:
    before, after = (
        side(n, number, slower, apart=apart, every=every) for number, slower in ((1, 1.0), (2, 1.5))
    )
    took, comparison = timed(lambda: iqcar.compare(before, after))
    how = "one after another" if apart else "beside one another"
    print(
        f"{n:>9,} tasks a side, {how}, {comparison.changes['rank'].nunique()} of {QUERIES} queries "
        f"changed: {took:5.1f} s of CPU, {took / n * 1e6:5.2f} µs per task, "
        f"{len(comparison.categories)} categories, {peak_mb() / 1024:.1f} GB at most"
    )
    return took / n


def measure_tests(categories: int, runs: int) -> None:
    category, after, _ = np.indices((categories, 2, runs))
    value = np.exp(np.random.default_rng(5).normal(0, 0.1, category.shape)).ravel()
    took = least_s(lambda: judge(
        category.ravel(), after.ravel(), value,
        n=categories, margin=TIME.margin, alpha=0.05, one_run=TIME.one_run,
    ))  # fmt: skip
    print(f"tests of {categories:,} categories in {runs} runs a side: {took:.2f} s")


def main() -> int:
    options = parser_of(__doc__, full="half a million and a million tasks").parse_args()
    sizes = sized(
        options, quick=(4_000, 8_000), usual=(100_000, 200_000), full=(500_000, 1_000_000)
    )
    goals = Goals()
    if not options.quick:
        measure(20_000, every=True)  # compiles
    ways = ({}, {"every": True}, {"apart": True})
    for how in sized(options, quick=ways[2:], usual=ways, full=ways):
        small, large = (measure(n, **how) for n in sizes)
        goals.most("a task among twice as many takes", large / small, LINEAR)
        if options.full:
            goals.most("a million tasks a side take", large * 1e6, GOAL_S, "s")
    measure_tests(sized(options, quick=100, usual=10_000, full=10_000), 10)
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
