"""Jobs under strict caps, on a cluster of four slots where much goes wrong.

Arguments: the rules file, which is there at the start, and a file of rules without any. Each step
prints ``STEP name most result``: most tasks of its pool that ran at once, sampled from the
scheduler itself, so that attempts that were killed count, and what the job returned.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkConf, SparkContext, TaskContext
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

RULES, NO_RULES = Path(sys.argv[1]), Path(sys.argv[2])
POOL, SLOTS = "hog", 4
MOST_WAIT_S = 240
sc = SparkContext()
gateway: Any = sc._gateway


def scheduler() -> Any:
    return sc._jsc.sc().taskScheduler()  # type: ignore[attr-defined]


def running(name: str) -> int:
    """Tasks that run in a pool, or in all where there is no such pool."""
    pool = scheduler().rootPool().getSchedulableByName(name)
    return int((pool or scheduler().rootPool()).runningTasks())


def ruled() -> bool:
    """Whether the scheduler has the pool of the rules."""
    return scheduler().rootPool().getSchedulableByName(POOL) is not None


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + MOST_WAIT_S
    while not done():
        if time.monotonic() > deadline:
            print("NEVER", what, flush=True)
            os._exit(1)
        time.sleep(0.05)


def step(
    name: str,
    job: Callable[[], object],
    meanwhile: Callable[[], None] | None = None,
    pool: str = POOL,
) -> None:
    """Run a job of a pool's group in a thread, and something else once it runs."""
    found: list[object] = []

    def run() -> None:
        sc.setJobGroup(pool, name)
        try:
            found.append(job())
        except Exception as error:
            found.append(type(error).__name__)

    thread = InheritableThread(target=run)
    thread.start()
    most = 0
    while thread.is_alive():
        most = max(most, running(pool))
        if most and meanwhile is not None:
            meanwhile()
            meanwhile = None
        time.sleep(0.02)
    until(lambda: scheduler().rootPool().runningTasks() == 0, f"end of all tasks of {name}")
    print("STEP", name, most, found[0], flush=True)


def nap(_: object) -> int:
    time.sleep(0.3)
    return 1


def plain(tasks: int = 8) -> int:
    return sc.parallelize(range(tasks), tasks).map(nap).sum()


def sleepy(index: int, _: object) -> list[int]:
    """One task hangs in its first attempt."""
    time.sleep(120 if index == 3 and TaskContext.get().attemptNumber() == 0 else 0.3)  # type: ignore[union-attr]
    return [1]


def failing(index: int, _: object) -> list[int]:
    """One task fails in its first attempt: its executor is excluded from the stage."""
    time.sleep(0.3)
    if index == 0 and TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]
        raise ValueError("on purpose")
    return [1]


def partitions(work: Any) -> Callable[[], int]:
    return lambda: sum(sc.parallelize(range(8), 8).mapPartitionsWithIndex(work).collect())


def two_cores_each() -> int:
    """Tasks of a resource profile that take two cores: two at once without a cap."""
    profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    return sc.parallelize(range(4), 4).withResources(profile).map(nap).sum()


def kill_executor() -> None:
    """Kill one executor, while the rules file is gone."""
    RULES.unlink()
    words = (b"CoarseGrainedExecutorBackend", sc.applicationId.encode())
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if all(word in line for word in words) and b"/java" in line.split(b"\0")[0]:
            os.kill(int(entry.name), signal.SIGKILL)
            return
    raise AssertionError("no executor")


def replace(content: bytes) -> None:
    beside = RULES.with_name("beside")
    beside.write_bytes(content)
    beside.replace(RULES)


def watchers() -> int:
    threads = gateway.jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return sum(thread.getName() == "iqcar-rules-watch" for thread in threads)


def all_slots() -> bool:
    return bool(sc._jsc.sc().getExecutorMemoryStatus().size() == 3)  # type: ignore[attr-defined]


rules = RULES.read_bytes()
until(all_slots, "executors")
step("capped", plain)
step("speculation", partitions(sleepy))
step("excluded executor", partitions(failing))
step("two cores each", two_cores_each, pool="one")
step("two cores each, by share", two_cores_each, pool="half")
step("killed executor, no file", lambda: plain(16), kill_executor)
until(all_slots, "new executor")
step("after the kill", plain)
replace(NO_RULES.read_bytes())
until(lambda: not ruled(), "end of the rules")
step("without rules", plain)
replace(rules)
until(ruled, "rules")


def stopped() -> None:
    """Run a job that the driver's end interrupts."""
    sc.setJobGroup(POOL, "stopped")
    with suppress(Exception):
        plain(400)


thread = InheritableThread(target=stopped)
thread.start()
until(lambda: running(POOL) > 0, "a job under the cap")
sc.stop()
thread.join()
until(lambda: watchers() == 0, "end of the watcher")
sc = SparkContext(conf=SparkConf().set("spark.eventLog.enabled", "false"))
until(all_slots, "executors of the next application")
step("next application", plain)
sc.stop()
