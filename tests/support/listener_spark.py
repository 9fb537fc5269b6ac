"""Runs a real Spark with the listener's jar and reads back what it recorded.

Which Sparks: the folders in the environment variable ``IQCAR_SPARK_HOMES`` (``SPARK_HOME`` each,
separated like ``PATH``), else the installed pyspark; and those in ``IQCAR_PORTABLE_HOMES`` for the
tests that are marked portable.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import quick_spark
from tests.support.shared_driver import Running, SharedDriver

REPO = Path(__file__).resolve().parents[2]
LISTENER = REPO / "listener"
JAR = LISTENER / "target" / "iqcar-listener.jar"
TEST_JAR = LISTENER / "target" / "iqcar-listener-tests.jar"
NO_BUDGET = {"spark.iqcar.overhead": "100%"}
"""On a busy machine each stop is long, and tests of waits want their stacks."""
PLUGIN = {"spark.plugins": "org.iqcar.spark.IqcarPlugin", **NO_BUDGET}
LISTENER_ONLY = {"spark.extraListeners": "org.iqcar.spark.IqcarListener", **NO_BUDGET}
WORKLOADS = "org.iqcar.spark.Workloads"
TWO_CORES = ["taskset", "-c", "0-1"]
SAME_CALL_SITES = "-Dsun.reflect.inflationThreshold=2147483647"
"""JDK 17 generates code for a method that reflection calls often, and Spark then finds no line of
it: a driver's second application would have other call sites than its first."""
DIES_AT_ONCE = "-XX:+ExitOnOutOfMemoryError"
"""Where memory runs out is chance, and Spark survives it in some of its threads only."""
GONE_IN_S = 30
"""A process that ends with its parent takes milliseconds; on a busy machine some seconds."""
APP_TIMEOUT_S = 600
"""A run takes 10 to 40 s; a busy machine ten times that. Only a hang takes longer."""


def homes_in(variable: str) -> list[Path]:
    """Folders that an environment variable names."""
    return [Path(home) for home in os.environ.get(variable, "").split(os.pathsep) if home]


def portable_homes() -> list[Path]:
    """Every Spark on which only the tests marked portable run."""
    return homes_in("IQCAR_PORTABLE_HOMES")


def spark_homes() -> list[Path]:
    """Every Spark to test with; empty where there is none."""
    spec = importlib.util.find_spec("pyspark")
    installed = [Path(spec.origin).parent] if spec and spec.origin else []
    return [*(homes_in("IQCAR_SPARK_HOMES") or installed), *portable_homes()]


def spark_params() -> list[Any]:
    """Pytest parameters, one per Spark, or one that skips."""
    homes = spark_homes()
    if shutil.which("java") and homes:
        return [pytest.param(home, id=spark_version(home)) for home in homes]
    return [pytest.param(None, marks=pytest.mark.skip(reason="needs a JDK and pyspark"))]


def spark_version(home: Path) -> str:
    """The version in the name of the core jar."""
    jar = next((home / "jars").glob("spark-core_*.jar"))
    return jar.stem.rpartition("-")[2]


def python_of(home: Path) -> str:
    """The interpreter whose site-packages holds this Spark, else this one."""
    candidate = home.parents[3] / "bin" / "python"
    return str(candidate) if candidate.exists() else sys.executable


@functools.cache
def build_jar() -> None:
    """Build the jars where they are missing or of other sources."""
    build = [REPO / "scripts" / "build_listener", "--fast", "--if-changed"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)


@dataclass
class App:
    """What one application left behind."""

    exit_code: int
    output: str
    errors: str
    events: list[dict[str, Any]] = field(default_factory=list)
    log: Path = Path()
    """The folder of its event log."""

    @property
    def ends(self) -> list[dict[str, Any]]:
        """Task end events."""
        return [e for e in self.events if e["Event"] == "SparkListenerTaskEnd"]

    def group(self, name: str) -> list[dict[str, Any]]:
        """Task end events of one job group, in order of task id."""
        stages = {
            stage
            for e in self.events
            if e["Event"] == "SparkListenerJobStart"
            and e["Properties"].get("spark.jobGroup.id") == name
            for stage in e["Stage IDs"]
        }
        ends = [e for e in self.ends if e["Stage ID"] in stages]
        return sorted(ends, key=lambda e: e["Task Info"]["Task ID"])

    def records(self, name: str) -> list[dict[str, Any]]:
        """The records of one job group's tasks; each has exactly one."""
        found = [records_of(end) for end in self.group(name)]
        assert found, f"no task of {name}: {self.errors[-3000:]}"
        assert [len(records) for records in found] == [1] * len(found)
        return [records[0] for records in found]

    def own_events(self, name: str = "Scheduler") -> list[dict[str, Any]]:
        """The events of one kind that the plugin itself wrote."""
        return [e for e in self.events if e["Event"] == f"org.iqcar.spark.IqcarEvent{name}"]


def records_of(end: dict[str, Any]) -> list[dict[str, Any]]:
    """The records in one task end: of the accumulables, else of the reason's updates."""
    places = [end["Task Info"]["Accumulables"], end["Task End Reason"].get("Accumulator Updates")]
    for place in places:
        found = [a["Update"] for a in place or [] if a.get("Name") == "iqcar.task"]
        if found:
            return [json.loads(text) for text in found]
    return []


def samples_of(app: App) -> list[dict[str, Any]]:
    """All samples of hosts, each with its event's host and executor."""
    return [
        {**sample, "host": event["host"], "executor": event["executor"]}
        for event in app.own_events("Samples")
        for sample in event["samples"]
    ]


def wait_until_no_sampler_runs(app: App) -> None:
    """Wait for the host samplers of an application to end; fail if they do not."""
    (start,) = (e for e in app.events if e["Event"] == "SparkListenerApplicationStart")
    deadline = time.monotonic() + GONE_IN_S
    while samplers := [p for p in processes(start["App ID"]) if b"iqcar_sampler" in p]:
        assert time.monotonic() < deadline, samplers
        time.sleep(0.2)


def processes(word: str) -> list[bytes]:
    """Command lines that hold a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        found += [words] if word.encode() in words else []
    return found


def environment(home: Path) -> dict[str, str]:
    """Environment variables for that Spark's scripts."""
    python = quick_spark.python(home, python_of(home))
    quick_spark.make_archive()
    chosen = {
        "SPARK_HOME": str(home),
        "SPARK_SUBMIT_OPTS": quick_spark.options(),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    return {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **chosen}


def settings(folder: Path, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """All settings of an application; its event log goes to ``folder``/log, which this makes."""
    (folder / "log").mkdir()
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (folder / "log").as_uri(),
        "spark.ui.enabled": "false",
    }
    if master != "local" and not master.startswith("local["):
        log["spark.executor.defaultJavaOptions"] = quick_spark.options()
    return {**log, **conf}


def command(
    home: Path,
    folder: Path,
    job: list[str],
    *,
    master: str,
    conf: dict[str, str],
    options: list[str],
) -> list[str]:
    """The spark-submit command; the event log goes to ``folder``/log."""
    chosen = settings(folder, master, conf)
    flags = [part for key, value in chosen.items() for part in ("--conf", f"{key}={value}")]
    return [str(home / "bin" / "spark-submit"), "--master", master, *options, *flags, *job]


def read_events(folder: Path) -> list[dict[str, Any]]:
    """All events of the folder's one log."""
    (path,) = (folder / "log").iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def start(
    home: Path,
    folder: Path,
    job: list[str],
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    two_cores: bool = False,
) -> Running:
    """Start an application in a driver that runs others before and after.

    ``job`` is a Python file or the main class of the test jar, and its arguments. ``conf`` may hold
    other system properties too. ``two_cores`` keeps it from using more.
    """
    main, *arguments = job
    chosen = {"spark.master": master, **settings(folder, master, conf or {})}
    driver = shared_driver(home, two_cores and (os.cpu_count() or 2) > 2)
    return driver.start(folder, main, arguments, chosen)


def ended(running: Running) -> App:
    """Wait for an application that was started; what it left behind."""
    code = running.wait(APP_TIMEOUT_S)
    log = running.ended.parent / "log"
    events = read_events(log.parent) if any(log.iterdir()) else []
    return App(code, running.output, running.errors, events, log)


def run(home: Path, folder: Path, job: list[str], **more: Any) -> App:
    """Run an application to its end in a driver that runs others before and after."""
    return ended(start(home, folder, job, **more))


def shared_driver(home: Path, two_cores: bool) -> SharedDriver:
    """The driver of a Spark, started when it is first asked for, and again where it has ended.

    So it is where a test that failed has left an application that does not end.
    """
    driver = DRIVERS.get((home, two_cores))
    if driver is None or not driver.idle:
        if driver:
            driver.close()
        prefix = TWO_CORES if two_cores else []
        driver = DRIVERS[home, two_cores] = new_driver(home, prefix, [DIES_AT_ONCE])
    return driver


def new_driver(
    home: Path,
    prefix: Sequence[str] = (),
    java: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> SharedDriver:
    """Start a driver of a Spark, with more options of its JVM and variables of its environment."""
    build_jar()
    options = ["--jars", str(JAR), "--conf", "spark.ui.enabled=false"]
    options += ["--driver-java-options", " ".join([SAME_CALL_SITES, *java])]
    main = ["--class", "org.iqcar.spark.Applications", str(TEST_JAR)]
    words = [*prefix, str(home / "bin" / "spark-submit"), *options, *main]
    return SharedDriver(words, {**environment(home), **(variables or {})})


DRIVERS: dict[tuple[Path, bool], SharedDriver] = {}


def run_alone(
    home: Path,
    folder: Path,
    job: list[str],
    *,
    master: str = "local[2]",
    conf: dict[str, str] | None = None,
    options: Sequence[str] = ("--jars", str(JAR)),
    prefix: Sequence[str] = (),
) -> App:
    """Run one application to its end in a driver of its own."""
    build_jar()
    words = command(home, folder, job, master=master, conf=conf or {}, options=[*options])
    done = subprocess.run(
        [*prefix, *words],
        env=environment(home),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )
    return App(done.returncode, done.stdout, done.stderr, read_events(folder), folder / "log")


def run_workloads(home: Path, folder: Path, *names: str, **more: Any) -> App:
    """Run workloads of the test jar's main class."""
    return run(home, folder, [WORKLOADS, *names], **more)


def run_applications(
    home: Path, folder: Path, plans: Mapping[str, tuple[Sequence[str], Mapping[str, str]]]
) -> dict[str, App]:
    """Run an application for each plan, which is its workloads and its settings."""
    apps = {}
    for name, (workloads, conf) in plans.items():
        (folder / name).mkdir()
        apps[name] = run_workloads(home, folder / name, *workloads, conf=conf)
    return apps


def share(record: dict[str, Any], *classes: str) -> float:
    """The classes' part of the task's off-CPU time."""
    part = sum(record["waits_ns"].get(name, 0) for name in classes)
    return float(part / record["off_cpu_ns"])


def unpack(series: str, buckets: int) -> list[int]:
    """The whole series of a profile: ``250*3,12`` is 250, 250, 250, 12 and zeros to the end."""
    values: list[int] = []
    for run_text in series.split(","):
        value, _, count = run_text.partition("*")
        values += [int(value)] * int(count or 1)
    return values + [0] * (buckets - len(values))
