"""Time what-if questions: the event loop with shared devices, the fit, the first answer, the next.

scripts/bench whatif [--full]: CPU seconds of a replay for n, n/10 and n/100 tasks (linear?), its
ratio to a replay in which only slots are shared, and CPU seconds from tables to the first answer
and of a further question; all in one run.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import attribute
from iqcar.replay.loop.event_loop import run
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import replay_scenario, scenario_shares
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar.tables import JOBS, Tables
from iqcar_lab.clusters.frames import frame
from scripts.bench_blame import synthetic
from scripts.benchmarks import Goals, least_s, parser_of, sized, timed

LINEAR = 15.0
"""Goal: times as long for ten times the tasks; noise and the logarithm of queues are below."""


def replayable(n: int) -> tuple[Tables, pd.DataFrame]:
    """The run that `bench blame` times, with jobs, stages and attempts."""
    tables, waits = synthetic(n)
    stages, queries = tables.stages, tables.queries
    n_queries, n_stages = len(queries), len(stages)
    query = stages["query"].to_numpy()
    stage = tables.tasks["stage"].to_numpy(np.int64)
    first = np.full(n_stages, np.nan)
    launch = tables.tasks["launch_ms"].to_numpy()
    np.fmin.at(first, stage, launch)
    order = np.lexsort((launch, stage))
    index = np.empty(n, np.int64)
    begins = np.searchsorted(stage[order], np.arange(n_stages))
    index[order] = np.arange(n) - begins[stage[order]]
    names = [f"query-{q}" for q in range(n_queries)]
    ends = stages["completion_ms"].groupby(query).max().to_numpy()
    starts = queries["start_ms"].to_numpy()
    return tables.with_(
        applications=tables.applications.assign(application_id="app-0", scheduler_mode="FIFO"),
        queries=queries.assign(
            query_id=names,
            name=names,
            app=0,
            end_ms=ends,
            duration_ms=ends - starts,
            ended=True,
            tasks=np.bincount(tables.tasks["query"], minlength=n_queries),
        ),
        jobs=frame(
            JOBS,
            n_queries,
            app=np.zeros(n_queries),
            job_id=np.arange(n_queries),
            query=np.arange(n_queries),
            submission_ms=starts,
            completion_ms=ends,
        ),
        stages=stages.assign(
            stage_id=np.arange(n_stages), attempt=0, job=query, first_launch_ms=first
        ),
        tasks=tables.tasks.assign(index=index, task_id=np.arange(n), attempt=0, status="success"),
    ), waits


def find(name: str, _: str) -> tuple[int, ...]:
    """Row of a query by its name."""
    return (int(name.removeprefix("query-")),)


def only_slots(model: Model) -> None:
    """Replay with recorded durations."""
    one = model.scenario
    run(one.steps, one.work, one.slots, scenario_shares(one))


def measured(size: int) -> float:
    """Print times of replays and answers, in CPU seconds; return that of a replay."""
    tables, waits = replayable(size)
    demand = attribute(tables, waits).demand
    fit, model = timed(lambda: build_model(tables, waits, demand))
    assert model is not None
    first = least_s(lambda: answer(model, Question(remove=("query-1",)), find))
    second = least_s(lambda: answer(model, Question(disk=2.0), find))
    replay = least_s(lambda: replay_scenario(model.scenario, model.members[0]), 2)
    slots = least_s(lambda: only_slots(model), 2)
    print(
        f"{size:>9,} tasks: fit {fit:6.2f} s, first answer {first:6.2f} s, next {second:6.2f} s"
        f" ({len(model.members)} way(s)); replay {replay:6.3f} s, "
        f"{replay / slots:.1f} x slots only",
        flush=True,
    )
    return replay


def speed(n: int) -> int:
    """Print times of replays and answers; return the exit code."""
    small, middle, large = (measured(size) for size in (n // 100, n // 10, n))
    goals = Goals()
    goals.most("replay of n tasks against n/10 (linear: 10)", large / middle, LINEAR)
    goals.most("replay of n/10 tasks against n/100 (linear: 10)", middle / small, LINEAR)
    return goals.end()


def main() -> int:
    """Run the chosen part."""
    options = parser_of(__doc__, full="1 M tasks instead of 100,000").parse_args()
    return speed(sized(options, quick=4_000, usual=100_000, full=1_000_000))


if __name__ == "__main__":
    sys.exit(main())
