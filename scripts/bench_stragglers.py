"""Measure whether the time to find stragglers and their causes is linear in tasks.

    scripts/bench stragglers           10,000 and 100,000 tasks
    scripts/bench stragglers --full    100,000 and 1,000,000 tasks (about 3 GB of memory)

Times are CPU times, which other load on the machine affects little.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from iqcar.causes.stragglers.features import build_features
from iqcar.causes.stragglers.find_stragglers import explain
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import APPLICATIONS, EXECUTORS, HOSTS, SAMPLES, STAGES, TASKS, Tables
from tests.support.random_tables import EPOCH_MS, frame

TASKS_PER_STAGE, N_HOSTS, TASKS_PER_SAMPLE = 500, 100, 3
LINEAR = 2.0
"""Goal: with ten times the tasks, the time per task grows by at most this factor."""
AMOUNTS = (
    "input_bytes", "input_records", "remote_bytes", "local_bytes", "shuffle_write_bytes",
    "disk_spilled_bytes", "memory_spilled_bytes", "output_bytes", "peak_memory_bytes",
)  # fmt: skip


def workload(n: int) -> Tables:
    """Stages of 500 tasks on 100 sampled hosts, one after the other; a tenth are stragglers."""
    rng = np.random.default_rng(7)
    stages = n // TASKS_PER_STAGE
    stage, host = np.repeat(np.arange(stages), TASKS_PER_STAGE), rng.integers(0, N_HOSTS, n)
    took = rng.lognormal(7, 0.3, n)
    launch = EPOCH_MS + stage * 2000.0 + rng.random(n) * 5000
    tasks = frame(
        TASKS, n, app=np.zeros(n), stage=stage, host=host, executor=host, task_id=np.arange(n),
        status=pd.Categorical.from_codes(np.zeros(n, int), ["success"]),
        locality=pd.Categorical.from_codes(rng.integers(0, 2, n), ["PROCESS_LOCAL", "ANY"]),
        launch_ms=launch, finish_ms=launch + took, run_ms=took * 0.9, cpu_ms=took * 0.5,
        gc_ms=took * 0.5 * rng.random(n), deserialize_ms=took * 0.02,
        deserialize_cpu_ms=took * 0.01, result_serialize_ms=np.zeros(n),
        getting_result_ms=np.zeros(n), fetch_wait_ms=took * 0.1 * rng.random(n),
        shuffle_write_ms=took * 0.1 * rng.random(n),
        **{name: rng.lognormal(15, 0.5, n) for name in AMOUNTS},
    )  # fmt: skip
    per_host = n // TASKS_PER_SAMPLE // N_HOSTS
    m = N_HOSTS * per_host
    step = (stages * 2000.0 + 10_000) / per_host
    samples = frame(
        SAMPLES, m, app=np.zeros(m), host=np.repeat(np.arange(N_HOSTS), per_host),
        executor=np.zeros(m), dropped=np.zeros(m), duration_ms=np.full(m, step),
        time_ms=EPOCH_MS + np.tile(np.arange(1, per_host + 1) * step, N_HOSTS),
        cpu_idle=rng.random(m) * 100, cpu_iowait=np.zeros(m), disk_busy=rng.random(m),
        net_in_bytes=rng.random(m) * 1e8, net_out_bytes=rng.random(m) * 1e8,
    )  # fmt: skip
    ids = np.arange(N_HOSTS)
    return Tables.empty().with_(
        applications=frame(APPLICATIONS, 1, application_id=["app"]),
        hosts=frame(HOSTS, N_HOSTS, host=[f"host-{h}" for h in ids]),
        executors=frame(
            EXECUTORS, N_HOSTS, app=np.zeros(N_HOSTS), executor_id=[str(h) for h in ids], host=ids
        ),
        stages=frame(STAGES, stages, app=np.zeros(stages), stage_id=np.arange(stages)),
        tasks=tasks,
        samples=samples,
    )


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="1,000,000 tasks")
    full = parser.parse_args().full
    per_task = []
    for n in (100_000, 1_000_000) if full else (10_000, 100_000):
        tables = workload(n)
        waits = measure_waits(tables)
        of_features, features = seconds(lambda t=tables, w=waits: build_features(t, w, 3000.0))
        of_causes, found = seconds(lambda f=features: explain(f))
        per_task.append((of_features + of_causes) / n * 1e6)
        print(
            f"{n:>9,} tasks, {len(tables.samples):,} samples: features {of_features:6.2f} s, "
            f"causes {of_causes:6.2f} s, {per_task[-1]:5.1f} µs a task; {found!r}"
        )
    growth = per_task[1] / per_task[0]
    print(f"cost of a task among ten times as many  {growth:6.2f} x   (goal at most {LINEAR} x)")
    return 0 if growth <= LINEAR else 1


if __name__ == "__main__":
    sys.exit(main())
