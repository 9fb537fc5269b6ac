"""One application whose rules change while a job of it runs.

Arguments: the rules file, and the folder of the event log. It begins without the file. Each step
changes the file, waits until the running scheduler or the event log shows what became of it, and
prints a line ``STEP name seconds``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

RULES, LOG = Path(sys.argv[1]), Path(sys.argv[2])
STOP = "iqcar.test.stop"
MOST_WAIT_S = 240
"""A change acts within two seconds; a machine that is busy with others takes longer."""

sc = SparkContext(appName="reload")
gateway: Any = sc._gateway
scheduler: Any = sc._jsc.sc().taskScheduler()


def pools() -> dict[str, Any]:
    """The pools that the scheduler has now, by name."""
    queue = scheduler.rootPool().schedulableQueue().toArray()
    return {pool.name(): pool for pool in queue}


def running(name: str) -> int:
    """Tasks that run in a pool; none where there is no such pool."""
    pool = pools().get(name)
    return int(pool.runningTasks()) if pool is not None else 0


def outcomes() -> list[str]:
    """What the log says of the rules file so far."""
    (path,) = LOG.iterdir()
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["outcome"] for line in lines if '.IqcarEventRules"' in line]


def write(content: str) -> None:
    """Replace the file at once, as people and programs should."""
    beside = RULES.with_name("beside")
    beside.write_text(content, encoding="utf-8")
    beside.replace(RULES)


def rules(pool: str, *pools_of: dict[str, Any]) -> str:
    """A compiled file in which the hog goes into a pool."""
    place = [{"pool": pool, "rule_id": f"AGG-{pool}", "job_group": "hog"}] if pool else []
    return json.dumps({"schema_version": "1", "pools": list(pools_of), "assignments": place})


def until(step: str, done: Callable[[], bool]) -> None:
    """Wait for a step, and say how long it took."""
    begun = time.monotonic()
    while not done():
        if time.monotonic() - begun > MOST_WAIT_S:
            print(f"STEP {step} never: {outcomes()} {sorted(pools())}", flush=True)
            stop()
            sys.exit(1)
        time.sleep(0.05)
    print(f"STEP {step} {time.monotonic() - begun:.2f}", flush=True)


def completed() -> int:
    """Tasks of the hog that have ended."""
    info = sc.statusTracker().getStageInfo(0)
    return info.numCompletedTasks if info is not None else 0


def tasks_later() -> None:
    """Wait until tasks have ended that were launched after now: two run at once."""
    before = completed()
    until("tasks", lambda: completed() >= before + 4)


def hog() -> None:
    """One stage that runs all the time: half a second a task, and a moment once it is to stop."""
    sc.setJobGroup("hog", "hog")
    stopped = f"java_method('java.lang.System', 'getProperty', '{STOP}')"
    ms = f"if(coalesce({stopped}, 'null') = 'null', 500L, 1L)"
    nap = f"java_method('java.lang.Thread', 'sleep', {ms})"
    rows = SparkSession(sc).range(0, 600, 1, 600).selectExpr(nap).collect()
    print("SUM", len(rows), flush=True)


def stop() -> None:
    """Let the hog's tasks end: they run in this JVM."""
    gateway.jvm.java.lang.System.setProperty(STOP, "yes")


def watchers() -> int:
    """Threads of this JVM that watch rules."""
    threads = gateway.jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return sum(thread.getName() == "iqcar-rules-watch" for thread in threads)


thread = InheritableThread(target=hog)
thread.start()
until("default", lambda: running("default") > 0)
one = {"name": "one", "weight": 1, "min_share": 1}
write(rules("one", one))
until("placed", lambda: running("one") > 0 and running("default") == 0)
tasks_later()
write(rules("one", {**one, "weight": 5}))
until("weight", lambda: pools()["one"].weight() == 5 and running("one") > 0)
write(rules("two", one, {"name": "two", "weight": 2, "mode": "FAIR"}))
until("moved", lambda: running("two") > 0 and running("one") == 0)
tasks_later()
write(rules("two", {"name": "two", "weight": 7}))
until("another mode", lambda: pools()["two"].weight() == 7 and "one" not in pools())
write('{"schema_version": "1", "pools": [')
until("malformed", lambda: outcomes()[-1] == "refused")
RULES.unlink()
until("removed", lambda: outcomes()[-1] == "missing")
print("STILL", pools()["two"].weight(), running("two") > 0, flush=True)
write(rules(""))
until("restored", lambda: set(pools()) == {"default"} and running("default") > 0)
print("WATCHERS", watchers(), flush=True)
stop()
thread.join()
until("idle", lambda: scheduler.rootPool().runningTasks() == 0)
sc.stop()
until("no watcher", lambda: watchers() == 0)
