"""Measure the plugin's overhead per task and host: empty tasks with and without it, in fresh JVMs.

    scripts/bench tiny_tasks           3 pairs of runs of 20,000 tasks (about 3 minutes)
    scripts/bench tiny_tasks --full    9 pairs; --watched: the plugin watches a file of rules, too
    scripts/bench tiny_tasks --pairs 1 --tasks 100000    heap and log of many tasks

This is the worst case: no work hides the cost. The runs alternate, each pair in the opposite order
of the previous one, and all figures are ratios or differences within a pair. Linux only.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.bench_overhead import alternated, process_cpu_s, start_run
from scripts.benchmarks import parser_of, sized, spread

TASKS = 20_000
WARM_UP = 3_000
"""Tasks after which the JVM has compiled the code that every task runs."""

SAMPLES = b'{"Event":"org.iqcar.spark.IqcarEventSamples"'


@dataclass
class Run:
    """Time of one application's tasks, and memory of its driver afterwards."""

    wall_s: float
    jvm_cpu_s: float
    held_bytes: float
    heap_bytes: float
    log_bytes: float
    sample_bytes: float
    sampled_s: float


def run_tasks(log: Path, tasks: int) -> Run:
    """Run the tasks in the JVM alone: no row leaves it, no Python worker takes part."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    jvm = spark._jvm.java.lang

    def count(number: int) -> None:
        spark.range(0, number, 1, number)._jdf.queryExecution().toRdd().count()

    def held() -> int:
        for _ in range(3):
            jvm.System.gc()
            time.sleep(0.5)
        return jvm.Runtime.getRuntime().totalMemory() - jvm.Runtime.getRuntime().freeMemory()

    count(WARM_UP)
    pid = jvm.ProcessHandle.current().pid()
    held_before, cpu, start = held(), process_cpu_s(pid), time.monotonic()
    count(tasks)
    wall, cpu = time.monotonic() - start, process_cpu_s(pid) - cpu
    # Listeners may still be at work when the job is done.
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    heap = held()
    spark.stop()
    (path,) = (path for path in log.iterdir() if path.is_file())
    with path.open("rb") as file:
        events = [line for line in file if line.startswith(SAMPLES)]
    sampled_ms = sum(s["dt_ms"] for line in events for s in json.loads(line)["samples"])
    size = sum(map(len, events))
    log_bytes = path.stat().st_size - size
    return Run(wall, cpu, heap - held_before, heap, log_bytes, size, sampled_ms / 1000)


def start(tasks: int, attached: bool, watched: bool) -> Run:
    """Run one application in processes of its own."""
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": f"{max(2, 8 * tasks // 1_000_000)}g",
        "spark.ui.retainedTasks": str(tasks + WARM_UP),
    }
    how = {"attached": attached, "watched": watched}
    return Run(**start_run(__file__, tasks, settings=settings, **how))


def report(pairs: list[tuple[Run, Run]], tasks: int) -> None:
    """Print ratios, and differences per task."""

    def ratios(name: str) -> list[float]:
        return [getattr(plugin, name) / getattr(plain, name) for plain, plugin in pairs]

    def added(name: str) -> float:
        grown = [getattr(plugin, name) - getattr(plain, name) for plain, plugin in pairs]
        return statistics.median(grown) / tasks

    plain = statistics.median(run.jvm_cpu_s for run, _ in pairs) / tasks
    print(f"\ntasks per run                          {tasks:7,}")
    print("with / without the plugin               median   range")
    print(f"wall                                   {spread(ratios('wall_s'))}")
    print(f"CPU of the whole JVM                   {spread(ratios('jvm_cpu_s'))}")
    print(f"event log, uncompressed, no samples    {spread(ratios('log_bytes'))}")
    print(f"heap of the driver afterwards          {spread(ratios('heap_bytes'))}")
    print("added per task")
    print(f"CPU, us                                {1e6 * added('jvm_cpu_s'):7.0f}", end="")
    print(f"   to {1e6 * plain:.0f}")
    print(f"bytes of heap held afterwards          {added('held_bytes'):7.0f}")
    print(f"bytes of the event log                 {added('log_bytes'):7.0f}")
    runs = [plugin for _, plugin in pairs]
    an_hour = 3600 * sum(r.sample_bytes for r in runs) / max(sum(r.sampled_s for r in runs), 1e-3)
    print(f"added per busy host and hour: {an_hour / 1e3:,.0f} KB of samples")


def main() -> int:
    """Measure the pairs, or be one run of them."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asdict(run_tasks(Path(sys.argv[2]), int(sys.argv[3])))))
        return 0
    parser = parser_of(__doc__, full="9 pairs of runs")
    parser.add_argument("--pairs", type=int, help="number of pairs instead")
    parser.add_argument("--tasks", type=int, help="tasks per run instead")
    parser.add_argument("--watched", action="store_true", help="the plugin watches rules, too")
    options = parser.parse_args()
    count, tasks = sized(options, quick=(1, 500), usual=(3, TASKS), full=(9, TASKS))
    tasks = options.tasks or tasks
    pairs = alternated(
        options.pairs or count, lambda attached: start(tasks, attached, options.watched)
    )
    report(pairs, tasks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
