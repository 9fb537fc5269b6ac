"""Counts of an event log made with nothing of ours but a JSON parser and the codec libraries."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from pathlib import Path
from typing import Any

import zstandard


def event_lines(log: Path) -> list[bytes]:
    """Lines of one log: a file, or a rolling directory whose parts are read in order."""
    if log.is_dir():
        parts = sorted(log.glob("events_*"), key=lambda p: int(p.name.split("_")[1]))
        return [line for part in parts for line in event_lines(part)]
    data = log.read_bytes()
    if data[:4] == b"\x28\xb5\x2f\xfd":
        data = (
            zstandard.ZstdDecompressor()
            .stream_reader(io.BytesIO(data), read_across_frames=True)
            .read()
        )
    elif data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:3] == b"BZh":
        data = bz2.decompress(data)
    return [line for line in data.split(b"\n") if line.strip()]


def count(log: Path) -> dict[str, int]:
    """The counts of the result's ``inputs``, from the raw events."""
    events: list[dict[str, Any]] = []
    malformed = 0
    for line in event_lines(log):
        try:
            events.append(json.loads(line))
        except ValueError:
            malformed += 1
    ends = [e for e in events if e["Event"] == "SparkListenerTaskEnd"]
    starts = [e for e in events if e["Event"] == "SparkListenerTaskStart"]
    infos = [
        e["Stage Info"]
        for e in events
        if e["Event"] in ("SparkListenerStageSubmitted", "SparkListenerStageCompleted")
    ]
    stages = {(i["Stage ID"], i.get("Stage Attempt ID", 0)) for i in infos}
    stages |= {(e["Stage ID"], e.get("Stage Attempt ID", 0)) for e in ends + starts}
    added = {e["Executor ID"] for e in events if e["Event"] == "SparkListenerExecutorAdded"}
    ran = {e["Task Info"]["Executor ID"] for e in ends + starts}
    return {
        "events": len(events),
        "malformed_lines": malformed,
        "tasks": len(ends),
        "stages": len(stages),
        "jobs": len({e["Job ID"] for e in events if e["Event"] == "SparkListenerJobStart"}),
        "sql_executions": len(
            {
                e["executionId"]
                for e in events
                if e["Event"].endswith("SparkListenerSQLExecutionStart")
            }
        ),
        "hosts": len({e["Task Info"]["Host"] for e in ends}),
        "executors": len(added | ran),
    }
