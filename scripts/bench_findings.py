"""Measure what finding and ranking what saves time costs, beside the diagnosis it is found in.

    scripts/bench findings             100,000 tasks, 20,000 queries and others, at two sizes
    scripts/bench findings --full      four times as large

CPU seconds in one process after a small log warmed it up; `share` is findings over diagnosis. The
exponent is that of findings, log(t(n) / t(n / 4)) / log 4: 1 is linear.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from iqcar.pipeline import diagnose, read
from iqcar.say.findings import find_findings
from iqcar_lab.clusters.large_logs import CASES
from scripts.benchmarks import parser_of, sized, timed

SIZES = {
    "one_stage": 100_000,
    "short_queries": 20_000,
    "many_stages": 8_000,
    "concurrent_queries": 400,
    "passing_executors": 5_000,
}
TELLING_S = 0.05
"""CPU seconds below which an exponent is meaningless."""


def measured(case: str, size: int) -> tuple[float, float, int]:
    """Return CPU seconds of diagnosis and findings, and the number of findings."""
    with tempfile.TemporaryDirectory() as folder:
        CASES[case].write(Path(folder), size)
        tables = read(folder, processes=1)
    whole, diagnosis = timed(lambda: diagnose(tables))
    own, found = timed(lambda: find_findings(diagnosis))
    return whole, own, len(found)


def main() -> None:
    """Measure each case at a quarter of its size, and at its size."""
    options = parser_of(__doc__, full="four times as large").parse_args()
    factor = sized(options, quick=0.01, usual=1, full=4)
    cases = sized(options, quick=["one_stage", "many_stages"], usual=[*SIZES], full=[*SIZES])
    measured("short_queries", 20 if options.quick else 200)
    head = ("size", "diagnose s", "findings s", "share", "exponent", "findings")
    print(f"{'case':20}" + "".join(f"{word:>12}" for word in head))
    for case in cases:
        size = round(factor * SIZES[case])
        _, small, _ = measured(case, size // 4)
        whole, own, count = measured(case, size)
        exponent = math.log(own / max(small, 1e-9)) / math.log(4)
        told = f"{exponent:.2f}" if own >= TELLING_S else ""
        figures = (f"{size:,}", f"{whole:.2f}", f"{own:.2f}", f"{own / whole:.0%}", told)
        print(f"{case:20}" + "".join(f"{word:>12}" for word in (*figures, str(count))))


if __name__ == "__main__":
    main()
