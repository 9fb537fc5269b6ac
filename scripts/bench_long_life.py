"""Measure what a driver holds that lives long: heap, threads, files, the plugin's own objects.

    scripts/bench long_life      10^6 tasks in 2,000 jobs, with the plugin and rules, and without
    scripts/bench long_life --tasks 20000 --jobs 200 --no-plain

Four threads run SQL queries under twenty job groups. After a tenth of the jobs, half of them and
all, when no task runs, the JVM collects its garbage and is read. All figures but counts are ratios
to the first reading. Linux only.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.benchmarks import JARS, parser_of, run_on_spark, sized

TASKS, JOBS, THREADS, GROUPS = 1_000_000, 2_000, 4, 20
PARTS = (0.1, 0.5, 1.0)
SHOWN = ("heap_bytes", "log_bytes", "threads", "files", "kernel_files")

Reading = dict[str, Any]


def rules() -> str:
    """A compiled file of rules: a group each in a pool with a cap, with a weight, and in none."""
    pools = [
        {"name": "capped", "weight": 1, "min_share": 0, "mode": "FIFO", "cap": 1},
        {"name": "heavy", "weight": 3, "min_share": 0, "mode": "FIFO"},
    ]
    none = {"fingerprint": "", "description": ""}
    matches = [
        {"pool": pool, "rule_id": f"R-{at}", **none, "job_group": f"group {at}"}
        for at, pool in enumerate(("capped", "heavy"))
    ]
    file = {"schema_version": "1", "iqcar_version": "0.2.0", "rules": [], "notes": []}
    return json.dumps({**file, "pools": pools, "assignments": matches})


def live(log: Path, tasks: int, jobs: int) -> list[Reading]:
    """Run the jobs in this process's driver; return the readings, the last after its end."""
    from pyspark import InheritableThread
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    life = spark._jvm.org.iqcar.spark.PluginLife
    each = max(1, tasks // jobs)

    def query(number: int) -> None:
        sc.setJobGroup(f"group {number % GROUPS}", f"query of group {number % GROUPS}")
        rows = spark.range(0, each, 1, each)
        rows.write.format("noop").mode("overwrite").save()

    def run(numbers: range) -> None:
        for number in numbers:
            query(number)

    found, done = [], 0
    for part in PARTS:
        until = round(jobs * part)
        threads = [
            InheritableThread(target=run, args=(range(done + at, until, THREADS),))
            for at in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = until
        sc._jsc.sc().listenerBus().waitUntilEmpty()
        reading = json.loads(life.read(sc._jsc.sc()))
        size = sum(path.stat().st_size for path in log.iterdir())
        found.append({"jobs": done, "log_bytes": size, **reading})
    sc.stop()
    return [*found, {"jobs": done, "log_bytes": 0, **json.loads(life.read(None))}]


def start(tasks: int, jobs: int, attached: bool) -> list[Reading]:
    """Run the jobs in a driver of its own, with the plugin and rules or without."""
    with tempfile.TemporaryDirectory(prefix="iqcar-long-life-") as name:
        folder = Path(name)
        (folder / "log").mkdir()
        (folder / "rules.json").write_text(rules(), encoding="utf-8")
        settings = {
            "spark.master": "local[2]",
            "spark.jars": ",".join(map(str, JARS)),
            "spark.driver.memory": "2g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "log").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # What Spark itself keeps of ended jobs is full before the first reading.
            **{f"spark.ui.retained{kind}": "10" for kind in ("Jobs", "Stages")},
            "spark.ui.retainedTasks": "100",
            "spark.sql.ui.retainedExecutions": "10",
        }
        if attached:
            settings["spark.plugins"] = "org.iqcar.spark.IqcarPlugin"
            settings["spark.iqcar.rules"] = str(folder / "rules.json")
        words = (__file__, "--one", folder / "log", tasks, jobs)
        readings: list[Reading] = run_on_spark(*words, settings=settings, cwd=name)
        return readings


def report(title: str, readings: list[Reading]) -> None:
    """Print ratios to the first reading, and counts."""
    print(f"\n{title}\n{'':14}" + "".join(f"{one['jobs']:>10,} jobs" for one in readings[:-1]))
    for name in SHOWN:
        first = max(readings[0][name], 1)
        cells = "".join(f"{one[name] / first:15.3f}" for one in readings[:-1])
        print(f"{name:14}{cells}   ended: {readings[-1][name] / first:.3f}")
    for kind in ("objects", "maps"):
        for name in sorted({name for one in readings for name in one[kind]}):
            counts = [one[kind].get(name, 0) for one in readings]
            if len(set(counts[:-1])) > 1 or kind == "maps":
                print(f"  {kind} {name}: {', '.join(f'{count:,}' for count in counts)}")
    for one in readings:
        print(
            f"  own threads after {one['jobs']:,} jobs: {', '.join(one['own_threads']) or 'none'}"
        )


def main() -> int:
    """Measure both runs, or be one of them."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(live(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
        return 0
    parser = parser_of(__doc__, full="the default")
    parser.add_argument("--tasks", type=int, help="tasks in all instead")
    parser.add_argument("--jobs", type=int, help="jobs that they are in instead")
    parser.add_argument("--no-plain", action="store_true", help="only with the plugin")
    options = parser.parse_args()
    tasks, jobs = sized(options, quick=(200, 20), usual=(TASKS, JOBS), full=(TASKS, JOBS))
    tasks, jobs = options.tasks or tasks, options.jobs or jobs
    report("with the plugin and rules", start(tasks, jobs, attached=True))
    if not (options.no_plain or options.quick):
        report("without the plugin", start(tasks, jobs, attached=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
