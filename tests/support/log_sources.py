"""Small logs to be damaged: lines of real logs, and of made ones with the plugin's records."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

from iqcar.logs.plugin.plugin_events import SAMPLES_EVENT
from iqcar_lab.clusters.event_log import SyntheticLog, sql_update
from tests.conftest import shared_logs_folder
from tests.support.advised_log import advised_log
from tests.support.contended_log import contended_log
from tests.support.crowded_log import crowded_log
from tests.support.log_places import logs, text
from tests.support.plugin_record import plugin_record

LONGEST_LINE = 40_000
"""Bytes of a line beyond which it is taken only now and then: what is tested is no larger for it"""
_EVENT = re.compile(rb'"Event"\s*:\s*"([^"]*)"')
_STAGE = re.compile(rb'"Stage ID":(\d+)')
_MANY = {b"SparkListenerTaskEnd": 30, b"SparkListenerTaskStart": 10}
"""Most lines kept of a kind; of all others _FEW."""
_FEW = 8


class Source(NamedTuple):
    """A log: its name, and its lines with the kind and the stage of each."""

    name: str
    lines: list[bytes]
    kinds: list[bytes]
    stages: list[bytes]


def source(name: str, lines: list[bytes]) -> Source:
    """Index the lines of a log."""
    kinds = [found.group(1) if (found := _EVENT.search(line)) else b"" for line in lines]
    stages = [found.group(1) if (found := _STAGE.search(line)) else b"" for line in lines]
    return Source(name, lines, kinds, stages)


def made_sources() -> list[Source]:
    """Logs that the tests write: the same on every machine."""
    made = [
        source("contended", contended_log().lines),
        source("crowded", crowded_log().lines),
        source("advised", advised_log().lines),
        source("recorded", recorded_log(crowded_log()).lines),
    ]
    return made


def all_sources() -> list[Source]:
    """The logs that the tests write, and those of other people where there are any."""
    folder = shared_logs_folder()
    found = made_sources()
    if folder.is_dir():
        found += [source(Path(log.path).name, text(log).splitlines()) for log in logs([folder])]
    return found


def recorded_log(log: SyntheticLog, seed: int = 3) -> SyntheticLog:
    """Give the tasks of a log the plugin's records, and the log pools and samples of its hosts."""
    draw = random.Random(seed).randrange
    lines, log.lines = log.lines, []
    for number, line in enumerate(lines):
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            start, wall = int(info["Launch Time"]), int(info["Finish Time"] - info["Launch Time"])
            record = plugin_record(draw, start, max(wall, 1), info["Host"], info["Executor ID"])
            record["pool"] = "default"
            update = json.dumps(record, separators=(",", ":"))
            carrier = {"ID": 0, "Name": "iqcar.task", "Update": update, "Value": "n=1"}
            info["Accumulables"] = [sql_update(5, "scan time", 7), carrier]
        log.raw(json.dumps(event, separators=(",", ":")).encode())
        if number % 12 == 8:
            _add_samples(log, draw)
    pools = [{"name": "default", "mode": "FIFO", "weight": 3, "minShare": 2}]
    fields = {"version": 1, "timeMs": 1_700_000_001_000, "mode": "FAIR", "slots": 12}
    return log.event("org.iqcar.spark.IqcarEventScheduler", {**fields, "pools": pools})


def _add_samples(log: SyntheticLog, draw: random.Random) -> None:
    for executor, host in enumerate(("host-a", "host-b", "host-c")):
        samples = [
            {
                "v": 1, "t": 1_700_000_000_000 + 1000 * draw(25), "dt_ms": 1000,
                "cpu": {"user": 60.0, "system": 10.0, "idle": 30.0, "cores": [95.0, 45.0]},
                "load": [2.5, 2.0, 1.0], "mem": {"total": 1000, "used": 400, "available": 600},
                "disks": {"sda": [10, 20, 1, 2, 3, 4, 250]}, "nets": {"eth0": [100, 200, 3, 4]},
                "psi": {"cpu": [12.5, 300.0], "io": [1.0, 20.0], "memory": [0.0, 0.0]},
                "cgroup": {"cpus": 1.5, "mem_limit": 900, "mem_used": 300, "throttled_ms": 40},
                "procs": [[7, "1", "jvm", 800, 500, 1, 2], [8, "1", "python", 100, 50, 1, 2]],
                "own_cpu_ms": 1.5,
            }
            for _ in range(2)
        ]  # fmt: skip
        fields = {"version": 1, "host": host, "executor": str(executor), "dropped": 0}
        log.event(SAMPLES_EVENT, {**fields, "samples": samples})


def sample(one: Source, rng: random.Random) -> list[bytes]:
    """Take some lines of a log in their order: a few stages with what belongs to them."""
    named = sorted({stage for stage in one.stages if stage})
    stages = set(rng.sample(named, min(len(named), rng.randint(1, 5))))
    of_kind: dict[bytes, list[int]] = {}
    for row, (kind, stage) in enumerate(zip(one.kinds, one.stages, strict=True)):
        short = len(one.lines[row]) < LONGEST_LINE or rng.random() < 0.02
        if short and (not stage or stage in stages or rng.random() < 0.01):
            of_kind.setdefault(kind, []).append(row)
    kept: list[int] = []
    for kind, rows in of_kind.items():
        most = rng.randint(1, _MANY.get(kind, _FEW))
        # The first ones belong together; the others may not.
        kept += rows[:most] if rng.random() < 0.7 else rng.sample(rows, min(most, len(rows)))
    return [one.lines[row] for row in sorted(kept)]
