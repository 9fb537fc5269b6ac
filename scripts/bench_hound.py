"""Measure how fast topics are found, from Parquet to mixtures, and compare with scikit-learn.

    scripts/bench hound           400 and 1,600 jobs, some 270,000 tasks
    scripts/bench hound --full    3,890 and 38,900 jobs, 10 million tasks: the paper's size

Traces are generated once and stay under build/. Each is read in a process of its own, after
compiling, so peak memory is its own. The base learners of iqcar and of a plain scikit-learn version
analyse the same few jobs in one run. Ratios and linearity are of CPU time, which other load on the
machine affects little.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from iqcar_lab.traces.trace_topic_search import TraceStream, find_topics_in_trace

from iqcar.base.processes import usable_cores
from iqcar.causes.topics.analyse_job import profiles_of_job
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.kernels.ranks import Ranks
from iqcar.causes.topics.learners import Learners
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.enums import LearnerSet
from iqcar_lab.printed.hound import SETTINGS
from scripts.benchmarks import REPO, Goals, parser_of, peak_mb, run_again, sized, timed
from tests.support import hound_traces
from tests.support.hound_traces import METRICS, Planted, plant
from tests.support.reference_hound import profiles
from tests.support.topic_truth import nearness

TRACES = REPO / "build" / "hound"
TASKS = (20, 1030)
"""Fewest and most tasks of a job: 257 on average, so that 38,900 jobs have 10 million."""
AT_ONCE = 500
"""Jobs planted at once, and of one row group."""
LINEAR, FASTER, MOST_GB = 1.5, 100.0, 2.0
"""Goals: cost of a task among many times as many; times as fast as the reference; peak memory."""
MOST_SECONDS = {LearnerSet.PAPER: 300.0, LearnerSet.RECOMMENDED: 120.0}
"""Goals at the paper's size on two processors."""


def planted_file(jobs: int, tasks: tuple[int, int]) -> Path:
    """Return a trace of so many jobs and its planted causes; generate it if it does not exist."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    version = hashlib.sha256(Path(hound_traces.__file__).read_bytes()).hexdigest()[:8]
    path = TRACES / f"{version}-{jobs}-{tasks[1]}.parquet"
    truth = path.with_suffix(".npy")
    if truth.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    mixtures = []
    columns = ["job", "duration_ms", *METRICS]
    types = [arrow.string(), *[arrow.float64()] * (len(columns) - 1)]
    schema = arrow.schema(list(zip(columns, types, strict=True)))
    partial = path.with_suffix(".partial")
    with parquet.ParquetWriter(partial, schema) as writer:
        for start in range(0, jobs, AT_ONCE):
            some = plant(min(AT_ONCE, jobs - start), start + 1, tasks=tasks)
            frame = some.features.frame
            names = [f"j{start + n:07d}" for n in range(len(some.mixtures))]
            frame = frame.assign(job=np.array(names, object)[frame["stage"].to_numpy()])
            table = arrow.Table.from_pandas(frame[columns], schema, preserve_index=False)
            writer.write_table(table)
            mixtures.append(some.mixtures)
    partial.rename(path)
    np.save(truth, np.concatenate(mixtures))
    return path


def measure(path: Path, learners: LearnerSet, warm: Path) -> None:
    """Find the topics of a trace; print time, memory and accuracy."""
    settings = SETTINGS[learners]()
    find_topics_in_trace(TraceStream.open(warm), settings)
    wall, cpu = time.perf_counter(), time.process_time()
    found = find_topics_in_trace(TraceStream.open(path), settings)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    near = nearness(Planted(None, np.load(path.with_suffix(".npy"))), found)
    print(json.dumps(
        {
            "wall": wall, "cpu": cpu, "peak_mb": peak_mb(), "tasks": int(found.jobs["tasks"].sum()),
            "topics": len(found.topics), **near._asdict(),
        }
    ))  # fmt: skip


def ratios_to_reference(
    count: int, metrics: int | None, tasks: tuple[int, int]
) -> dict[LearnerSet, float]:
    """Return how many times as fast the base learners are as the reference, on the same jobs."""
    jobs = Jobs.from_tasks(plant(count, 1, tasks=tasks).features, TopicSettings())
    known = [
        (Ranks.from_metrics(job.metrics[:, :metrics]).values.T.copy(), job.latency_ms)
        for job in jobs
    ]
    theirs, expected = timed(lambda: [p for one in known for p in profiles(*one)])
    ratios = {}
    for learned in MOST_SECONDS:
        learners_of = SETTINGS[learned]().learners

        def ours(learners_of: Callable[[], Learners] = learners_of) -> list[np.ndarray]:
            return [p for one in known for p in profiles_of_job(*one, learners_of()).values()]

        ours()  # compiles
        mine, found = timed(ours)
        ratios[learned] = theirs / mine
        if learned is LearnerSet.PAPER:
            alike = [
                np.corrcoef(np.concatenate(found[k::3]), np.concatenate(expected[k::3]))[0, 1]
                for k in range(3)
            ]
            print(
                f"reference {theirs:.1f} s for {len(known)} jobs; profiles alike (correlation): "
                f"predictive {alike[0]:.3f}, dependence {alike[1]:.3f}, causal {alike[2]:.3f}"
            )
        print(f"{learned:<12} base learners {ratios[learned]:6.0f} x as fast")
    return ratios


def main() -> int:
    parser = parser_of(__doc__, full="38,900 jobs, 10 million tasks")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        path, learners, warm = options.measure
        measure(Path(path), LearnerSet(learners), Path(warm))
        return 0
    goals = Goals()
    tasks = sized(options, quick=(20, 30), usual=TASKS, full=TASKS)
    slowest = min(
        ratios_to_reference(
            *sized(options, quick=(1, 3), usual=(12, None), full=(12, None)), tasks
        ).values()
    )
    sizes = sized(options, quick=(40, 40), usual=(400, 1_600), full=(3_890, 38_900))
    warm, few, many = (planted_file(jobs, tasks) for jobs in (40, *sizes))
    learned = [*MOST_SECONDS]
    for learners in learned[-1:] if options.quick else learned:
        per_task = []
        for path in (few, many):
            cost = run_again(__file__, "--measure", path, learners, warm)
            per_task.append(cost["cpu"] / cost["tasks"] * 1e6)
            print(
                f"{learners:<12} {cost['tasks']:>10,} tasks: {cost['wall']:6.1f} s, "
                f"{cost['cpu']:6.1f} s of processors, {per_task[-1]:5.1f} µs a task, "
                f"peak {cost['peak_mb']:5.0f} MB; {cost['topics']} topics, "
                f"TV {cost['variation']:.3f}, F1 {cost['f1']:.3f}, dominant {cost['dominant']:.3f}",
                flush=True,
            )
        goals.most("cost of a task among many times as many", per_task[1] / per_task[0], LINEAR)
        goals.most("peak memory", cost["peak_mb"] / 1024, MOST_GB, "GB")
        if options.full:
            goals.most("time", cost["wall"], MOST_SECONDS[learners], "s")
    goals.least("as fast as the reference", slowest, FASTER)
    cores = len(usable_cores())
    print(f"waiting or running on {cores} processors: {os.getloadavg()[2]:.1f} on average")
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
