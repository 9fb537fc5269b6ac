"""Measure listing and reading the applications of a real History Server against its own time.

    scripts/bench history_server          2,000 applications, a log of 50 MB
    scripts/bench history_server --full   2,000 applications, a log of 1 GB

The list (goal: under 3 s beside what the server takes to send it) and a log's way through the
server, compared with the same log in its folder, in elapsed time and in the largest memory used.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from iqcar.logs.find.locate import locate
from iqcar.logs.log_summary import peek
from iqcar_lab.clusters.large_logs import one_stage
from scripts.benchmarks import Goals, least_s, output_of, parser_of, sized
from tests.support.history_server import get, history_server
from tests.support.hosted_apps import empty_log
from tests.support.listener_spark import environment, spark_homes

APPLICATIONS, ROUNDS = 2_000, 5
MOST_S = 3.0
"""Goal: seconds of the list beside the server's own."""
START_MS = 1_767_225_600_000
TASK_BYTES = 1_470
"""Bytes of a task in a log of `one_stage`, about."""


elapsed = partial(least_s, times=ROUNDS, clock=time.perf_counter)


def command_of(path: str) -> tuple[float, int]:
    """Analyse a log; return elapsed seconds, and the most memory in MB."""
    program = (
        "import resource,sys; from iqcar.apps.cli.main import app; "
        f"sys.argv[1:] = ['analyze', {path!r}]\n"
        "try: app()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)"
    )
    began = time.perf_counter()
    said = output_of([sys.executable, "-c", program])
    return time.perf_counter() - began, int(said.splitlines()[-1])


def main() -> int:
    """Measure both."""
    options = parser_of(__doc__, full="a log of 1 GB").parse_args()
    size = sized(options, quick=1_000_000, usual=50_000_000, full=1_000_000_000)
    applications = sized(options, quick=20, usual=APPLICATIONS, full=APPLICATIONS)
    goals = Goals()
    home = spark_homes()[0]
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name, "logs")
        logs.mkdir()
        for number in range(applications):
            app, start = f"app-20260101000000-{number:04}", START_MS + 60_000 * number
            (logs / app).write_text(empty_log(app, start))
        large = Path(name, "large")
        large.mkdir()
        one_stage(large, size // TASK_BYTES)
        (log,) = large.iterdir()
        log.rename(logs / log.name)
        with history_server(
            home, logs, Path(name, "server.log"), environment(home), applications=applications + 1
        ) as url:
            served = elapsed(lambda: get(f"{url}/api/v1/applications"))
            ours = elapsed(lambda: [peek(one) for one in locate([url])])
            print(f"list of {applications + 1:,}: {ours:.2f} s, {served:.2f} s of it the server's")
            goals.most("the list, beside what the server takes", ours - served, MOST_S, "s")
            sent = elapsed(lambda: get(f"{url}/api/v1/applications/app-scale/logs"))
            stored = (logs / log.name).stat().st_size / 1e6
            print(f"a log of {stored:,.0f} MB: {sent:.1f} s until the server has sent its zip")
            for place in (str(logs / log.name), f"{url}/history/app-scale"):
                took, memory = command_of(place)
                print(f"  iqcar analyze {place}: {took:.1f} s, {memory:,} MB")
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
