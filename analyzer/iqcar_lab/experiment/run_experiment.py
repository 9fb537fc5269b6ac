"""Carries out an experiment: pairs of runs with and without hogs, the least certain cell next."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from iqcar.base.files.derived import open_derived
from iqcar.errors import IqcarError
from iqcar.logs.attach.spark_conf import LISTENER, PLUGIN, SparkConf, listener_jar
from iqcar.logs.text import redact_text
from iqcar_lab.experiment.experiment_plan import (
    Cell,
    LoadedPlan,
    Pair,
    PlannedQuery,
    at_level,
    cells_of,
    hogs_per_task,
    next_cell,
)
from iqcar_lab.inject.anomalies import AnomalySettings
from iqcar_lab.inject.plan import Injection
from iqcar_lab.inject.run_plan import END, POLL_S, START, InjectionRecord, Stop, epoch_ms, run

BUDGET = "budget"
"""Why it ended, where not by a signal; empty: everything was run."""


class ExperimentRun(msgspec.Struct, frozen=True):
    """One run of a query.

    number: from 1; in the event log it stands in the query's description.
    pair: from 1, alike for a run with hogs and the one beside it without; 0: warm-up.
    k: hogs for each task; 0: none.
    duration_ms: None if it failed.
    cores: processor time of the hogs by time, where told.
    """

    number: int
    pair: int
    query: str
    resource: str
    level: float
    k: float
    start_ms: float
    duration_ms: float | None
    failed: str = ""
    cores: float | None = None


@dataclass
class Done:
    """What was run, and why it ended."""

    runs: list[ExperimentRun] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    ended_by: str = ""
    at_once: dict[str, float] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    """Event logs, one for each start of Spark."""


def run_experiment(
    plan: LoadedPlan, folder: Path, stop: Stop, say: Callable[[str], object] = lambda line: None
) -> Done:
    """Run cells until all are repeated, the budget is used up, or it shall stop.

    The budget counts from when Spark has started. No pair is started after it, and the one that
    runs then is finished. Raises IqcarError if Spark does not start, and nothing was measured
    before.

    folder: for Spark's event log and messages.
    say: called with a line about each run.
    """
    experiment = _Experiment(plan, folder, stop, say)
    try:
        experiment.run()
    except StoppedError:
        experiment.done.ended_by = stop.name
    except IqcarError as error:
        if not experiment.done.pairs:
            raise
        experiment.done.ended_by = str(error)
    finally:
        experiment.close()
    return experiment.done


class _Experiment:
    def __init__(
        self, plan: LoadedPlan, folder: Path, stop: Stop, say: Callable[[str], object]
    ) -> None:
        self._plan, self._folder, self._stop, self._say = plan, folder, stop, say
        self._spark: SparkSession | None = None
        self._queries = {query.name: query for query in plan.queries}
        self._until = 0.0
        self.done = Done()

    def run(self) -> None:
        """Warm up, then run pair after pair."""
        if self._plan.needs_spark:
            self._say("starting Spark")
            self._spark = SparkSession(self._plan, self._folder, self._stop)
        self._until = time.monotonic() + self._plan.budget_s
        for query in self._plan.queries:
            self.done.at_once[query.name] = self._spark.slots if self._spark and query.sql else 1
            for _ in range(self._plan.warm_up):
                if not self._time_left():
                    return
                self._run(query, None, 0)
        while (cell := next_cell(self._plan, self.done.pairs, self.done.at_once)) is not None:
            if not self._time_left():
                return
            self._pair(cell)

    def close(self) -> None:
        """End Spark."""
        if self._spark is not None:
            self._spark.close()
            if (log := self._spark.log()) is not None:
                self.done.logs.append(log)
            self._spark = None

    def _time_left(self) -> bool:
        if self._stop.signal:
            raise StoppedError
        if time.monotonic() < self._until:
            return True
        self.done.ended_by = BUDGET
        return False

    def _pair(self, cell: Cell) -> None:
        """Run a cell with and without hogs; the order turns from pair to pair."""
        number = len(self.done.pairs) + 1
        query = self._queries[cell.query]
        order: list[Cell | None] = [None, cell] if number % 2 else [cell, None]
        took = dict.fromkeys((False, True), float("nan"))
        for loaded in order:
            run = self._run(query, loaded, number, cell)
            took[loaded is not None] = run.duration_ms
            if run.failed:
                break
        self.done.pairs.append(Pair(cell, took[False], took[True]))

    def _run(
        self, query: PlannedQuery, cell: Cell | None, pair: int, beside: Cell | None = None
    ) -> QueryTiming:
        number = len(self.done.runs) + 1
        settings, k = None, 0.0
        if cell is not None:
            settings = at_level(self._plan.strengths[cell.resource], cell.level)
            k = hogs_per_task(self._plan, cell, self.done.at_once)
        cores = None
        try:
            longest_s, host = self._plan.longest_run_s, self._plan.hosts[0]
            with hogs(settings, host, longest_s, self._stop) as load:
                took = self._ask(query, number)
            cores = load.cores if load else None
            if load and load.error:
                took = QueryTiming(took.start_ms, float("nan"), f"hogs: {load.error}")
        except IqcarError as error:  # from hogs
            took = QueryTiming(time.time() * 1000, float("nan"), str(error))
        either = cell or beside
        self.done.runs.append(
            ExperimentRun(
                number=number, pair=pair, query=query.name,
                resource=either.resource if either else "", level=cell.level if cell else 0.0, k=k,
                start_ms=took.start_ms, duration_ms=None if took.failed else took.duration_ms,
                failed=redact_text(took.failed), cores=cores,
            )
        )  # fmt: skip
        self._say(self._line(query.name, cell, pair, took))
        if self._plan.needs_spark and self._spark is None:
            self._spark = SparkSession(self._plan, self._folder, self._stop)
        return took

    def _ask(self, query: PlannedQuery, number: int) -> QueryTiming:
        if query.command or self._spark is None:
            return run_command(query, self._stop, self._plan.longest_run_s)
        try:
            return self._spark.run(query, number, self._plan.longest_run_s)
        except IqcarError as error:  # it has gone, or still runs the query
            self.close()
            return QueryTiming(time.time() * 1000, float("nan"), str(error))

    def _line(self, name: str, cell: Cell | None, pair: int, took: QueryTiming) -> str:
        under = f"under {cell.resource} {cell.level:g}" if cell else "alone"
        failed = redact_text(took.failed)
        result = f"failed: {failed}" if failed else f"{took.duration_ms / 1000:.2f} s"
        in_all = len(cells_of(self._plan)) * self._plan.repeats
        step = f"pair {pair}/{in_all}" if pair else "warm-up"
        return f"{step}  {name} {under}  {result}"


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close a process's input, wait for it, and kill its group if it does not end."""
    try:
        if process.stdin:
            process.stdin.close()
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # The group may have members left though its first process has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


LEAD_MS = 500
"""Hogs are started this long before they begin, so that they begin together."""
PATIENCE_S = 30.0
"""Hogs that have not begun after this will not: they take a second."""


class StoppedError(Exception):
    """The experiment shall end; what ran was ended."""


class _Hogs(threading.Thread):
    """Hogs of this machine: why they ended early, and their processor time by time, where told."""

    def __init__(self, injection: Injection, stop: Stop) -> None:
        super().__init__(daemon=True)
        self._injection, self._experiment = injection, stop
        self.over = Stop()
        self.begun = False
        self.error = ""
        self.cores: float | None = None

    def run(self) -> None:
        start_ms = epoch_ms() + LEAD_MS
        try:
            run([self._injection], start_ms=start_ms, tell=self._tell, progress=self._look,
                stop=self.over)  # fmt: skip
        except IqcarError as error:
            self.error = str(error)

    def _tell(self, record: InjectionRecord) -> None:
        self.begun = self.begun or record.event == START
        if record.event == END:
            self.error = record.error or ("" if self.over.signal else "they ended early")
            self.cores = record.achieved.get("cores")

    def _look(self, _: float) -> None:
        self.over.signal = self.over.signal or self._experiment.signal


@contextmanager
def hogs(
    settings: AnomalySettings | None, host: str, longest_s: float, stop: Stop
) -> Iterator[_Hogs | None]:
    """Keep hogs working while the block runs, until it shall stop; None: no hogs.

    Raises IqcarError if they cannot be started; StoppedError if it shall stop before they began.
    """
    if settings is None:
        yield None
        return
    load = _Hogs(Injection(host, 0, round(longest_s * 1000), settings), stop)
    load.start()
    try:
        until = time.monotonic() + PATIENCE_S
        while not load.begun and load.is_alive() and time.monotonic() < until:
            if stop.signal:
                raise StoppedError
            time.sleep(POLL_S / 10)
        if not load.begun or not load.is_alive():
            raise IqcarError(f"hogs cannot be started: {load.error or 'they did not begin'}")
        yield load
    finally:
        load.over.signal = signal.SIGTERM
        load.join()


START_S = 180.0
"""Spark has this long to start: a cluster may have to find executors."""
SPARK_GRACE_S = 20.0
COMMAND_GRACE_S = 5.0
"""Spark, and a command, that were told to end are killed after this."""
APPLICATION = "iqcar-lab experiment"
ENVIRONMENT_OF_SUBMIT = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE")


@dataclass(frozen=True)
class QueryTiming:
    """One run of a query.

    start_ms: epoch ms.
    duration_ms: NaN if it failed.
    failed: why; empty if it did not.
    """

    start_ms: float
    duration_ms: float
    failed: str = ""


class SparkSession:
    """A Spark application in a process group of its own, asked query by query.

    Raises IqcarError if Spark does not start; StoppedError if it shall stop meanwhile.

    folder: for its event log (``eventlogs/``) and messages (``spark.log``).
    stop: looked at all the time.
    """

    def __init__(self, plan: LoadedPlan, folder: Path, stop: Stop) -> None:
        self._stop = stop
        self._messages = folder / "spark.log"
        self._heard = b""
        logs = folder / "eventlogs"
        logs.mkdir(parents=True, exist_ok=True)
        settings = {
            "spark.app.name": APPLICATION,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": logs.resolve().as_uri(),
            "spark.sql.warehouse.dir": (folder / "warehouse").resolve().as_uri(),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **plan.conf,
            **(attached(plan.conf) if plan.plugin else {}),
        }
        words = ["--master", plan.master]
        for key, value in settings.items():
            words += ["--conf", f"{key}={value}"]
        environment = {k: v for k, v in os.environ.items() if k not in ENVIRONMENT_OF_SUBMIT}
        environment["PYSPARK_PYTHON"] = environment.get("PYSPARK_PYTHON", sys.executable)
        if plan.master.startswith("local"):
            # All is local, so a host name that does not resolve must not matter.
            environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*words, "pyspark-shell"]))
        with open_derived(self._messages) as messages:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "iqcar_lab.experiment.spark_queries"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                bufsize=0,
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends it
            )
        try:
            hello = self._answer(START_S)
            self.slots = max(int(hello["slots"]), 1)
            self._log = logs, str(hello["application"])
            if plan.setup and (failed := self._ask({"setup": plan.setup}, START_S).get("failed")):
                raise IqcarError(f"setup failed: {failed}", str(self._messages))
        except BaseException:
            self.close()
            raise

    def log(self) -> Path | None:
        """Return its event log, whose name ends with the codec; None if there is none."""
        folder, application = self._log
        return next(iter(sorted(folder.glob(f"{application}*"))), None)

    def run(self, query: PlannedQuery, number: int, longest_s: float) -> QueryTiming:
        """Run SQL with the noop sink.

        Raises IqcarError if Spark has gone or does not end a query in time. Raises StoppedError.
        """
        order = {"run": number, "name": query.name, "sql": query.sql}
        began = time.time() * 1000
        answer = self._ask(order, longest_s)
        if "failed" in answer:
            return QueryTiming(began, float("nan"), str(answer["failed"]))
        return QueryTiming(float(answer["start_ms"]), float(answer["duration_ms"]))

    def close(self) -> None:
        """End Spark, and kill what does not end."""
        end(self._process, SPARK_GRACE_S)

    def _ask(self, order: dict[str, Any], longest_s: float) -> dict[str, Any]:
        try:
            if self._process.stdin:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        return self._answer(longest_s)

    def _answer(self, longest_s: float) -> dict[str, Any]:
        until = time.monotonic() + longest_s
        out: IO[bytes] | None = self._process.stdout
        while out and b"\n" not in self._heard:
            if self._stop.signal:
                raise StoppedError
            if time.monotonic() > until:
                what = f"Spark did not answer in {longest_s:g} s"
                raise IqcarError(what, str(self._messages), "raise longest_run in the plan")
            if select.select([out], [], [], POLL_S)[0]:
                more = os.read(out.fileno(), 1 << 16)
                if not more:
                    raise self._gone()
                self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> IqcarError:
        return IqcarError("Spark has ended", str(self._messages), "its last lines say why")


def attached(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings that attach the plugin beside the plan's own jars, plugins and listeners."""
    own = {
        name: [part for part in conf.get(f"spark.{name}", "").split(",") if part]
        for name in ("jars", "plugins", "extraListeners")
    }
    found = SparkConf(
        jar=str(listener_jar()),
        jars=own["jars"],
        plugins=[name for name in own["plugins"] if name != PLUGIN],
        listeners=[name for name in own["extraListeners"] if name != LISTENER],
    ).settings()
    found.pop("spark.eventLog.enabled")
    return found


def run_command(query: PlannedQuery, stop: Stop, longest_s: float) -> QueryTiming:
    """Run a command that runs one query; its whole time counts.

    Raises StoppedError.
    """
    began, since = time.time() * 1000, time.monotonic()
    try:
        process = subprocess.Popen(
            list(query.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return QueryTiming(began, float("nan"), f"{query.command[0]}: {error.strerror}")
    try:
        while process.poll() is None:
            if stop.signal:
                raise StoppedError
            if time.monotonic() - since > longest_s:
                return QueryTiming(began, float("nan"), f"it took longer than {longest_s:g} s")
            time.sleep(POLL_S / 10)
    finally:
        if process.returncode is None:
            process.terminate()
        end(process, COMMAND_GRACE_S)
    took = (time.monotonic() - since) * 1000
    if process.returncode:
        return QueryTiming(began, float("nan"), f"exit code {process.returncode}")
    return QueryTiming(began, took)
