"""Runs one query at a time, by a Spark of our own or a command, until it ends or must stop."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from iqcar.base.files.derived import open_derived
from iqcar.errors import IqcarError
from iqcar.lab.experiment.experiment_plan import LoadedPlan, PlannedQuery
from iqcar.lab.experiment.hogs import StoppedError, end
from iqcar.lab.inject.run_plan import Stop
from iqcar.logs.attach.spark_conf import LISTENER, PLUGIN, SparkConf, listener_jar

START_S = 180.0
"""Spark has this long to start: a cluster may have to find executors."""
GRACE_S = 20.0
COMMAND_GRACE_S = 5.0
"""Spark, and a command, that were told to end are killed after this."""
POLL_S = 0.1
APPLICATION = "iqcar experiment"
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
                [sys.executable, "-m", "iqcar.lab.experiment.spark_queries"],
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
        end(self._process, GRACE_S)

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
