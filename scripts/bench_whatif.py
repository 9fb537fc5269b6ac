"""Time what-if questions: the event loop with shared devices, the fit, the first answer, the next.

scripts/bench whatif --truth [--seeds 1 2 3]: answers against what a simulator does when one
thing is changed, in a world that shares as the model does and in a rough one.

scripts/bench whatif [--full]: CPU seconds of a replay for n, n/10 and n/100 tasks (linear?), its
ratio to a replay in which only slots are shared, and CPU seconds from tables to the first answer
and of a further question; all in one run, after compiling.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from bench_blame import synthetic

from iqcar.causes.blame.attribute import attribute
from iqcar.replay.loop.event_loop import run
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import replay_scenario, scenario_shares
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar.tables import JOBS, Tables
from tests.support.random_tables import frame


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


def model_of(n: int) -> Model:
    """Fit the model."""
    tables, waits = replayable(n)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    return model


def seconds(action: Callable[[], object], times: int = 2) -> float:
    """Return the least CPU time of several runs, in seconds."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return float(best)


def find(name: str, _: str) -> tuple[int, ...]:
    """Row of a query by its name."""
    return (int(name.removeprefix("query-")),)


def only_slots(model: Model) -> None:
    """Replay with recorded durations."""
    one = model.scenario
    run(one.steps, one.work, one.slots, scenario_shares(one))


def speed(n: int) -> None:
    """Print times of replays and answers."""
    start = time.process_time()
    small = model_of(2_000)
    answer(small, Question(remove=("query-1",)), find)
    only_slots(small)
    print(
        f"first use, with compiling what is not in the cache: {time.process_time() - start:.1f} s"
    )
    timings = {}
    for size in (n // 100, n // 10, n):
        tables, waits = replayable(size)
        demand = attribute(tables, waits).demand
        start = time.process_time()
        model = build_model(tables, waits, demand)
        assert model is not None
        fit = time.process_time() - start
        first = seconds(lambda m=model: answer(m, Question(remove=("query-1",)), find), 1)
        second = seconds(lambda m=model: answer(m, Question(disk=2.0), find), 1)
        timings[size] = seconds(lambda m=model: replay_scenario(m.scenario, m.members[0]))
        slots = seconds(lambda m=model: only_slots(m))
        print(
            f"{size:>9,} tasks: fit {fit:6.2f} s, first answer {first:6.2f} s, next {second:6.2f} s"
            f" ({len(model.members)} way(s)); replay {timings[size]:6.3f} s, "
            f"{timings[size] / slots:.1f} x slots only"
        )
    print(f"n against n/10: {timings[n] / timings[n // 10]:.1f}  (linear: 10)")
    print(f"n/10 against n/100: {timings[n // 10] / timings[n // 100]:.1f}  (linear: 10)")


def main() -> None:
    """Run the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="1 M tasks instead of 100,000")
    parser.add_argument("--truth", action="store_true", help="score against what happens instead")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="scenarios for --truth")
    options = parser.parse_args()
    if options.truth:
        from tests.support.what_if_truth import ask_all, print_rows, score_rows

        print_rows(score_rows(ask_all(options.seeds)))
        return
    speed(1_000_000 if options.full else 100_000)


if __name__ == "__main__":
    main()
