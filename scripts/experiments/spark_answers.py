"""Answers the study's questions from the REST interface of Spark's History Server.

It has no waits, so times of tasks must do: a query alone takes the time of its tasks on all slots;
the time of another's tasks while it ran, on all slots, is what that query cost it.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyspark
from cluster import free_port, wait_until

SERVER = "org.apache.spark.deploy.history.HistoryServer"


@dataclass(frozen=True)
class FromRest:
    """Start and end of each query, and start, end and time of tasks of its stages, in s."""

    slots: int
    ran: Mapping[str, tuple[float, float]]
    stages: Mapping[str, list[tuple[float, float, float]]]

    @property
    def lost(self) -> dict[str, float]:
        found = {}
        for name, (start, end) in self.ran.items():
            alone = sum(busy for _, _, busy in self.stages[name]) / self.slots
            found[name] = max(0.0, 1.0 - alone / (end - start))
        return found

    def cost(self, victim: str) -> dict[str, float]:
        start, end = self.ran[victim]
        return {
            name: self._beside(name, start, end) / self.slots / (end - start)
            for name in self.ran
            if name != victim
        }

    def _beside(self, name: str, start: float, end: float) -> float:
        """Time of a query's tasks between two moments, spread evenly over its stages."""
        return sum(
            busy * max(0.0, min(end, last) - max(start, first)) / max(last - first, 1e-3)
            for first, last, busy in self.stages[name]
        )

    def gain_of_others(self, source: str) -> float:
        return sum(
            self.cost(name)[source] * (end - start)
            for name, (start, end) in self.ran.items()
            if name != source
        )


@contextmanager
def answering(log: Path, folder: Path, names: Sequence[str]) -> Iterator[FromRest]:
    """Start a History Server on the log of one run, and read what it tells of these queries."""
    home = Path(pyspark.__file__).parent
    logs = folder / f"history-{log.name}"
    logs.mkdir()
    os.link(log, logs / log.name)
    port = free_port()
    settings = {
        "spark.history.fs.logDirectory": logs.resolve().as_uri(),
        "spark.history.ui.port": port,
    }
    options = " ".join(f"-D{key}={value}" for key, value in settings.items())
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_HISTORY_OPTS": options}
    with (folder / "history-server.log").open("w") as out:
        server = subprocess.Popen(
            [str(home / "bin" / "spark-class"), SERVER], env=env, stdout=out, stderr=out
        )
    address = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        wait_until(lambda: _lists(address), "History Server", [server])
        yield _read(address, names)
    finally:
        server.terminate()
        server.wait()


def _read(address: str, names: Sequence[str]) -> FromRest:
    (application,) = _get(address)
    of = f"{address}/{application['id']}"
    stages = {one["stageId"]: one for one in _get(f"{of}/stages") if one["status"] == "COMPLETE"}
    slots = sum(one["totalCores"] for one in _get(f"{of}/allexecutors"))
    ran: dict[str, tuple[float, float]] = {}
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for job in _get(f"{of}/jobs"):
        name = job["description"]
        if name not in names:
            continue
        start, end = _seconds(job["submissionTime"]), _seconds(job["completionTime"])
        first, last = ran.get(name, (start, end))
        ran[name] = min(start, first), max(end, last)
        for stage in (stages.pop(each, None) for each in job["stageIds"]):
            if stage is not None:
                began = stage.get("firstTaskLaunchedTime", stage["submissionTime"])
                times = _seconds(began), _seconds(stage["completionTime"])
                found[name].append((*times, stage["executorRunTime"] / 1e3))
    return FromRest(slots, ran, found)


def _lists(address: str) -> bool:
    try:
        return bool(_get(address))
    except OSError:
        return False


def _get(address: str) -> list[Any]:
    with urllib.request.urlopen(address, timeout=60) as answer:
        found: list[Any] = json.load(answer)
        return found


def _seconds(time_text: str) -> float:
    return datetime.strptime(time_text, "%Y-%m-%dT%H:%M:%S.%fGMT").timestamp()
