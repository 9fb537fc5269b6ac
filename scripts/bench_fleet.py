"""Measure how much faster topics are found in many logs on Spark with more cores and hosts.

    scripts/bench fleet           8 logs of 25 MB of lines (40,000 tasks)
    scripts/bench fleet --full    24 logs of 100 MB of lines (480,000 tasks)

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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
import zstandard

RUNS = 2
FASTER = 1.3
"""Goal: speedup of two cores over one. Less than 2, because the driver and Spark itself need a part
of the only two cores."""


def make_logs(folder: Path, count: int, size: int) -> int:
    """Write copies of one log, each on hosts of its own; return the total number of tasks."""
    from bench_ingest import write_log

    first = folder.parent / "first"
    tasks = write_log(first, size, plain=True)
    lines = first.read_bytes()
    for number in range(count):
        mine = lines.replace(b'"host-', b'"host-%d-' % number)
        mine = mine.replace(b'"app-bench"', b'"app-bench-%d"' % number)
        (folder / f"app-bench-{number}.zstd").write_bytes(zstandard.compress(mine, 3))
    first.unlink()
    return tasks * count


def timed(work: Callable[[], Any]) -> None:
    """Run once to warm up, then several times; print seconds and the result as JSON."""
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
        "jobs": len(found.jobs),
        "topics": [found.words_of(topic) for topic in range(len(found.topics))],
    }
    print(json.dumps(result))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children: Spark's JVM and Python workers."""
    me = psutil.Process()
    used = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in used))


def run_here(folder: str) -> None:
    from iqcar.pipeline import read, topics_of

    timed(lambda: topics_of(read(folder, processes=1)))


def run_on_spark(folder: str, master: str) -> None:
    from iqcar.fleet import spark_session, topics_on_spark

    with spark_session(master) as spark:
        timed(lambda: topics_on_spark(spark, folder)[1])


def child(folder: Path, master: str) -> dict[str, Any]:
    """Measure in a fresh process."""
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    words = [sys.executable, __file__, "--run", master, str(folder)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {master or 'here'}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="24 logs of 100 MB")
    parser.add_argument("--run", nargs=2, metavar=("MASTER", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        master, folder = arguments.run
        run_on_spark(folder, master) if master else run_here(folder)
        return 0
    import pyspark

    from tests.support.standalone_cluster import standalone_cluster

    count, size = (24, 100_000_000) if arguments.full else (8, 25_000_000)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="iqcar-fleet-") as name:
        logs, cluster = Path(name) / "logs", Path(name) / "cluster"
        logs.mkdir(), cluster.mkdir()
        tasks = make_logs(logs, count, size)
        print(f"{count} logs, {tasks:,} tasks; load of this machine {os.getloadavg()[0]:.1f}")
        for label, master in (("one process", ""), ("local[1]", "local[1]"), ("local[2]",) * 2):
            found[label] = child(logs, master)
            report(label, found)
        home = Path(pyspark.__path__[0])
        env = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        with standalone_cluster(home, cluster, env) as running:
            found["two workers"] = child(logs, running.master)
            report("two workers", found)
    for label in ("local[1]", "local[2]"):
        cpu, driver = found[label]["cpu"], found[label]["driver_cpu"]
        print(
            f"{label:<12} {cpu / found['one process']['cpu']:5.2f} x the processor's time of one "
            f"process; the driver's part of it {driver / cpu:.0%}"
        )
    same = all(one["jobs"] == found["one process"]["jobs"] for one in found.values())
    same = (
        same and len({json.dumps(list(map(sorted, one["topics"]))) for one in found.values()}) == 1
    )
    ratio = found["local[1]"]["best"] / found["local[2]"]["best"]
    print(f"all found the same: {'yes' if same else 'NO'}")
    print(f"two cores as fast as one  {ratio:6.2f} x   (goal at least {FASTER} x)")
    return 0 if same and ratio >= FASTER else 1


def report(label: str, found: dict[str, dict[str, Any]]) -> None:
    one, here = found[label], found["one process"]["best"]
    print(
        f"{label:<12} {one['best']:7.1f} s, {one['first']:7.1f} s the first time; "
        f"{here / one['best']:5.2f} x as fast as one process without Spark"
    )


if __name__ == "__main__":
    sys.exit(main())
