"""Runs one hog, a process that loads a host: started by :mod:`iqcar_lab.inject.run_plan`.

It reads its order, one line of JSON, from standard input, works from the start to the end that the
order names, and writes two lines: when it started, and what it achieved. Standard input stays open
as long as its starter lives and wants it; its end stops the hog, so that nothing outlives a starter
that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from iqcar.base.workers import at_end_of
from iqcar.errors import IqcarError
from iqcar_lab.inject.anomalies import Anomaly, Deadline, HogSpec, read_order_line
from iqcar_lab.inject.plan import settings_of

GRACE_S = 2.0
"""A hog that was told to stop and is held up (by a slow disk, by swapping) is ended after this."""


def main() -> None:
    """Obey the order on standard input."""
    line = read_order_line(0)
    if not line.endswith(b"\n"):
        sys.exit(0)
    order = json.loads(line)
    deadline = Deadline(order["end_ms"] / 1000 - time.time())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(deadline, "stopped", True))

    def stop() -> None:
        deadline.stopped = True
        time.sleep(GRACE_S)
        os._exit(1)

    at_end_of(0, stop)
    try:
        _work(order, deadline)
    except IqcarError as error:
        _say({"error": str(error)})
    except (OSError, MemoryError) as error:
        _say({"error": getattr(error, "strerror", None) or "out of memory"})


def _work(order: dict[str, Any], deadline: Deadline) -> None:
    settings = settings_of(Anomaly(order["anomaly"]), order["settings"])
    _offer_to_the_oom_killer()
    fd = order["fd"]
    connection = socket.socket(fileno=fd) if fd is not None else None
    deadline.sleep(order["start_ms"] / 1000 - time.time())
    if deadline.over():
        return
    _say({"started_ms": round(time.time() * 1000)})
    used = time.process_time()
    spec = HogSpec(order["index"], order["role"], connection)
    achieved = settings.hog(spec, deadline)
    achieved["cpu_ms"] = round((time.process_time() - used) * 1000)
    _say({"ended_ms": round(time.time() * 1000), "achieved": achieved})


def _offer_to_the_oom_killer() -> None:
    """If memory runs out, the kernel shall take a hog and not a Spark executor."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    except OSError:
        return


def _say(line: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the starter was killed
        os._exit(1)


if __name__ == "__main__":
    main()
