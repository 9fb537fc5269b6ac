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
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from iqcar.base.processes import usable_cores
from iqcar.causes.topics.analyse_job import profiles_of_job
from iqcar.causes.topics.jobs import Jobs
from iqcar.causes.topics.learners import Learners
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.enums import LearnerSet
from iqcar.lab.traces.trace_topic_search import TraceStream, find_topics_in_trace
from iqcar.papers.hound_learners import SETTINGS
from tests.support import hound_traces, reference_hound
from tests.support.hound_traces import METRICS, Planted, plant
from tests.support.topic_truth import nearness

TRACES = Path(__file__).resolve().parent.parent / "build" / "hound"
COMPARED_JOBS = 12
TASKS = (20, 1030)
"""Fewest and most tasks of a job: 257 on average, so that 38,900 jobs have 10 million."""
AT_ONCE = 500
"""Jobs planted at once, and of one row group."""
LINEAR, FASTER, MOST_GB = 1.5, 100.0, 2.0
"""Goals: cost of a task among many times as many; times as fast as the reference; peak memory."""
MOST_SECONDS = {LearnerSet.PAPER: 300.0, LearnerSet.RECOMMENDED: 120.0}
"""Goals at the paper's size on two processors."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def planted_file(jobs: int) -> Path:
    """Return a trace of so many jobs and its planted causes; generate it if it does not exist."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    version = hashlib.sha256(Path(hound_traces.__file__).read_bytes()).hexdigest()[:8]
    path = TRACES / f"{version}-{jobs}.parquet"
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
            some = plant(min(AT_ONCE, jobs - start), start + 1, tasks=TASKS)
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
    # In kB, but in bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    peak /= 1024.0 if sys.platform == "darwin" else 1.0
    near = nearness(Planted(None, np.load(path.with_suffix(".npy"))), found)
    print(json.dumps(
        {
            "wall": wall, "cpu": cpu, "peak_mb": peak, "tasks": int(found.jobs["tasks"].sum()),
            "topics": len(found.topics), **near._asdict(),
        }
    ))  # fmt: skip


def measured(path: Path, learners: LearnerSet, warm: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", str(path), str(learners), str(warm)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def ratios_to_reference() -> dict[LearnerSet, float]:
    """Return how many times as fast the base learners are as the reference, on the same jobs."""
    jobs = Jobs.from_tasks(plant(COMPARED_JOBS, 1, tasks=TASKS).features, TopicSettings())
    known = [job.known() for job in jobs]
    learners = (
        reference_hound.bagged_elastic_net, reference_hound.schweizer_wolff,
        reference_hound.boosted_effects,
    )  # fmt: skip
    theirs, expected = seconds(lambda: [learn(*one) for one in known for learn in learners])
    ratios = {}
    for learned in MOST_SECONDS:
        learners_of = SETTINGS[learned]().learners

        def ours(learners_of: Callable[[], Learners] = learners_of) -> list[np.ndarray]:
            return [p for one in known for p in profiles_of_job(*one, learners_of()).values()]

        ours()  # compiles
        mine, found = seconds(ours)
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="38,900 jobs, 10 million tasks")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        path, learners, warm = asked.measure
        measure(Path(path), LearnerSet(learners), Path(warm))
        return 0
    slowest = min(ratios_to_reference().values())
    warm = planted_file(40)
    few, many = (planted_file(n) for n in ((3_890, 38_900) if asked.full else (400, 1_600)))
    missed = []
    for learners, most_seconds in MOST_SECONDS.items():
        per_task = []
        for path in (few, many):
            cost = measured(path, learners, warm)
            per_task.append(cost["cpu"] / cost["tasks"] * 1e6)
            print(
                f"{learners:<12} {cost['tasks']:>10,} tasks: {cost['wall']:6.1f} s, "
                f"{cost['cpu']:6.1f} s of processors, {per_task[-1]:5.1f} µs a task, "
                f"peak {cost['peak_mb']:5.0f} MB; {cost['topics']} topics, "
                f"TV {cost['variation']:.3f}, F1 {cost['f1']:.3f}, dominant {cost['dominant']:.3f}",
                flush=True,
            )
        growth = per_task[1] / per_task[0]
        missed += [
            goal("cost of a task among many times as many", growth, "x", LINEAR),
            goal("peak memory", cost["peak_mb"] / 1024, "GB", MOST_GB),
        ]
        if asked.full:
            missed.append(goal("time", cost["wall"], "s", most_seconds))
    missed.append(slowest < FASTER)
    print(f"{'as fast as the reference':<40} {slowest:6.0f} x    (goal at least {FASTER:.0f} x)")
    cores = len(usable_cores())
    print(f"waiting or running on {cores} processors: {os.getloadavg()[2]:.1f} on average")
    return 1 if any(missed) else 0


def goal(what: str, found: float, unit: str, most: float) -> bool:
    """Print a figure beside its goal; return whether it is missed."""
    print(f"{what:<40} {found:6.2f} {unit:<4} (goal at most {most:g} {unit})")
    return found > most


if __name__ == "__main__":
    sys.exit(main())
