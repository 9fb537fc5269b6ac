"""Calls functions of iqcar on the executors of a Spark session, for groups of logs.

Nothing but logs' places goes to the executors, and nothing but what the functions return comes
back. The package itself is sent along, as a zip, where executors run on other machines.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import re
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from iqcar.errors import IqcarError, UsageError
from iqcar.fleet import executor_boot
from iqcar.fleet.groups import MOST_TASKS, Ran, meeting_groups, ran_of
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.text import SHARED, shared_file
from iqcar.rules.vocabulary import rules_folder

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
"""Java only moves our bytes: compiling its code twice takes longer than the better code saves."""
LOOKS_PER_CORE = 8
"""Spark tasks per core that look through logs: many small logs share one, and no core waits long
for the last."""
MOST_CALLS = 10_000
"""Spark tasks of one step at most; its driver handles some thousands a minute."""
EVERY_S = 0.5
"""Seconds between two looks at Spark's status: often enough for a person."""
PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED = (".py", ".json", ".so", ".pyd")
"""Kinds of files that are shipped: sources, and the compiled kernels, which are of use where the
executors' Python and system are those of this one; elsewhere kernels are plain Python."""
_OWN_ERROR = re.compile(rf"{executor_boot.MISSING}: (.+)")
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ?(.*)$", re.MULTILINE)
_SHOWN, _READ = 300, 20_000
"""Characters shown, and looked at, of a message of Spark's: a stack trace of both sides fits."""

Progress = Callable[[int, int], None]


def grouped_on_spark(
    spark: Any,
    logs: Sequence[EventLog],
    function: str,
    *,
    most_tasks: int = MOST_TASKS,
    progress: Progress | None = None,
) -> tuple[list[tuple[list[EventLog], Any]], int]:
    """Call a function on executors with each group of logs whose applications met on hosts.

    spark: SparkSession; not of Spark Connect.
    logs: both this machine and the executors have to reach them under the same name.
    function: of the package, such as ``history.add_logs.attempt``; called with the logs of a
        group. What it returns has to be small and picklable: all of it comes here.
    most_tasks: tasks of a group at most; a larger one is cut.
    progress: called from another thread with the Spark tasks done, and those in all.

    Returns the logs of each group with what the function returned, and how many cuts were made.

    Raises IqcarError if a URL needs a package that is not installed, or Spark fails.
    """
    with _working(spark, progress):
        shipped = ship(spark)
        largest = sorted(range(len(logs)), key=lambda row: -logs[row].work_bytes)
        count = min(len(logs), LOOKS_PER_CORE * int(spark.sparkContext.defaultParallelism))
        shares = [largest[first::count] for first in range(count)]
        looked = _call(
            spark, shipped, "fleet.on_spark.look", [([logs[r] for r in s],) for s in shares]
        )
        ran = {
            row: one
            for share, found in zip(shares, looked, strict=True)
            for row, one in zip(share, found, strict=True)
        }
        rows, cuts = meeting_groups(ran, most_tasks)
        groups = [[logs[row] for row in group] for group in rows]
        answers = _call(spark, shipped, function, [(group,) for group in groups])
    return list(zip(groups, answers, strict=True)), cuts


def look(logs: Sequence[EventLog]) -> list[Ran]:
    """Tell where and when the applications of some logs ran."""
    import_module("networkx")  # else it would first be missed in the middle of a diagnosis
    return [ran_of(log) for log in logs]


def _call(
    spark: Any, shipped: Shipped, function: str, arguments: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Call a function on executors with each of some arguments; return what came back, in order."""
    packed = [pickle.dumps(one, protocol=5) for one in arguments]
    step = executor_boot.step(shipped.home, shipped.archive, function)
    calls = spark.sparkContext.parallelize(packed, max(min(len(packed), MOST_CALLS), 1)).map(step)
    return [pickle.loads(one) for one in calls.collect()]  # noqa: S301


@contextmanager
def spark_session(master: str = "") -> Iterator[Any]:
    """Give the active session, or make one and stop it at the end.

    Raises IqcarError if pyspark is missing, or Spark does not start; UsageError if there is an
    active session on another master.

    master: URL of the cluster to start an application on. Without it Spark's own settings decide
        (``spark-submit --master``, ``spark-defaults.conf``); ``local[*]`` where they say nothing.
    """
    if find_spec("pyspark") is None:
        raise IqcarError("needs pyspark", "--on-spark", "pip install 'iqcar[spark]'")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        there = active.sparkContext.master
        if master and master != there:
            raise UsageError(f"a session on {there} is active", "--master", "leave it out")
        yield active
        return
    builder = SparkSession.builder.appName("iqcar")
    if master:
        builder = builder.master(master)
    settings = {
        "spark.ui.showConsoleProgress": "false",
        # What goes wrong is said in one line; Spark would add some pages.
        "spark.log.level": "OFF",
        # Rows of many thousand applications are more than Spark's 1 GB, and all are needed.
        "spark.driver.maxResultSize": "0",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
        "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # py4j's, pyspark's, and what starting a JVM raises
        raise IqcarError(
            f"Spark did not start: {_first_line(error)}", master or "--on-spark",
            "it needs Java 17 or newer, and a master that can be reached",
        ) from error  # fmt: skip
    context = spark.sparkContext
    if _is_local(str(context.master)) and "PYSPARK_PYTHON" not in os.environ:
        # On this machine the workers can be what we are; Spark would take the first `python3`.
        context.pythonExec = sys.executable
    try:
        yield spark
    finally:
        spark.stop()


def _is_local(master: str) -> bool:
    """Tell whether executors run in the driver's process, on this machine."""
    return master == "local" or master.startswith("local[")


@contextmanager
def _working(spark: Any, progress: Progress | None) -> Iterator[None]:
    """Report the tasks of the stages that run, and turn what goes wrong into one line.

    Raises IqcarError if a step fails on the executors.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context, ended = spark.sparkContext, threading.Event()

    def tell(progress: Progress) -> None:
        tracker = context.statusTracker()
        while not ended.wait(EVERY_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # the session is ending: there is nothing more to tell
                return
            known = [stage for stage in stages if stage is not None]
            if known:
                done = sum(stage.numCompletedTasks for stage in known)
                progress(done, sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=tell, args=(progress,), daemon=True)
    if progress is not None:
        thread.start()
    context.setJobDescription("iqcar")
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error
    finally:
        ended.set()
        if progress is not None:
            thread.join()
        # Of a session that has ended, what it ended with is what is to be said.
        with suppress(Py4JError):
            context.setJobDescription(None)


def failure(error: Exception) -> IqcarError:
    """Say in one line why a step failed on the executors."""
    text = str(error)[:_READ]
    raised = _PYTHON_ERROR.findall(text)
    missing = [said for kind, said in raised if kind in ("ModuleNotFoundError", "ImportError")]
    if own := _OWN_ERROR.search(text):
        missing.insert(0, own[1])
    if missing:
        return IqcarError(
            f"the executors' Python lacks something: {missing[0][:_SHOWN]}", "--on-spark",
            "install iqcar's dependencies where PYSPARK_PYTHON points on every host",
        )  # fmt: skip
    if raised:
        kind, said = raised[-1]
        return IqcarError(f"a step failed on an executor: {kind}: {said[:_SHOWN]}", "--on-spark")
    return IqcarError(f"Spark failed: {_first_line(error)}", "--on-spark")


def _first_line(error: Exception) -> str:
    """First line of an error's message that says something."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)[:_SHOWN].rstrip(".")


@dataclass(frozen=True)
class Shipped:
    """Where a worker finds the package: a folder of this machine, or a shipped archive."""

    home: str
    archive: str


def ship(spark: Any) -> Shipped:
    """Make the package known to the executors of a session.

    spark: SparkSession; where it runs on this machine alone (``local[…]``), nothing is shipped.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(executor_boot)  # type: ignore[no-untyped-call]
    context = spark.sparkContext
    if _is_local(context.master):
        return Shipped(str(PACKAGE.parent), "")
    digest = hashlib.sha256()
    for path, place in shipped_files():
        digest.update(place.encode() + path.read_bytes())
    name = f"iqcar-{digest.hexdigest()[:16]}.zip"
    if not any(str(known).endswith(f"/{name}") for known in context.listFiles):
        folder = Path(tempfile.mkdtemp(prefix="iqcar-"))
        # Executors can come, and ask for it, as long as the application lives.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        write_package(folder / name)
        context.addFile(str(folder / name))
    return Shipped("", name)


def write_package(file: Path) -> None:
    """Write the zip that executors unpack."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, place in shipped_files():
            packed.write(path, f"iqcar/{place}")


def shipped_files() -> list[tuple[Path, str]]:
    """Files that an executor needs, and their places in the package, in the order of names."""
    found = [path for path in PACKAGE.rglob("*") if path.suffix in SHIPPED]
    own = [(path, path.relative_to(PACKAGE).as_posix()) for path in sorted(found) if path.is_file()]
    data = [(path, f"data/{path.name}") for path in map(shared_file, SHARED)]
    data += [(path, f"data/rules/{path.name}") for path in sorted(rules_folder().glob("*.json"))]
    # In a checkout data lies beside the package.
    return own + [(path, place) for path, place in data if not path.is_relative_to(PACKAGE)]
