"""Opens a Spark session or uses the active one, reports its progress, and explains failures."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from iqcar.errors import IqcarError, UsageError
from iqcar.fleet.executor_boot import MISSING

PACKAGES = ("pyspark", "pyarrow")
"""What the driver needs beyond iqcar's own dependencies; so do the executors."""
PIECES_PER_BATCH = 16
"""Rows that Spark hands to Python at once where they are pieces of tables of some MB each: Spark's
own 10,000 would be more than a worker has memory for."""
TASKS_PER_BATCH = 10_000
"""The same where they are tasks of a trace."""
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:InitiatingHeapOccupancyPercent=80 -XX:-G1UseAdaptiveIHOP"
)
"""Java only moves our bytes. Compiling its code twice takes longer than the better code saves; so
does looking for garbage once 45 % of the heap are full, Java's default: most of it are rows that we
keep. A collector of garbage cannot be chosen: users choose theirs in options beside these, and Java
does not start with two; but every collector takes the options of another one."""
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ADAPTIVE = "spark.sql.adaptive.enabled"
"""Spark would plan our shuffles anew while they run, for nothing: how many partitions there are,
and what is in each, is settled."""
_PRUNING = "spark.sql.inMemoryColumnarStorage.partitionPruning"
"""Spark would compile a test in each task that decides which kept rows to look at: all are looked
at."""
_ARROW = "spark.sql.execution.arrow.pyspark.enabled"
"""A small table of the driver's is then part of the plan; else it is the result of a job."""
_OWN_ERROR = re.compile(rf"{MISSING}: (.+)")
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): ?(.*)$", re.MULTILINE)
_SHOWN, _READ = 300, 20_000
"""Characters shown, and looked at, of a message of Spark's: a stack trace of both sides fits."""


@contextmanager
def spark_session(master: str = "") -> Iterator[Any]:
    """Give the active session, or make one and stop it at the end.

    Raises IqcarError if pyspark is missing, or Spark does not start; UsageError if there is an
    active session on another master.

    Parameters
    ----------
    master : URL of the cluster to start an application on. Without it Spark's own settings decide
        (``spark-submit --master``, ``spark-defaults.conf``); ``local[*]`` where they say nothing.
    """
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise IqcarError(
            f"needs {' and '.join(missing)}", "--on-spark", "pip install 'iqcar[spark]'"
        )
    with _pandas_unsaid():
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
        # Looks at many thousand jobs are more than Spark's 1 GB, and all are needed.
        "spark.driver.maxResultSize": "0",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
        "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _pandas_unsaid():
            spark = builder.getOrCreate()
    except Exception as error:  # py4j's, pyspark's, and what starting a JVM raises
        raise IqcarError(
            f"Spark did not start: {first_line(error)}", master or "--on-spark",
            "it needs Java 17 or newer, and a master that can be reached",
        ) from error  # fmt: skip
    context = spark.sparkContext
    if is_local(str(context.master)) and "PYSPARK_PYTHON" not in os.environ:
        # On this machine the workers can be what we are; Spark would take the first `python3`.
        context.pythonExec = sys.executable
    try:
        yield spark
    finally:
        spark.stop()


def is_local(master: str) -> bool:
    """Tell whether executors run in the driver's process, on this machine."""
    return master == "local" or master.startswith("local[")


@contextmanager
def _pandas_unsaid() -> Iterator[None]:
    """Keep pyspark from warning of pandas 3, whose own strings none of our rows holds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


@contextmanager
def working_on(spark: Any, what: str) -> Iterator[None]:
    """Set up a session for our rows, and turn what goes wrong on it into one line.

    Raises IqcarError if a step fails on the executors.
    """
    with _pandas_unsaid():
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

    ours = {
        _BATCH: str(PIECES_PER_BATCH), _ADAPTIVE: "false", _PRUNING: "false", _ARROW: "true",
    }  # fmt: skip
    before = {key: spark.conf.get(key) for key in ours}
    for key, value in ours.items():
        spark.conf.set(key, value)
    spark.sparkContext.setJobDescription(what)
    try:
        with _pandas_unsaid():
            yield
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error
    finally:
        # Of a session that has ended, what it ended with is what is to be said.
        with suppress(Py4JError):
            spark.sparkContext.setJobDescription(None)
            for key, value in before.items():
                spark.conf.set(key, value)


@contextmanager
def rows_per_batch(spark: Any, rows: int) -> Iterator[None]:
    """Let Spark hand so many rows to Python at once."""
    before = spark.conf.get(_BATCH)
    spark.conf.set(_BATCH, str(rows))
    yield
    spark.conf.set(_BATCH, before)


def failure(error: Exception) -> IqcarError:
    """Say in one line why a step failed on the executors."""
    text = str(error)[:_READ]
    if own := _OWN_ERROR.search(text):
        return IqcarError(
            f"the executors' Python lacks something: {own[1][:_SHOWN]}", "--on-spark",
            "install iqcar's dependencies where PYSPARK_PYTHON points on every host",
        )  # fmt: skip
    raised = _PYTHON_ERROR.findall(text)
    kinds = {kind for kind, _ in raised}
    if raised and kinds & {"ModuleNotFoundError", "ImportError"}:
        why = next(said for kind, said in raised if kind in ("ModuleNotFoundError", "ImportError"))
        return IqcarError(
            f"the executors' Python lacks something: {why[:_SHOWN]}", "--on-spark",
            "install iqcar's dependencies where PYSPARK_PYTHON points on every host",
        )  # fmt: skip
    if raised:
        kind, said = raised[-1]
        return IqcarError(f"a step failed on an executor: {kind}: {said[:_SHOWN]}", "--on-spark")
    return IqcarError(f"Spark failed: {first_line(error)}", "--on-spark")


def first_line(error: Exception) -> str:
    """First line of an error's message that says something."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)[:_SHOWN].rstrip(".")


EVERY_S = 0.5
"""Seconds between two looks at Spark's status: often enough for a person."""


@contextmanager
def watched(
    spark: Any, progress: Callable[[str, int, int], None] | None
) -> Iterator[Callable[[str], None]]:
    """Report the tasks of the stages that run until the end of the block.

    Yields what is to be called with what is being done now.
    """
    doing = [""]
    ended = threading.Event()

    def tell() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(EVERY_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # the session is ending: there is nothing more to tell
                return
            known = [stage for stage in stages if stage is not None]
            if progress is not None and known:
                done = sum(stage.numCompletedTasks for stage in known)
                progress(doing[0], done, sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=tell, daemon=True)
    if progress is not None:
        thread.start()
    try:
        yield lambda what: doing.__setitem__(0, what)
    finally:
        ended.set()
        if progress is not None:
            thread.join()
