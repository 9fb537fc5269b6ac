"""Damage event logs at random and run iqcar on them until the time is over: see scripts/fuzz."""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

MEMORY_BYTES = 3 << 30
"""Memory that the process with the cases may take: three times what it takes by itself."""
CASE_S = 60.0
"""Time after which a case hangs: a hundred times what the slowest usually takes."""
COMMANDS_TAKE = 8.0
"""Times as long as that for a case that goes through every command."""
START_S = 600.0
"""Time for a process to start; the first one compiles what all others load."""
CASES_PER_PROCESS = 2000
"""Cases after which a process is replaced: what it leaks shows neither in time nor in memory."""
TELL_S = 60.0
KEPT = 3
"""Findings kept of those that are probably the same."""


Ran = tuple[int, list[str], str, list[Any]]
"""Lines that a case changed, its changes, how far it was taken, and what was found."""


def damaged_cases(made_only: bool) -> tuple[int, Callable[[int, Path], Ran]]:
    """Return the number of logs that cases are made of, and what runs a case."""
    from tests.support.fuzz_case import make_case, run_case, sound_case
    from tests.support.log_sources import all_sources, made_sources

    sources = made_sources() if made_only else all_sources()

    def run(number: int, folder: Path) -> Ran:
        case = make_case(number, sources) if number >= 0 else sound_case()
        return case.changed_lines, case.changes, case.depth, run_case(case, folder)

    return len(sources), run


def valid_cases() -> tuple[int, Callable[[int, Path], Ran]]:
    """Return what runs a case: a valid set of logs goes through every command."""
    from tests.support.fuzz_commands import run_commands

    def run(number: int, folder: Path) -> Ran:
        return 0, [], "commands", run_commands(max(number, 0), folder)

    return 1, run


def serve(made_only: bool, commands: bool) -> None:
    """Run the cases whose numbers come in, each in a folder of its own."""
    import logging

    logging.disable()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    sources, run = valid_cases() if commands else damaged_cases(made_only)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="iqcar-fuzz-") as folder:
        run(-1, Path(folder))  # compiles or loads whatever is compiled
    print(json.dumps({"sources": sources}), file=answers, flush=True)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(prefix="iqcar-fuzz-") as folder:
            lines, changes, depth, found = run(int(line), Path(folder))
        spent = resource.getrusage(resource.RUSAGE_SELF)
        answer = {
            "lines": lines,
            "changes": changes,
            "depth": depth,
            "found": found,
            "cpu_s": spent.ru_utime + spent.ru_stime,
            "peak_mb": spent.ru_maxrss // 1024,
        }
        print(json.dumps(answer), file=answers, flush=True)


class Runner:
    """A process with cases; started anew when it ends, hangs or has done many."""

    def __init__(self, made_only: bool, commands: bool) -> None:
        options = ["--made"] * made_only + ["--commands"] * commands
        self._command = [sys.executable, __file__, "--serve", *options]
        self._case_s = CASE_S * (COMMANDS_TAKE if commands else 1)
        self._process: subprocess.Popen[bytes] | None = None
        self._done = 0
        self.cpu_s = self._cpu_before = 0.0
        self.starts = 0

    def run(self, number: int, again: bool = False) -> dict[str, Any]:
        """Run one case; a process that hangs or dies is a finding."""
        if self._process is None or self._done >= CASES_PER_PROCESS:
            self.close()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self.starts += 1
            if isinstance(self._answer(START_S), str):
                raise SystemExit("fuzz: the process with the cases does not start")
        assert self._process is not None and self._process.stdin is not None
        self._done += 1
        self._process.stdin.write(b"%d\n" % number)
        self._process.stdin.flush()
        answer = self._answer(self._case_s)
        if isinstance(answer, dict):
            self.cpu_s = self._cpu_before + answer["cpu_s"]
            return answer
        self.close()
        if answer == "hang" and not again:  # the machine may have been busy with other things
            return self.run(number, again=True)
        return {"lines": 0, "changes": [], "depth": "?", "found": [[answer, answer, ""]]}

    def _answer(self, seconds: float) -> dict[str, Any] | str:
        assert self._process is not None and self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return "hang"
        line = self._process.stdout.readline()
        return json.loads(line) if line else "crash"

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process, self._done = None, 0
            self._cpu_before = self.cpu_s


def fuzz(minutes: float, seed: int, out: Path, made_only: bool, commands: bool, most: int) -> int:
    """Run cases until the time is over; return how many different findings there were."""
    out.mkdir(parents=True, exist_ok=True)
    runner, began = Runner(made_only, commands), time.monotonic()
    told = 0.0
    cases = lines = peak = 0
    seen: Counter[str] = Counter()
    depths: Counter[str] = Counter()
    while (passed := time.monotonic() - began) < minutes * 60 and cases < most:
        number = seed * 1_000_000_000 + cases
        answer = runner.run(number)
        cases += 1
        lines += answer["lines"]
        depths[answer["depth"]] += 1
        peak = max(peak, answer.get("peak_mb", 0))
        for kind, where, text in answer["found"]:
            name = f"{kind}: {where}"
            seen[name] += 1
            if seen[name] <= KEPT:
                about = {"case": number, "finding": name, **answer, "found": text}
                (out / f"{kind.replace(' ', '_')}-{number}.json").write_text(json.dumps(about))
                with (out / f"{kind.replace(' ', '_')}-{number}.txt").open("w") as file:
                    file.write(f"case {number}: {' '.join(answer['changes'])}\n{name}\n\n{text}\n")
        if passed - told > TELL_S:
            told = passed
            _tell(passed, cases, lines, depths, seen, runner, peak)
    _tell(time.monotonic() - began, cases, lines, depths, seen, runner, peak)
    runner.close()
    return len(seen)


def _tell(
    passed: float, cases: int, lines: int, depths: Counter[str], seen: Counter[str],
    runner: Runner, peak: int,
) -> None:  # fmt: skip
    how = " ".join(f"{name} {count}" for name, count in sorted(depths.items()))
    print(
        f"{passed / 60:.1f} min: {cases} cases ({how}), {lines} lines changed, "
        f"{len(seen)} different findings ({sum(seen.values())}), "
        f"{runner.cpu_s / 60:.1f} min of processor time, {peak} MB at most, "
        f"{runner.starts} processes",
        flush=True,
    )
    for name, count in seen.most_common(30):
        print(f"  {count} x {name}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "fuzz")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--made", action="store_true", help="only logs that the tests make")
    parser.add_argument(
        "--commands", action="store_true", help="valid logs of varied clusters, every command"
    )
    parser.add_argument("--case", type=int, help="run this one, here, and leave its files in --out")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.made, asked.commands)
    elif asked.case is not None:
        one_case(asked.case, asked.out, asked.made, asked.commands)
    elif fuzz(asked.minutes, asked.seed, asked.out, asked.made, asked.commands, asked.cases):
        again = "scripts/fuzz --commands" if asked.commands else "scripts/fuzz"
        print(f"Wrote the findings to {asked.out}; {again} --case NUMBER runs one again.")
        sys.exit(1)


def one_case(number: int, out: Path, made_only: bool, commands: bool) -> None:
    """Run one case again, and leave its log for whoever looks for the cause."""
    run = (valid_cases() if commands else damaged_cases(made_only))[1]
    folder = out / f"case-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    _, changes, depth, found = run(number, folder)
    print(f"case {number}: {' '.join(changes)}, taken to {depth}")
    for one in found:
        print(f"{one.kind}: {one.where}\n{one.text}")
    print(f"Wrote {folder}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
