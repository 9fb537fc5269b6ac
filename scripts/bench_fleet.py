"""Measure how much faster many logs are looked at on Spark with more cores and hosts.

    scripts/bench fleet           8 logs of 25 MB of lines (40,000 tasks)
    scripts/bench fleet --full    24 logs of 100 MB of lines (432,000 tasks)
    scripts/bench fleet --analyze [--full]    diagnose them; without, their topics are found
    scripts/bench fleet … --logs 48           another number of logs

The same logs, each of an application on hosts of its own, are analysed by the local engine in one
process, on local[1], on local[2], and on a standalone cluster of two workers with a core each (two
loopback addresses of this machine). Each runs in a process of its own, once to start workers and
compile, then twice; the faster run counts. All runs must have the same result. On a machine with
other load, compare CPU time instead, and the driver's part of it, which executors cannot share.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import zstandard

from scripts.bench_ingest import write_log
from scripts.benchmarks import Goals, parser_of, run_again, sized

TOPICS, DIAGNOSIS = "topics", "diagnosis"
RUNS = 2
THROUGHPUT = 0.8
"""Goal of a diagnosis: work per processor's time on local[1], beside one process."""
FASTER = 1.3
"""Goal: speedup of two cores over one. Less than 2, because the driver and Spark itself need a part
of the only two cores."""


def make_logs(folder: Path, count: int, size: int) -> int:
    """Write copies of one log, each on hosts of its own; return the total number of tasks."""
    first = folder.parent / "first"
    tasks = write_log(first, size, plain=True)
    lines = first.read_bytes()
    for number in range(count):
        mine = lines.replace(b'"host-', b'"host-%d-' % number)
        mine = mine.replace(b'"app-bench"', b'"app-bench-%d"' % number)
        (folder / f"app-bench-{number}.zstd").write_bytes(zstandard.compress(mine, 3))
    first.unlink()
    return tasks * count


def timed(work: Callable[[], dict[str, Any]]) -> None:
    """Run once to warm up, then several times; print seconds and what was found as JSON."""
    times, cpu, driver, found = [], [], [], None
    for _ in range(RUNS + 1):
        start, all_before, mine_before = time.perf_counter(), cpu_seconds(), time.process_time()
        found = work()
        times.append(time.perf_counter() - start)
        cpu.append(cpu_seconds() - all_before)
        driver.append(time.process_time() - mine_before)
    result = {
        "first": times[0],
        "best": min(times[1:]),
        "cpu": min(cpu[1:]),
        "driver_cpu": min(driver[1:]),
        "found": found,
    }
    print(json.dumps(result))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children: Spark's JVM and Python workers."""
    me = psutil.Process()
    used = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in used))


def run_here(what: str, folder: str) -> None:
    from iqcar.fleet.fleet_summary import summarise
    from iqcar.pipeline import diagnose, read, topics_of

    def work() -> dict[str, Any]:
        tables = read(folder, processes=1)
        if what == TOPICS:
            return topics_found(topics_of(tables))
        return summed(summarise(diagnose(tables, rules=False)).totals)

    timed(work)


def run_on_spark(what: str, folder: str, master: str) -> None:
    from iqcar.fleet import topics_on_spark
    from iqcar.fleet.session import spark_session

    with spark_session(master) as spark:
        if what == TOPICS:
            timed(lambda: topics_found(topics_on_spark(spark, folder)[1]))
        else:
            timed(lambda: diagnosed(spark, folder))


def diagnosed(spark: Any, folder: str) -> dict[str, Any]:
    """Diagnose on Spark; every log has to be read."""
    from iqcar.fleet.fleet_summary import summary_on_spark

    found = summary_on_spark(spark, folder)
    if found.summary is None or (found.tables.inputs["app"] < 0).any():
        raise SystemExit(f"bench: {found.tables.inputs[['path', 'message']].to_string()}")
    return summed(found.summary.totals)


def topics_found(topics: Any) -> dict[str, Any]:
    """What runs must have in common: the jobs, and the words of each topic."""
    words = [sorted(topics.words_of(topic)) for topic in range(len(topics.topics))]
    return {"jobs": len(topics.jobs), "topics": words}


def summed(totals: dict[str, float]) -> dict[str, Any]:
    """What runs must have in common: sums over all applications, to six digits."""
    return {name: float(f"{value:.6g}") for name, value in totals.items()}


def child(what: str, folder: Path, master: str) -> dict[str, Any]:
    """Measure in a fresh process."""
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    result: dict[str, Any] = run_again(__file__, "--run", what, master, folder, env=env)
    return result


def main() -> int:
    parser = parser_of(__doc__, full="24 logs of 100 MB")
    parser.add_argument("--logs", type=int, default=0, help="how many logs")
    parser.add_argument("--analyze", action="store_true", help="diagnose instead of topics")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        what, master, folder = arguments.run
        run_on_spark(what, folder, master) if master else run_here(what, folder)
        return 0
    what = DIAGNOSIS if arguments.analyze else TOPICS
    import pyspark

    from tests.support.standalone_cluster import standalone_cluster

    count, size = sized(
        arguments, quick=(2, 1_000_000), usual=(8, 25_000_000), full=(24, 100_000_000)
    )
    count = arguments.logs or count
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="iqcar-fleet-") as name:
        logs, cluster = Path(name) / "logs", Path(name) / "cluster"
        logs.mkdir(), cluster.mkdir()
        tasks = make_logs(logs, count, size)
        print(f"{count} logs, {tasks:,} tasks; load of this machine {os.getloadavg()[0]:.1f}")
        for label, master in (("one process", ""), ("local[1]", "local[1]"), ("local[2]",) * 2):
            found[label] = child(what, logs, master)
            report(label, found)
        if not arguments.quick:
            home = Path(pyspark.__path__[0])
            env = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
            with standalone_cluster(home, cluster, env) as running:
                found["two workers"] = child(what, logs, running.master)
                report("two workers", found)
    for label in ("local[1]", "local[2]"):
        cpu, driver = found[label]["cpu"], found[label]["driver_cpu"]
        print(
            f"{label:<12} {cpu / found['one process']['cpu']:5.2f} x the processor's time of one "
            f"process; the driver's part of it {driver / cpu:.0%}"
        )
    same = all(one["found"] == found["one process"]["found"] for one in found.values())
    ratio = found["local[1]"]["best"] / found["local[2]"]["best"]
    goals = Goals()
    goals.met(same, f"all found the same: {'yes' if same else 'NO'}")
    goals.least("two cores as fast as one", ratio, FASTER)
    if what == DIAGNOSIS:
        throughput = found["one process"]["cpu"] / found["local[1]"]["cpu"]
        goals.least("work per processor's time", throughput, THROUGHPUT)
    return goals.end()


def report(label: str, found: dict[str, dict[str, Any]]) -> None:
    one, here = found[label], found["one process"]["best"]
    print(
        f"{label:<12} {one['best']:7.1f} s, {one['first']:7.1f} s the first time; "
        f"{here / one['best']:5.2f} x as fast as one process without Spark"
    )


if __name__ == "__main__":
    sys.exit(main())
