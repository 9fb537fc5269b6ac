"""Measure how time and memory grow with the size of a log, in one dimension after another.

    scripts/bench scale                       smaller sizes, some 3 minutes
    scripts/bench scale --full                up to 1,000,000 tasks
    scripts/bench scale --case many_stages    one dimension (or several: repeat it)

Each case is measured at a size and at four times that size, in a process of its own: reading the
log, the diagnosis, its JSON (written as it is made, as `iqcar analyze --json` does) and its HTML
report. Times are CPU seconds, less what the same step
takes for a log of a few tasks; MB is the peak of resident memory in that step, whose high-water
mark is reset before it. The exponent is log(t(4n) / t(n)) / log 4: 1 is linear. Times below a
quarter of a second are within the variation of the fixed costs: the exponent is left out where the
larger size takes less, and the smaller size counts as that much. A process is ended, with a remark,
after 10 minutes of CPU time or at 4 GB, and the next case starts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from iqcar_lab.clusters.large_logs import CASES, Case
from scripts.benchmarks import Goals, parser_of, sized

STEPS = ("read", "diagnose", "json", "html")
TINY = 40
"""Size of the log whose times are taken for the fixed costs, or a hundredth where that is less."""
COMPILED_TASKS = 30_000
"""Tasks of the first log that each process reads: from 32 MiB of lines compiled code reads them."""
WARMED = 3
"""Logs that a process reads before the one that counts: that, and twice the tiny one."""
LIMIT_S = 600
LIMIT_MB = 4_000
GOAL_EXPONENT, GOAL_MB = 1.15, 2_000
TELLING_S = 0.25
"""CPU seconds below which an exponent is meaningless."""
Figures = dict[str, tuple[float, float]]
"""Per step: CPU seconds, and peak MB."""


def status_mb(field: str, process: int | str = "self") -> float:
    """Return a size from a process' status in /proc, in MB; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    found = [int(line.split()[1]) for line in lines if line.startswith(f"{field}:")]
    return found[0] / 1024 if found else 0.0


def run_steps(log: Path) -> None:
    """Read, diagnose, and write JSON and HTML; print a line of figures after each step."""
    from iqcar.pipeline import diagnose, read
    from iqcar.show.html import render_page
    from iqcar.show.json.analyze import json_chunks

    def write_json(diagnosis: Any) -> None:
        with Path(os.devnull).open("wb") as out:
            out.writelines(json_chunks(diagnosis))

    made = None
    for step, work in zip(
        STEPS, (lambda _: read(log, processes=1), diagnose, write_json, render_page), strict=True
    ):
        Path("/proc/self/clear_refs").write_text("5")
        began = time.process_time()
        result = work(made)
        seconds = time.process_time() - began
        print(json.dumps([step, seconds, status_mb("VmHWM")]), flush=True)
        if step in ("read", "diagnose"):
            made = result
        del result


def measured(log: Path, warm: Path, compiled: Path) -> tuple[Figures, str]:
    """Return the figures of the steps that finished within the limits, and a remark on failure."""
    logs = [str(path) for path in (compiled, warm, warm, log)]
    command = [sys.executable, __file__, "--steps", *logs]
    figures: Figures = {}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=out, stderr=errors)
        failure = ""
        while child.poll() is None and not failure:
            if status_mb("VmRSS", child.pid) > LIMIT_MB:
                failure = f"more than {LIMIT_MB / 1000:.0f} GB"
            time.sleep(0.05)
        if failure:
            child.kill()
        child.wait()
        out.seek(0)
        errors.seek(0)
        rows = [json.loads(line) for line in out]
        error = errors.read().strip()
    if not failure and child.returncode == -signal.SIGXCPU:
        failure = f"more than {LIMIT_S // 60} minutes"
    elif not failure and child.returncode:
        failure = error.splitlines()[-1] if error else "ended"
    fixed = {step: seconds for step, seconds, _ in rows[: WARMED * len(STEPS)]}
    for step, seconds, peak in rows[WARMED * len(STEPS) :]:
        figures[step] = (max(seconds - fixed[step], 0.0), peak)
    if failure and len(figures) < len(STEPS):
        failure = f"{STEPS[len(figures)]}: {failure}"
    return figures, failure


def row(case: Case, size: int, small: Figures, large: Figures, failure: str) -> tuple[bool, str]:
    """Return whether the goal is met, and a row of the table."""
    cells, good = [], not failure
    for step in STEPS:
        if step not in large:
            cells.append("– | – | –")
            continue
        seconds, peak = large[step]
        exponent = "–"
        if seconds >= TELLING_S and step in small:
            value = math.log(seconds / max(small[step][0], TELLING_S)) / math.log(4)
            exponent = f"{value:.2f}"
            good &= value <= GOAL_EXPONENT
        good &= peak <= GOAL_MB
        cells.append(f"{seconds:.2f} | {peak:.0f} | {exponent}")
    note = "; ".join(part for part in (failure, case.why) if part)
    line = f"| {size:,} {case.unit} | {' | '.join(cells)} | {note} |"
    return good or bool(case.why and not failure), line


def main() -> int:
    parser = parser_of(__doc__, full="the sizes of large clusters")
    parser.add_argument("--case", action="append", choices=CASES, help="only this; repeatable")
    parser.add_argument("--steps", nargs="+", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 60))
        for log in options.steps:
            run_steps(log)
        return 0
    heads = " | ".join(f"{step} s | MB | exp" for step in STEPS)
    print(f"| size | {heads} | remark |")
    print("|---" + "|--:" * 3 * len(STEPS) + "|---|", flush=True)
    goals = Goals()
    with tempfile.TemporaryDirectory(prefix="iqcar-scale-") as folder:
        CASES["one_stage"].write(Path(folder), 1 if options.quick else COMPILED_TASKS)
        for name in options.case or (["short_queries"] if options.quick else CASES):
            case = CASES[name]
            size = sized(options, quick=20, usual=case.usual, full=case.full)
            goals.met(*measure_case(case, size, Path(folder)))
    print(f"\ngoal: exponents of at most {GOAL_EXPONENT}, peaks of at most {GOAL_MB} MB")
    return goals.end()


def measure_case(case: Case, size: int, compiled: Path) -> tuple[bool, str]:
    """Write the logs of a case, measure both sizes, and delete the logs."""
    with tempfile.TemporaryDirectory(prefix="iqcar-scale-") as folder:
        logs = []
        for number in (max(min(TINY, size // 100), 1), size // 4, size):
            logs.append(Path(folder) / str(number))
            logs[-1].mkdir()
            case.write(logs[-1], number)
        small, failure = measured(logs[1], logs[0], compiled)
        large: Figures = {}
        if not failure:
            large, failure = measured(logs[2], logs[0], compiled)
    return row(case, size, small, large, failure)


if __name__ == "__main__":
    sys.exit(main())
