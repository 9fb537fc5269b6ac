"""How fast topics are found, beside a plain scikit-learn version, and whether linearly in tasks.

    scripts/bench hound           400 and 1,600 jobs
    scripts/bench hound --full    2,000 and 20,000 jobs (about 3.3 million tasks)

The base learners of both look at the same few jobs in one run. Times are the processor's, so that
neighbours on a shared machine count little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import reference_hound
from hound_traces import plant
from iqcar.kinds import LearnerSet
from iqcar.topics import TopicSettings, find_topics
from iqcar.topics.jobs import Jobs
from iqcar.topics.look import profiles_of_job
from topic_truth import nearness

COMPARED_JOBS = 12
LINEAR, FASTER = 2.0, 50.0
"""Goals: cost of a task among many times as many; times as fast as the reference."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def reference(jobs: Jobs) -> list[np.ndarray]:
    found = []
    for job in range(COMPARED_JOBS):
        metrics, latency = jobs.known(job)
        found += [
            reference_hound.bagged_elastic_net(metrics, latency),
            reference_hound.schweizer_wolff(metrics, latency),
            reference_hound.boosted_effects(metrics, latency),
        ]
    return found


def ours(jobs: Jobs, settings: TopicSettings) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for job in range(COMPARED_JOBS):
        found += profiles_of_job(*jobs.known(job), settings).values()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="20,000 jobs")
    full = parser.parse_args().full
    few = plant(COMPARED_JOBS, 1)
    ratios = {}
    for learners in (LearnerSet.PAPER, LearnerSet.RECOMMENDED):
        settings = TopicSettings(learners=learners)
        jobs = Jobs.of(few.features, settings)
        ours(jobs, settings)  # compiles
        mine, found = seconds(lambda j=jobs, s=settings: ours(j, s))
        if learners is LearnerSet.PAPER:
            theirs, expected = seconds(lambda j=jobs: reference(j))
            alike = [
                np.corrcoef(np.concatenate(found[k::3]), np.concatenate(expected[k::3]))[0, 1]
                for k in range(3)
            ]
            print(
                f"reference {theirs:.2f} s for {COMPARED_JOBS} jobs; profiles alike (correlation): "
                f"predictive {alike[0]:.3f}, dependence {alike[1]:.3f}, causal {alike[2]:.3f}"
            )
        ratios[learners] = theirs / mine
        print(f"{learners:<12} base learners {ratios[learners]:8.0f} x as fast")
    per_task = []
    for n in (2_000, 20_000) if full else (400, 1_600):
        planted = plant(n, 2)
        took, found = seconds(lambda p=planted: find_topics(p.features))
        tasks = int(found.jobs["tasks"].sum())
        per_task.append(took / tasks * 1e6)
        near = nearness(planted, found)
        print(
            f"{n:>7,} jobs, {tasks:>9,} tasks: {took:7.1f} s, {per_task[-1]:6.1f} µs a task; "
            f"TV {near.variation:.3f}, F1 {near.f1:.3f}, dominant {near.dominant:.3f}"
        )
    growth = per_task[1] / per_task[0]
    print(f"cost of a task among many times as many  {growth:6.2f} x   (goal at most {LINEAR} x)")
    slowest = min(ratios.values())
    print(f"as fast as the reference                 {slowest:6.0f} x   (goal at least {FASTER} x)")
    return 0 if growth <= LINEAR and slowest >= FASTER else 1


if __name__ == "__main__":
    sys.exit(main())
