"""Measure listing and reading the applications of a real History Server against its own time.

    scripts/bench history_server          2,000 applications, a log of 50 MB
    scripts/bench history_server --full   2,000 applications, a log of 1 GB

The list (goal: under 3 s beside what the server takes to send it) and a log's way through the
server, compared with the same log in its folder, in elapsed time and in the largest memory used.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from iqcar.logs.find.locate import locate
from iqcar.logs.log_summary import peek
from scripts import scale_logs
from tests.support.history_server import get, history_server
from tests.support.hosted_apps import empty_log
from tests.support.listener_spark import environment, spark_homes

APPLICATIONS, ROUNDS = 2_000, 5
START_MS = 1_767_225_600_000
TASK_BYTES = 1_470
"""Bytes of a task in a log of `scale_logs`, about."""


def least_s(do: Callable[[], object]) -> float:
    """Return the least of the elapsed seconds of some rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        do()
        times.append(time.perf_counter() - began)
    return min(times)


def command_of(path: str) -> tuple[float, int]:
    """Analyse a log; return elapsed seconds, and the most memory in MB."""
    program = (
        "import resource,sys; from iqcar.apps.cli.main import app; "
        f"sys.argv[1:] = ['analyze', {path!r}]\n"
        "try: app()\n"
        "finally: print('MEMORY', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    took = time.perf_counter() - began
    return took, int(done.stdout.rpartition("MEMORY")[2] or done.stderr[-200:])


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="a log of 1 GB")
    size = 1_000_000_000 if parser.parse_args().full else 50_000_000
    home = spark_homes()[0]
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name, "logs")
        logs.mkdir()
        for number in range(APPLICATIONS):
            app, start = f"app-20260101000000-{number:04}", START_MS + 60_000 * number
            (logs / app).write_text(empty_log(app, start))
        large = Path(name, "large")
        large.mkdir()
        scale_logs.one_stage(large, size // TASK_BYTES)
        (log,) = large.iterdir()
        log.rename(logs / log.name)
        with history_server(
            home, logs, Path(name, "server.log"), environment(home), applications=APPLICATIONS + 1
        ) as url:
            served = least_s(lambda: get(f"{url}/api/v1/applications"))
            ours = least_s(lambda: [peek(one) for one in locate([url])])
            print(f"list of {APPLICATIONS + 1:,}: {ours:.2f} s, {served:.2f} s of it the server's")
            sent = least_s(lambda: get(f"{url}/api/v1/applications/app-scale/logs"))
            stored = (logs / log.name).stat().st_size / 1e6
            print(f"a log of {stored:,.0f} MB: {sent:.1f} s until the server has sent its zip")
            for place in (str(logs / log.name), f"{url}/history/app-scale"):
                took, memory = command_of(place)
                print(f"  iqcar analyze {place}: {took:.1f} s, {memory:,} MB")


if __name__ == "__main__":
    main()
